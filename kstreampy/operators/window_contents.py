"""What the windows of one step hold: an accumulator, or all elements, per key and window.

In here: `FoldedContents`, `ListedContents`, and `EvictedContents` (elements with their timestamps, for an evictor). They
are found by `scoped(key, window)` tokens, which the operator makes. Not in here: when anything is added, fired or cleared
(`window.py`), and where it lies (`state/`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.eventtime.evictor import Evictor, TimestampedValue
from kstreampy.eventtime.window import Window
from kstreampy.operators.pane_fold import SumAggregation
from kstreampy.operators.window_spec import Aggregation, ReduceAggregation
from kstreampy.serde.batch import Token
from kstreampy.state.cache import ValueCache
from kstreampy.state.list_cache import ListCache

Call = Callable[[list[Any]], None]
"""Gives elements to the window function, and its results to the output."""
Add = Callable[[Token, Any, int], object]
"""Puts an element, which has this timestamp, into the window of the token."""


class Contents(ABC):
    """Of all windows of one step in one task."""

    copies = False
    """Whether an element that goes into several windows must be copied by the operator."""

    def reads(self) -> bool:
        """Whether `load` would read anything."""
        return False

    def load(self, tokens: Iterable[Token]) -> None:  # noqa: B027  # what need not be read at once
        """These windows are about to be used: they may be read now, at once."""

    @abstractmethod
    def adder(self) -> Add:
        """For the elements of one batch, whose windows are new, or `load` was told of them."""

    @abstractmethod
    def get(self, token: Token) -> Any:
        """What `fire` takes; None when the window is empty."""

    @abstractmethod
    def clear(self, token: Token) -> None: ...

    @abstractmethod
    def merge(self, target: Token, sources: Sequence[Token]) -> None:
        """Everything of `sources` goes to `target`."""

    @abstractmethod
    def fire(self, token: Token, contents: Any, window: Window, call: Call) -> None:
        """Calls the window function with what `get` gave."""


class FoldedContents(Contents):
    """One accumulator per window, which each element is folded into as it comes."""

    def __init__(self, cache: ValueCache, aggregation: Aggregation) -> None:
        self._cache = cache
        self._aggregation = aggregation
        self._create = aggregation.create_accumulator
        self._add = aggregation.add
        self._merge = aggregation.merge
        self._result = aggregation.get_result
        self._gives_itself = isinstance(aggregation, ReduceAggregation)
        self.copies = aggregation.may_change

    def reads(self) -> bool:
        return not self._cache.complete

    def load(self, tokens: Iterable[Token]) -> None:
        self._cache.load(tokens)

    def adder(self) -> Add:
        aggregation = self._aggregation
        if isinstance(aggregation, SumAggregation) and aggregation.field.is_step:
            return self._summer(aggregation)
        if isinstance(aggregation, ReduceAggregation):
            return self._reducer(aggregation.reduce)
        create, fold = self._create, self._add
        entries, changed = self._cache.entries, self._cache.dirty.add
        get = entries.get

        def add(token: Token, value: Any, timestamp: int) -> None:
            accumulator = get(token)
            if accumulator is None:
                accumulator = create()
            entries[token] = fold(value, accumulator)
            changed(token)

        return add

    def _reducer(self, reduce: Callable[[Any, Any], Any]) -> Add:
        """As of any other aggregation, with one call less per element."""
        entries, changed = self._cache.entries, self._cache.dirty.add
        get = entries.get

        def add(token: Token, value: Any, timestamp: int) -> None:
            so_far = get(token)
            entries[token] = value if so_far is None else reduce(so_far, value)
            changed(token)

        return add

    def _summer(self, aggregation: SumAggregation) -> Add:
        """Dicts are added up in place: a window's is its own, and what it gives is copied."""
        combine, name = aggregation.reduce, aggregation.field.position
        entries, changed = self._cache.entries, self._cache.dirty.add
        get = entries.get

        def add(token: Token, value: Any, timestamp: int) -> None:
            so_far = get(token)
            if so_far is None:
                entries[token] = value.copy() if value.__class__ is dict else value
            elif so_far.__class__ is dict and value.__class__ is dict:
                so_far[name] = so_far[name] + value[name]
            else:
                entries[token] = combine(so_far, value)
            changed(token)

        return add

    def get(self, token: Token) -> Any:
        return self._cache.fetch(token)

    def clear(self, token: Token) -> None:
        cache = self._cache
        if cache.fetch(token) is not None:
            cache.entries[token] = None
            cache.dirty.add(token)

    def merge(self, target: Token, sources: Sequence[Token]) -> None:
        cache = self._cache
        assert self._merge is not None, "merging windows were given an aggregation that cannot merge"
        merged = cache.fetch(target)
        for token in sources:
            accumulator = cache.fetch(token)
            if accumulator is not None:
                merged = accumulator if merged is None else self._merge(merged, accumulator)
                self.clear(token)
        cache.entries[target] = merged
        cache.dirty.add(target)

    def fire(self, token: Token, contents: Any, window: Window, call: Call) -> None:
        result = self._result(contents if self._gives_itself else _own(contents))
        call([_own(result) if self.copies else result])


