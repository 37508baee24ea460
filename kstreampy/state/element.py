"""The elements of one named state of one task that keeps several entries per key: lists and maps.

In here: `Elements`, what is known of one key's, and `ElementCache`, all of them in front of the store. Not in here: what is
particular to lists (`list_cache.py`) and to maps (`map_cache.py`), and the handles.

Each element is an entry of its own, found by its *id* (a number in a list, the token of a map's key), so that a key may
have any number of them: adding reads nothing, a look-up reads one entry, a walk reads the key's entries from the store and
puts what memory knows better in their place. What is committed stays in memory until `evict`, so the store need not have
it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.cache import MAX_VALUE_BYTES
from kstreampy.state.encoding import encode_entries, shown_key
from kstreampy.state.layout import entry_key, name_prefix, split_prefixed
from kstreampy.state.object_size import object_bytes
from kstreampy.state.stamped import without_time
from kstreampy.state.store import Entry, Scan, Store

MOST_WHOLE = 10_000
"""Elements of one key that are kept in memory together; what is more is read from the store as it is walked over."""

_SAMPLE = 32
_FIRST_GUESS_BYTES = 120.0
_SLOT_BYTES = 100
"""What an element takes in a dict, with its id, about."""
_KEY_BYTES = 400
"""What a key takes, without its elements."""


class _Absent:
    """Stands for an element that is known not to be there, since None is a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
_UNKNOWN: Any = object()


class _All:
    """Stands for all ids."""

    def __contains__(self, element_id: object) -> bool:
        return True


_ALL: Any = _All()
_CLEAN: Any = frozenset()
"""Stands for the sets of those that differ in nothing."""

Rows: TypeAlias = list[tuple[Any, Any]] | Iterator[tuple[Any, Any]]
"""(id, value) of all elements of a key: a list, or where there are many, an iterator over the store as it is now."""


class Elements:
    """One key's elements, as far as memory knows them."""

    __slots__ = ("changed", "cleared", "counted", "fresh", "known", "whole")

    def __init__(self, whole: bool) -> None:
        self.known: dict[Any, Any] = {}
        """Id → value, or `ABSENT`."""
        self.whole = whole
        """What is not in `known` is not there; then no `ABSENT` is in it either."""
        self.changed: set[Any] = _CLEAN
        """Ids whose value, or absence, differs from what was committed."""
        self.fresh: set[Any] = _CLEAN
        """Those of `changed` that nothing was committed of: removed again, they leave nothing to write."""
        self.cleared = False
        """What else the store has of this key is to be removed."""
        self.counted = 0


