"""The accumulators of windows, by pane: slices of event time that lie one after the other, each with an entry per key.

In here: `PaneCache`, the panes of one state in front of the store. Not in here: which panes there are for which windows, and
how they are combined (`operators/pane.py`).

A pane's entries lie together in the store (`layout.pane_prefix`), so that what closes a pane reads a range and looks up
nothing, and a pane that comes and goes between two checkpoints is never written at all. A pane in memory is complete, or
its misses are read once per batch, or the whole of it by one scan. Which panes there are is found by seeking from pane to
pane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from sys import getsizeof
from typing import Any, Protocol

from kstreampy.errors import JobError
from kstreampy.serde.batch import MAX_WATERMARK, Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.cache import MAX_VALUE_BYTES
from kstreampy.state.encoding import encode_entries, shown_key
from kstreampy.state.layout import name_prefix, pane_end, pane_prefix
from kstreampy.state.object_size import object_bytes
from kstreampy.state.store import Entry, Store

Chunk = tuple[list[Token], list[Any]]
"""Keys and their accumulators."""

_CHUNK = 10_000
_SAMPLE = 32
_FIRST_GUESS_BYTES = 120.0
_SLOT_BYTES = 50
"""What an entry takes in a dict, about."""


class Pane:
    """One slice of time. Its owner sets `entries[token]` and adds the token to `dirty`."""

    __slots__ = ("complete", "dirty", "end", "entries", "stored", "used")

    def __init__(self, end: int, *, complete: bool) -> None:
        self.end = end
        """Event time, ms, exclusive."""
        self.entries: dict[Token, Any] = {}
        """Token → accumulator, in the order in which they came; None is none."""
        self.dirty: set[Token] = set()
        """Tokens whose accumulator differs from the store's; each of them is in `entries`."""
        self.stored: set[Token] = set()
        """Tokens in `entries` that have an entry in the changelog, and so leave a tombstone."""
        self.complete = complete
        """All there is of the pane is in `entries`."""
        self.used = 0
        """When it was last asked for, in asks."""


class Derived(Protocol):
    """What an operator has made of panes and keeps, to be made again from them at any time."""

    def __len__(self) -> int: ...

    def clear(self) -> None: ...