class ListedContents(Contents):
    """All elements of a window, in order of arrival."""

    copies = True

    def __init__(self, cache: ListCache) -> None:
        self._cache = cache

    def adder(self) -> Add:
        append = self._cache.append
        return lambda token, value, timestamp: append(token, value)

    def get(self, token: Token) -> list[tuple[int, Any]] | None:
        """(id, element) of each."""
        return list(self._cache.rows(token)) or None

    def clear(self, token: Token) -> None:
        self._cache.clear(token)

    def merge(self, target: Token, sources: Sequence[Token]) -> None:
        append = self._cache.append
        for token in sources:
            for _, element in self._cache.rows(token):
                append(target, element)
            self._cache.clear(token)

    def fire(self, token: Token, contents: list[tuple[int, Any]], window: Window, call: Call) -> None:
        call([_own(element) for _, element in contents])


class EvictedContents(ListedContents):
    """All elements with their timestamps. When the window fires, the evictor may remove some before and after its function;
    with an aggregation, that is computed from what is left. When nothing is left the function is called all the same, with
    nothing, or with the result of no elements (of a `reduce`: None)."""

    def __init__(
        self,
        cache: ListCache,
        evictor: tuple[Evictor[Any, Any], Evictor.EvictorContext],
        aggregation: Aggregation | None,
    ) -> None:
        super().__init__(cache)
        self._evictor, self._context = evictor
        self._aggregation = aggregation

    def adder(self) -> Add:
        append = self._cache.append
        return lambda token, value, timestamp: append(token, (timestamp, value))

    def fire(self, token: Token, contents: list[tuple[int, Any]], window: Window, call: Call) -> None:
        all_elements = [TimestampedValue(_own(value), timestamp) for _, (timestamp, value) in contents]
        left = list(all_elements)
        evictor, context = self._evictor, self._context
        evictor.evict_before(left, len(left), window, context)
        call(self._projected([element.value for element in left]))
        evictor.evict_after(left, len(left), window, context)
        if len(left) < len(all_elements):
            kept = set(map(id, left))
            for element, (element_id, _) in zip(all_elements, contents, strict=True):
                if id(element) not in kept:
                    self._cache.remove(token, element_id)

    def _projected(self, values: list[Any]) -> list[Any]:
        aggregation = self._aggregation
        if aggregation is None:
            return values
        accumulator = aggregation.create_accumulator()
        for value in values:
            accumulator = aggregation.add(value, accumulator)
        return [aggregation.get_result(accumulator)]


def _own(value: Any) -> Any:
    """For a function that may change it, while the window goes on with its own."""
    return value if type(value) in IMMUTABLE_TYPES else copy_value(value)
