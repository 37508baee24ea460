"""State that expires: caches whose values carry the time of their last access.

In here: `Expiry`, the rules of one TTL by one clock, and the caches of values, lists and maps under it, with the sweep that
finds what nobody asks for any more. Not in here: the handles (`ttl_state.py`), the bytes (`stamped.py`).

What expired is removed by whoever finds it: a handle that reads it, or the sweep, which looks at some entries after each
checkpoint, in turn, so that the tombstones go with the next one. An entry that was stored without a time (before there was
a TTL) is given the present one when it is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes
from kstreampy.state.cache import ValueCache
from kstreampy.state.element import ABSENT, ElementCache, Elements
from kstreampy.state.layout import split_prefixed
from kstreampy.state.list_cache import ListCache
from kstreampy.state.map_cache import MapCache
from kstreampy.state.stamped import Stamped, time_of
from kstreampy.state.store import Store
from kstreampy.state.ttl import StateTtlConfig

SWEEP = 1_000
"""Entries of one state that are looked at after a checkpoint."""


@dataclass(frozen=True)
class Expiry:
    """When entries expire, what keeps them alive, and whether an expired one is seen once more."""

    ttl_ms: int
    on_read: bool
    visible: bool
    background: bool
    clock: Callable[[], int] = field(compare=False)

    @classmethod
    def of(cls, config: StateTtlConfig, clock: Callable[[], int]) -> Expiry:
        """`config` is enabled; `clock` gives the present in ms."""
        return cls(
            config.get_ttl().to_milliseconds(),
            config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            config.get_cleanup_strategies().is_cleanup_in_background(),
            clock,
        )

    def is_expired(self, time_ms: int | None, now_ms: int) -> bool:
        return time_ms is not None and time_ms + self.ttl_ms <= now_ms

    def to_stamp(self, time_ms: int | None, now_ms: int) -> bool:
        """Whether reading a live entry with this time gives it the present one."""
        return time_ms is None or (self.on_read and time_ms != now_ms)


class Sweeping:
    """What `KeyedState` asks after a checkpoint of caches whose entries expire."""

    def sweep(self, limit: int) -> None:
        """Looks at the next `limit` entries; those that are expired are removed."""
        raise NotImplementedError


class _Page:
    """Walks over all entries of a state again and again, some at a time."""

    def __init__(self, store: Store, prefix: bytes) -> None:
        self._store = store
        self._prefix = prefix
        self._least = b""
        self._in_memory: Iterator[Any] = iter(())

    def stored(self, limit: int) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(typed key, suffix, value) of the next entries in the store."""
        with self._store.scan(self._prefix, self._least) as rows:
            page = list(islice(rows, limit))
        self._least = page[-1][0] + b"\0" if len(page) == limit else b""
        skip = len(self._prefix)
        for key, data in page:
            yield *split_prefixed(key[skip:]), data

    def in_memory(self, begin: Callable[[], Iterator[Any]], limit: int) -> list[Any]:
        """The next of what `begin` walks over."""
        page = list(islice(self._in_memory, limit))
        if len(page) < limit:
            self._in_memory = begin()
        return page


class ExpiringValues(ValueCache, Sweeping):
    """A `ValueCache` of `Stamped` values."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._page = _Page(self._store, self.prefix)

    def set(self, token: Token, value: Stamped | None) -> None:
        self.entries[token] = value
        self.dirty.add(token)

    def live(self, token: Token, *, read: bool) -> Any:
        """The value of a key, None when there is none or it is expired: then it is removed. `read`: the user sees it, so
        that it may count as an access, or show an expired value once."""
        item = self.fetch(token)
        if item is None:
            return None
        value, time_ms = item
        expiry = self.expiry
        now_ms = expiry.clock()
        if expiry.is_expired(time_ms, now_ms):
            self.set(token, None)
            return value if read and expiry.visible else None
        if time_ms is None or (read and expiry.to_stamp(time_ms, now_ms)):
            self.set(token, (value, now_ms))
        return value

    def sweep(self, limit: int) -> None:
        if not self.expiry.background:
            return
        now_ms = self.expiry.clock()
        if self.complete:
            for token in self._page.in_memory(lambda: iter(list(self.entries)), limit):
                self._look_at(token, now_ms, None)
            return
        for typed_key, _, data in self._page.stored(limit):
            self._look_at(from_typed_bytes(typed_key), now_ms, data)

    def _look_at(self, token: Token, now_ms: int, data: bytes | None) -> None:
        """`data`: what the store has; memory knows better."""
        is_known = token in self.entries
        item = self.entries[token] if is_known else self._old.get(token)
        if item is None and (is_known or data is None):
            return
        time_ms = item[1] if item is not None else time_of(data or b"")
        if self.expiry.is_expired(time_ms, now_ms):
            self.set(token, None)
        elif time_ms is None:
            found = self.fetch(token)
            if found is not None:
                self.set(token, (found[0], now_ms))


class _ExpiringElements(ElementCache, Sweeping):
    """An `ElementCache` of `Stamped` values."""

    expiry: Expiry
    _page: _Page

    def live(self, token: Token, element_id: Any, now_ms: int) -> Any:
        """An element's value for the user, `ABSENT` when there is none or it is expired: then it is removed."""
        return self.judged(token, element_id, self.get(token, element_id), now_ms)

    def judged(self, token: Token, element_id: Any, item: Any, now_ms: int) -> Any:
        """As `live`, of what was read already."""
        if item is ABSENT:
            return ABSENT
        value, time_ms = item
        expiry = self.expiry
        if expiry.is_expired(time_ms, now_ms):
            self.remove(token, element_id)
            return value if expiry.visible else ABSENT
        if expiry.to_stamp(time_ms, now_ms):
            self.put(token, element_id, (value, now_ms))
        return value

    def sweep(self, limit: int) -> None:
        if not self.expiry.background:
            return
        now_ms = self.expiry.clock()
        if self.complete:
            for token, element_id in self._page.in_memory(self._all_in_memory, limit):
                self._look_at(token, self._young.get(token), element_id, now_ms, None)
            return
        for typed_key, suffix, data in self._page.stored(limit):
            if typed_key:  # the counter of a list has none
                token = from_typed_bytes(typed_key)
                elements = self._young.get(token) or self._old.get(token)
                self._look_at(token, elements, self._id(suffix), now_ms, data)

    def _all_in_memory(self) -> Iterator[tuple[Token, Any]]:
        for token in list(self._young):
            elements = self._young.get(token)
            if elements is not None:
                for element_id in list(elements.known):
                    yield token, element_id

    def _look_at(
        self, token: Token, elements: Elements | None, element_id: Any, now_ms: int, data: bytes | None
    ) -> None:
        """`data`: what the store has; memory knows better."""
        item = None if elements is None else elements.known.get(element_id)
        if item is ABSENT or (item is None and (data is None or (elements is not None and elements.whole))):
            return
        time_ms = item[1] if item is not None else time_of(data or b"")
        if self.expiry.is_expired(time_ms, now_ms):
            self.remove(token, element_id)
        elif time_ms is None:
            found = self.get(token, element_id)
            if found is not ABSENT:
                self.put(token, element_id, (found[0], now_ms))


class ExpiringList(_ExpiringElements, ListCache):
    """A `ListCache` of `Stamped` elements."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._page = _Page(self._store, self.prefix)


class ExpiringMap(_ExpiringElements, MapCache):
    """A `MapCache` of `Stamped` values."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._page = _Page(self._store, self.prefix)
