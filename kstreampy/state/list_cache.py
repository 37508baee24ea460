"""The elements of a list state in front of the store.

In here: `ListCache`. Not in here: what lists have in common with maps (`element_cache.py`), and the handle (`list_state.py`).

An element's id is a number that grows with each element added to the state, whatever its key: so an element is appended
without reading the list, and a key's elements lie in their order. The next number is kept in an entry of its own, which
has an empty key where those of elements have a typed key (`layout.py`); it is written with the elements.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kstreampy.errors import StateCorrupted
from kstreampy.serde.batch import Token
from kstreampy.serde.typed import Codec
from kstreampy.state.cache import MAX_VALUE_BYTES
from kstreampy.state.element_cache import ElementCache
from kstreampy.state.layout import entry_key
from kstreampy.state.store import Entry, Store

_NUMBER = Struct(">Q")


class ListCache(ElementCache):
    """Any number of elements per key, in the order in which they were added."""

    def __init__(
        self, name: str, codec: Codec, store: Store, *, complete: bool = False, max_value_bytes: int = MAX_VALUE_BYTES
    ) -> None:
        super().__init__(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)
        self._counter_key = entry_key(self.prefix, b"")
        self._next: int | None = 0 if complete else None
        """The number of the next element; None when it was not read yet."""
        self._stored = self._to_store = 0
        """The next number as the counter's entry has it, and as `encode_dirty` last gave it."""

    def _suffix(self, element_id: int) -> bytes:
        return _NUMBER.pack(element_id)

    def _id(self, suffix: bytes) -> int:
        return int(_NUMBER.unpack(suffix)[0])

    def append(self, token: Token, value: Any) -> None:
        number = self._next
        if number is None:
            number = self._read_next()
        self._next = number + 1
        elements = self._young.get(token) or self.of(token)
        elements.known[number] = value
        self._change(token, elements, number)
        elements.fresh.add(number)

    def _read_next(self) -> int:
        (data,) = self._store.get_many([self._counter_key])
        try:
            number = 0 if data is None else self._id(data)
        except Exception as error:
            raise StateCorrupted(f"the store at {self._store.path}: state {self.name!r}: {error}") from error
        self._stored = self._to_store = number
        return number

    def encode_dirty(self) -> list[Entry]:
        entries = super().encode_dirty()
        self._to_store = self._stored
        if self._next is not None and self._next > self._stored and any(data is not None for _, data in entries):
            entries.append((self._counter_key, self._suffix(self._next)))
            self._to_store = self._next
        return entries

    def committed(self) -> None:
        super().committed()
        self._stored = self._to_store

    def forget(self, *, complete: bool) -> None:
        super().forget(complete=complete)
        self._next = 0 if complete else None
        self._stored = self._to_store = 0
