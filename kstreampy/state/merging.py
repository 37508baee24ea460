"""State that is one value per key, made of all that were added: `ReducingState` and `AggregatingState`.

In here: the handles. Not in here: lists, which merge too (`list_state.py`), and the same with a TTL (`ttl_state.py`).

The user's function is handed what is kept itself, not a copy, together with a copy of what is added: it may change both in
place and return either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.serde.batch import Token
from kstreampy.state.cache import ValueCache
from kstreampy.state.handle import KeyScope, MergingState, no_key

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class OneValueState(MergingState[IN, OUT]):
    """What both are: one value per key, and how two of them become one."""

    __slots__ = ("_cache", "_scope")

    def __init__(self, cache: ValueCache, scope: KeyScope) -> None:
        self._cache = cache
        self._scope = scope

    def clear(self) -> None:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        self._keep(token, None)

    def merge_namespaces(self, target: Token, sources: Iterable[Token]) -> None:
        for source in sources:
            value = self._kept(source)
            if value is not None and source != target:
                so_far = self._kept(target)
                self._keep(target, value if so_far is None else self._merged(so_far, value))
                self._keep(source, None)

    def _merged(self, one: Any, other: Any) -> Any:
        """One of two that are kept."""
        raise NotImplementedError

    def _seen(self, token: Token) -> Any:
        """What is kept, for the user to see."""
        return self._cache.fetch(token)

    def _kept(self, token: Token) -> Any:
        """What is kept, to be added to."""
        return self._cache.fetch(token)

    def _keep(self, token: Token, value: Any) -> None:
        cache = self._cache
        cache.entries[token] = value
        cache.dirty.add(token)


class ReducingState(OneValueState[T, T]):
    """One value per key: the first that was added, or what the reduce function made of it and the next."""

    __slots__ = ("_reduce",)

    def __init__(self, cache: ValueCache, scope: KeyScope, reduce: Callable[[Any, Any], Any]) -> None:
        super().__init__(cache, scope)
        self._reduce = reduce

    def get(self) -> T | None:
        """The reduced value of the current key, None when nothing was added."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        value = self._seen(token)
        return value if type(value) in IMMUTABLE_TYPES else copy_value(value)  # type: ignore[no-any-return]  # the user's

    def add(self, value: T | None) -> None:
        """Reduces the value into what is kept. None leaves that unchanged; a result of None removes it."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        if value is None:
            return
        added: Any = value if type(value) in IMMUTABLE_TYPES else copy_value(value)
        so_far = self._kept(token)
        self._keep(token, added if so_far is None else self._reduce(so_far, added))

    def _merged(self, one: Any, other: Any) -> Any:
        return self._reduce(one, other)


class AggregatingState(OneValueState[IN, OUT]):
    """One accumulator per key, which `AggregateFunction.add` adds to; `get` gives the function's result of it."""

    __slots__ = ("_function",)

    def __init__(self, cache: ValueCache, scope: KeyScope, function: Any) -> None:
        """`function`: an `AggregateFunction`."""
        super().__init__(cache, scope)
        self._function = function

    def get(self) -> OUT | None:
        """The result for the current key, None when nothing was added."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        accumulator = self._seen(token)
        if accumulator is None:
            return None
        own = accumulator if type(accumulator) in IMMUTABLE_TYPES else copy_value(accumulator)
        result = self._function.get_result(own)
        return result if type(result) in IMMUTABLE_TYPES else copy_value(result)  # type: ignore[no-any-return]  # the user's

    def add(self, value: IN | None) -> None:
        """Adds the value to the accumulator. None leaves it unchanged."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        if value is None:
            return
        added: Any = value if type(value) in IMMUTABLE_TYPES else copy_value(value)
        accumulator = self._kept(token)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._keep(token, self._function.add(added, accumulator))

    def _merged(self, one: Any, other: Any) -> Any:
        return self._function.merge(one, other)