class PaneCache:
    """The panes of one state (a `cache.Cache`). Lives as long as its task is open; used by the driver's thread."""

    def __init__(
        self,
        name: str,
        codec: Codec,
        store: Store,
        *,
        complete: bool = False,
        max_value_bytes: int = MAX_VALUE_BYTES,
    ) -> None:
        """`complete`: the store holds no entry of this state."""
        self.name = name
        self.prefix = name_prefix(name)
        self.begin_of: Callable[[int], int]
        """Where the pane with an end begins, in ms: for those who look at state from outside. Set by `kind.pane_cache`."""
        self.derived: Derived | None = None
        """Counts as memory, and is cleared with the rest."""
        self._codec = codec
        self._store = store
        self._max_value_bytes = max_value_bytes
        self._panes: dict[int, Pane] = {}
        self._found = complete
        self._removed: set[bytes] = set()
        self._asks = 0
        self._entry_bytes = _FIRST_GUESS_BYTES
        self._written_bytes = _FIRST_GUESS_BYTES
        self._sample_dirty_at = 1

    # Reading and writing.

    def panes(self) -> dict[int, Pane]:
        """All panes that have entries, by their end; in no order. The cache's own: good until the next commit."""
        if not self._found:
            self._find()
        return self._panes

    def _find(self) -> None:
        self._found = True
        least = self.prefix
        while (key := self._store.first_key(self.prefix, least)) is not None:
            end = pane_end(self.prefix, key)
            self._panes[end] = Pane(end, complete=False)
            if end == MAX_WATERMARK:
                return
            least = pane_prefix(self.prefix, end + 1)

    def ends(self) -> set[int]:
        """Of all panes that have entries now or had at the last commit."""
        at = len(self.prefix)
        return {*self.panes(), *(pane_end(b"", end) for end in {key[at : at + 8] for key in self._removed})}

    def pane(self, end: int) -> Pane:
        """The pane with this end, a new one if there is none."""
        pane = self.panes().get(end)
        if pane is None:
            pane = self._panes[end] = Pane(end, complete=True)
        self._asks += 1
        pane.used = self._asks
        return pane

    def read(self, pane: Pane, tokens: Iterable[Token]) -> None:
        """Brings what there is for these tokens into `entries`, with at most one read of the store."""
        if pane.complete:
            return
        missing = set(tokens).difference(pane.entries)
        if not missing:
            return
        prefix = pane_prefix(self.prefix, pane.end)
        ascending = sorted((prefix + typed_bytes(token), token) for token in missing)
        found = self._store.get_many([key for key, _ in ascending])
        for (_, token), data in zip(ascending, found, strict=True):
            if data is not None:
                pane.entries[token] = self.decoded(token, data)
                pane.stored.add(token)

    def whole(self, pane: Pane) -> dict[Token, Any]:
        """All entries of the pane, brought into memory by one scan of its range where they are not."""
        if not pane.complete:
            entries, stored = pane.entries, pane.stored
            for _, tokens, values in self._scan(pane):
                entries.update(zip(tokens, values, strict=True))
                stored.update(tokens)
            pane.complete = True
        return pane.entries

    def chunks(self, pane: Pane, *, remove: bool) -> Iterator[Chunk]:
        """All entries of the pane, some thousand at a time, without bringing them into memory. With `remove` the pane is
        gone when all were taken."""
        entries = pane.entries
        if len(entries) <= _CHUNK:
            yield list(entries), list(entries.values())
        else:
            items = iter(entries.items())
            while some := list(islice(items, _CHUNK)):
                yield [token for token, _ in some], [value for _, value in some]
        if not pane.complete:
            for keys, tokens, values in self._scan(pane):
                if remove:
                    self._removed.update(keys)
                yield tokens, values
        if remove:
            self._forget_pane(pane)

    def remove(self, pane: Pane) -> None:
        """The pane is gone, with all its entries."""
        if not pane.complete:
            for keys, _, _ in self._scan(pane, decode=False):
                self._removed.update(keys)
        self._forget_pane(pane)

    def _forget_pane(self, pane: Pane) -> None:
        if pane.stored:
            prefix = pane_prefix(self.prefix, pane.end)
            self._removed.update([prefix + typed_bytes(token) for token in pane.stored])
        del self._panes[pane.end]

    def _scan(self, pane: Pane, *, decode: bool = True) -> Iterator[tuple[list[bytes], list[Token], list[Any]]]:
        """What the store has of the pane and memory has not: raw keys, tokens and accumulators, some thousand at a time."""
        prefix = pane_prefix(self.prefix, pane.end)
        at = len(prefix)
        known = pane.entries
        with self._store.scan(prefix) as rows:
            while some := list(islice(rows, _CHUNK)):
                fresh = [(key, from_typed_bytes(key[at:]), data) for key, data in some]
                fresh = [row for row in fresh if row[1] not in known]
                values = [self.decoded(token, data) for _, token, data in fresh] if decode else []
                yield [key for key, _, _ in fresh], [token for _, token, _ in fresh], values

    def decoded(self, token: Token, data: bytes) -> Any:
        """The accumulator of stored bytes. JobError when they cannot be read as declared."""
        try:
            return self._codec.decode(data)
        except Exception as error:
            raise JobError(
                f"state {self.name!r}: what is stored for key {shown_key(token)} cannot be read ({error}). "
                "If the type of the accumulator was changed, change it back or give the step another uid"
            ) from error

    # What `cache.Cache` asks for.

    def load(self, tokens: Iterable[Token]) -> None:
        """Nothing: which panes a batch needs is known by its timestamps, not by its keys."""

    def encode_dirty(self) -> list[Entry]:
        """The accumulators that differ from the store's, as bytes, and tombstones for the entries of panes that are gone;
        the same again until `committed`. JobError for one that its type cannot encode, or that is too large."""
        entries: list[Entry] = [(key, None) for key in self._removed]
        written = 0
        for pane in self._panes.values():
            if pane.dirty:
                some = self._encode(pane, list(pane.dirty))
                written += sum(len(key) + (0 if data is None else len(data)) for key, data in some)
                entries += some
        dirty = len(entries) - len(self._removed)
        if dirty:
            self._written_bytes = written / dirty
        return entries

    def _encode(self, pane: Pane, tokens: list[Token]) -> list[Entry]:
        values = list(map(pane.entries.get, tokens))
        prefix = pane_prefix(self.prefix, pane.end)
        keys = [prefix + typed_bytes(token) for token in tokens]
        return encode_entries(self.name, self._codec, tokens, keys, values, None, self._max_value_bytes)

    def committed(self) -> None:
        """The entries that `encode_dirty` gave are in the store; nothing was set since."""
        for pane in self._panes.values():
            if pane.dirty:
                self._sample(pane)
                pane.stored = pane.stored | pane.dirty if pane.stored else pane.dirty
                pane.dirty = set()
        self._removed = set()
        self._sample_dirty_at = 1

    def _sample(self, pane: Pane) -> None:
        tokens = list(islice(pane.dirty, _SAMPLE))
        sizes = [object_bytes(token) + object_bytes(pane.entries.get(token)) for token in tokens]
        self._entry_bytes = sum(sizes) / len(sizes)

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give; cheap enough for once per turn."""
        count = sum([len(pane.dirty) for pane in self._panes.values()])
        if count >= self._sample_dirty_at:
            self._sample_dirty_at = 2 * count
            self._sample_written()
        return int(count * self._written_bytes) + len(self._removed) * (len(self.prefix) + 20)

    def _sample_written(self) -> None:
        pane = max(self._panes.values(), key=lambda pane: len(pane.dirty))
        some = self._encode(pane, list(islice(pane.dirty, _SAMPLE)))
        self._written_bytes = sum(len(key) + len(data or b"") for key, data in some) / len(some)

    def size_bytes(self) -> int:
        """About how much memory the objects take, from samples."""
        size = sum(map(self._bytes_of, self._panes.values())) + sum(map(len, self._removed))
        if self.derived is not None:
            size += int(len(self.derived) * (self._entry_bytes + _SLOT_BYTES))
        return size

    def _bytes_of(self, pane: Pane) -> int:
        tables = getsizeof(pane.entries) + getsizeof(pane.stored) + getsizeof(pane.dirty)
        return int(len(pane.entries) * self._entry_bytes) + tables

    def evict(self, target_bytes: int) -> None:
        """Forgets what is not dirty until about `target_bytes` are left: the panes not used of late first, then what was
        derived from them. Only after a commit."""
        excess = self.size_bytes() - target_bytes
        for pane in sorted(self._panes.values(), key=lambda pane: pane.used):
            if excess <= 0:
                return
            if pane.entries and not pane.dirty:
                per_entry = self._bytes_of(pane) / len(pane.entries)
                excess -= int(_drop(pane, int(excess / per_entry) + 1) * per_entry)
        if excess > 0 and self.derived is not None:
            self.derived.clear()

    def forget(self, *, complete: bool) -> None:
        """Drops all panes, dirty entries too: the store is the truth again. `complete`: it has no entry of this state."""
        self._panes = {}
        self._found = complete
        self._removed = set()
        self._sample_dirty_at = 1
        if self.derived is not None:
            self.derived.clear()


def _drop(pane: Pane, count: int) -> int:
    """Forgets `count` entries of a clean pane, those that came first, or all; returns how many."""
    before = len(pane.entries)
    pane.entries = dict(islice(pane.entries.items(), count, None))
    pane.stored = pane.stored.intersection(pane.entries)  # the others are found in the store
    pane.complete = False
    return before - len(pane.entries)
