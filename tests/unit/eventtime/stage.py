"""What triggers and assigners are told in tests: `Clock` for assigners, `Stage` for triggers, with timers and state in
plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.evictor import Evictor
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import Window
from kstreampy.state.descriptor import ReducingStateDescriptor, StateDescriptor

C, F, P, FP = TriggerResult.CONTINUE, TriggerResult.FIRE, TriggerResult.PURGE, TriggerResult.FIRE_AND_PURGE


class Store:
    """State of one name of one key or window, as value state and as reducing state."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.kept: Any = None

    def value(self) -> Any:
        return self.kept

    def update(self, value: Any) -> None:
        self.kept = value

    def get(self) -> Any:
        return self.kept

    def add(self, value: Any) -> None:
        assert isinstance(self.descriptor, ReducingStateDescriptor)
        reduce = self.descriptor.get_reduce_function()
        self.kept = value if self.kept is None else reduce(self.kept, value)

    def clear(self) -> None:
        self.kept = None


class Clock(WindowAssigner.WindowAssignerContext, Evictor.EvictorContext):
    """A clock that stands, and the state of one key."""

    def __init__(self, now: int = 0, index: int = 0) -> None:
        self.now = now
        self.index = index
        self.states: dict[str, Store] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_current_watermark(self) -> int:
        return -(2**63)

    def get_metric_group(self) -> Any:
        raise AssertionError("nobody asks")

    def get_runtime_context(self) -> Clock:
        return self

    def get_index_of_this_subtask(self) -> int:
        return self.index

    def get_state(self, descriptor: StateDescriptor) -> Store:
        return self.states.setdefault(descriptor.get_name(), Store(descriptor))


class Stage(Trigger.OnMergeContext):
    """One key's windows under a trigger: elements, time that goes on, merging, the end of a window."""

    def __init__(self, trigger: Trigger[Any, Any], now: int = 0) -> None:
        self.trigger = trigger
        self.now = now
        self.watermark = -(2**63)
        self.window: Any = None
        self.event: set[tuple[int, Window]] = set()
        self.processing: set[tuple[int, Window]] = set()
        self.states: dict[tuple[Window, str], Store] = {}
        self.merged: list[Window] = []

    def element(self, value: Any, timestamp: int, window: Window) -> TriggerResult:
        self.window = window
        return self.trigger.on_element(value, timestamp, window, self)

    def advance(self, watermark: int) -> list[tuple[int, TriggerResult]]:
        """The watermark moves on; what every timer that is due gave, in time order."""
        self.watermark = watermark
        return self._fire(self.event, watermark, self.trigger.on_event_time)

    def tick(self, now: int) -> list[tuple[int, TriggerResult]]:
        """The clock moves on."""
        self.now = now
        return self._fire(self.processing, now, self.trigger.on_processing_time)

    def merge(self, windows: Iterable[Window], result: Window) -> None:
        self.merged = list(windows)
        self.window = result
        self.trigger.on_merge(result, self)
        for window in self.merged:
            if window != result:
                self.close(window)

    def close(self, window: Window) -> None:
        self.window = window
        self.trigger.clear(window, self)

    def is_empty(self) -> bool:
        """No timer and no state is left."""
        return not self.event and not self.processing and all(store.kept is None for store in self.states.values())

    def _fire(self, timers: set[tuple[int, Window]], until: int, callback: Any) -> list[tuple[int, TriggerResult]]:
        results = []
        while due := [timer for timer in timers if timer[0] <= until]:
            assert len(results) < 1000, "timers without end"
            time, window = min(due, key=lambda timer: timer[0])
            timers.remove((time, window))
            self.window = window
            results.append((time, callback(time, window, self)))
        return results

    def get_current_processing_time(self) -> int:
        return self.now

    def get_current_watermark(self) -> int:
        return self.watermark

    def get_metric_group(self) -> Any:
        raise AssertionError("nobody asks")

    def register_event_time_timer(self, time: int) -> None:
        self.event.add((time, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        self.event.discard((time, self.window))

    def register_processing_time_timer(self, time: int) -> None:
        self.processing.add((time, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing.discard((time, self.window))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Store:
        return self.states.setdefault((self.window, state_descriptor.get_name()), Store(state_descriptor))

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        target = self.get_partitioned_state(state_descriptor)
        for window in self.merged:
            source = self.states.get((window, state_descriptor.get_name()))
            if source is not None and source is not target and source.kept is not None:
                target.add(source.kept)
                source.clear()
