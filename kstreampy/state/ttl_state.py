"""State with a TTL as a user's function sees it: the same handles, over values that carry the time of their last access.

In here: one class per kind, each a subclass of the handle without a TTL. Not in here: when an entry is expired and how it
goes (`expiry.py`). Semantics: Flink's state TTL. Entries count on their own: a value, an element of a list, an entry of a
map, an accumulator. A read that finds an entry expired removes it, and gives it this once where
`ReturnExpiredIfNotCleanedUp` was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kstreampy.common.copying import copy_value
from kstreampy.serde.batch import Token
from kstreampy.state.element import ABSENT
from kstreampy.state.element_walk import Once
from kstreampy.state.expiry import ExpiringList, ExpiringMap, ExpiringValues
from kstreampy.state.handle import KeyScope, ValueState, no_key
from kstreampy.state.list_state import ListState
from kstreampy.state.map_cache import id_of, map_key
from kstreampy.state.map_state import MapState
from kstreampy.state.merging import AggregatingState, OneValueState, ReducingState

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
K = TypeVar("K")
V = TypeVar("V")


class TtlValueState(ValueState[T]):
    """One value per key that expires."""

    __slots__ = ()

    _cache: ExpiringValues

    def value(self) -> T | None:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        return copy_value(self._cache.live(token, read=True))  # type: ignore[no-any-return]  # the user's

    def update(self, value: T | None) -> None:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        cache = self._cache
        cache.set(token, None if value is None else (copy_value(value), cache.expiry.clock()))


class _Expiring(OneValueState[IN, OUT]):
    """One value or accumulator per key that expires."""

    __slots__ = ()

    _cache: ExpiringValues

    def _seen(self, token: Token) -> Any:
        return self._cache.live(token, read=True)

    def _kept(self, token: Token) -> Any:
        return self._cache.live(token, read=False)

    def _keep(self, token: Token, value: Any) -> None:
        self._cache.set(token, None if value is None else (value, self._cache.expiry.clock()))


class TtlReducingState(_Expiring[T, T], ReducingState[T]):
    """One reduced value per key that expires; what is added to an expired one begins anew."""

    __slots__ = ()


class TtlAggregatingState(_Expiring[IN, OUT], AggregatingState[IN, OUT]):
    """One accumulator per key that expires; what is added to an expired one begins anew."""

    __slots__ = ()


class TtlListState(ListState[T]):
    """A list per key of which each element expires."""

    __slots__ = ()

    _cache: ExpiringList

    def __init__(self, cache: ExpiringList, scope: KeyScope) -> None:
        super().__init__(cache, scope)

    def get(self) -> Iterable[T]:
        token = self._token()
        return _live(self._cache, token, lambda _, value: copy_value(value))

    def add(self, value: T) -> None:
        token = self._token()
        if value is None:
            raise self._refused()
        self._cache.append(token, (copy_value(value), self._cache.expiry.clock()))

    def _checked(self, values: Iterable[T] | None) -> list[Any]:
        now_ms = self._cache.expiry.clock()
        return [(value, now_ms) for value in super()._checked(values)]


class TtlMapState(MapState[K, V]):
    """A map per key of which each entry expires. `is_empty` is true when all that is left is expired (and would not be
    seen), and counts as no access; `contains` counts as one."""

    __slots__ = ()

    _cache: ExpiringMap

    def __init__(self, cache: ExpiringMap, scope: KeyScope) -> None:
        super().__init__(cache, scope)

    def get(self, key: K) -> V | None:
        value = self._read(key)
        return None if value is ABSENT else copy_value(value)

    def put(self, key: K, value: V | None) -> None:
        self._cache.put(self._token(), id_of(key), (copy_value(value), self._cache.expiry.clock()))

    def contains(self, key: K) -> bool:
        return self._read(key) is not ABSENT

    def _read(self, key: K) -> Any:
        return self._cache.live(self._token(), id_of(key), self._cache.expiry.clock())

    def items(self) -> Iterable[tuple[K, V]]:
        return _live(self._cache, self._token(), lambda element_id, value: (map_key(element_id), copy_value(value)))

    def keys(self) -> Iterable[K]:
        return _live(self._cache, self._token(), lambda element_id, _: map_key(element_id))

    def values(self) -> Iterable[V]:
        return _live(self._cache, self._token(), lambda _, value: copy_value(value))

    def is_empty(self) -> bool:
        token = self._token()
        expiry = self._cache.expiry
        if expiry.visible or self._cache.is_empty(token):
            return self._cache.is_empty(token)
        now_ms = expiry.clock()
        return all(expiry.is_expired(time_ms, now_ms) for _, (_, time_ms) in self._cache.rows(token))


def _live(cache: ExpiringList | ExpiringMap, token: Token, take: Callable[[Any, Any], Any]) -> Iterable[Any]:
    """`take(id, value)` of all elements that may be seen; those that are expired are removed."""
    rows = cache.rows(token)
    now_ms = cache.expiry.clock()
    judged = ((element_id, cache.judged(token, element_id, item, now_ms)) for element_id, item in rows)
    taken = (take(element_id, value) for element_id, value in judged if value is not ABSENT)
    return list(taken) if isinstance(rows, list) else Once(cache.name, taken)
