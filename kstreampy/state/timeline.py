"""Elements that wait for a while: by key and event time, each an entry of its own, freed together as time passes.

In here: `TimelineCache`, the elements of one state in front of the store. Not in here: the slices of time that they lie in
(`slice.py`), and who meets whom (`operators/interval_join.py`).

An entry's key:

    name (UTF-8) · 0x00 · slice end (8 bytes, big endian, sign bit flipped) · exponent (1 byte) · length of the typed key
    (varint) · typed key · time (8 bytes, as the end) · number (4 bytes, big endian)

A slice is 2 ** exponent ms long and begins at a multiple of that. So what is over is one range, whose entries are looked up
nowhere, and a slice that comes and goes between two checkpoints is written nowhere. Slices of another length, from a version
of the job that cut time otherwise, are kept as they are until they are over. The number tells elements of one key and time
apart, in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from struct import Struct
from typing import Any

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.cache import MAX_VALUE_BYTES
from kstreampy.state.encoding import encode_entries, encode_error, shown_key
from kstreampy.state.layout import length_prefixed, name_prefix, pane_end, pane_prefix, split_prefixed
from kstreampy.state.object_size import object_bytes
from kstreampy.state.slice import Row, Slice
from kstreampy.state.store import Entry, Store

_SIGN = 1 << 63
_PLACE = Struct(">QI")
_AT_ONCE = 20_000
"""Entries that are brought into memory by one scan when the state is opened; where there are more, by key."""
_NOTHING: list[Row] = []
"""The rows of a key that is known to have none. Never changed."""
_ABSENT = object()
_SAMPLE = 32
_FIRST_GUESS_BYTES = 150.0
_ROW_BYTES = 200
"""Of a row itself and the key of its entry, beside its value."""
_REMOVED_BYTES = 100
"""Of a key of an entry to be removed, beside the state's name."""
_KEY_BYTES = 200
"""Of a key in the tables, beside its rows."""
_KNOWN_KEYS = 50_000


class _PrefixedKeys(dict[Token, bytes]):
    """Token → its part of an entry's key, for keys that come again and again."""

    def __missing__(self, token: Token) -> bytes:
        if len(self) >= _KNOWN_KEYS:
            self.clear()
        part = self[token] = length_prefixed(typed_bytes(token))
        return part


