"""The elements of one named state of one task that keeps several entries per key: lists and maps.

In here: `ElementCache`, all of them in front of the store. Not in here: how they are read (`element_reader.py`), what is
particular to lists (`list_cache.py`) and to maps (`map_cache.py`), and the handles.

Each element is an entry of its own, found by its *id* (a number in a list, the token of a map's key), so that a key may
have any number of them: adding reads nothing. What is committed stays in memory until `evict`, so the store need not have
it yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from kstreampy.serde.batch import Token
from kstreampy.serde.key import typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.cache import MAX_VALUE_BYTES
from kstreampy.state.element import ABSENT, CLEAN, UNKNOWN, Elements
from kstreampy.state.element_reader import ElementReader
from kstreampy.state.encoding import encode_entries
from kstreampy.state.layout import entry_key
from kstreampy.state.object_size import object_bytes
from kstreampy.state.store import Entry, Store

_SAMPLE = 32
_FIRST_GUESS_BYTES = 120.0
_SLOT_BYTES = 100
"""What an element takes in a dict, with its id, about."""
_KEY_BYTES = 400
"""What a key takes, without its elements."""


class ElementCache(ElementReader):
    """Any number of elements per key. Lives as long as its task is open; used by the driver's thread."""

    def __init__(
        self, name: str, codec: Codec, store: Store, *, complete: bool = False, max_value_bytes: int = MAX_VALUE_BYTES
    ) -> None:
        """`complete`: the store holds no entry of this state."""
        super().__init__(name, codec, store, complete)
        self._max_value_bytes = max_value_bytes
        self._dirty: dict[Token, Elements] = {}
        self._changes = 0
        self._element_bytes = _FIRST_GUESS_BYTES
        self._written_bytes = _FIRST_GUESS_BYTES
        self._sample_at = 1

    def load(self, tokens: Iterable[Token]) -> None:
        """Nothing: what a key's records need of its elements is not known before."""

    def put(self, token: Token, element_id: Any, value: Any) -> None:
        elements = self.of(token)
        known = elements.known
        if element_id not in elements.changed:
            self._change(token, elements, element_id)
            if known.get(element_id, ABSENT if elements.whole else UNKNOWN) is ABSENT:
                elements.fresh.add(element_id)
        known[element_id] = value

    def remove(self, token: Token, element_id: Any) -> None:
        elements = self.of(token)
        known = elements.known
        if known.get(element_id, ABSENT if elements.whole else UNKNOWN) is ABSENT:
            return
        if element_id in elements.fresh:
            elements.fresh.discard(element_id)
            elements.changed.discard(element_id)
            self._changes -= 1
        elif element_id not in elements.changed:
            self._change(token, elements, element_id)
        if elements.whole:
            del known[element_id]
        else:
            known[element_id] = ABSENT

    def _change(self, token: Token, elements: Elements, element_id: Any) -> None:
        if elements.changed is CLEAN:
            self._begin_change(token, elements)
        elements.changed.add(element_id)
        self._changes += 1

    def _begin_change(self, token: Token, elements: Elements) -> None:
        elements.changed = set()
        elements.fresh = set()
        self._dirty[token] = elements

    def clear(self, token: Token) -> None:
        """Removes all elements of the key."""
        elements = self.of(token)
        changed = elements.changed
        gone = {
            element_id
            for element_id, value in elements.known.items()
            if value is not ABSENT and element_id not in elements.fresh
        }
        gone.update(changed.difference(elements.fresh))
        self._changes += len(gone) - len(changed)
        elements.changed = gone
        elements.cleared = elements.cleared or not elements.whole
        elements.known = {}
        elements.fresh = set()
        elements.whole = True
        self._dirty[token] = elements

    def changed_tokens(self) -> Iterable[Token]:
        """The keys whose elements may differ from what was committed."""
        return self._dirty

    def peek(self, token: Token) -> tuple[dict[Any, Any], bool]:
        """What memory knows of the elements of one of these keys, id → value or `ABSENT`, as a copy; and whether that is
        all there is."""
        elements = self._dirty[token]
        return dict(elements.known), elements.whole

    def encode_dirty(self) -> list[Entry]:
        """The entries that differ from the store's, as bytes, one per element; None for those removed. The same again
        until `committed`. JobError for a value that its type cannot encode, or that is too large."""
        keys: list[bytes] = []
        values: list[Any] = []
        tokens: list[Token] = []
        suffix = self._suffix
        for token, elements in self._dirty.items():
            if elements.cleared:
                self._find_cleared(token, elements)
            base = entry_key(self.prefix, typed_bytes(token))
            get = elements.known.get
            for element_id in elements.changed:
                keys.append(base + suffix(element_id))
                values.append(get(element_id, ABSENT))
                tokens.append(token)
        entries = encode_entries(self.name, self._codec, tokens, keys, values, ABSENT, self._max_value_bytes)
        if entries:
            self._written_bytes = sum(len(key) + len(data or b"") for key, data in entries) / len(entries)
        return entries

    def _find_cleared(self, token: Token, elements: Elements) -> None:
        skip, scan = self._scan(token)
        with scan:
            stored = [self._id(key[skip:]) for key, _ in scan]
        missing = [element_id for element_id in stored if element_id not in elements.known]
        before = len(elements.changed)
        elements.changed.update(missing)
        elements.cleared = False
        self._changes += len(elements.changed) - before

    def committed(self) -> None:
        """The entries that `encode_dirty` gave are in the store, or will be; nothing was set since."""
        self._sample(self._dirty.values())
        for token, elements in self._dirty.items():
            elements.changed = elements.fresh = CLEAN
            if self.complete and not elements.known:
                self._count -= elements.counted
                self._young.pop(token, None)
            else:
                self._recount(elements)
        self._dirty = {}
        self._changes = 0
        self._sample_at = 1

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give; cheap enough for once per turn."""
        if self._changes >= self._sample_at:
            self._sample_at = 2 * self._changes
            self._sample_written()
        return int(self._changes * self._written_bytes)

    def _sample_written(self) -> None:
        tokens: list[Token] = []
        values: list[Any] = []
        for token, elements in self._dirty.items():
            for element_id in islice(elements.changed, _SAMPLE - len(values)):
                tokens.append(token)
                values.append(elements.known.get(element_id, ABSENT))
            if len(values) >= _SAMPLE:
                break
        keys = [entry_key(self.prefix, typed_bytes(token)) for token in tokens]
        entries = encode_entries(self.name, self._codec, tokens, keys, values, ABSENT, self._max_value_bytes)
        if entries:
            self._written_bytes = 8 + sum(len(key) + len(data or b"") for key, data in entries) / len(entries)

    def size_bytes(self) -> int:
        """About how much memory the elements take, from samples."""
        return int(self._count * self._element_bytes) + (len(self._young) + len(self._old)) * _KEY_BYTES

    def _sample(self, some: Iterable[Elements]) -> None:
        values = [value for elements in islice(some, _SAMPLE) for value in islice(elements.known.values(), 4)]
        if values:
            self._element_bytes = _SLOT_BYTES + sum(map(object_bytes, values)) / len(values)

    def evict(self, target_bytes: int) -> None:
        """Forgets what is not dirty until about `target_bytes` are left, keys not used of late first. Only after a
        commit."""
        while (excess_bytes := self.size_bytes() - target_bytes) > 0:
            if not self._old:
                self._old = {token: e for token, e in self._young.items() if token not in self._dirty}
                self._young = dict(self._dirty)
            if not self._old:
                return  # all is dirty
            self.complete = False
            self._drop(excess_bytes)

    def _drop(self, excess_bytes: float) -> None:
        for token in list(self._old):
            elements = self._old[token]
            size_bytes = elements.counted * self._element_bytes + _KEY_BYTES
            if size_bytes > 2 * excess_bytes and elements.counted > 1:
                count = int(excess_bytes / self._element_bytes) + 1
                elements.known = dict(islice(elements.known.items(), count, None))
                elements.whole = False
                self._recount(elements)
                return
            del self._old[token]
            self._count -= elements.counted
            excess_bytes -= size_bytes
            if excess_bytes <= 0:
                return

    def forget(self, *, complete: bool) -> None:
        """Drops all elements, dirty ones too: the store is the truth again."""
        self._young = {}
        self._old = {}
        self._dirty = {}
        self._changes = self._count = 0
        self._sample_at = 1
        self.complete = complete
