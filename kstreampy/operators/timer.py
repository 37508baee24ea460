"""Timers of a keyed stream's function: `process` with a function that has `on_timer`.

In here: the operator that fires what is due. Not in here: how functions set timers (`timer_service.py`), where timers lie
(`state/timer.py`), and who watches the clock (the driver).

Semantics: Flink's. Event-time timers fire when the watermark comes to them, in the order of time over all keys of the task,
before the watermark goes on; processing-time timers when the clock has come to them. Those that `on_timer` registers at or
before that point fire in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.broadcast_function import KeyedBroadcastProcessFunction
from kstreampy.operators.co_function import KeyedCoProcessFunction
from kstreampy.operators.function import (
    Function,
    KeyedProcessFunction,
    RecordContext,
    TimeDomain,
    TimerService,
    settle,
    where,
)
from kstreampy.operators.keyed_function import KeyedProcessOperator
from kstreampy.operators.operator import TaskContext, shown
from kstreampy.operators.timer_service import KeyedTimerService
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Token
from kstreampy.serde.key import key_of
from kstreampy.state.handle import KeyScope
from kstreampy.state.timer import EVENT, PROCESSING, Timers

_MOST_HELD = 2_000
"""Results that are held before they go on."""
_DEFAULTS: tuple[Any, ...] = (
    KeyedProcessFunction.on_timer,
    KeyedCoProcessFunction.on_timer,
    KeyedBroadcastProcessFunction.on_timer,
)


def has_on_timer(function: Function) -> bool:
    """True if the function's class defines `on_timer`, and so can do something with timers."""
    method = getattr(type(function), "on_timer", None)
    return method is not None and method not in _DEFAULTS


class TimedProcessOperator(KeyedProcessOperator):
    """`process` with a function that has `on_timer`."""

    event: Timers
    processing: Timers
    timer_context: Any
    """A `RecordContext` with `_domain`."""

    def __init__(self, step: str, uid: str, function: Any) -> None:
        super().__init__(step, uid, function)
        self.on_timer: Callable[..., Any] = self.owner.on_timer

    def timer_service(self, context: TaskContext) -> TimerService:
        self.event = self.state.timers(self.uid, EVENT)
        self.processing = self.state.timers(self.uid, PROCESSING)
        service = KeyedTimerService(self.step, context, self.event, self.processing, self._registered)
        self.timer_context = self.new_timer_context(context, service)
        return service

    def new_timer_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        """What `on_timer` is called with: it has a `_domain` to be set."""
        return KeyedProcessFunction.OnTimerContext(timer_service, self.current_key, self.side_outputs)

    def open(self, context: TaskContext) -> None:
        self.wake_at = context.wake_at
        self.waking = False
        super().open(context)
        self._ask_again()

    def _registered(self, time_ms: int) -> None:
        if not self.waking:  # or else it may fire in the loop that is on, and nothing would be left to wake for
            self.wake_at(time_ms)

    def _ask_again(self) -> None:
        first = self.processing.next_time()
        if first is not None:
            self.wake_at(first)

    def advance(self, watermark: int) -> None:
        self._fire(self.event.due(watermark), TimeDomain.EVENT_TIME)
        self.out.advance(watermark)

    def wake(self, now_ms: int) -> None:
        self.waking = True
        self._fire(self.processing.due(now_ms), TimeDomain.PROCESSING_TIME)
        self.waking = False
        self._ask_again()
        self.out.wake(now_ms)

    def _fire(self, due: Iterator[tuple[int, Token, bytes]], domain: TimeDomain) -> None:
        """Results of event-time timers bear the timer's time, those of processing-time timers none."""
        context = self.timer_context
        context._domain = domain
        function = self.on_timer
        scope = self.scope
        results = Results(self)
        emit, output = results.values.append, context.output
        self.side_outputs.begin()
        has_timestamp = domain is TimeDomain.EVENT_TIME
        try:
            for time, scope.token, _ in due:
                context._timestamp = time
                try:
                    produced = function(time, context)
                    if produced is not None:
                        settle(produced, emit, output)
                except KStreamError:
                    raise
                except Exception as error:
                    raise self._failure(error, time, domain, scope) from error
                if produced is not None:
                    results.fired(time if has_timestamp else NO_TIMESTAMP, scope)
        finally:
            scope.token = None
        results.hand_on()

    def _failure(self, error: Exception, time: int, domain: TimeDomain, scope: KeyScope) -> RecordError:
        key = None if scope.token is None else key_of(scope.token)
        return RecordError(
            f"{self.step}: {type(error).__name__}: {error} in {where(self.owner)}, on_timer at {time} "
            f"({domain.name.lower()}) of the key {shown(key)}",
            step=self.step,
            index=0,
        )


class Results:
    """What timers have produced and is not handed on yet; lives for one loop over those that are due."""

    __slots__ = ("keys", "operator", "stamps", "values")

    def __init__(self, operator: TimedProcessOperator) -> None:
        self.operator = operator
        self.values: list[Any] = []
        self.stamps: list[int] = []
        self.keys: list[Token] = []

    def fired(self, timestamp: int, scope: KeyScope) -> None:
        """What was added to `values` since the last call came from one timer of the current key."""
        count = len(self.values) - len(self.stamps)
        token = scope.token
        if count and token is not None:
            self.stamps += [timestamp] * count
            self.keys += [token] * count
            if len(self.values) >= _MOST_HELD:
                scope.token = None  # what follows has keys of its own
                self.hand_on()
                scope.token = token

    def hand_on(self) -> None:
        """The main results first, then the side outputs."""
        if self.values:
            self.operator.out.process(Batch(self.values[:], self.stamps, self.keys))
            self.values.clear()  # the list itself is being appended to
            self.stamps, self.keys = [], []
        self.operator.side_outputs.emit()