class TimelineCache:
    """The elements of one state (a `cache.Cache`). Lives as long as its task is open; used by the driver's thread."""

    def __init__(
        self,
        name: str,
        codec: Codec,
        store: Store,
        exponent: int,
        *,
        complete: bool = False,
        max_value_bytes: int = MAX_VALUE_BYTES,
    ) -> None:
        """New slices are 2 ** `exponent` ms long. `complete`: the store holds no entry of this state."""
        self.name = name
        self.prefix = name_prefix(name)
        self.exponent = exponent
        self._codec = codec
        self._store = store
        self._max_value_bytes = max_value_bytes
        self._own: dict[int, Slice] = {}
        self._others: list[Slice] = []
        self._ends: list[tuple[int, int, Slice]] = []
        self._found = complete
        self._removed: set[bytes] = set()
        self._keys = _PrefixedKeys()
        self._encoded: list[tuple[Slice, list[bytes]]] = []
        """The keys of new rows of each slice, as `encode_dirty` gave them."""
        self._changed: dict[int, Slice] = {}
        """Those that were asked for since the last commit, and so may have new rows; by number."""
        self._rows_held = self._keys_held = 0
        """Of all slices, without new rows, and keys of those that changed."""
        self._value_bytes = _FIRST_GUESS_BYTES
        self._written_bytes = _FIRST_GUESS_BYTES
        self._sample_dirty_at = 1

    # Reading and writing.

    def slice(self, number: int) -> Slice:
        """The slice with the times `number << exponent` up to the next number's, to be added to; a new one if there is none."""
        if not self._found:
            self._find()
        found = self._own.get(number) or self._make(number, self.exponent, complete=True)
        self._changed[number] = found
        return found

    def around(self, first_ms: int, last_ms: int) -> list[Slice]:
        """All slices that may have elements between these times, both included, in the order of time; before them those of
        another length, in no order (`is_mixed`)."""
        if not self._found:
            self._find()
        own = self._own
        first, last = first_ms >> self.exponent, last_ms >> self.exponent
        if last - first < len(own):
            found = [own[number] for number in range(first, last + 1) if number in own]
        else:
            found = [own[number] for number in sorted(own) if first <= number <= last]
        if self._others:
            return [slice_ for slice_ in self._others if slice_.begin <= last_ms and slice_.end > first_ms] + found
        return found

    @property
    def is_mixed(self) -> bool:
        """There are slices of several lengths."""
        return bool(self._others)

    def read(self, slice_: Slice, tokens: Iterable[Token]) -> None:
        """Brings what there is for these tokens into `entries`."""
        if slice_.complete:
            return
        for token in set(tokens).difference(slice_.entries):
            rows = list(self._rows(self._key_prefix(slice_, token)))
            slice_.entries[token] = [row for _, _, row in rows] or _NOTHING
            slice_.stored += len(rows)
            self._rows_held += len(rows)
        self._count_keys(slice_)

    def _count_keys(self, slice_: Slice) -> None:
        self._keys_held += len(slice_.entries) - slice_.counted
        slice_.counted = len(slice_.entries)

    @property
    def removed(self) -> Collection[bytes]:
        """The keys of entries that are to be removed. Each was written once, and is never written again."""
        return self._removed

    def drop(self, until_ms: int) -> None:
        """Frees the slices of which all times are before `until_ms`."""
        if not self._found:
            self._find()
        ends = self._ends
        while ends and ends[0][0] <= until_ms:
            slice_ = heappop(ends)[2]
            self._removed.update(self._stored_keys(slice_))
            self._rows_held -= slice_.stored
            self._keys_held -= slice_.counted
            if slice_.exponent == self.exponent:
                number = slice_.begin >> self.exponent
                del self._own[number]
                self._changed.pop(number, None)
            else:
                self._others.remove(slice_)

    def _stored_keys(self, slice_: Slice) -> list[bytes]:
        if slice_.complete:
            return slice_.written
        with self._store.scan(self._slice_prefix(slice_)) as found:
            return slice_.written + [key for key, _ in found]

    # Slices and their entries.

    def _make(self, number: int, exponent: int, *, complete: bool) -> Slice:
        made = Slice(number, exponent, complete=complete)
        if exponent == self.exponent:
            self._own[number] = made
        else:
            self._others.append(made)
        heappush(self._ends, (made.end, exponent, made))  # no two have the same end and exponent
        return made

    def _find(self) -> None:
        """Which slices there are: with their elements where those are few, otherwise by seeking from one to the next."""
        self._found = True
        rows = list(islice(self._rows(self.prefix), _AT_ONCE + 1))
        if len(rows) > _AT_ONCE:
            self._seek()
            return
        at = len(self.prefix)
        slices: dict[bytes, Slice] = {}
        for key, token, row in rows:
            place = key[at : at + 9]
            slice_ = slices.get(place) or self._slice_at(key, complete=True)
            slices[place] = slice_
            slice_.entries.setdefault(token, []).append(row)
            slice_.written.append(key)
            slice_.stored += 1
        for slice_ in slices.values():
            self._rows_held += slice_.stored
            self._count_keys(slice_)

    def _seek(self) -> None:
        least = self.prefix
        while (key := self._store.first_key(self.prefix, least)) is not None:
            slice_ = self._slice_at(key, complete=False)
            least = pane_prefix(self.prefix, slice_.end) + bytes((slice_.exponent + 1,))

    def _slice_at(self, key: bytes, *, complete: bool) -> Slice:
        exponent = key[len(self.prefix) + 8]
        return self._make((pane_end(self.prefix, key) - 1) >> exponent, exponent, complete=complete)

    def _rows(self, prefix: bytes) -> Iterator[tuple[bytes, Token, Row]]:
        """The entries with this prefix: those of one key in the order of time and number."""
        at = len(self.prefix) + 9
        with self._store.scan(prefix) as found:
            for key, data in found:
                try:
                    typed_key, place = split_prefixed(key[at:])
                    token = from_typed_bytes(typed_key)
                    time, number = _PLACE.unpack(place)
                except Exception as error:
                    raise StateCorrupted(
                        f"the store at {self._store.path}: state {self.name!r}: not an element's entry: {key[:80]!r} ({error})"
                    ) from error
                yield key, token, (time - _SIGN, number, self._decode(token, data))

    def _decode(self, token: Token, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except Exception as error:
            raise JobError(
                f"state {self.name!r}: what is stored for key {shown_key(token)} cannot be read ({error}). "
                "If the type of the stream was changed, change it back or give the step another uid"
            ) from error

    def _slice_prefix(self, slice_: Slice) -> bytes:
        return pane_prefix(self.prefix, slice_.end) + bytes((slice_.exponent,))

    def _key_prefix(self, slice_: Slice, token: Token) -> bytes:
        return self._slice_prefix(slice_) + self._keys[token]

    def _key(self, slice_: Slice, token: Token, row: Row) -> bytes:
        return self._key_prefix(slice_, token) + _PLACE.pack(row[0] + _SIGN, row[1])

    def _slices(self) -> list[Slice]:
        return [*self._own.values(), *self._others]

    # What `cache.Cache` asks for.

    def load(self, tokens: Iterable[Token]) -> None:
        """Nothing: which slices a batch needs is known by its timestamps, not by its keys."""

    def encode_dirty(self) -> list[Entry]:
        """The elements that are in no checkpoint yet, and tombstones for those of slices that are gone; the same again until
        `committed`. JobError for one that its type cannot encode, or that is too large."""
        entries: list[Entry] = [(key, None) for key in self._removed]
        tokens: list[Token] = []
        keys: list[bytes] = []
        values: list[Any] = []
        self._encoded = []
        for slice_ in self._changed.values():
            if slice_.new:
                prefix, pack, known = self._slice_prefix(slice_), _PLACE.pack, self._keys
                tokens += [token for token, _ in slice_.new]
                values += [row[2] for _, row in slice_.new]
                here = [prefix + known[token] + pack(row[0] + _SIGN, row[1]) for token, row in slice_.new]
                self._encoded.append((slice_, here))
                keys += here
        if tokens:
            written = encode_entries(self.name, self._codec, tokens, keys, values, _ABSENT, self._max_value_bytes)
            self._written_bytes = sum([len(key) + len(data or b"") for key, data in written]) / len(written)
            entries += written
        return entries

    def committed(self) -> None:
        """The entries that `encode_dirty` gave are in the store; nothing was set since."""
        sample: list[tuple[Token, Row]] = []
        for slice_, keys in self._encoded:
            sample = sample or slice_.new[-_SAMPLE:]
            slice_.written += keys
            slice_.stored += len(keys)
            self._rows_held += len(keys)
            slice_.new = []
        self._encoded = []
        for slice_ in self._changed.values():
            self._count_keys(slice_)
        self._changed = {}
        if sample:
            self._value_bytes = sum([object_bytes(row[2]) for _, row in sample]) / len(sample)
        self._removed = set()
        self._sample_dirty_at = 1

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give; cheap enough for once per turn."""
        count = self._new_rows()
        if count >= self._sample_dirty_at:
            self._sample_dirty_at = 2 * count
            self._sample_written()
        return int(count * self._written_bytes) + len(self._removed) * (len(self.prefix) + 30)

    def _new_rows(self) -> int:
        return sum([len(slice_.new) for slice_ in self._changed.values()])

    def _sample_written(self) -> None:
        slice_ = max(self._changed.values(), key=lambda slice_: len(slice_.new))
        some = slice_.new[-_SAMPLE:]
        tokens, values = [token for token, _ in some], [row[2] for _, row in some]
        try:
            sizes = [len(data) for data in self._codec.encode_each(values)]
        except Exception as error:
            raise encode_error(self.name, self._codec, tokens, values, _ABSENT, error) from error
        keys = [len(self._key(slice_, token, row)) for token, row in some]
        self._written_bytes = (sum(sizes) + sum(keys)) / len(some)

    def size_bytes(self) -> int:
        """About how much memory the objects take, from samples."""
        rows = self._rows_held + self._new_rows()
        size = rows * (self._value_bytes + _ROW_BYTES) + self._keys_held * _KEY_BYTES
        return int(size) + len(self._removed) * (len(self.prefix) + _REMOVED_BYTES)

    def evict(self, target_bytes: int) -> None:
        """Forgets keys of the slices until about `target_bytes` are left, those of the earliest slices first. Only after a
        commit."""
        excess = self.size_bytes() - target_bytes
        for slice_ in sorted(self._slices(), key=lambda slice_: slice_.end):
            if excess <= 0:
                return
            excess -= self._forget_keys(slice_, excess)

    def _forget_keys(self, slice_: Slice, excess: int) -> int:
        """Those that came first, or all; returns how many bytes they took."""
        freed = count = rows = 0
        for entries in slice_.entries.values():
            if freed > excess:
                break
            count += 1
            rows += len(entries)
            freed += int(len(entries) * (self._value_bytes + _ROW_BYTES)) + _KEY_BYTES
        if count:
            slice_.entries = dict(islice(slice_.entries.items(), count, None))
            slice_.stored -= rows
            slice_.complete = False
            slice_.written = []
            self._rows_held -= rows
            self._count_keys(slice_)
        return freed

    def forget(self, *, complete: bool) -> None:
        """Drops all elements, new ones too: the store is the truth again. `complete`: it has no entry of this state."""
        self._own = {}
        self._others = []
        self._ends = []
        self._found = complete
        self._removed = set()
        self._encoded = []
        self._changed = {}
        self._rows_held = self._keys_held = 0
        self._sample_dirty_at = 1
