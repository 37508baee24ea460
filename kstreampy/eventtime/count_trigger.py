"""The triggers that look at elements, not at time: `CountTrigger` and `DeltaTrigger`. Semantics: Flink's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kstreampy.common.typeinfo import TypeInformation, Types
from kstreampy.eventtime.delta import DeltaFunction, delta_of
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import Window
from kstreampy.state.descriptor import ReducingStateDescriptor, ValueStateDescriptor
from kstreampy.state.handle import ValueState
from kstreampy.state.merging import ReducingState

_CONTINUE = TriggerResult.CONTINUE
_FIRE = TriggerResult.FIRE


class CountTrigger(Trigger[Any, Window]):
    """Fires for every so many elements of a window; the count begins anew then, the contents stay."""

    def __init__(self, window_size: int) -> None:
        """ValueError when the number of elements is less than 1."""
        self.max_count = check_count("CountTrigger: the count", window_size)
        self._count = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        count: ReducingState[int] = ctx.get_partitioned_state(self._count)
        count.add(1)
        if (count.get() or 0) < self.max_count:
            return _CONTINUE
        count.clear()
        return _FIRE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.max_count})"


class DeltaTrigger(Trigger[Any, Window]):
    """Fires when an element is further than `threshold` from the one that fired last (at first: the window's first).
    Cannot merge."""

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        state_type: TypeInformation | None = None,
    ) -> None:
        self.threshold = threshold
        self._delta = delta_of(delta_function)
        self._last = ValueStateDescriptor("last-element", state_type or Types.PICKLED_BYTE_ARRAY())

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        state_type: TypeInformation | None = None,
    ) -> DeltaTrigger:
        """`delta_function(old, new)` is a `DeltaFunction` or any callable; `state_type` is the elements' type."""
        return DeltaTrigger(threshold, delta_function, state_type)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        state: ValueState[Any] = ctx.get_partitioned_state(self._last)
        last = state.value()
        if last is None:
            state.update(element)
            return _CONTINUE
        if self._delta(last, element) > self.threshold:
            state.update(element)
            return _FIRE
        return _CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _CONTINUE

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self.threshold})"


def check_count(what: str, count: int) -> int:
    """The count itself. TypeError when it is no int, ValueError when it is less than 1."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"{what} must be an int, not {count!r}")
    if count < 1:
        raise ValueError(f"{what} must be at least 1, but is {count}")
    return count
