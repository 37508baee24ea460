"""Steps of a keyed stream that call the user's function: `process`, and `map`, `filter` and `flat_map` with keyed state.

In here: the operators that set the current key (`KeyScope.token`) for each call; the state of a batch's keys is loaded in one
call before. Not in here: rolling aggregations (`keyed.py`), and process functions that set timers (`timer.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreampy.errors import KStreamError
from kstreampy.operators.function import (
    Function,
    KeyedProcessFunction,
    ProcessFunction,
    RecordContext,
    TimerService,
    settle,
)
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import TaskContext, failure
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.stateless import FilterOperator, FlatMapOperator, FunctionOperator, MapOperator, emit_repeated
from kstreampy.operators.timer_service import SilentTimerService
from kstreampy.serde.batch import Batch, Token
from kstreampy.serde.key import key_of
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState


class _KeyedCalls(FunctionOperator):
    """Calls the function with the record's key as the current key, so that its state handles work."""

    uid: str
    state: KeyedState
    scope: KeyScope

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        super().open(context)

    def runtime_context(self, context: TaskContext) -> TaskRuntimeContext:
        return TaskRuntimeContext(self.step, context, self.uid)

    def calls(self, batch: Batch) -> list[Any]:
        keys = keys_in(batch)
        self.state.preload(keys)
        scope = self.scope
        function = self.function
        results: list[Any] = []
        try:
            for scope.token, value in zip(keys, batch.values, strict=True):
                results.append(function(value))
        except KStreamError:
            raise
        except Exception as error:
            index = len(results)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        finally:
            scope.token = None
        return results


class KeyedMapOperator(_KeyedCalls, MapOperator):
    def __init__(self, step: str, uid: str, function: Any) -> None:
        super().__init__(step, function)
        self.uid = uid


class KeyedFilterOperator(_KeyedCalls, FilterOperator):
    def __init__(self, step: str, uid: str, function: Any) -> None:
        super().__init__(step, function)
        self.uid = uid


class KeyedFlatMapOperator(_KeyedCalls, FlatMapOperator):
    def __init__(self, step: str, uid: str, function: Any) -> None:
        super().__init__(step, function)
        self.uid = uid


class ProcessOperator(FunctionOperator):
    """`process` with a `ProcessFunction` on a stream without keys."""

    cls: type[Function] = ProcessFunction
    method = "process_element"
    context: RecordContext
    side_outputs: SideOutputs

    def open(self, context: TaskContext) -> None:
        self.side_outputs = SideOutputs(self.sides)
        self.context = self.new_context(context)
        super().open(context)

    def new_context(self, context: TaskContext) -> RecordContext:
        """What the function is called with."""
        timer_service = TimerService(context.clock, lambda: context.watermark)
        return ProcessFunction.Context(timer_service, self.side_outputs)

    def process(self, batch: Batch) -> None:
        function = self.function
        context = self.context
        headers = batch.headers
        results: list[Any] = []
        emit = results.append
        ends: list[int] = []
        output = context.output
        self.side_outputs.begin(ends)
        try:
            for index, value in enumerate(batch.values):
                context._timestamp = batch.timestamps[index]
                context._headers = None if headers is None else headers[index]
                produced = function(value, context)
                if produced is not None:
                    settle(produced, emit, output)
                ends.append(len(results))
        except KStreamError:
            raise
        except Exception as error:
            index = len(ends)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        emit_repeated(self.out, batch, results, ends)
        self.side_outputs.emit()


class KeyedProcessOperator(FunctionOperator):
    """`process` with a `KeyedProcessFunction` (or, deprecated, a `ProcessFunction`) on a keyed stream."""

    cls = Function
    method = "process_element"
    context: RecordContext
    side_outputs: SideOutputs
    state: KeyedState
    scope: KeyScope

    def __init__(self, step: str, uid: str, function: Any) -> None:
        super().__init__(step, function)
        self.uid = uid

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        self.side_outputs = SideOutputs(self.sides)
        self.context = self.new_context(context, self.timer_service(context))
        super().open(context)

    def current_key(self) -> Any:
        token = self.scope.token
        return None if token is None else key_of(token)

    def new_context(self, context: TaskContext, timer_service: TimerService) -> RecordContext:
        """What the function is called with."""
        return KeyedProcessFunction.Context(timer_service, self.current_key, self.side_outputs)

    def timer_service(self, context: TaskContext) -> TimerService:
        """What the function is handed to set timers; see `timer.py` for functions that have `on_timer`."""
        return SilentTimerService(self.step, context, self.where)

    def runtime_context(self, context: TaskContext) -> TaskRuntimeContext:
        return TaskRuntimeContext(self.step, context, self.uid)

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        self.state.preload(keys)
        self.process_with(keys, batch)

    def process_with(self, keys: Sequence[Token | None], batch: Batch) -> None:
        """The records of the batch, with these as the current keys."""
        function = self.function
        scope = self.scope
        context = self.context
        results: list[Any] = []
        emit = results.append
        ends: list[int] = []
        count = ends.append
        output = context.output
        self.side_outputs.begin(ends)
        if batch.headers is None:
            context._headers = None
        try:
            for index, value in enumerate(batch.values):
                scope.token = keys[index]
                context._timestamp = batch.timestamps[index]
                if batch.headers is not None:
                    context._headers = batch.headers[index]
                produced = function(value, context)
                if produced is not None:
                    settle(produced, emit, output)
                count(len(results))
        except KStreamError:
            raise
        except Exception as error:
            index = len(ends)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        finally:
            scope.token = None
        emit_repeated(self.out, batch, results, ends)
        self.side_outputs.emit()
