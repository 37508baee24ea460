"""What a task keeps by key, looked at from outside: nothing is loaded, changed or evicted by it.

In here: `StateQuery`, over one named state of one task, and `KeyRange`. Not in here: who asks, and which task has a key
(`runtime/query.py`). Values are given as JSON shows them (`serde/json_form.py`).

What was committed last is the store with what waits for it laid over (`KeyedState.behind`); live, what was set since is
laid over that. Keys are in the order of their text if they are str, behind them int by their number, behind them all others
by their typed bytes. Entries lie by the length of their typed key first, so a listing merges one walk per length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from typing import Any, TypeAlias

from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.serde.json_form import plain, plain_map
from kstreampy.serde.key import NO_KEY, from_typed_bytes, key_of, typed_bytes
from kstreampy.state.cache import Cache, ValueCache
from kstreampy.state.element import ABSENT, ElementCache
from kstreampy.state.expiry import Expiry
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import entry_key, split_prefixed
from kstreampy.state.map_cache import MapCache, map_key

MOST_ELEMENTS = 10_000
"""Elements of lists and maps that one answer has."""

Place: TypeAlias = tuple[int, Any, bytes]
"""Where a key stands in the order of keys."""

_TEXT, _NUMBER, _OTHER = range(3)
_Places: TypeAlias = Generator[tuple[Place, bytes]]


def place_of(typed_key: bytes) -> Place:
    """Where the key with these typed bytes stands. ValueError when they are not a key's."""
    token = from_typed_bytes(typed_key)
    if isinstance(token, str):
        return _TEXT, token, b""
    if typed_key[:1] == b"i":
        return _NUMBER, token, b""
    return _OTHER, len(typed_key), typed_key


@dataclass(frozen=True)
class KeyRange:
    """Which keys a listing has: all, or those that are str, or int, within bounds, the bounds among them."""

    prefix: str | None = None
    least: str | int | None = None
    most: str | int | None = None
    after: bytes | None = None
    """Typed bytes: only keys that stand behind this one."""

    def kind(self) -> int | None:
        """Which keys it is about; None: all."""
        if self.prefix is not None:
            return _TEXT
        bound = self.most if self.least is None else self.least
        return None if bound is None else _TEXT if isinstance(bound, str) else _NUMBER

    def floor(self) -> Place:
        """No key of the range stands before this."""
        kind = self.kind()
        bounds = [bound for bound in (self.prefix, self.least) if bound is not None]
        floor: Place = (_TEXT, "", b"")
        if kind is not None:
            floor = (kind, max(bounds, default="" if kind == _TEXT else -(2**63)), b"")
        return floor if self.after is None else max(floor, place_of(self.after))

    def ends_before(self, place: Place) -> bool:
        """Whether all of the range stands before a place that is not before its floor."""
        kind = self.kind()
        if kind is None:
            return False
        if place[0] != kind or (self.most is not None and place[1] > self.most):
            return True
        return self.prefix is not None and not place[1].startswith(self.prefix)


ALL_KEYS = KeyRange()


@dataclass(frozen=True)
class Row:
    """One key and what is kept for it, as JSON shows it."""

    key: Any
    typed_key: bytes
    value: Any
    elements: int = 1
    is_cut: bool = False
    """There are more elements than `MOST_ELEMENTS`, and they are left out."""


