"""The triggers that fire every so often while a window is open, and at its end: `ContinuousEventTimeTrigger` and
`ContinuousProcessingTimeTrigger`.

Semantics: Flink's, except where an endless row of firings is avoided (see there) and that `clear` leaves no timer.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from kstreampy.common.time import Amount, to_millis
from kstreampy.common.typeinfo import Types
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import Window
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.state.descriptor import ReducingStateDescriptor
from kstreampy.state.merging import ReducingState

_CONTINUE = TriggerResult.CONTINUE
_FIRE = TriggerResult.FIRE


class _Continuous(Trigger[Any, Window]):
    """The next time to fire lies in reducing state, so that of merged windows the earliest is kept."""

    def __init__(self, interval: Amount) -> None:
        """ValueError when the interval is not more than 0."""
        self.interval = to_millis(interval)
        if self.interval <= 0:
            raise ValueError(f"{type(self).__name__}: the interval must be more than 0, but is {self.interval} ms")
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        return True

    @abstractmethod
    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fires next one interval after `time`, or at the window's end."""

    def _fires_at(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires if this is the time to, and then again after the interval."""
        state: ReducingState[int] = ctx.get_partitioned_state(self.state_desc)
        if state.get() != time:
            return _CONTINUE
        state.clear()
        self.register_next_fire_timestamp(time, window, ctx, state)
        return _FIRE

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval})"


class ContinuousEventTimeTrigger(_Continuous):
    """Fires when the watermark reaches a multiple of the interval (the first one after the window's first element), and
    the window's end. A watermark that passes several multiples at once fires as often. On the global window, the end is
    that of the input (where Flink's goes on firing for ever).
    """

    @staticmethod
    def of(interval: Amount) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return _FIRE
        ctx.register_event_time_timer(end)
        state: ReducingState[int] = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, state)
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return _FIRE
        return self._fires_at(time, window, ctx)

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = ctx.get_partitioned_state(self.state_desc).get()
        if next_fire is not None:
            ctx.register_event_time_timer(next_fire)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state: ReducingState[int] = ctx.get_partitioned_state(self.state_desc)
        next_fire = state.get()
        if next_fire is not None:
            ctx.delete_event_time_timer(next_fire)
            state.clear()
        ctx.delete_event_time_timer(window.max_timestamp())

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fires next one interval after `time`, at the latest at the window's end."""
        end = window.max_timestamp()
        next_fire = min(time + self.interval, end)
        if end == ctx.get_current_watermark() == MAX_WATERMARK:
            next_fire = end  # the input has ended, the global window never does: only one result is left to give
        fire_timestamp_state.add(next_fire)
        ctx.register_event_time_timer(next_fire)


class ContinuousProcessingTimeTrigger(_Continuous):
    """Fires when the wall clock reaches a multiple of the interval (the first one after the window's first element), and
    the window's end.

    On a window of event time whose end lies in the wall clock's past, it goes on at the multiples of the interval until
    the watermark takes the window away. (Flink's fires again at once, for ever.)
    """

    @staticmethod
    def of(interval: Amount) -> ContinuousProcessingTimeTrigger:
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state: ReducingState[int] = ctx.get_partitioned_state(self.state_desc)
        if state.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, state)
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fires_at(time, window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_fire = ctx.get_partitioned_state(self.state_desc).get()
        if next_fire is not None:
            ctx.register_processing_time_timer(next_fire)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state: ReducingState[int] = ctx.get_partitioned_state(self.state_desc)
        next_fire = state.get()
        if next_fire is not None:
            ctx.delete_processing_time_timer(next_fire)
            state.clear()

    def register_next_fire_timestamp(
        self, time: int, window: Window, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fires next one interval after `time`; at the window's end if that is between the two."""
        next_fire = time + self.interval
        if time < window.max_timestamp() < next_fire:
            next_fire = window.max_timestamp()
        fire_timestamp_state.add(next_fire)
        ctx.register_processing_time_timer(next_fire)
