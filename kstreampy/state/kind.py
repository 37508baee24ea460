"""The caches of each kind of state, by declared type: with the codec that reads all that is stored of it, and with or
without a TTL.

In here: `value_cache`, `list_cache`, `map_cache`, `pane_cache`, `timeline_cache`. Not in here: the handles over them, and the
caches (`cache.py`, `list_cache.py`, `map_cache.py`, `pane.py`, `timeline.py`, `expiry.py`).

All of them give the same cache for the same name, and raise JobError when the name has another kind, type or TTL here, or
when what is stored of it cannot be read as declared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.serde.typed import Codec, codec_for
from kstreampy.state.cache import ValueCache
from kstreampy.state.expiry import ExpiringList, ExpiringMap, ExpiringValues, Expiry
from kstreampy.state.keyed import KeyedState
from kstreampy.state.list_cache import ListCache
from kstreampy.state.map_cache import MapCache
from kstreampy.state.pane import PaneCache
from kstreampy.state.stamped import StampedCodec
from kstreampy.state.store import Store
from kstreampy.state.stored_type import LIST, MAP, TIMELINE, StoredType
from kstreampy.state.timeline import TimelineCache

_E = TypeVar("_E", ExpiringValues, ExpiringList, ExpiringMap)


def value_cache(
    state: KeyedState, name: str, kind: str, type_info: TypeInformation | None, expiry: Expiry | None = None
) -> ValueCache:
    """Of a state with one value per key; an `ExpiringValues` where there is an `expiry`. `kind` is one of
    `stored_type`'s."""
    stored = StoredType.of(kind, type_info)
    if expiry is not None:
        return _expiring(state, name, stored, type_info, expiry, ExpiringValues)
    codec = _codec(state, name, stored, type_info)

    def make(store: Store, complete: bool, max_value_bytes: int) -> ValueCache:
        return ValueCache(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

    return state.cache(name, stored.encode(), ValueCache, make)


def list_cache(
    state: KeyedState, name: str, element_type: TypeInformation | None, expiry: Expiry | None = None
) -> ListCache:
    """Of a list state; an `ExpiringList` where there is an `expiry`."""
    stored = StoredType.of(LIST, element_type)
    if expiry is not None:
        return _expiring(state, name, stored, element_type, expiry, ExpiringList)
    codec = _codec(state, name, stored, element_type)

    def make(store: Store, complete: bool, max_value_bytes: int) -> ListCache:
        return ListCache(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

    return state.cache(name, stored.encode(), ListCache, make)


def map_cache(
    state: KeyedState,
    name: str,
    key_type: TypeInformation | None,
    value_type: TypeInformation | None,
    expiry: Expiry | None = None,
) -> MapCache:
    """Of a map state; an `ExpiringMap` where there is an `expiry`."""
    stored = StoredType.of(MAP, value_type, key_type)
    if expiry is not None:
        return _expiring(state, name, stored, value_type, expiry, ExpiringMap)
    codec = _codec(state, name, stored, value_type)

    def make(store: Store, complete: bool, max_value_bytes: int) -> MapCache:
        return MapCache(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

    return state.cache(name, stored.encode(), MapCache, make)


def pane_cache(
    state: KeyedState, name: str, kind: str, type_info: TypeInformation | None, begin_of: Callable[[int], int]
) -> PaneCache:
    """Of the panes of a windowed step, with one accumulator per pane and key. `kind` says how time is cut into panes,
    `begin_of` where the one with an end begins."""
    stored = StoredType.of(kind, type_info)
    codec = _codec(state, name, stored, type_info)

    def make(store: Store, complete: bool, max_value_bytes: int) -> PaneCache:
        return PaneCache(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

    cache = state.cache(name, stored.encode(), PaneCache, make)
    cache.begin_of = begin_of
    return cache


def timeline_cache(state: KeyedState, name: str, type_info: TypeInformation | None, exponent: int) -> TimelineCache:
    """Of elements by key and time, in slices of 2 ** `exponent` ms."""
    stored = StoredType.of(TIMELINE, type_info)
    codec = _codec(state, name, stored, type_info)

    def make(store: Store, complete: bool, max_value_bytes: int) -> TimelineCache:
        return TimelineCache(name, codec, store, exponent, complete=complete, max_value_bytes=max_value_bytes)

    return state.cache(name, stored.encode(), TimelineCache, make)


def _expiring(
    state: KeyedState,
    name: str,
    stored: StoredType,
    type_info: TypeInformation | None,
    expiry: Expiry,
    kind: Callable[..., _E] | type[_E],
) -> _E:
    codec = StampedCodec(_codec(state, name, stored, type_info))

    def make(store: Store, complete: bool, max_value_bytes: int) -> _E:
        return kind(expiry, name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

    cache: _E = state.cache(name, stored.encode(), kind, make)  # type: ignore[arg-type]  # a class, and its own maker
    if cache.expiry != expiry:
        raise JobError(f"state {name!r} is declared twice, with two different TTLs: give one of them another name")
    return cache


def _codec(state: KeyedState, name: str, stored: StoredType, type_info: TypeInformation | None) -> Codec:
    found = StoredType.decode(state.stored_type(name, stored.encode()))
    return codec_for(type_info) if found is None else found.codec(type_info)
