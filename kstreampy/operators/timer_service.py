"""How functions of keyed streams set timers.

In here: the timer services they are handed. Not in here: the one of streams without keys, which sets none (`function.py`), and
who fires what is due (`timer.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kstreampy.errors import JobError
from kstreampy.operators.function import TimerService
from kstreampy.operators.operator import TaskContext
from kstreampy.serde.batch import Token
from kstreampy.state.timer import Timers

_log = logging.getLogger(__name__)


class KeyedTimerService(TimerService):
    """Sets and deletes timers of the current key."""

    __slots__ = ("_event", "_processing", "_scope", "_step", "_wake_at")

    def __init__(
        self, step: str, context: TaskContext, event: Timers, processing: Timers, wake_at: Callable[[int], None]
    ) -> None:
        """`wake_at` is told of each processing-time timer that is set."""
        super().__init__(context.clock, lambda: context.watermark)
        self._step = step
        self._scope = context.scope
        self._event = event
        self._processing = processing
        self._wake_at = wake_at

    def register_event_time_timer(self, timestamp: int) -> None:
        self._event.register(timestamp, self._key())

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event.delete(timestamp, self._key())

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._processing.register(timestamp, self._key())
        self._wake_at(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing.delete(timestamp, self._key())

    def _key(self) -> Token:
        token = self._scope.token
        if token is None:
            raise JobError(
                f"{self._step}: no key: a timer can be set only while a record or timer of a keyed stream is processed, "
                "not in open() or close()"
            )
        return token


class SilentTimerService(TimerService):
    """Of a function without `on_timer`: its timers would do nothing when they fire, so they are not kept."""

    __slots__ = ("_told", "_where")

    def __init__(self, step: str, context: TaskContext, where: str) -> None:
        super().__init__(context.clock, lambda: context.watermark)
        self._where = f"{step}: {where}"
        self._told = False

    def register_event_time_timer(self, timestamp: int) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "%s sets timers but has no on_timer, so they do nothing: define on_timer(timestamp, ctx)", self._where
            )

    register_processing_time_timer = register_event_time_timer

    def delete_event_time_timer(self, timestamp: int) -> None:
        """There is none."""

    delete_processing_time_timer = delete_event_time_timer
