"""Steps of connected streams: map, flat_map and process with a function that has one method for each input.

In here: for each of Flink's function classes the operators that call it, which are those of one input with the method
exchanged before each batch; and who of them takes which inputs. On two keyed inputs the state is that of the key, whichever
input its record came by. With one keyed input only that one has a key: on the other keyed state is refused, where Flink would
use the key of some earlier record. Not in here: the functions (`co_function.py`), and how records come here (`route.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kstreampy.operators.co_function import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from kstreampy.operators.function import Function, RecordContext, TimerService, is_rich, refuse_async, where
from kstreampy.operators.keyed_function import (
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ProcessOperator,
)
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.operators.pair import KeyKinds, PairOperator
from kstreampy.operators.stateless import FlatMapOperator, FunctionOperator, MapOperator, all_of, settling
from kstreampy.operators.timer import TimedProcessOperator, has_on_timer
from kstreampy.serde.batch import Batch

Keyed: TypeAlias = tuple[bool, bool]
"""Whether the first and the second input are keyed."""


class CoOperator(PairOperator):
    """Puts one of two methods of the user's in the place of the function of the one-input step that it also is."""

    function: Callable[..., Any]
    where: str
    owner: Any

    def use(self, names: tuple[str, str], keyed: Keyed, adapt: Callable[[Any], Any] | None = None) -> None:
        """The methods of the function for each input; `adapt` makes of one what the step calls."""
        methods = [getattr(self.owner, name) for name in names]
        for name, method in zip(names, methods, strict=True):
            refuse_async(method, name)
        self._methods = [(adapt(method) if adapt else method, where(method)) for method in methods]
        self._keyed = keyed
        self._kinds = KeyKinds(self.step) if all(keyed) else None

    def open(self, context: TaskContext) -> None:
        if any(self._keyed) and not all(self._keyed):
            self.out = Keyless(self.out)
        super().open(context)

    def process_first(self, batch: Batch) -> None:
        self._take(0, batch)

    def process_second(self, batch: Batch) -> None:
        self._take(1, batch)

    def _take(self, side: int, batch: Batch) -> None:
        self.function, self.where = self._methods[side]
        if not self._keyed[side]:
            batch = without_keys(batch)
        elif self._kinds is not None:
            self._kinds.look(side, batch)
            if self._kinds.is_known:
                self._kinds = None
        self.process(batch)


class Keyless(Operator):
    """Takes the keys off results of which only some have one, so that they can be packed together."""

    def __init__(self, out: Operator) -> None:
        super().__init__("keyless")
        self.out = out
        self.may_change_values = out.may_change_values
        self.keeps_values = out.keeps_values

    def process(self, batch: Batch) -> None:
        self.out.process(without_keys(batch))


def without_keys(batch: Batch) -> Batch:
    """Keys that records bear from further up say nothing here."""
    return batch if batch.keys is None else Batch(batch.values, batch.timestamps, None, batch.headers)


class CoMapOperator(CoOperator, MapOperator):
    """`map` without state."""

    cls = CoMapFunction
    method = "map1"

    def __init__(self, step: str, function: CoMapFunction, keyed: Keyed) -> None:
        super().__init__(step, function)
        self.use(("map1", "map2"), keyed, settling)


class CoFlatMapOperator(CoOperator, FlatMapOperator):
    """`flat_map` without state."""

    cls = CoFlatMapFunction
    method = "flat_map1"

    def __init__(self, step: str, function: CoFlatMapFunction, keyed: Keyed) -> None:
        super().__init__(step, function)
        self.use(("flat_map1", "flat_map2"), keyed, _all_settled)


class KeyedCoMapOperator(CoOperator, KeyedMapOperator):
    """`map` with state on the inputs that are keyed."""

    cls = CoMapFunction
    method = "map1"

    def __init__(self, step: str, uid: str, function: CoMapFunction, keyed: Keyed) -> None:
        super().__init__(step, uid, function)
        self.use(("map1", "map2"), keyed, settling)

    def calls(self, batch: Batch) -> list[Any]:
        return FunctionOperator.calls(self, batch) if batch.keys is None else super().calls(batch)