class StateQuery:
    """Of one state, for one question: made and used between two turns of the task."""

    def __init__(self, state: KeyedState, cache: Cache, *, live: bool) -> None:
        """JobError when what the cache has is not kept by key."""
        if not isinstance(cache, ValueCache | ElementCache):
            raise JobError("it is kept by time, not by key")
        self._store = state.store
        self._cache = cache
        self._prefix = cache.prefix
        self._expiry: Expiry | None = getattr(cache, "expiry", None)
        self._behind = state.behind
        self._behind_keys = sorted(key for key in state.behind if key.startswith(cache.prefix))
        self._changed: dict[Token, None] = {}
        if live and isinstance(cache, ValueCache):
            self._changed = dict.fromkeys(cache.dirty)
        elif live and isinstance(cache, ElementCache):
            self._changed = dict.fromkeys(cache.changed_tokens())

    def row(self, token: Token) -> Row | None:
        """What is kept for a key; None when nothing is."""
        typed = typed_bytes(token)
        if isinstance(self._cache, ValueCache):
            value = self._value(token, typed)
            return None if value is None else Row(_shown_key(token), typed, plain(value))
        return self._elements(token, typed, self._cache)

    def rows(self, keys: KeyRange, limit: int) -> tuple[list[Row], bool]:
        """The first `limit` rows of the range, fewer where they have many elements; and whether there may be more."""
        found: list[Row] = []
        left = MOST_ELEMENTS
        with closing(self._places(keys)) as places:
            for _, typed in places:
                if len(found) == limit or left <= 0:
                    return found, True
                row = self.row(from_typed_bytes(typed))
                if row is not None:
                    found.append(row)
                    left -= row.elements
        return found, False

    # Values

    def _value(self, token: Token, typed: bytes) -> Any:
        cache = self._cache
        assert isinstance(cache, ValueCache), "asked for one value"
        if token in self._changed:
            return self._unexpired(cache.entries[token])
        key = entry_key(self._prefix, typed)
        data = self._behind[key] if key in self._behind else self._store.get_many([key])[0]
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
        return Row(_shown_key(token), typed, value, len(shown), len(items) > MOST_ELEMENTS)

    def _items(self, token: Token, typed: bytes, cache: ElementCache) -> Iterator[tuple[Any, Any]]:
        """(id, value) of the elements of a key that are not expired."""
        known, is_whole = cache.peek(token) if token in self._changed else ({}, False)
        expiry = self._expiry
        now_ms = 0 if expiry is None else expiry.clock()
        base = entry_key(self._prefix, typed)
        skip = len(base)
        if not is_whole:
            with closing(self._entries(base, base)) as entries:
                for key, data in entries:
                    element_id = cache.id_of_suffix(key[skip:])
                    item = known.pop(element_id, None) if element_id in known else cache.decoded(token, data)
                    if item is not ABSENT and not (expiry is not None and expiry.is_expired(item[1], now_ms)):
                        yield element_id, item if expiry is None else item[0]
        for element_id, item in known.items():
            if item is not ABSENT and not (expiry is not None and expiry.is_expired(item[1], now_ms)):
                yield element_id, item if expiry is None else item[0]

    # Keys

    def _places(self, keys: KeyRange) -> _Places:
        """The keys of a range in order, those that may have something."""
        floor = keys.floor()
        walks = [self._walk(group, keys, floor) for group in self._groups(keys.kind(), floor)]
        changed = sorted(
            (place, typed) for typed in map(typed_bytes, self._changed) if (place := place_of(typed)) >= floor
        )
        walks.append(self._bounded(iter(changed), keys))
        last: bytes | None = None
        try:
            for place, typed in merge(*walks):
                if typed != last:
                    last = typed
                    yield place, typed
        finally:
            for walk in walks:
                walk.close()  # it may have an open scan

    def _bounded(self, places: Iterator[tuple[Place, bytes]], keys: KeyRange) -> _Places:
        for place, typed in places:
            if keys.ends_before(place):
                return
            if typed != keys.after:
                yield place, typed

    def _groups(self, kind: int | None, floor: Place) -> Iterator[tuple[bytes, bytes, bytes]]:
        """Parts of the entries of which each has its keys in order: what the raw keys begin with; and the typed bytes of the
        keys, from the least to those behind the last."""
        raw = self._first(self._prefix)
        while raw is not None:
            typed = split_prefixed(raw[len(self._prefix) :])[0]
            base = entry_key(self._prefix, typed)[: -len(typed)]
            tag = typed[:1]
            if not typed:  # the counter of a list
                raw = self._first(_behind_all(raw))
                continue
            if typed == NO_KEY:
                pass
            elif tag == b"s" and kind in (None, _TEXT) and floor[0] == _TEXT:
                yield base, max(b"s", typed_bytes(floor[1])), b"t"
            elif tag == b"i" and kind in (None, _NUMBER) and floor[0] <= _NUMBER:
                least = floor[1] if floor[0] == _NUMBER else -(2**63)
                if least < 0:
                    yield base, typed_bytes(least), b"j"
                yield base, typed_bytes(max(least, 0)), b"i\x80"
            elif tag not in (b"s", b"i") and kind is None:
                yield base, tag, _behind_all(tag)
            raw = self._first(base + _behind_all(tag))

    def _first(self, least: bytes) -> bytes | None:
        """The first raw key of the state from here on; it may be one that was removed."""
        at = bisect_left(self._behind_keys, least)
        stored = self._store.first_key(self._prefix, least)
        found = [key for key in (stored, *self._behind_keys[at : at + 1]) if key is not None]
        return min(found, default=None)

    def _walk(self, group: tuple[bytes, bytes, bytes], keys: KeyRange, floor: Place) -> _Places:
        base, least, past = group
        return self._bounded(self._stored(base, least, past, floor), keys)

    def _stored(self, base: bytes, least: bytes, past: bytes, floor: Place) -> _Places:
        skip = len(self._prefix)
        with closing(self._entries(base, base + least)) as entries:
            for typed, _ in groupby(entries, lambda entry: split_prefixed(entry[0][skip:])[0]):
                if typed >= past:
                    return
                place = place_of(typed)
                if place >= floor:
                    yield place, typed

    def _entries(self, prefix: bytes, least: bytes) -> Generator[tuple[bytes, bytes]]:
        """The committed entries whose raw keys begin with `prefix`, from `least` on, ascending."""
        behind = self._behind
        keys = self._behind_keys
        at = bisect_left(keys, least)
        with self._store.scan(prefix, least) as rows:
            for key, data in rows:
                while at < len(keys) and keys[at] < key:
                    waiting = behind[keys[at]]
                    if waiting is not None:
                        yield keys[at], waiting
                    at += 1
                if at < len(keys) and keys[at] == key:
                    continue  # the newer one follows
                yield key, data
        while at < len(keys) and keys[at].startswith(prefix):
            waiting = behind[keys[at]]
            if waiting is not None:
                yield keys[at], waiting
            at += 1


def _behind_all(prefix: bytes) -> bytes:
    """The least bytes behind all that begin with this; its last byte is below 0xff."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def _shown_key(token: Token) -> Any:
    try:
        return plain(key_of(token))
    except ValueError:
        return None