class ElementCache:
    """Any number of elements per key. Lives as long as its task is open; used by the driver's thread. Values are the
    cache's own objects."""

    def __init__(
        self, name: str, codec: Codec, store: Store, *, complete: bool = False, max_value_bytes: int = MAX_VALUE_BYTES
    ) -> None:
        """`complete`: the store holds no entry of this state."""
        self.name = name
        self.prefix = name_prefix(name)
        self.complete = complete
        self._codec = codec
        self._store = store
        self._max_value_bytes = max_value_bytes
        self._young: dict[Token, Elements] = {}
        self._old: dict[Token, Elements] = {}
        self._dirty: dict[Token, Elements] = {}
        self._changes = 0
        self._count = 0
        self._element_bytes = _FIRST_GUESS_BYTES
        self._written_bytes = _FIRST_GUESS_BYTES
        self._sample_at = 1

    def _suffix(self, element_id: Any) -> bytes:
        """What the key of an element's entry ends with."""
        raise NotImplementedError

    def _id(self, suffix: bytes) -> Any:
        """The inverse of `_suffix`."""
        raise NotImplementedError

    def load(self, tokens: Iterable[Token]) -> None:
        """Nothing: what a key's records need of its elements is not known before."""

    def of(self, token: Token) -> Elements:
        found = self._young.get(token)
        if found is None:
            found = self._old.pop(token, None) or Elements(self.complete)
            self._young[token] = found
        return found

    def get(self, token: Token, element_id: Any) -> Any:
        """The element's value, `ABSENT` when there is none; reads one entry if need be."""
        elements = self.of(token)
        value = elements.known.get(element_id, _UNKNOWN)
        if value is not _UNKNOWN:
            return value
        if elements.whole:
            return ABSENT
        key = entry_key(self.prefix, typed_bytes(token), self._suffix(element_id))
        (data,) = self._store.get_many([key])
        value = elements.known[element_id] = ABSENT if data is None else self._decoded(token, data)
        self._recount(elements)
        return value

    def put(self, token: Token, element_id: Any, value: Any) -> None:
        elements = self.of(token)
        known = elements.known
        if element_id not in elements.changed:
            self._change(token, elements, element_id)
            if known.get(element_id, ABSENT if elements.whole else _UNKNOWN) is ABSENT:
                elements.fresh.add(element_id)
        known[element_id] = value

    def remove(self, token: Token, element_id: Any) -> None:
        elements = self.of(token)
        known = elements.known
        if known.get(element_id, ABSENT if elements.whole else _UNKNOWN) is ABSENT:
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
        if elements.changed is _CLEAN:
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

    def is_empty(self, token: Token) -> bool:
        elements = self.of(token)
        if elements.whole:
            return not elements.known
        if any(value is not ABSENT for value in elements.known.values()):
            return False
        skip, scan = self._scan(token)
        with scan:
            return all(self._id(key[skip:]) in elements.known for key, _ in scan)

    def tokens(self) -> Iterator[Token]:
        """The tokens that have an element, in no particular order, each once: memory's first, then those that only the store
        has. Elements of tokens that were given already may be changed meanwhile; nothing may be committed."""
        known = {token: self._seen(elements) for token, elements in [*self._old.items(), *self._young.items()]}
        yield from [token for token, removed in known.items() if removed is None]
        if not self.complete:
            yield from self._stored_tokens(known)

    def _seen(self, elements: Elements) -> Collection[Any] | None:
        """None if there is an element in memory; otherwise the ids of those that are gone, whatever the store has."""
        if any(value is not ABSENT for value in elements.known.values()):
            return None
        return _ALL if elements.whole else frozenset(elements.known)

    def _stored_tokens(self, known: Mapping[Token, Collection[Any] | None]) -> Iterator[Token]:
        skip = len(self.prefix)
        given: bytes | None = None
        with self._store.scan(self.prefix) as rows:
            for key, _ in rows:
                typed_key, suffix = split_prefixed(key[skip:])
                if typed_key == given or not typed_key:  # the counter of a list has no key
                    continue
                token = from_typed_bytes(typed_key)
                removed = known.get(token, ())
                if removed is not None and (not removed or self._id(suffix) not in removed):
                    given = typed_key
                    yield token

    def rows(self, token: Token) -> Rows:
        """All elements of the key as they are now; those of a list in order."""
        elements = self.of(token)
        if not elements.whole:
            return self._read(token, elements)
        return list(elements.known.items())

    def _scan(self, token: Token) -> tuple[int, Scan]:
        prefix = entry_key(self.prefix, typed_bytes(token))
        return len(prefix), self._store.scan(prefix)

    def _read(self, token: Token, elements: Elements) -> Rows:
        skip, scan = self._scan(token)
        known = elements.known
        found: dict[Any, Any] = {}
        try:
            for key, data in islice(scan, MOST_WHOLE + 1):
                element_id = self._id(key[skip:])
                value = known.get(element_id, _UNKNOWN)
                found[element_id] = self._decoded(token, data) if value is _UNKNOWN else value
        except BaseException:
            scan.close()
            raise
        if len(found) > MOST_WHOLE:
            return self._walk(token, found, dict(known), scan, skip)
        scan.close()
        found.update(known)
        whole = {element_id: value for element_id, value in found.items() if value is not ABSENT}
        elements.known = whole
        elements.whole = True
        self._recount(elements)
        return list(whole.items())

    def _walk(
        self, token: Token, begin: dict[Any, Any], known: dict[Any, Any], scan: Scan, skip: int
    ) -> Iterator[tuple[Any, Any]]:
        """Many elements: those in `begin`, then the rest of the scan, then what only memory has."""
        rows = self._steps(token, begin, known, scan, skip)
        next(rows)  # so that the scan is closed whenever the iterator is dropped
        return rows

    def _steps(
        self, token: Token, begin: dict[Any, Any], known: dict[Any, Any], scan: Scan, skip: int
    ) -> Iterator[tuple[Any, Any]]:
        with scan:
            yield ABSENT, ABSENT
            for element_id, value in begin.items():
                known.pop(element_id, None)
                if value is not ABSENT:
                    yield element_id, value
            begin.clear()
            for key, data in scan:
                element_id = self._id(key[skip:])
                value = known.pop(element_id, _UNKNOWN)
                if value is not ABSENT:
                    yield element_id, self._decoded(token, data) if value is _UNKNOWN else value
        for element_id, value in known.items():
            if value is not ABSENT:
                yield element_id, value

    # For those who only look (`query.py`)

    def changed_tokens(self) -> Iterable[Token]:
        """The keys whose elements may differ from what was committed."""
        return self._dirty

    def peek(self, token: Token) -> tuple[dict[Any, Any], bool]:
        """What memory knows of the elements of one of these keys, id → value or `ABSENT`, as a copy; and whether that is
        all there is."""
        elements = self._dirty[token]
        return dict(elements.known), elements.whole

    def id_of_suffix(self, suffix: bytes) -> Any:
        """The id of the element whose entry's key ends with this."""
        return self._id(suffix)

    def decoded(self, token: Token, data: bytes) -> Any:
        """The value of stored bytes. JobError when they cannot be read as declared."""
        return self._decoded(token, data)

    def _decoded(self, token: Token, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except Exception as error:
            return self._decoded_otherwise(token, data, error)

    def _decoded_otherwise(self, token: Token, data: bytes, error: Exception) -> Any:
        """The value of bytes that the codec refuses: perhaps they have a time, from when the state had a TTL."""
        bare = without_time(data)
        try:
            if bare is not None:
                return self._codec.decode(bare)
        except Exception as other:
            error = other
        raise JobError(
            f"state {self.name!r}: an element stored for key {shown_key(token)} cannot be read ({error}). "
            "If the type of this state was changed, change it back or give the state another name"
        ) from error

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
            elements.changed = elements.fresh = _CLEAN
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

    def _recount(self, elements: Elements) -> None:
        self._count += len(elements.known) - elements.counted
        elements.counted = len(elements.known)

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


class Once:
    """Elements that are read from the store as they are walked over. One walk: a second would find others."""

    def __init__(self, name: str, values: Iterator[Any]) -> None:
        self._name = name
        self._values: Iterator[Any] | None = values

    def __iter__(self) -> Iterator[Any]:
        values, self._values = self._values, None
        if values is None:
            raise JobError(
                f"state {self._name!r}: more than {MOST_WHOLE:,} elements of one key are read as they are walked over, "
                "so that they need not fit into memory, and only once: ask the state again for another walk"
            )
        return values


def walk(name: str, rows: Rows, take: Callable[[Any, Any], Any]) -> Iterable[Any]:
    """`take(id, value)` of all rows: a list where they are one, otherwise to be walked over once."""
    if isinstance(rows, list):
        return [take(element_id, value) for element_id, value in rows]
    return Once(name, (take(element_id, value) for element_id, value in rows))
