"""Steps of `full_window_partition`: everything that a key, or a task, was given is one window, which ends with the input.

In here: one operator per call (`map_partition`, `sort_partition`, `reduce`, `aggregate`), for streams by key and others. Elements
are state, each on its own, so they are part of the checkpoint and need not fit in memory together; `reduce` and `aggregate` keep
one value. Results come before the last watermark goes on, without timestamps. Where there were no elements, nothing is called
and nothing comes. Unlike Flink's, `map_partition` without keys begins at the end too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.function import (
    AggregateFunction,
    Function,
    MapPartitionFunction,
    ReduceFunction,
    callable_of,
    detached,
    own_copy,
    typed,
)
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, TaskContext, failed_at, failure, shown
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch, Token
from kstreampy.serde.key import key_of
from kstreampy.state.element import ABSENT
from kstreampy.state.kind import list_cache
from kstreampy.state.list_cache import ListCache

_WHOLE_TASK: Token = 0
"""Stands for a key on streams without."""
_MOST_HELD = 2_000
"""Results that are held before they go on."""


@dataclass(frozen=True)
class FullWindow:
    """What is drawn. `function`: the author's, or for a sort what gives an element's rank; `where` says where it stands;
    `type_info` is that of what is kept."""

    function: Any
    where: str
    type_info: TypeInformation | None
    is_keyed: bool
    descending: bool = False


class FullWindowOperator(Operator):
    """Keeps elements, and gives results when the input has ended."""

    keeps_values = True
    cache: ListCache

    def __init__(self, step: str, uid: str, drawn: FullWindow) -> None:
        super().__init__(step)
        self.uid = uid
        self.drawn = drawn
        self.is_keyed = drawn.is_keyed
        self.function = own_copy(drawn.function)
        self._opened = False

    def open(self, context: TaskContext) -> None:
        self.cache = list_cache(keyed_state(self.step, context), f"{self.uid}/partition", self.drawn.type_info)
        self._opened = True
        if isinstance(self.function, Function):
            self.function.open(TaskRuntimeContext(self.step, context))

    def close(self) -> None:
        opened, self._opened = self._opened, False
        try:
            if opened and isinstance(self.function, Function):
                self.function.close()
        finally:
            self.out.close()

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch) if self.is_keyed else [_WHOLE_TASK] * len(batch)
        values = iter(batch.values)
        try:
            self._add(keys, values)
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch))
            raise failure(self.step, error, index, batch.values[index], self.drawn.where) from error

    def _add(self, keys: list[Token], values: Iterator[Any]) -> None:
        """Keeps elements, each under its key."""
        append = self.cache.append
        for token, value in zip(keys, values, strict=True):
            append(token, value)

    @abstractmethod
    def _results(self, kept: Iterator[Any]) -> Iterable[Any] | None:
        """Of what is kept of one key, in order."""

    def advance(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self._fire()
        self.out.advance(watermark)

    def finish(self) -> None:
        self._fire()  # what came behind a last watermark that a strategy made before the end
        self.out.finish()

    def _fire(self) -> None:
        for token in self.cache.tokens():
            try:
                self._fire_one(token)
            except KStreamError:
                raise
            except Exception as error:
                of_key = f" of the key {shown(key_of(token))}" if self.is_keyed else ""
                raise RecordError(
                    f"{self.step}: {type(error).__name__}: {error} in {self.drawn.where}, at the end of the input, with the "
                    f"elements{of_key}",
                    step=self.step,
                    index=0,
                ) from error
            self.cache.clear(token)

    def _fire_one(self, token: Token) -> None:
        results: list[Any] = []
        for result in self._results(value for _, value in self.cache.rows(token)) or ():
            results.append(result if type(result) in IMMUTABLE_TYPES else detached(result))
            if len(results) >= _MOST_HELD:
                self._hand_on(token, results)
                results = []
        if results:
            self._hand_on(token, results)

    def _hand_on(self, token: Token, results: list[Any]) -> None:
        count = len(results)
        self.out.process(Batch(results, [NO_TIMESTAMP] * count, [token] * count if self.is_keyed else None))


class MapPartitionOperator(FullWindowOperator):
    """Calls the function once per key, or task, with an iterable of all elements."""

    def _results(self, kept: Iterator[Any]) -> Iterable[Any] | None:
        found: Iterable[Any] | None = callable_of(self.function, MapPartitionFunction, "map_partition")(kept)
        return found


class SortPartitionOperator(FullWindowOperator):
    """The elements by rank; those of one rank in the order in which they came. They are sorted in memory."""

    def _results(self, kept: Iterator[Any]) -> Iterable[Any]:
        return sorted(kept, key=self.function, reverse=self.drawn.descending)


class ReducePartitionOperator(FullWindowOperator):
    """One element per key, or task: what all are reduced to, as they come."""

    def _add(self, keys: list[Token], values: Iterator[Any]) -> None:
        get, put = self.cache.get, self.cache.put
        reduce = typed(callable_of(self.function, ReduceFunction, "reduce"), self.drawn.type_info)
        for token, value in zip(keys, values, strict=True):
            so_far = get(token, 0)
            put(token, 0, value if so_far is ABSENT else reduce(so_far, value))

    def _results(self, kept: Iterator[Any]) -> Iterable[Any]:
        return kept


class AggregatePartitionOperator(FullWindowOperator):
    """One result per key, or task: elements are added to an accumulator as they come. What `add` returns is kept."""

    function: AggregateFunction

    def _add(self, keys: list[Token], values: Iterator[Any]) -> None:
        get, put = self.cache.get, self.cache.put
        create, add = self.function.create_accumulator, self.function.add
        for token, value in zip(keys, values, strict=True):
            so_far = get(token, 0)
            put(token, 0, add(value, create() if so_far is ABSENT else so_far))

    def _results(self, kept: Iterator[Any]) -> Iterable[Any]:
        return map(self.function.get_result, kept)
