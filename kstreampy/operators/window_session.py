"""Event-time sessions under the default trigger: `SessionWindowOperator`.

The same results as `MergingWindowOperator`, for less: that one, as Flink's, makes a new window and moves its timers each time
an element makes a session longer. Here a session is an object that is changed in place (`window_set.py`), and a key has a
timer no later than the next end or clean-up of any of its sessions; when it fires too early, because the session went on, the
next one is set. So an element that only makes a session longer changes an int and touches no timer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Any

from kstreampy.eventtime.assigner import require_timestamp
from kstreampy.eventtime.session_assigner import DynamicEventTimeSessionWindows, EventTimeSessionWindows
from kstreampy.eventtime.time_trigger import EventTimeTrigger
from kstreampy.eventtime.window import encode_time_window
from kstreampy.operators.keyed import keyed_state
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_set import Session, Sessions, SessionsCodec
from kstreampy.operators.window_spec import WindowSpec
from kstreampy.serde.batch import MAX_WATERMARK, Token
from kstreampy.serde.key import scoped
from kstreampy.state.timer import Timers

_start_of = attrgetter("start")
_end_of = attrgetter("end")


def are_plain_sessions(spec: WindowSpec) -> bool:
    """Whether this module's operator does for the spec."""
    return type(spec.assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows) and (
        type(spec.trigger_in_use()) is EventTimeTrigger
    )


