"""State that expires: caches whose values carry the time of their last access.

In here: `Expiry`, the rules of one TTL by one clock, and the caches of values, lists and maps under it, with the sweep that
finds what nobody asks for any more. Not in here: the handles (`ttl_state.py`), the bytes (`stamped.py`).

What expired is removed by whoever finds it: a handle that reads it, or the sweep, which looks at some entries at each
checkpoint, in turn, so that the tombstones go with the next one. Once a round through all of them has ended, it rests until
the first of them can expire. An entry that was stored without a time (before there was
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
from kstreampy.state.element import ABSENT, Elements
from kstreampy.state.element_cache import ElementCache
from kstreampy.state.layout import split_prefixed
from kstreampy.state.list_cache import ListCache
from kstreampy.state.map_cache import MapCache
from kstreampy.state.stamped import Stamped, time_of
from kstreampy.state.store import Store
from kstreampy.state.ttl import StateTtlConfig

SWEEP = 1_000
"""Entries of one state that are looked at at a checkpoint."""


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
    """What `KeyedState` asks at a checkpoint of caches whose entries expire."""

    expiry: Expiry
    complete: bool
    _round: _Round

    def sweep(self, limit: int) -> bool:
        """Looks at the next `limit` entries; those that are expired are removed. True if there is something to write."""
        now_ms = self.expiry.clock()
        if self.expiry.background and self._round.begin(now_ms, self.complete):
            self._look(limit, now_ms)
        return self._has_changes()

    def _look(self, limit: int, now_ms: int) -> None:
        raise NotImplementedError

    def _has_changes(self) -> bool:
        raise NotImplementedError


class _Round:
    """A walk over all entries of a state, some at a time, again and again. Between two rounds there is rest: until the
    earliest of the entries that were seen can expire. One that the store did not have yet is found by the next round."""

    def __init__(self, store: Store, prefix: bytes, ttl_ms: int) -> None:
        self._store = store
        self._prefix = prefix
        self._ttl_ms = ttl_ms
        self.reset()

    def reset(self) -> None:
        """The state is another: everything is to be looked at."""
        self._least = b""
        self._in_memory: Iterator[Any] | None = None
        self._is_of_memory: bool | None = None
        """Of the round that is under way; None between two."""
        self._rests_until_ms: int | None = None
        self._earliest_ms = 0

    def begin(self, now_ms: int, complete: bool) -> bool:
        """Begins the next round, if none is under way and it is time; `complete`: all entries are in memory. False while it
        rests."""
        if self._is_of_memory is complete:
            return True
        if self._is_of_memory is None and self._rests_until_ms is not None and now_ms < self._rests_until_ms:
            return False
        self._least = b""
        self._in_memory = None
        self._is_of_memory = complete
        self._earliest_ms = now_ms
        return True

    def lives(self, time_ms: int | None) -> None:
        """An entry of this time was looked at, and stays; None: nothing is known of one."""
        if time_ms is not None and time_ms < self._earliest_ms:
            self._earliest_ms = time_ms

    def end(self) -> None:
        self._is_of_memory = None
        self._rests_until_ms = self._earliest_ms + self._ttl_ms

    def stored(self, limit: int) -> Iterator[tuple[bytes, bytes, bytes]]:
        """(typed key, suffix, value) of the next entries in the store; behind the last of all, the round ends."""
        with self._store.scan(self._prefix, self._least) as rows:
            page = list(islice(rows, limit))
        skip = len(self._prefix)
        for key, data in page:
            yield *split_prefixed(key[skip:]), data
        if len(page) < limit:
            self.end()
        else:
            self._least = page[-1][0] + b"\0"

    def in_memory(self, entries: Callable[[], Iterator[Any]], limit: int) -> Iterator[Any]:
        """The next of what `entries` walked over as the round began; behind the last of all, the round ends."""
        if self._in_memory is None:
            self._in_memory = entries()
        page = list(islice(self._in_memory, limit))
        yield from page
        if len(page) < limit:
            self.end()


class ExpiringValues(ValueCache, Sweeping):
    """A `ValueCache` of `Stamped` values."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._round = _Round(self._store, self.prefix, expiry.ttl_ms)

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

    def forget(self, *, complete: bool) -> None:
        super().forget(complete=complete)
        self._round.reset()

    def _look(self, limit: int, now_ms: int) -> None:
        lives = self._round.lives
        if self.complete:
            for token in self._round.in_memory(lambda: iter(list(self.entries)), limit):
                lives(self._look_at(token, now_ms, None))
            return
        for typed_key, _, data in self._round.stored(limit):
            lives(self._look_at(from_typed_bytes(typed_key), now_ms, data))

    def _look_at(self, token: Token, now_ms: int, data: bytes | None) -> int | None:
        """The time of what stays. `data`: what the store has; memory knows better."""
        is_known = token in self.entries
        item = self.entries[token] if is_known else self._old.get(token)
        if item is None and (is_known or data is None):
            return None
        time_ms = item[1] if item is not None else time_of(data or b"")
        if self.expiry.is_expired(time_ms, now_ms):
            self.set(token, None)
            return None
        if time_ms is None:
            found = self.fetch(token)
            if found is not None:
                self.set(token, (found[0], now_ms))
        return time_ms

    def _has_changes(self) -> bool:
        return bool(self.dirty)


class _ExpiringElements(ElementCache, Sweeping):
    """An `ElementCache` of `Stamped` values."""

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

    def forget(self, *, complete: bool) -> None:
        super().forget(complete=complete)
        self._round.reset()

    def _look(self, limit: int, now_ms: int) -> None:
        lives = self._round.lives
        if self.complete:
            for token, element_id in self._round.in_memory(self._all_in_memory, limit):
                lives(self._look_at(token, self._young.get(token), element_id, now_ms, None))
            return
        for typed_key, suffix, data in self._round.stored(limit):
            if typed_key:  # the counter of a list has none
                token = from_typed_bytes(typed_key)
                elements = self._young.get(token) or self._old.get(token)
                lives(self._look_at(token, elements, self._id(suffix), now_ms, data))

    def _has_changes(self) -> bool:
        return bool(self._dirty)

    def _all_in_memory(self) -> Iterator[tuple[Token, Any]]:
        for token in list(self._young):
            elements = self._young.get(token)
            if elements is not None:
                for element_id in list(elements.known):
                    yield token, element_id

    def _look_at(
        self, token: Token, elements: Elements | None, element_id: Any, now_ms: int, data: bytes | None
    ) -> int | None:
        """The time of what stays. `data`: what the store has; memory knows better."""
        item = None if elements is None else elements.known.get(element_id)
        if item is ABSENT or (item is None and (data is None or (elements is not None and elements.whole))):
            return None
        time_ms = item[1] if item is not None else time_of(data or b"")
        if self.expiry.is_expired(time_ms, now_ms):
            self.remove(token, element_id)
            return None
        if time_ms is None:
            found = self.get(token, element_id)
            if found is not ABSENT:
                self.put(token, element_id, (found[0], now_ms))
        return time_ms


class ExpiringList(_ExpiringElements, ListCache):
    """A `ListCache` of `Stamped` elements."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._round = _Round(self._store, self.prefix, expiry.ttl_ms)


class ExpiringMap(_ExpiringElements, MapCache):
    """A `MapCache` of `Stamped` values."""

    def __init__(self, expiry: Expiry, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.expiry = expiry
        self._round = _Round(self._store, self.prefix, expiry.ttl_ms)
