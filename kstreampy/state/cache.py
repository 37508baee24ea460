"""The objects of one named state of one task, in front of the store: read when asked for, written once per
checkpoint.

In here: `ValueCache`, the hot path's dict with its dirty set. Not in here: the store, and the several states
of a task with what they share (`keyed.py`).

How an operator uses it, once per batch:

    cache.load(tokens)
    entries = cache.entries          # after each load: eviction puts another dict in its place
    value = entries.get(token)       # None: there is none
    entries[token] = new             # None: remove it
    cache.touch(tokens)              # all tokens that were set

Entries move between two generations. What `load` finds only in the old one it moves to the young one, so that
the old one's entries are those not used of late; they go first, oldest first. This approximates LRU without
any work per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any, Protocol

from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.encoding import decoded_otherwise, encode_entries, encode_error
from kstreampy.state.layout import entry_key, entry_keys, name_prefix, split_prefixed
from kstreampy.state.object_size import object_bytes
from kstreampy.state.store import Entry, Store

MAX_VALUE_BYTES = 1_000_000
"""The largest entry, key and value together: below the 1 MiB that a broker takes by default."""

_KNOWN_KEYS = 50_000
_SAMPLE = 32
_FIRST_GUESS_BYTES = 120.0


class Cache(Protocol):
    """What `KeyedState` asks of the objects of one named state, whatever their shape (`ValueCache` has one value per key)."""

    def load(self, tokens: Iterable[Token]) -> None:
        """The records of a batch have these keys: what they will need may be read now, at once."""
        ...

    def encode_dirty(self) -> list[Entry]:
        """The entries that differ from the store's, as bytes, each key once; the same again until `committed`."""
        ...

    def committed(self) -> None:
        """The entries that `encode_dirty` gave are in the store; nothing was set since."""
        ...

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give; cheap enough for once per turn."""
        ...

    def size_bytes(self) -> int:
        """About how much memory the objects take."""
        ...

    def evict(self, target_bytes: int) -> None:
        """Forgets what is not dirty until about `target_bytes` are left. Called only after a commit."""
        ...

    def forget(self, *, complete: bool) -> None:
        """Drops everything, dirty entries too: the store is the truth again. `complete`: it has no entry of this state."""
        ...


class ValueCache:
    """One value per key. Lives as long as its task is open; used by the driver's thread."""

    def __init__(
        self,
        name: str,
        codec: Codec,
        store: Store,
        *,
        complete: bool = False,
        max_value_bytes: int = MAX_VALUE_BYTES,
    ) -> None:
        """`complete`: the store holds no entry of this state, so what is not in `entries` does not exist."""
        self.name = name
        self.prefix = name_prefix(name)
        self.entries: dict[Token, Any] = {}
        """Token → value; None is a value known to be absent. What is in here and was evicted comes back by
        `load`."""
        self.dirty: set[Token] = set()
        """Tokens whose value differs from the store's; each of them is in `entries`."""
        self.complete = complete
        self._old: dict[Token, Any] = {}
        self._codec = codec
        self._store = store
        self._max_value_bytes = max_value_bytes
        self._removed: list[Token] = []
        self._keys = _EntryKeys(self.prefix)
        self._entry_bytes = _FIRST_GUESS_BYTES
        self._sampled = False
        self._written_bytes = _FIRST_GUESS_BYTES
        self._sample_dirty_at = 1

    def load(self, tokens: Iterable[Token]) -> None:
        """Brings the values of all tokens into `entries`, with at most one read of the store. While
        `complete`, absent ones are left out."""
        if self.complete:
            return
        missing = set(tokens).difference(self.entries)
        if not missing:
            return
        if self._old:
            old = self._old
            found = [token for token in missing if token in old]  # `missing & old` would walk all of `old`
            self.entries.update([(token, old.pop(token)) for token in found])
            missing.difference_update(found)
        if missing:
            self._read(missing)

    def fetch(self, token: Token) -> Any:
        """The value of one token, loaded if need be; None when there is none. The cache's own object, not a
        copy."""
        value = self.entries.get(token)
        if value is None and not self.complete and token not in self.entries:
            self.load((token,))
            return self.entries[token]
        return value

    def touch(self, tokens: Iterable[Token]) -> None:
        """These tokens were set in `entries`. Between checkpoints a busy key space soon is dirty as a whole: then there is
        nothing to add."""
        if len(self.dirty) < len(self.entries):
            self.dirty.update(tokens)

    def tokens(self) -> Iterator[Token]:
        """The tokens that have a value, in no particular order, each once: memory's first, then those that only the store
        has. Values of tokens that were given already may be changed meanwhile; nothing may be committed."""
        known = {**self._old, **self.entries}
        yield from [token for token, value in known.items() if value is not None]
        if not self.complete:
            skip = len(self.prefix)
            with self._store.scan(self.prefix) as rows:
                for key, _ in rows:
                    token = from_typed_bytes(split_prefixed(key[skip:])[0])
                    if token not in known:
                        yield token

    def _read(self, missing: Iterable[Token]) -> None:
        tokens = list(missing)
        ascending = sorted(zip(entry_keys(self.prefix, map(typed_bytes, tokens)), tokens, strict=True))
        found = self._store.get_many([key for key, _ in ascending])
        decode = self._codec.decode
        entries = self.entries
        for (_, token), data in zip(ascending, found, strict=True):
            try:
                entries[token] = None if data is None else decode(data)
            except Exception as error:
                entries[token] = decoded_otherwise(self.name, self._codec, token, data or b"", error)
        if not self._sampled:
            self._sample(tokens)

    def decoded(self, token: Token, data: bytes) -> Any:
        """The value of stored bytes. JobError when they cannot be read as declared."""
        try:
            return self._codec.decode(data)
        except Exception as error:
            return decoded_otherwise(self.name, self._codec, token, data, error)

    def encode_dirty(self) -> list[Entry]:
        """The entries that differ from the store's, as bytes, one per key; None for those removed. Changes
        nothing: it gives the same again until `committed`. JobError for a value that its type cannot encode,
        or that is too large."""
        tokens = list(self.dirty)
        if not tokens:
            return []
        values = list(map(self.entries.get, tokens))
        keys = self._keys.of(tokens)
        entries = encode_entries(self.name, self._codec, tokens, keys, values, None, self._max_value_bytes)
        written_bytes = sum(map(len, keys)) + sum([len(data) for _, data in entries if data is not None])
        self._written_bytes = written_bytes / len(tokens)
        self._removed = [token for token, value in zip(tokens, values, strict=True) if value is None]
        return entries

    def committed(self) -> None:
        """The entries that `encode_dirty` gave are in the store; nothing was set since."""
        self._sample(list(islice(self.dirty, _SAMPLE)))
        if self.complete:
            for token in self._removed:
                self.entries.pop(token, None)
        self._removed = []
        self.dirty = set()
        self._sample_dirty_at = 1

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give; cheap enough for once per turn."""
        count = len(self.dirty)
        if count >= self._sample_dirty_at:
            self._sample_dirty_at = 2 * count
            self._sample_written()
        return int(count * self._written_bytes)

    def _sample_written(self) -> None:
        tokens = list(islice(self.dirty, _SAMPLE))
        values = list(map(self.entries.get, tokens))
        try:
            sizes = [0 if value is None else len(self._codec.encode(value)) for value in values]
        except Exception as error:
            raise encode_error(self.name, self._codec, tokens, values, None, error) from error
        keys = entry_keys(self.prefix, map(typed_bytes, tokens))
        self._written_bytes = (sum(sizes) + sum(map(len, keys))) / len(tokens)

    def size_bytes(self) -> int:
        """About how much memory the objects take, from samples."""
        count = len(self.entries) + len(self._old)
        return int(count * self._entry_bytes) + getsizeof(self.entries) + getsizeof(self._old)

    def evict(self, target_bytes: int) -> None:
        """Forgets entries that are not dirty until about `target_bytes` are left, those not used of late
        first. Only after a commit: operators hold `entries` within a turn."""
        while (excess_bytes := self.size_bytes() - target_bytes) > 0:
            if not self._old:
                self._turn_generation()
            if not self._old:
                return  # all is dirty
            self.complete = False
            count = int(excess_bytes / (self._entry_bytes + _SLOT_BYTES)) + 1
            self._drop_oldest(count)
            if self._old:
                return

    def _drop_oldest(self, count: int) -> None:
        if count * 4 > len(self._old):  # a dict does not shrink by deleting: make a small one
            self._old = dict(islice(self._old.items(), count, None))
        else:
            for token in list(islice(self._old, count)):
                del self._old[token]

    def _turn_generation(self) -> None:
        """All entries grow old, except the dirty ones."""
        self._old = self.entries
        take = self._old.pop
        self.entries = {token: take(token) for token in self.dirty if token in self._old}

    def forget(self, *, complete: bool) -> None:
        """Drops all entries, dirty ones too: the store is the truth again."""
        self.entries = {}
        self._old = {}
        self.dirty = set()
        self._removed = []
        self._sample_dirty_at = 1
        self.complete = complete

    def _sample(self, tokens: Sequence[Token]) -> None:
        """Follows the mean size of an entry; a quarter of each new sample counts, all of the first."""
        tokens = tokens[:_SAMPLE]
        if not tokens:
            return
        get = self.entries.get
        total = sum(object_bytes(token) + object_bytes(get(token)) for token in tokens)
        mean = total / len(tokens)
        self._entry_bytes = mean if not self._sampled else 0.75 * self._entry_bytes + 0.25 * mean
        self._sampled = True


class _EntryKeys(dict[Token, bytes]):
    """Token → key of its entry, for keys that are written at checkpoint after checkpoint."""

    def __init__(self, prefix: bytes) -> None:
        super().__init__()
        self._prefix = prefix

    def __missing__(self, token: Token) -> bytes:
        key = self[token] = entry_key(self._prefix, typed_bytes(token))
        return key

    def of(self, tokens: list[Token]) -> list[bytes]:
        """The entry keys of tokens, in order."""
        if len(tokens) > _KNOWN_KEYS:
            return entry_keys(self._prefix, map(typed_bytes, tokens))
        if len(self) > _KNOWN_KEYS:
            self.clear()
        return list(map(self.__getitem__, tokens))


_SLOT_BYTES = 50
"""What an entry takes in a dict, about."""