class KeyedCoFlatMapOperator(CoOperator, KeyedFlatMapOperator):
    """`flat_map` with state on the inputs that are keyed."""

    cls = CoFlatMapFunction
    method = "flat_map1"

    def __init__(self, step: str, uid: str, function: CoFlatMapFunction, keyed: Keyed) -> None:
        super().__init__(step, uid, function)
        self.use(("flat_map1", "flat_map2"), keyed, _all_settled)

    def calls(self, batch: Batch) -> list[Any]:
        return FunctionOperator.calls(self, batch) if batch.keys is None else super().calls(batch)


def _all_settled(method: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return all_of(method, keeps=True)


_PROCESS = "process_element1", "process_element2"


class CoProcessOperator(CoOperator, ProcessOperator):
    """`process` where no input is keyed."""

    cls = CoProcessFunction
    method = "process_element1"

    def __init__(self, step: str, function: CoProcessFunction) -> None:
        super().__init__(step, function)
        self.use(_PROCESS, (False, False))

    def new_context(self, context: TaskContext) -> RecordContext:
        timer_service = TimerService(context.clock, lambda: context.watermark)
        return CoProcessFunction.Context(timer_service, self.side_outputs)


class OneSidedCoProcessOperator(CoOperator, KeyedProcessOperator):
    """`process` where one input is keyed: that one has state, and neither has timers."""

    method = "process_element1"

    def __init__(self, step: str, uid: str, function: CoProcessFunction, keyed: Keyed) -> None:
        super().__init__(step, uid, function)
        self.use(_PROCESS, keyed)

    def timer_service(self, context: TaskContext) -> TimerService:
        return TimerService(context.clock, lambda: context.watermark)

    def new_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return CoProcessFunction.Context(timer_service, self.side_outputs)

    def process(self, batch: Batch) -> None:
        if batch.keys is None:
            self.process_with([None] * len(batch), batch)
        else:
            super().process(batch)


class KeyedCoProcessOperator(CoOperator, KeyedProcessOperator):
    """`process` where both inputs are keyed, with a function that has no `on_timer`."""

    method = "process_element1"

    def __init__(self, step: str, uid: str, function: Function) -> None:
        super().__init__(step, uid, function)
        self.use(_PROCESS, (True, True))

    def new_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return KeyedCoProcessFunction.Context(timer_service, self.current_key, self.side_outputs)


class TimedCoProcessOperator(CoOperator, TimedProcessOperator):
    """`process` where both inputs are keyed, with a function that has `on_timer`."""

    method = "process_element1"

    def __init__(self, step: str, uid: str, function: Function) -> None:
        super().__init__(step, uid, function)
        self.use(_PROCESS, (True, True))

    def new_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return KeyedCoProcessFunction.Context(timer_service, self.current_key, self.side_outputs)

    def new_timer_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        return KeyedCoProcessFunction.OnTimerContext(timer_service, self.current_key, self.side_outputs)


def co_map(step: str, uid: str, function: CoMapFunction, keyed: Keyed) -> PairOperator:
    """The operator of `map`, with state where the function may use it."""
    if any(keyed) and is_rich(function):
        return KeyedCoMapOperator(step, uid, function, keyed)
    return CoMapOperator(step, function, keyed)


def co_flat_map(step: str, uid: str, function: CoFlatMapFunction, keyed: Keyed) -> PairOperator:
    """The operator of `flat_map`, with state where the function may use it."""
    if any(keyed) and is_rich(function):
        return KeyedCoFlatMapOperator(step, uid, function, keyed)
    return CoFlatMapOperator(step, function, keyed)


def co_process(step: str, uid: str, function: CoProcessFunction | KeyedCoProcessFunction, keyed: Keyed) -> PairOperator:
    """The operator of `process`. A `KeyedCoProcessFunction` needs two keyed inputs."""
    if all(keyed):
        kind = TimedCoProcessOperator if has_on_timer(function) else KeyedCoProcessOperator
        return kind(step, uid, function)
    assert isinstance(function, CoProcessFunction), "checked when it was drawn"
    if any(keyed):
        return OneSidedCoProcessOperator(step, uid, function, keyed)
    return CoProcessOperator(step, function)
