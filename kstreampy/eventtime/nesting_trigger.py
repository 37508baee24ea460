"""The triggers around another trigger: `PurgingTrigger` and `ProcessingTimeoutTrigger`. Semantics: Flink's."""

from __future__ import annotations

from typing import Any, TypeAlias

from kstreampy.common.time import Amount, to_millis
from kstreampy.common.typeinfo import Types
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import Window
from kstreampy.state.descriptor import ValueStateDescriptor
from kstreampy.state.handle import ValueState

AnyTrigger: TypeAlias = Trigger[Any, Any]

_FIRE = TriggerResult.FIRE
_FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE


class PurgingTrigger(Trigger[Any, Window]):
    """Drops a window's contents whenever the nested trigger fires it."""

    def __init__(self, nested_trigger: AnyTrigger) -> None:
        self.nested_trigger = _checked(nested_trigger, "PurgingTrigger")

    @staticmethod
    def of(nested_trigger: AnyTrigger) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger})"


class ProcessingTimeoutTrigger(Trigger[Any, Window]):
    """Fires when the nested trigger does, and when a window has had elements for `timeout` of wall-clock time without
    that. Any timer of the window fires it, that of its end too. Cannot merge.

    `reset_timer_on_new_record`: the time-out counts from the last element, not from the first. `should_clear_on_timeout`:
    the nested trigger's state is cleared when a timer fires, so its count begins anew; if not, the time-out runs only
    once.
    """

    def __init__(
        self,
        nested_trigger: AnyTrigger,
        timeout: Amount,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        self.nested_trigger = _checked(nested_trigger, "ProcessingTimeoutTrigger")
        self.timeout_ms = to_millis(timeout)
        self.reset_timer_on_new_record = reset_timer_on_new_record
        self.should_clear_on_timeout = should_clear_on_timeout
        self._timeout = ValueStateDescriptor("timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: AnyTrigger,
        timeout: Amount,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        return ProcessingTimeoutTrigger(nested_trigger, timeout, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        state: ValueState[int] = ctx.get_partitioned_state(self._timeout)
        pending = state.value()
        if pending is not None and self.reset_timer_on_new_record:
            ctx.delete_processing_time_timer(pending)
            pending = None
        if pending is None:
            due = ctx.get_current_processing_time() + self.timeout_ms
            state.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fired(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self._fired(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        state: ValueState[int] = ctx.get_partitioned_state(self._timeout)
        pending = state.value()
        if pending is not None:
            ctx.delete_processing_time_timer(pending)
            state.clear()
        self.nested_trigger.clear(window, ctx)

    def _fired(self, result: TriggerResult, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return _FIRE_AND_PURGE if result.is_purge() else _FIRE

    def __repr__(self) -> str:
        return f"TimeoutTrigger({self.nested_trigger})"


def _purging(result: TriggerResult) -> TriggerResult:
    return _FIRE_AND_PURGE if result is _FIRE else result


def _checked(trigger: AnyTrigger, what: str) -> AnyTrigger:
    if not isinstance(trigger, Trigger):
        raise TypeError(f"{what}: the nested trigger must be a Trigger, not {trigger!r}")
    return trigger
