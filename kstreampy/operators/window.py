"""Windows of any kind: `WindowOperator`, which puts elements into the windows that an assigner gives them, asks the trigger,
and emits what the window function makes of a window that fires.

In here: the loop over a batch, timers, lateness, clean-up. Not in here: windows that merge (`window_merging.py`), what a
window holds (`window_contents.py`), what triggers are told (`window_trigger.py`), and the common windows whose elements are
added up by panes (`pane.py`). Semantics: Flink's `WindowOperator`; results carry the window's `max_timestamp()`, and
those of windows without time (count and global windows) the timestamp of the element, or the time of the timer, that fired
them (as in PyFlink).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.common.output_tag import OutputTag
from kstreampy.errors import JobError, KStreamError, RecordError
from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.eventtime.time_trigger import EventTimeTrigger
from kstreampy.eventtime.trigger import TriggerResult
from kstreampy.eventtime.window import TimeWindow, Window
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, TaskContext, failure, shown
from kstreampy.operators.window_parts import WindowParts, own_spec, refuse_other_windows, user_frame
from kstreampy.operators.window_spec import WindowSpec
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch, Token
from kstreampy.serde.key import key_of, scoped
from kstreampy.state.keyed import KeyedState
from kstreampy.state.timer import Timers

_CONTINUE = TriggerResult.CONTINUE
_FIRE = TriggerResult.FIRE
_PURGE = TriggerResult.PURGE
_FIRE_AND_PURGE = TriggerResult.FIRE_AND_PURGE

_MOST_KNOWN = 20_000


class Bounds(NamedTuple):
    """What is asked of a window again and again."""

    namespace: bytes
    end_ms: int
    """`max_timestamp()`."""
    cleanup_ms: int


class WindowOperator(Operator):
    """Any windows that do not merge."""

    parts: WindowParts
    context: TaskContext

    def __init__(self, step: str, uid: str, spec: WindowSpec) -> None:
        super().__init__(step)
        self.uid = uid
        self.spec = own_spec(spec)
        self.assigner = self.spec.assigner
        self.trigger = self.spec.trigger_in_use()
        self.in_event_time = self.assigner.is_event_time()
        self.lateness_ms = spec.allowed_lateness_ms
        self.fires_at_end = type(self.trigger) is EventTimeTrigger
        """The default trigger of event time is not called: what it does is done here."""
        self.late_tag = None if spec.late_tag_id is None else OutputTag(spec.late_tag_id)
        self.watermark = NO_TIMESTAMP
        self._known: dict[Window, Bounds] = {}
        self._timed: set[Token] = set()
        """Windows whose timers are known to be set."""
        self._opened: list[Any] = []

    # Life

    def open(self, context: TaskContext) -> None:
        state = keyed_state(self.step, context)
        refuse_other_windows(self.step, self.uid, state, self._other_states(state))
        self.context = context
        self.watermark = context.step_watermarks.get(self.uid, context.watermark)
        self.parts = parts = WindowParts(self, self.uid, self.spec, context, state)
        parts.time.watermark = self.watermark
        self.contents = parts.contents
        self.output = parts.output
        self.in_hand = parts.in_hand
        for function in parts.functions():
            self._opened.append(function)
            function.open(parts.runtime_context)
        self._ask_to_wake()

    def _other_states(self, state: KeyedState) -> tuple[str, ...]:
        """Where steps keep windows that this one would not find."""
        if not isinstance(self.assigner, MergingWindowAssigner):
            return "panes", "set"
        return ("panes",) if state.holds(f"{self.uid}/window/set") else ("panes", "contents")

    def close(self) -> None:
        opened, self._opened = self._opened, []
        with ExitStack() as all_of_them:
            all_of_them.callback(self.out.close)
            for function in opened:
                all_of_them.callback(function.close)

    # Elements

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        output = self.output
        output.begin()
        try:
            self._take(keys, batch.values, batch.timestamps)
        except KStreamError:
            raise
        except Exception as error:
            index = output.index
            raise failure(self.step, error, index, batch.values[index], user_frame(error)) from error
        finally:
            self.context.scope.token = None
        output.emit()

    def _take(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> None:
        assigned = self._assigned(keys, values, timestamps)
        if self.contents.reads():
            assigned = self._read(keys, list(assigned))
        known, timed, add = self._known, self._timed, self.contents.adder()
        copies = self.contents.copies
        late_from = self.watermark if self.in_event_time else NO_TIMESTAMP - 1
        for index, windows in enumerate(assigned):
            self.output.index = index
            key = self.context.scope.token = keys[index]
            value, timestamp = values[index], timestamps[index]
            shared = copies and len(windows) > 1 and type(value) not in IMMUTABLE_TYPES
            taken = False
            for window in windows:
                bounds = known.get(window) or self._learn(window)
                if bounds[2] <= late_from:
                    continue
                token = scoped(key, bounds[0])
                taken = True
                add(token, copy_value(value) if shared else value, timestamp)
                result = self._on_element((key, window, token), bounds, value, timestamp)
                if result is not _CONTINUE:
                    self._act(result, (key, window, token), token, timestamp)
                if token not in timed:
                    self._set_timers(key, token, bounds)
            if not taken:
                self._not_taken(value, timestamp)

    def _assigned(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> Iterator[Collection[Window]]:
        """The windows of each element; its key is the current one meanwhile."""
        assign, time = self.assigner.assign_windows, self.parts.time
        scope, output = self.context.scope, self.output
        for index, value in enumerate(values):
            output.index = index
            scope.token = keys[index]
            yield assign(value, timestamps[index], time)

    def _read(self, keys: list[Token], assigned: list[Collection[Window]]) -> Iterator[Collection[Window]]:
        """What the windows of a batch hold is read in one call."""
        self.contents.load(
            {
                scoped(key, self._bounds_of(window)[0])
                for key, windows in zip(keys, assigned, strict=True)
                for window in windows
            }
        )
        return iter(assigned)

    def _bounds_of(self, window: Window) -> Bounds:
        return self._known.get(window) or self._learn(window)

    def _learn(self, window: Window) -> Bounds:
        end = window.max_timestamp()
        cleanup = min(end + self.lateness_ms, MAX_WATERMARK) if self.in_event_time else end
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        bounds = self._known[window] = Bounds(self.parts.encode(window), end, cleanup)
        return bounds

    def _on_element(self, place: Place, bounds: Bounds, value: Any, timestamp: int) -> TriggerResult:
        if self.fires_at_end:
            return _FIRE if bounds[1] <= self.watermark else _CONTINUE
        key, window, token = place
        in_hand = self.in_hand
        in_hand.at(key, window, bounds[0], token)
        return self.trigger.on_element(value, timestamp, window, in_hand)

    def _set_timers(self, key: Token, token: Token, bounds: Bounds) -> None:
        """Once per key and window: the clean-up, and what the default trigger would set."""
        namespace, end, cleanup = bounds
        if self.fires_at_end and end > self.watermark:
            self.parts.event_timers.register(end, key, namespace)
        if cleanup != MAX_WATERMARK:
            if self.in_event_time:
                self.parts.event_timers.register(cleanup, key, namespace)
            else:
                self.parts.processing_timers.register(cleanup, key, namespace)
                self.context.wake_at(cleanup)
        if len(self._timed) >= _MOST_KNOWN:
            self._timed.clear()
        self._timed.add(token)

    def _not_taken(self, value: Any, timestamp: int) -> None:
        """No window took the element. It may have fallen between windows; if it is late, it is told of."""
        if not self.in_event_time or timestamp + self.lateness_ms > self.watermark:
            return
        if self.late_tag is None:
            self.context.late_dropped += 1
        else:
            self.output.late(self.late_tag, value, timestamp)

    # Firing

    def _act(self, result: Any, place: Place, state_token: Token, timestamp: int) -> None:
        """Does what the trigger said; `state_token` is where the contents lie."""
        if result is _FIRE or result is _FIRE_AND_PURGE:
            contents = self.contents.get(state_token)
            if contents is not None:
                self._fire(place, state_token, contents, timestamp)
        elif result is not _PURGE and result is not _CONTINUE:
            raise JobError(f"{self.step}: {self.trigger!r} returned {result!r}, which is no TriggerResult")
        if result is _PURGE or result is _FIRE_AND_PURGE:
            self.contents.clear(state_token)

    def _fire(self, place: Place, state_token: Token, contents: Any, timestamp: int) -> None:
        key, window, token = place
        output = self.output
        output.token = key
        output.timestamp = window.max_timestamp() if isinstance(window, TimeWindow) else timestamp
        function = self.parts.function
        if function is None:
            self.contents.fire(state_token, contents, window, output.results)
            return
        context = self.parts.window_context
        context.at = window
        self.parts.window_scope.token = token
        shown_key = key_of(key) if self.spec.is_keyed else None
        call = function.call

        def results(elements: list[Any]) -> None:
            produced = call(shown_key, context, elements)
            if produced is not None:
                output.results(produced)

        self.contents.fire(state_token, contents, window, results)

    # Time

    def advance(self, watermark: int) -> None:
        # Its own, since what comes from a step before it may still be on time when the task's is further: results that a
        # watermark made that step emit come before that watermark.
        self.watermark = self.parts.time.watermark = self.context.step_watermarks[self.uid] = watermark
        self._fire_due(self.parts.event_timers, watermark, in_event_time=True)
        self.out.advance(watermark)

    def wake(self, now_ms: int) -> None:
        self._fire_due(self.parts.processing_timers, now_ms, in_event_time=False)
        self._ask_to_wake()
        self.out.wake(now_ms)

    def _ask_to_wake(self) -> None:
        time_ms = self.parts.processing_timers.next_time()
        if time_ms is not None:
            self.context.wake_at(time_ms)

    def _fire_due(self, timers: Timers, until_ms: int, *, in_event_time: bool) -> None:
        output, scope = self.output, self.context.scope
        output.begin()
        at: tuple[int, Token, bytes] | None = None
        try:
            for at in timers.due(until_ms):
                scope.token = at[1]
                self._on_timer(at, in_event_time)
                if output.is_full():
                    output.emit()
        except KStreamError:
            raise
        except Exception as error:
            raise self._timer_failure(error, at) from error
        finally:
            scope.token = None
        output.emit()

    def _on_timer(self, timer: tuple[int, Token, bytes], in_event_time: bool) -> None:
        time, key, namespace = timer
        window = self.parts.decode(namespace)
        token = scoped(key, namespace)
        self._timer_fired(time, (key, window, token), token, in_event_time)

    def _timer_fired(self, time: int, place: Place, state_token: Token, in_event_time: bool) -> None:
        bounds = self._bounds_of(place[1])
        result = self._on_time(time, place, bounds, in_event_time)
        if result is not _CONTINUE:
            self._act(result, place, state_token, time)
        if in_event_time == self.in_event_time:
            self._clean_up_at(time, place, state_token, bounds)

    def _clean_up_at(self, time: int, place: Place, state_token: Token, bounds: Bounds) -> None:
        """Cleans up if it is time to. Timers that were set before a restart may be of another allowed lateness: where that was
        longer, the window is over already; where it was shorter, there is more to come."""
        if time == bounds[2] or (time > bounds[2] and self.contents.get(state_token) is not None):
            self._clean_up(place, state_token, bounds)
        elif time < bounds[2] and place[2] not in self._timed:
            self._set_timers(place[0], place[2], bounds)

    def _on_time(self, time: int, place: Place, bounds: Bounds, in_event_time: bool) -> TriggerResult:
        if self.fires_at_end:
            return _FIRE if in_event_time and time == bounds[1] else _CONTINUE
        key, window, token = place
        in_hand = self.in_hand
        in_hand.at(key, window, bounds[0], token)
        if in_event_time:
            return self.trigger.on_event_time(time, window, in_hand)
        return self.trigger.on_processing_time(time, window, in_hand)

    def _clean_up(self, place: Place, state_token: Token, bounds: Bounds) -> None:
        """The window is over: everything that is kept for it goes."""
        self.contents.clear(state_token)
        self._clear_trigger(place, bounds)
        self._call_clear(place[1], place[2])

    def _call_clear(self, window: Window, token: Token) -> None:
        """The window function's `clear`, if it has one."""
        function = self.parts.function
        if function is not None and function.clears:
            self.parts.window_context.at = window
            self.parts.window_scope.token = token
            function.clear(self.parts.window_context)

    def _clear_trigger(self, place: Place, bounds: Bounds) -> None:
        key, window, token = place
        self._timed.discard(token)
        if self.fires_at_end:
            if not self.in_event_time:  # otherwise it has fired: a window ends no later than it is cleaned up
                self.parts.event_timers.delete(bounds[1], key, bounds[0])
        else:
            self.in_hand.at(key, window, bounds[0], token)
            self.trigger.clear(window, self.in_hand)

    def _timer_failure(self, error: Exception, timer: tuple[int, Token, bytes] | None) -> RecordError:
        where = user_frame(error)
        at = "" if timer is None else f", for {self._window_at(timer)} of the key {shown(key_of(timer[1]))}"
        return RecordError(
            f"{self.step}: {type(error).__name__}: {error}{' in ' + where if where else ''}{at}",
            step=self.step,
            index=0,
        )

    def _window_at(self, timer: tuple[int, Token, bytes]) -> object:
        """The window that a timer was for."""
        return self.parts.decode(timer[2])


Place = tuple[Token, Any, Token]
"""A key's token, a window, and the token of both."""
