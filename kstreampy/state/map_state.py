"""`MapState`: a map per key, of any size.

In here: the handle. Not in here: where its entries lie (`map_cache.py`), the same with a TTL (`ttl_state.py`), and the maps
of broadcast state (`broadcast_state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.serde.batch import Token
from kstreampy.state.element import ABSENT
from kstreampy.state.element_walk import walk
from kstreampy.state.handle import KeyScope, State, no_key
from kstreampy.state.map_cache import MapCache, id_of, map_key

K = TypeVar("K")
V = TypeVar("V")


class ReadableMap(State, Generic[K, V]):
    """What can be read of a map."""

    __slots__ = ("_cache", "_scope")

    def __init__(self, cache: MapCache, scope: KeyScope) -> None:
        self._cache = cache
        self._scope = scope

    def get(self, key: K) -> V | None:
        """The value, None when there is none (or when it is None: ask `contains`)."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        value: Any = self._cache.get(token, key if type(key) is str else id_of(key))
        if value is ABSENT:
            return None
        return value if type(value) in IMMUTABLE_TYPES else copy_value(value)  # type: ignore[no-any-return]  # the user's

    def contains(self, key: K) -> bool:
        return self._cache.get(self._token(), id_of(key)) is not ABSENT

    def items(self) -> Iterable[tuple[K, V]]:
        return walk(self._cache.name, self._cache.rows(self._token()), _item)

    def keys(self) -> Iterable[K]:
        return walk(self._cache.name, self._cache.rows(self._token()), _key)

    def values(self) -> Iterable[V]:
        return walk(self._cache.name, self._cache.rows(self._token()), _value)

    def is_empty(self) -> bool:
        return self._cache.is_empty(self._token())

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def _token(self) -> Token:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        return token


class MapState(ReadableMap[K, V]):
    """A map per key (PyFlink's `MapState`). Each entry is stored on its own: reading or writing one touches nothing of the
    others. Keys are what may be a key of a stream, and None; they are the same when their types are, too, so that 1, 1.0
    and True are three. Values may be None. What is returned and what was put belong to the caller.

    `items`, `keys` and `values` give what is there when they are called, in no particular order: a list, up to 10,000
    entries; more are read from the store as they are walked over, once. The map may be changed meanwhile."""

    __slots__ = ()

    def put(self, key: K, value: V | None) -> None:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        kept: Any = value if type(value) in IMMUTABLE_TYPES else copy_value(value)
        self._cache.put(token, key if type(key) is str else id_of(key), kept)

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Removes the entry, if there is one."""
        self._cache.remove(self._token(), id_of(key))

    def clear(self) -> None:
        self._cache.clear(self._token())

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


def _item(element_id: Token, value: Any) -> Any:
    return map_key(element_id), value if type(value) in IMMUTABLE_TYPES else copy_value(value)


def _key(element_id: Token, _: Any) -> Any:
    return map_key(element_id)


def _value(_: Token, value: Any) -> Any:
    return value if type(value) in IMMUTABLE_TYPES else copy_value(value)
