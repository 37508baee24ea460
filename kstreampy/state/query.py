"""What a task keeps by key, looked at from outside: nothing is loaded, changed or evicted by it.

In here: `Query`, and `StateQuery`, over one named state of one task. Not in here: the contents of windows
(`window_query.py`), who asks, and which task has a key (`runtime/query.py`). Values are given as JSON shows them
(`serde/json_form.py`).

Live, what was set since the last commit is laid over what was committed. Entries lie by the length of their typed key
first, so a listing, which has keys in order, merges one walk per length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import groupby, islice
from typing import Any

from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.serde.json_form import plain, plain_map
from kstreampy.serde.key import NO_KEY, from_typed_bytes, key_of, typed_bytes
from kstreampy.state.cache import Cache, ValueCache
from kstreampy.state.committed import Committed
from kstreampy.state.element import ABSENT
from kstreampy.state.element_cache import ElementCache
from kstreampy.state.expiry import Expiry
from kstreampy.state.key_range import KeyRange
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import entry_key, split_prefixed
from kstreampy.state.map_cache import MapCache, map_key

MOST_ELEMENTS = 10_000
"""Elements of lists and maps, and windows, that one answer has."""


@dataclass(frozen=True)
class Row:
    """One key and what is kept for it, as JSON shows it."""

    key: Any
    typed_key: bytes
    value: Any
    elements: int = 1
    is_cut: bool = False
    """There are more elements than `MOST_ELEMENTS`, and they are left out."""


class Query(ABC):
    """For one question: made and used between two turns of the task."""

    @abstractmethod
    def row(self, token: Token) -> Row | None:
        """What is kept for a key; None when nothing is."""

    @abstractmethod
    def walk(self, keys: KeyRange) -> Generator[Row]:
        """What is kept for the keys of the range, in their order. To be closed."""

    def rows(self, keys: KeyRange, limit: int) -> tuple[list[Row], bool]:
        """The first `limit` rows of the range, fewer where they have many elements; and whether there are more."""
        found: list[Row] = []
        left = MOST_ELEMENTS
        with closing(self.walk(keys)) as rows:
            for row in rows:
                if len(found) == limit or left <= 0:
                    return found, True
                found.append(row)
                left -= row.elements
        return found, False


class StateQuery(Query):
    """Of one state that is kept by key."""

    def __init__(self, state: KeyedState, cache: Cache, *, live: bool) -> None:
        """JobError when what the cache has is not kept by key."""
        if not isinstance(cache, ValueCache | ElementCache):
            raise JobError("it is kept by time, not by key")
        self._committed = Committed(state, cache.prefix)
        self._cache = cache
        self.prefix = cache.prefix
        self._expiry: Expiry | None = getattr(cache, "expiry", None)
        self.changed: dict[Token, None] = {}
        """What was set since the last commit, if that counts."""
        if live and isinstance(cache, ValueCache):
            self.changed = dict.fromkeys(cache.dirty)
        elif live and isinstance(cache, ElementCache):
            self.changed = dict.fromkeys(cache.changed_tokens())

    def row(self, token: Token) -> Row | None:
        typed = typed_bytes(token)
        if isinstance(self._cache, ValueCache):
            value = self.value(token, typed)
            return None if value is None else Row(shown_key(token), typed, plain(value))
        return self._elements(token, typed, self._cache)

    def typed_keys(self, keys: KeyRange) -> Generator[bytes]:
        """Of the keys of a range that may have something, in order. To be closed."""
        return walk_in_order(self._committed, keys, self._lengths(), map(typed_bytes, self.changed))

    def walk(self, keys: KeyRange) -> Generator[Row]:
        with closing(self.typed_keys(keys)) as found:
            for typed in found:
                row = self.row(from_typed_bytes(typed))
                if row is not None:
                    yield row

    # Values

    def value(self, token: Token, typed: bytes) -> Any:
        """The object itself, of a state with one value per key; None when there is none."""
        cache = self._cache
        assert isinstance(cache, ValueCache), "asked for one value"
        if token in self.changed:
            return self._unexpired(cache.entries[token])
        (data,) = self._committed.get_many([entry_key(self.prefix, typed)])
        return None if data is None else self._unexpired(cache.decoded(token, data))

    def _unexpired(self, item: Any) -> Any:
        """The value of what a cache holds, None when it is expired."""
        expiry = self._expiry
        if item is None or item is ABSENT or expiry is None:
            return None if item is ABSENT else item
        value, time_ms = item
        return None if expiry.is_expired(time_ms, expiry.clock()) else value

    def _elements(self, token: Token, typed: bytes, cache: ElementCache) -> Row | None:
        items = list(islice(self._items(token, typed, cache), MOST_ELEMENTS + 1))
        if not items:
            return None
        shown = items[:MOST_ELEMENTS]
        if isinstance(cache, MapCache):
            value = plain_map((map_key(element_id), item) for element_id, item in shown)
        else:
            value = plain([item for _, item in shown])
        return Row(shown_key(token), typed, value, len(shown), len(items) > MOST_ELEMENTS)

    def _items(self, token: Token, typed: bytes, cache: ElementCache) -> Iterator[tuple[Any, Any]]:
        """(id, value) of the elements of a key that are not expired."""
        known, is_whole = cache.peek(token) if token in self.changed else ({}, False)
        expiry = self._expiry
        now_ms = 0 if expiry is None else expiry.clock()
        base = entry_key(self.prefix, typed)
        skip = len(base)
        if not is_whole:
            with closing(self._committed.entries(base, base)) as entries:
                for key, data in entries:
                    element_id = cache.id_of_suffix(key[skip:])
                    item = known.pop(element_id, None) if element_id in known else cache.decoded(token, data)
                    if item is not ABSENT and not (expiry is not None and expiry.is_expired(item[1], now_ms)):
                        yield element_id, item if expiry is None else item[0]
        for element_id, item in known.items():
            if item is not ABSENT and not (expiry is not None and expiry.is_expired(item[1], now_ms)):
                yield element_id, item if expiry is None else item[0]

    # Keys

    def _lengths(self) -> Iterator[tuple[bytes, int]]:
        """What the entries begin with of all keys whose typed bytes have the same length, and that length."""
        at = len(self.prefix)
        raw = self._committed.first(self.prefix)
        while raw is not None:
            typed = split_prefixed(raw[at:])[0]
            base = entry_key(self.prefix, typed)[: -len(typed) or None]
            if typed:  # otherwise it is the counter of a list
                yield base, len(typed)
            raw = self._committed.first(base[:-1] + bytes((base[-1] + 1,)))


def walk_in_order(
    committed: Committed, keys: KeyRange, groups: Iterable[tuple[bytes, int]], changed: Iterable[bytes]
) -> Generator[bytes]:
    """The typed bytes of the keys of a range, in order, each once: those that are changed, and those whose entries lie in
    one of the groups, behind the group's base and with its length."""
    walks = [keys.places(partial(_stored, committed, base, length)) for base, length in groups]
    last: bytes | None = None
    try:
        for _, typed in merge(keys.chosen(changed), *walks):
            if typed != last:
                last = typed
                yield typed
    finally:
        for walk in walks:
            walk.close()  # it may have an open scan


def _stored(committed: Committed, base: bytes, length: int, least: bytes, end: bytes) -> Generator[bytes]:
    """The typed bytes of a group that lie in between."""
    skip = len(base)
    with closing(committed.entries(base, base + least)) as entries:
        for typed, _ in groupby(entries, lambda entry: entry[0][skip : skip + length]):
            if typed >= end:
                return
            if typed != NO_KEY:
                yield typed


def shown_key(token: Token) -> Any:
    try:
        return plain(key_of(token))
    except ValueError:
        return None
