"""Windows that merge: `MergingWindowOperator`, for any merging assigner and any trigger that can merge.

In here: the windows in flight of each key, which are state, and what happens when some of them become one. Not in here:
sessions under the default trigger, which need fewer timers (`window_session.py`). Semantics: Flink's `WindowOperator` and
`MergingWindowSet`: the contents of a window stay where those of the first of its parts lie, its *state window*; lateness is
that of the merged window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.eventtime.session_assigner import EventTimeSessionWindows
from kstreampy.eventtime.window import Window
from kstreampy.operators.keyed import keyed_state
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_set import InFlight, WindowSetCodec
from kstreampy.operators.window_spec import WindowSpec
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Token
from kstreampy.serde.key import scoped


class MergingWindowOperator(WindowOperator):
    """For every `MergingWindowAssigner`."""

    assigner: MergingWindowAssigner[Any, Any]

    def __init__(self, step: str, uid: str, spec: WindowSpec) -> None:
        super().__init__(step, uid, spec)
        touching = type(self.assigner).merge_windows is EventTimeSessionWindows.merge_windows
        self._join: Callable[[Token, InFlight, Any], Any] = self._join_touching if touching else self._join_any

    def open(self, context: TaskContext) -> None:
        super().open(context)
        codec = WindowSetCodec(self.parts.encode, self.parts.decode)
        self.sets = keyed_state(self.step, context).value(f"{self.uid}/window/set", codec, "windows in flight")

    # Elements

    def _take(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> None:
        assign, time = self.assigner.assign_windows, self.parts.time
        scope, output, add = self.context.scope, self.output, self.contents.adder()
        sets = self._load(keys)
        late_from = self.watermark if self.in_event_time else NO_TIMESTAMP - 1
        for index, value in enumerate(values):
            output.index = index
            key = scope.token = keys[index]
            timestamp = timestamps[index]
            in_flight: InFlight = sets.get(key) or {}
            for window in [window for window in in_flight if self._bounds_of(window)[2] <= late_from]:
                self._let_go(key, window, in_flight[window])
            taken = False
            for window in assign(value, timestamp, time):
                window = self._join(key, in_flight, window)
                bounds = self._bounds_of(window)
                if bounds[2] <= late_from:
                    del in_flight[window]
                    continue
                taken = True
                place = key, window, scoped(key, bounds[0])
                state_token = in_flight[window]
                add(state_token, value, timestamp)
                result = self._on_element(place, bounds, value, timestamp)
                self._act(result, place, state_token, timestamp)
                if place[2] not in self._timed:
                    self._set_timers(key, place[2], bounds)
            sets[key] = in_flight or None
            self.sets.dirty.add(key)
            if not taken:
                self._not_taken(value, timestamp)

    def _load(self, keys: list[Token]) -> dict[Token, Any]:
        """The windows in flight of these keys; what they hold is read as well."""
        self.sets.load(keys)
        sets = self.sets.entries
        if self.contents.reads():
            found = map(sets.get, set(keys))
            self.contents.load([token for in_flight in found if in_flight for token in in_flight.values()])
        return sets

    # Merging

    def _join_touching(self, key: Token, in_flight: InFlight, window: Any) -> Any:
        """As `_join_any` for time windows that merge when they touch: the ones in flight do not touch each other."""
        start, end = window.start, window.end
        old = [other for other in in_flight if other.start <= end and other.end >= start]
        if not old:
            in_flight[window] = self._state_token(key, window)
            return window
        if len(old) == 1 and old[0].start <= start and old[0].end >= end:
            return old[0]
        old.sort()
        merged = type(window)(min(start, old[0].start), max(end, old[-1].end))
        self._merge(key, in_flight, old, merged)
        return merged

    def _join_any(self, key: Token, in_flight: InFlight, window: Any) -> Any:
        """Adds the window of an element to those in flight, merges what the assigner says, and returns the window that the
        element is in now."""
        if window in in_flight:
            return window
        groups = _Groups()
        self.assigner.merge_windows([*in_flight, window], groups)
        joined = None
        for parts, result in groups.found:
            old = [part for part in parts if part in in_flight]
            if window in parts:
                joined = result
            if not old:
                in_flight[result] = self._state_token(key, result)
            elif old != [result]:
                self._merge(key, in_flight, old, result)
        if joined is None:
            in_flight[window] = self._state_token(key, window)
            return window
        return joined

    def _merge(self, key: Token, in_flight: InFlight, old: list[Any], result: Any) -> None:
        self._refuse_past(result)
        target, *sources = [in_flight.pop(window) for window in old]
        in_flight[result] = target
        self._merge_triggers(key, old, result)
        if sources:
            self.contents.merge(target, sources)

    def _state_token(self, key: Token, window: Window) -> Token:
        return scoped(key, self.parts.encode(window))

    def _refuse_past(self, window: Window) -> None:
        """RuntimeError for a merged window that would be over already."""
        end, cleanup = self._bounds_of(window)[1:]
        if self.in_event_time:
            if cleanup <= self.watermark:
                raise RuntimeError(
                    "The end timestamp of an event-time window cannot become earlier than the current watermark by "
                    f"merging. Current watermark: {self.watermark} window: {window}"
                )
            return
        now = self.parts.time.get_current_processing_time()
        if end <= now:
            raise RuntimeError(
                "The end timestamp of a processing-time window cannot become earlier than the current processing time by "
                f"merging. Current processing time: {now} window: {window}"
            )

    def _merge_triggers(self, key: Token, old: list[Any], result: Any) -> None:
        """Timers and trigger state go from the old windows to the new one."""
        in_hand, timers = self.in_hand, self.parts.event_timers
        namespace, end, _ = self._bounds_of(result)
        if not self.fires_at_end:
            in_hand.at(key, result, namespace, scoped(key, namespace))
            in_hand.merging([self._bounds_of(window)[0] for window in old])
            self.trigger.on_merge(result, in_hand)
        elif end > self.watermark:
            timers.register(end, key, namespace)
        for window in old:
            bounds = self._bounds_of(window)
            self._clear_trigger((key, window, scoped(key, bounds[0])), bounds)
            if self.fires_at_end:
                timers.delete(bounds[1], key, bounds[0])
            if bounds[2] != MAX_WATERMARK:
                cleanups = timers if self.in_event_time else self.parts.processing_timers
                cleanups.delete(bounds[2], key, bounds[0])

    # Time

    def _on_timer(self, timer: tuple[int, Token, bytes], in_event_time: bool) -> None:
        time, key, namespace = timer
        in_flight: InFlight = self.sets.fetch(key) or {}
        if not namespace:
            self._take_over(time, key, in_flight)
            return
        window = self.parts.decode(namespace)
        if window in in_flight:  # otherwise a trigger has left a timer behind
            place = key, window, scoped(key, namespace)
            self._timer_fired(time, place, in_flight[window], in_event_time)

    def _take_over(self, time: int, key: Token, in_flight: InFlight) -> None:
        """A timer of `SessionWindowOperator`, which is for all windows of a key: the step had the default trigger before a
        restart. From now on each has its own."""
        for window in tuple(in_flight):
            namespace, end, cleanup = self._bounds_of(window)
            if cleanup < time:
                self._let_go(key, window, in_flight[window])
            for due in {end, cleanup}:
                if time <= due < MAX_WATERMARK:
                    self.parts.event_timers.register(due, key, namespace)

    def _let_go(self, key: Token, window: Any, state_token: Token) -> None:
        """Of a window that is over, since the allowed lateness was longer before a restart."""
        bounds = self._bounds_of(window)
        self._clean_up((key, window, scoped(key, bounds[0])), state_token, bounds)

    def _clean_up(self, place: Any, state_token: Token, bounds: Any) -> None:
        super()._clean_up(place, state_token, bounds)
        key, window, _ = place
        self._retire(key, window)

    def _retire(self, key: Token, window: Any) -> None:
        in_flight = self.sets.entries[key]
        del in_flight[window]
        if not in_flight:
            self.sets.entries[key] = None
        self.sets.dirty.add(key)


class _Groups(MergingWindowAssigner.MergeCallback[Any]):
    """Keeps what `merge_windows` tells."""

    def __init__(self) -> None:
        self.found: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.found.append((list(to_be_merged), merge_result))
