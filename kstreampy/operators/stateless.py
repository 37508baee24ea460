"""Steps without state: map, filter, flat_map, coerce, and keys assigned in place.

In here: operators that need nothing but the batch. Steps of a keyed stream whose function uses state are in `keyed_function.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, compress
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.function import (
    FilterFunction,
    FlatMapFunction,
    Function,
    MapFunction,
    callable_of,
    detached,
    own_copy,
    settle,
    where,
)
from kstreampy.operators.keeping import keeps_objects
from kstreampy.operators.operator import Operator, TaskContext, failed_at, failure
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.serde.batch import Batch, Headers, Token
from kstreampy.serde.key import tokens


class FunctionOperator(Operator):
    """A step that calls one user function: owns the task's copy of it, opens and closes it."""

    cls: type[Function]
    method: str

    def __init__(self, step: str, function: Any) -> None:
        super().__init__(step)
        self.owner = own_copy(function)
        self.function: Callable[..., Any] = callable_of(self.owner, self.cls, self.method)
        self.where = where(function)
        self._opened = False

    def open(self, context: TaskContext) -> None:
        self._opened = True
        if isinstance(self.owner, Function):
            self.owner.open(self.runtime_context(context))

    def runtime_context(self, context: TaskContext) -> TaskRuntimeContext:
        """What the function is opened with; steps of a keyed stream give access to its state."""
        return TaskRuntimeContext(self.step, context)

    def calls(self, batch: Batch) -> list[Any]:
        """The function's result for each value; an exception becomes a `RecordError` naming the record."""
        function = self.function
        values = iter(batch.values)
        try:
            return [function(value) for value in values]
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index], self.where) from error

    def close(self) -> None:
        opened, self._opened = self._opened, False
        try:
            if opened and isinstance(self.owner, Function):
                self.owner.close()
        finally:
            self.out.close()


class MapOperator(FunctionOperator):
    cls: type[Function] = MapFunction
    method = "map"

    def __init__(self, step: str, function: Any) -> None:
        super().__init__(step, function)
        if keeps_objects(self.owner):
            self.function = settling(self.function)

    def process(self, batch: Batch) -> None:
        self.out.process(Batch(self.calls(batch), batch.timestamps, batch.keys, batch.headers))


class FilterOperator(FunctionOperator):
    cls = FilterFunction
    method = "filter"

    def process(self, batch: Batch) -> None:
        keep = self.calls(batch)
        kept = list(compress(batch.values, keep))
        if not kept:
            return
        if len(kept) == len(keep):
            self.out.process(batch)
            return
        selected = Batch(
            kept,
            list(compress(batch.timestamps, keep)),
            None if batch.keys is None else list(compress(batch.keys, keep)),
            None if batch.headers is None else list(compress(batch.headers, keep)),
        )
        try:
            self.out.process(selected)
        except RecordError as error:
            error.index = [index for index, kept_it in enumerate(keep) if kept_it][error.index]
            raise


class FlatMapOperator(FunctionOperator):
    cls: type[Function] = FlatMapFunction
    method = "flat_map"

    def __init__(self, step: str, function: Any) -> None:
        super().__init__(step, function)
        keeps = keeps_objects(self.owner)
        self.function = all_of(self.function, keeps=keeps)
        self.may_share = not keeps
        """Whether the results of one call may share something changeable: where the function keeps what it returned, each
        is a copy already."""

    def process(self, batch: Batch) -> None:
        results: list[Any] = []
        ends: list[int] = []
        separates = self.may_share and self.out.may_change_values
        for produced in self.calls(batch):
            results += apart(produced) if separates and len(produced) > 1 else produced
            ends.append(len(results))
        emit_repeated(self.out, batch, results, ends)


def settling(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, with results that share nothing changeable with what it may still hold."""

    def result(value: Any) -> Any:
        returned = function(value)
        return returned if type(returned) in IMMUTABLE_TYPES else detached(returned)

    return result


def all_of(produce: Callable[[Any], Any], *, keeps: bool) -> Callable[[Any], list[Any]]:
    """The function, with the results of one call as a list. Those of a generator are settled one by one: it may go on to
    change them. `keeps`: it may still hold what it returned."""

    def results(value: Any) -> list[Any]:
        produced = produce(value)
        if produced is None:
            return []
        if not keeps and type(produced) in (list, tuple):
            return list(produced)
        found: list[Any] = []
        settle(produced, found.append)
        return found

    return results


def apart(values: list[Any]) -> list[Any]:
    """Several results of one call, so that none shares anything changeable with another: all but the first are copied, where
    anything can change."""
    kinds = set(map(type, values))
    if kinds <= IMMUTABLE_TYPES or (
        kinds == {tuple} and IMMUTABLE_TYPES.issuperset(map(type, chain.from_iterable(values)))
    ):
        return values
    return [values[0], *map(detached, values[1:])]


class CoerceOperator(Operator):
    """Brings values to the declared type (`TypeInformation.coerce`)."""

    def __init__(self, step: str, coerce: Callable[[Any], Any]) -> None:
        super().__init__(step)
        self.coerce = coerce

    def process(self, batch: Batch) -> None:
        coerce = self.coerce
        values = iter(batch.values)
        try:
            coerced = [coerce(value) for value in values]
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index], "its output type") from error
        self.out.process(Batch(coerced, batch.timestamps, batch.keys, batch.headers))


class KeyOperator(Operator):
    """Gives each record its key where it is: the topic is already partitioned by it (`reinterpret_as_keyed_stream`)."""

    def __init__(self, step: str, select: Callable[[Any], Any], where: str) -> None:
        super().__init__(step)
        self.select = select
        self.where = where

    def process(self, batch: Batch) -> None:
        keys = keys_of(self.step, batch, self.select, self.where)
        self.out.process(Batch(batch.values, batch.timestamps, keys, batch.headers))


def keys_of(step: str, batch: Batch, select: Callable[[Any], Any], where: str) -> list[Token]:
    """The key tokens of a batch; a key of None or of a type that cannot be a key is a `RecordError`."""
    values = iter(batch.values)
    try:
        keys = [select(value) for value in values]
    except KStreamError:
        raise
    except Exception as error:
        index = failed_at(values, len(batch.values))
        raise failure(step, error, index, batch.values[index], where) from error
    try:
        return tokens(keys)
    except TypeError:
        for index, key in enumerate(keys):
            try:
                tokens([key])
            except TypeError as error:
                raise failure(step, error, index, batch.values[index], where) from error
        raise


def emit_repeated(out: Operator, batch: Batch, results: list[Any], ends: list[int]) -> None:
    """Hands on what 1:N steps produced: the results of record i are `results[ends[i-1]:ends[i]]`; they take its
    timestamp and key; headers stay with the records that gave exactly one result."""
    if not results:
        return
    if len(results) == len(ends) and ends[0] == 1 and ends == list(range(1, len(ends) + 1)):
        out.process(Batch(results, batch.timestamps, batch.keys, batch.headers))
        return
    timestamps: list[int] = []
    keys: list[Token] | None = None if batch.keys is None else []
    headers: list[Headers | None] | None = None if batch.headers is None else []
    start = 0
    for index, end in enumerate(ends):
        if count := end - start:
            timestamps += [batch.timestamps[index]] * count
            if keys is not None and batch.keys is not None:
                keys += [batch.keys[index]] * count
            if headers is not None and batch.headers is not None:
                headers += [batch.headers[index] if count == 1 else None] * count
        start = end
    try:
        out.process(Batch(results, timestamps, keys, headers))
    except RecordError as error:
        error.index = next(index for index, end in enumerate(ends) if end > error.index)
        raise
