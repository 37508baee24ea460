"""Steps of a stream that is connected to a broadcast one: `process` with a `BroadcastProcessFunction` or a
`KeyedBroadcastProcessFunction`.

In here: the operators, which are those of `process` on one input with another method and context for the broadcast side. Every
task has the whole broadcast topic in a partition of its own (`BroadcastRouteOperator`), so it applies each element once, and
its broadcast state is part of its checkpoint. Not in here: the functions (`broadcast_function.py`), and the state
(`state/broadcast_state.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from kstreampy.operators.broadcast_function import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from kstreampy.operators.co import Keyless, without_keys
from kstreampy.operators.function import RecordContext, TimerService, where
from kstreampy.operators.keyed import keyed_state
from kstreampy.operators.keyed_function import KeyedProcessOperator, ProcessOperator
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.pair import PairOperator
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.timer import TimedProcessOperator, has_on_timer
from kstreampy.serde.batch import Batch
from kstreampy.serde.key import key_of
from kstreampy.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState, TaskOperatorStateStore
from kstreampy.state.descriptor import MapStateDescriptor, StateDescriptor

_AT_ONCE = 500
"""Keys whose state is read together."""


class BroadcastOperator(PairOperator):
    """The second input is the broadcast one. Puts the method and the context of an input in the place of the function and the
    context of the `process` that it also is."""

    uid: str
    descriptors: Sequence[MapStateDescriptor]
    function: Callable[..., Any]
    where: str
    owner: Any
    context: RecordContext
    side_outputs: SideOutputs
    readable: dict[str, ReadOnlyBroadcastState[Any, Any]]
    writable: dict[str, BroadcastState[Any, Any]]

    def open(self, context: TaskContext) -> None:
        store = TaskOperatorStateStore(self.uid, keyed_state(self.step, context))
        self.writable = {descriptor.name: store.get_broadcast_state(descriptor) for descriptor in self.descriptors}
        self.readable = {descriptor.name: store.read_only(descriptor) for descriptor in self.descriptors}
        super().open(context)
        time = TimerService(context.clock, lambda: context.watermark)
        sides = [
            (self.owner.process_element, self.context),
            (self.owner.process_broadcast_element, self.broadcast_context(context, time)),
        ]
        self._sides = [(method, where(method), its_context) for method, its_context in sides]

    def broadcast_context(self, context: TaskContext, time: TimerService) -> RecordContext:
        """What the broadcast side's method is called with."""
        raise NotImplementedError

    def turn_to(self, side: int) -> None:
        """Records of this input come next."""
        self.function, self.where, self.context = self._sides[side]


class PlainBroadcastOperator(BroadcastOperator, ProcessOperator):
    """The other input is not keyed."""

    cls = BroadcastProcessFunction

    def __init__(
        self,
        step: str,
        uid: str,
        function: BroadcastProcessFunction[Any, Any, Any],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(step, function)
        self.uid = uid
        self.descriptors = descriptors

    def new_context(self, context: TaskContext) -> RecordContext:
        time = TimerService(context.clock, lambda: context.watermark)
        return BroadcastProcessFunction.ReadOnlyContext(time, self.readable, self.side_outputs)

    def broadcast_context(self, context: TaskContext, time: TimerService) -> RecordContext:
        return BroadcastProcessFunction.Context(time, self.writable, self.side_outputs)

    def process_first(self, batch: Batch) -> None:
        self.turn_to(0)
        self.process(without_keys(batch))

    def process_second(self, batch: Batch) -> None:
        self.turn_to(1)
        self.process(without_keys(batch))


class KeyedBroadcastOperator(BroadcastOperator, KeyedProcessOperator):
    """The other input is keyed; the function has no `on_timer`."""

    def __init__(
        self,
        step: str,
        uid: str,
        function: KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(step, uid, function)
        self.descriptors = descriptors

    def open(self, context: TaskContext) -> None:
        self.out = Keyless(self.out)
        super().open(context)
        self._keyed_store = TaskKeyedStateStore(self.step, self.uid, self.state, self.scope, context.clock)

    def new_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return KeyedBroadcastProcessFunction.ReadOnlyContext(
            timer_service, self.readable, self.side_outputs, self.current_key
        )

    def broadcast_context(self, context: TaskContext, time: TimerService) -> RecordContext:
        return KeyedBroadcastProcessFunction.Context(time, self.writable, self.side_outputs, self.apply_to_keyed_state)

    def process_first(self, batch: Batch) -> None:
        self.turn_to(0)
        self.process(batch)

    def process_second(self, batch: Batch) -> None:
        self.turn_to(1)
        self.process_with([None] * len(batch), without_keys(batch))

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Visits every key that has something in the state, with the key as the current one."""
        handle: Any = self._keyed_store.state(state_descriptor)
        tokens = self._keyed_store.tokens(state_descriptor)
        scope = self.scope
        try:
            while some := list(islice(tokens, _AT_ONCE)):
                handle._cache.load(some)
                for scope.token in some:
                    function(key_of(scope.token), handle)
        finally:
            scope.token = None


class TimedBroadcastOperator(KeyedBroadcastOperator, TimedProcessOperator):
    """The other input is keyed; the function has `on_timer`."""

    def new_timer_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return KeyedBroadcastProcessFunction.OnTimerContext(
            timer_service, self.readable, self.side_outputs, self.current_key
        )


def broadcast_process(
    step: str,
    uid: str,
    function: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
    descriptors: Sequence[MapStateDescriptor],
) -> PairOperator:
    """The operator of `process` with this function; the other input is keyed where the function's kind says so."""
    if isinstance(function, BroadcastProcessFunction):
        return PlainBroadcastOperator(step, uid, function, descriptors)
    kind = TimedBroadcastOperator if has_on_timer(function) else KeyedBroadcastOperator
    return kind(step, uid, function, descriptors)
