"""The elements of one named state of one task that keeps several entries per key, as they are now: what memory knows, over
the store.

In here: `ElementReader`. Not in here: how elements are changed, written and evicted (`element_cache.py`).

A look-up reads one entry; a walk reads the key's entries from the store and puts what memory knows better in their place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec
from kstreampy.state.element import ABSENT, UNKNOWN, Elements
from kstreampy.state.encoding import decoded_otherwise
from kstreampy.state.layout import entry_key, name_prefix, split_prefixed
from kstreampy.state.store import Scan, Store

MOST_WHOLE = 10_000
"""Elements of one key that are kept in memory together; what is more is read from the store as it is walked over."""

Rows: TypeAlias = list[tuple[Any, Any]] | Iterator[tuple[Any, Any]]
"""(id, value) of all elements of a key: a list, or where there are many, an iterator over the store as it is now."""


class _All:
    """Stands for all ids."""

    def __contains__(self, element_id: object) -> bool:
        return True


_ALL: Any = _All()


class ElementReader:
    """Any number of elements per key, to be read. Values are the reader's own objects."""

    def __init__(self, name: str, codec: Codec, store: Store, complete: bool) -> None:
        """`complete`: the store holds no entry of this state."""
        self.name = name
        self.prefix = name_prefix(name)
        self.complete = complete
        self._codec = codec
        self._store = store
        self._young: dict[Token, Elements] = {}
        self._old: dict[Token, Elements] = {}
        self._count = 0
        """Elements in memory, about: those that were set are counted at the commit."""

    def _suffix(self, element_id: Any) -> bytes:
        """What the key of an element's entry ends with."""
        raise NotImplementedError

    def _id(self, suffix: bytes) -> Any:
        """The inverse of `_suffix`."""
        raise NotImplementedError

    def of(self, token: Token) -> Elements:
        found = self._young.get(token)
        if found is None:
            found = self._old.pop(token, None) or Elements(self.complete)
            self._young[token] = found
        return found

    def get(self, token: Token, element_id: Any) -> Any:
        """The element's value, `ABSENT` when there is none; reads one entry if need be."""
        elements = self.of(token)
        value = elements.known.get(element_id, UNKNOWN)
        if value is not UNKNOWN:
            return value
        if elements.whole:
            return ABSENT
        key = entry_key(self.prefix, typed_bytes(token), self._suffix(element_id))
        (data,) = self._store.get_many([key])
        value = elements.known[element_id] = ABSENT if data is None else self._decoded(token, data)
        self._recount(elements)
        return value

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
                value = known.get(element_id, UNKNOWN)
                found[element_id] = self._decoded(token, data) if value is UNKNOWN else value
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
                value = known.pop(element_id, UNKNOWN)
                if value is not ABSENT:
                    yield element_id, self._decoded(token, data) if value is UNKNOWN else value
        for element_id, value in known.items():
            if value is not ABSENT:
                yield element_id, value

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
            return decoded_otherwise(self.name, self._codec, token, data, error)

    def _recount(self, elements: Elements) -> None:
        self._count += len(elements.known) - elements.counted
        elements.counted = len(elements.known)
