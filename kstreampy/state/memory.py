"""A store that lives and dies with the process: jobs on the in-memory log, the test harness.

In here: `MemoryStore`. Not in here: anything durable (`rocks.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from kstreampy.state.store import META_KEY, Entry, Scan


class MemoryStore:
    """A `Store` in a dict. Its lifetime is the object's; `close` ends its use."""

    def __init__(self, path: str = "memory") -> None:
        self.path = path
        self.open_scans = 0
        self._entries: dict[bytes, bytes] = {}
        self._ordered: list[bytes] | None = None  # the keys, sorted; None after a key came or went
        self._meta: bytes | None = None
        self._bytes = 0
        self._closed = False

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        return list(map(self._entries.get, keys))

    def write(self, entries: Iterable[Entry], meta: bytes | None) -> None:
        self._check_open()
        batch = dict(entries)
        if META_KEY in batch:
            raise ValueError(f"{META_KEY!r} is the meta record's key: hand it in as meta")
        for key, value in batch.items():
            before = self._entries.get(key)
            if value is None:
                if before is not None:
                    del self._entries[key]
                    self._bytes -= len(key) + len(before)
                    self._ordered = None
            elif before is None:
                self._entries[key] = value
                self._bytes += len(key) + len(value)
                self._ordered = None
            else:
                self._entries[key] = value
                self._bytes += len(value) - len(before)
        if meta is not None:
            self._meta = meta

    def meta(self) -> bytes | None:
        self._check_open()
        return self._meta

    def scan(self, prefix: bytes, least: bytes = b"") -> Scan:
        self._check_open()
        rows = list(self._rows(self._in_order(), prefix, least))
        self.open_scans += 1
        return Scan(iter(rows), self._scan_closed)

    def first_key(self, prefix: bytes, least: bytes) -> bytes | None:
        self._check_open()
        ordered = self._in_order()
        at = bisect_left(ordered, max(prefix, least))
        return ordered[at] if at < len(ordered) and ordered[at].startswith(prefix) else None

    def _in_order(self) -> list[bytes]:
        if self._ordered is None:
            self._ordered = sorted(self._entries)
        return self._ordered

    def _rows(self, ordered: list[bytes], prefix: bytes, least: bytes) -> Iterator[tuple[bytes, bytes]]:
        for index in range(bisect_left(ordered, max(prefix, least)), len(ordered)):
            key = ordered[index]
            if not key.startswith(prefix):
                return
            yield key, self._entries[key]

    def _scan_closed(self) -> None:
        self.open_scans -= 1

    def is_empty(self) -> bool:
        self._check_open()
        return not self._entries

    def size_bytes(self) -> int:
        self._check_open()
        return self._bytes

    def entry_count(self) -> int:
        self._check_open()
        return len(self._entries)

    def clear(self) -> None:
        self._check_open()
        self._entries = {}
        self._ordered = None
        self._meta = None
        self._bytes = 0

    def close(self) -> None:
        self._closed = True

    def destroy(self) -> None:
        self.close()
        self._entries = {}
        self._ordered = None
        self._meta = None
        self._bytes = 0

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the store at {self.path} is closed")