class SessionWindowOperator(WindowOperator):
    """For specs of which `are_plain_sessions` is true."""

    assigner: EventTimeSessionWindows | DynamicEventTimeSessionWindows
    timers: Timers

    def open(self, context: TaskContext) -> None:
        self._done: tuple[int, Token] | None = None
        super().open(context)
        self.timers = self.parts.event_timers
        self.sets = keyed_state(self.step, context).value(
            f"{self.uid}/window/set", SessionsCodec(), "windows in flight"
        )

    # Elements

    def _take(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> None:
        ends = self._ends(keys, values, timestamps)
        sessions_of = self._load(keys).get
        scope, output, add = self.context.scope, self.output, self.contents.adder()
        changed = self.sets.dirty.add
        fired_until = self.watermark + 1
        over_until = fired_until - self.lateness_ms
        for index, (key, value, start, end) in enumerate(zip(keys, values, timestamps, ends, strict=True)):
            output.index = index
            scope.token = key
            sessions: Sessions | None = sessions_of(key)
            session = sessions[-1] if sessions else None
            if session is not None and session.start <= start <= session.end > over_until:
                if end > session.end:
                    if session.end <= fired_until < end:
                        self.timers.register(end - 1, key)
                    session.end = end
                    changed(key)
            else:
                session = self._join(key, sessions, start, end)
                if session is None:
                    self._not_taken(value, start)
                    continue
            add(session.token, value, start)
            if session.end <= fired_until:
                self._fire_session(key, session)

    def _ends(self, keys: list[Token], values: list[Any], timestamps: list[int]) -> list[int]:
        """Where the session of each element would end if it were alone. The element's key is the current one while its gap is
        asked for."""
        assigner = self.assigner
        if isinstance(assigner, EventTimeSessionWindows):
            gap = assigner.gap_ms
            return [timestamp + gap for timestamp in timestamps]
        scope, output, gap_of = self.context.scope, self.output, assigner.gap_of
        ends: list[int] = []
        for index, value in enumerate(values):
            output.index = index
            scope.token = keys[index]
            timestamp = timestamps[index]
            require_timestamp(timestamp)
            ends.append(timestamp + gap_of(value))
        return ends

    def _load(self, keys: list[Token]) -> dict[Token, Any]:
        """The sessions in flight of these keys; what they hold is read as well."""
        self.sets.load(keys)
        entries = self.sets.entries
        if self.contents.reads():
            found = map(entries.get, set(keys))
            self.contents.load([session.token for sessions in found if sessions for session in sessions])
        return entries

    def _join(self, key: Token, sessions: Sessions | None, start: int, end: int) -> Session | None:
        """The session that an element is in now, which may have been made of several; None if the element is late."""
        require_timestamp(start)
        if not sessions:
            sessions = Sessions()
        while sessions and sessions[0].end <= self.watermark + 1 - self.lateness_ms:
            self._end(key, sessions, sessions[0])  # the allowed lateness was longer before a restart
        first = bisect_left(sessions, start, key=_end_of)
        behind = bisect_right(sessions, end, first, key=_start_of)
        if first < behind:
            return self._merge(key, sessions, first, behind, start, end)
        if end - 1 + self.lateness_ms <= self.watermark:
            return None
        session = Session(start, end, scoped(key, encode_time_window(start, end)))
        sessions.insert(first, session)
        self.sets.entries[key] = sessions
        self.sets.dirty.add(key)
        if first == 0 or sessions[first - 1].end <= self.watermark + 1:  # otherwise there is a timer for the one before
            last = end - 1
            self.timers.register(last if last > self.watermark else min(last + self.lateness_ms, MAX_WATERMARK), key)
        return session

    def _merge(self, key: Token, sessions: Sessions, first: int, behind: int, start: int, end: int) -> Session:
        """The element and the sessions that it touches, from `first` to before `behind`, are one: the first of these, where
        the contents of all of them go."""
        touched = sessions[first:behind]
        session = touched[0]
        start, end = min(start, session.start), max(end, touched[-1].end)
        if touched[-1].end <= self.watermark + 1 < end:
            self.timers.register(end - 1, key)
        if start < session.start or end > session.end:
            session.start, session.end = start, end
            self.sets.dirty.add(key)
        if len(touched) > 1:
            del sessions[first + 1 : behind]
            self.contents.merge(session.token, [other.token for other in touched[1:]])
        return session

    # Time

    def _fire_session(self, key: Token, session: Session) -> None:
        contents = self.contents.get(session.token)
        if contents is not None:
            window = session.window()
            self._fire((key, window, session.token), session.token, contents, window.end - 1)

    def _on_timer(self, timer: tuple[int, Token, bytes], in_event_time: bool) -> None:
        time, key, _ = timer
        if self._done == (time, key):  # before a restart `MergingWindowOperator` may have set one for each window
            return
        self._done = time, key
        sessions: Sessions | None = self.sets.entries.get(key) or self.sets.fetch(key)
        if not sessions:
            return
        following = sessions[0].end - 1
        if following <= time:
            following = self._fire_due_sessions(time, key, sessions)
        if following <= MAX_WATERMARK:
            self.timers.register(following, key)

    def _fire_due_sessions(self, time: int, key: Token, sessions: Sessions) -> int:
        """Sessions that end now fire, and those whose lateness is over go. Returns when there is more to do."""
        following = MAX_WATERMARK + 1
        for session in tuple(sessions):
            due = session.end - 1
            if due == time:
                self._fire_session(key, session)
            if due <= time:
                due += self.lateness_ms
            if due <= time:
                self._end(key, sessions, session)
            else:
                following = min(following, due)
        return following

    def _end(self, key: Token, sessions: Sessions, session: Session) -> None:
        """The session is over, and so is all that is kept for it."""
        self.contents.clear(session.token)
        self._call_clear(session.window(), session.token)
        sessions.remove(session)
        if not sessions:
            self.sets.entries[key] = None
        self.sets.dirty.add(key)

    def _window_at(self, timer: tuple[int, Token, bytes]) -> object:
        """Those of the key that end, or are cleaned up, then."""
        time, key, _ = timer
        sessions: Sessions = self.sets.fetch(key) or Sessions()
        due = [session for session in sessions if time in (session.end - 1, session.end - 1 + self.lateness_ms)]
        return " and ".join(str(session.window()) for session in due)
