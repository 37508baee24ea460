"""Event-time sessions under the default trigger: `SessionWindowOperator`.

The same results as `MergingWindowOperator`, with fewer timers: that one, as Flink's, moves a window's timers each time an
element makes it longer. Here a key has a timer no later than the next end or clean-up of any of its windows; when it fires
too early, because the session went on, the next one is set from the windows in flight. So an element that only makes a
session longer touches no timer.
"""

from __future__ import annotations

from typing import Any

from kstreampy.eventtime.session_assigner import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from kstreampy.eventtime.time_trigger import EventTimeTrigger
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.window import Bounds
from kstreampy.operators.window_merging import MergingWindowOperator
from kstreampy.operators.window_set import InFlight
from kstreampy.operators.window_spec import WindowSpec
from kstreampy.serde.batch import MAX_WATERMARK, Token
from kstreampy.state.timer import Timers


def are_plain_sessions(spec: WindowSpec) -> bool:
    """Whether this module's operator does for the spec."""
    return type(spec.assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows) and (
        type(spec.trigger_in_use()) is EventTimeTrigger
    )


class SessionWindowOperator(MergingWindowOperator):
    """For specs of which `are_plain_sessions` is true."""

    timers: Timers

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.timers = self.parts.event_timers

    def _take(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> None:
        assign, time = self.assigner.assign_windows, self.parts.time
        scope, output, add = self.context.scope, self.output, self.contents.add
        watermark = self.watermark
        sets = self._load(keys)
        for index, value in enumerate(values):
            output.index = index
            key = scope.token = keys[index]
            timestamp = timestamps[index]
            (window,) = assign(value, timestamp, time)
            start, end = window.start, window.end
            in_flight = sets.get(key) or {}
            touching = [other for other in in_flight if other.start <= end and other.end >= start]
            if not touching:
                if end - 1 + self.lateness_ms <= watermark:
                    self._not_taken(value, timestamp)
                    continue
                self._begin(key, in_flight, window)
            elif len(touching) > 1 or touching[0].start > start or touching[0].end < end:
                window = self._join_touching(key, in_flight, window)
                self.sets.dirty.add(key)
            else:
                window = touching[0]
            state_token = in_flight[window]
            add(state_token, value, timestamp)
            if window.end <= watermark + 1:
                self._fire_session(key, window, state_token)

    def _begin(self, key: Token, in_flight: InFlight, window: Any) -> None:
        in_flight[window] = self._state_token(key, window)
        self.sets.entries[key] = in_flight
        self.sets.dirty.add(key)
        end = window.end - 1
        self.timers.register(end if end > self.watermark else min(end + self.lateness_ms, MAX_WATERMARK), key)

    def _fire_session(self, key: Token, window: Any, state_token: Token) -> None:
        contents = self.contents.get(state_token)
        if contents is not None:
            self._fire((key, window, state_token), state_token, contents, window.end - 1)

    def _merge_triggers(self, key: Token, old: list[Any], result: Any) -> None:
        """Of the old windows, those that have not fired have a timer that is early enough for the new one."""
        end, watermark = result.end - 1, self.watermark
        if end > watermark and all(window.end - 1 <= watermark for window in old):
            self.timers.register(end, key)

    def _refuse_past(self, window: Any) -> None:
        """A session that touches one in flight ends no earlier than that."""

    def _learn(self, window: Any) -> Bounds:
        end = window.end - 1
        return Bounds(b"", end, min(end + self.lateness_ms, MAX_WATERMARK))

    def _on_timer(self, timer: tuple[int, Token, bytes], in_event_time: bool) -> None:
        time, key, _ = timer
        in_flight: InFlight | None = self.sets.fetch(key)
        if not in_flight:
            return
        following = MAX_WATERMARK + 1
        for window in sorted(in_flight):
            bounds = self._learn(window)
            state_token = in_flight[window]
            if bounds[1] == time:
                self._fire_session(key, window, state_token)
            if bounds[2] == time and time < MAX_WATERMARK:
                self._clean_up((key, window, state_token), state_token, bounds)
            else:
                following = min(following, bounds[1] if bounds[1] > time else bounds[2])
        if following < MAX_WATERMARK:
            self.timers.register(following, key)

    def _clear_trigger(self, place: Any, bounds: Bounds) -> None:
        """The timer goes with the key, not with the window."""
