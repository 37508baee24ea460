"""Bytes of one task: what the rest of the room asks of a store.

In here: the protocol `Store` and the `Scan` that every store hands out. Not in here: what the bytes mean
(`layout.py`, `task_meta.py`), and the stores themselves (`memory.py`, `rocks.py`). One law suite,
`tests/laws/store_laws.py`, runs over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, TypeAlias

Entry: TypeAlias = tuple[bytes, bytes | None]
"""A key and its value; None deletes."""

META_KEY = b"\x00meta"
"""Where a store keeps its meta record. No state's key begins with 0x00 (`layout.py`), so none can be this
one."""


class Scan:
    """Entries with one prefix, ascending by key, as they were when the scan began. Use it in a `with` block:
    a scan pins memory in the store until it is closed, and iterating a closed one is a ValueError."""

    __slots__ = ("_on_close", "_rows")

    def __init__(self, rows: Iterator[tuple[bytes, bytes]], on_close: Callable[[], None]) -> None:
        self._rows: Iterator[tuple[bytes, bytes]] | None = rows
        self._on_close = on_close

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._rows is None:
            raise ValueError("this scan is closed: iterate inside the `with store.scan(...)` block")
        return next(self._rows)

    def close(self) -> None:
        """Lets go of what the scan pins. Safe to call twice."""
        if self._rows is not None:
            self._rows = None
            self._on_close()


class Store(Protocol):
    """Bytes to bytes, owned by one task, used by one thread at a time.

    Errors, of every method: `StateCorrupted` with the path when what is on disk cannot be read; `OSError`
    when the disk refuses (full, read-only): nothing was written then, and the store takes no more writes
    until it is opened again."""

    path: str
    """Where it lives, for messages."""
    open_scans: int
    """Scans begun and not closed yet; a metric that should be 0 between batches."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of the keys, None where there is none. Ascending keys are read about twice as
        fast."""
        ...

    def write(self, entries: Iterable[Entry], meta: bytes | None) -> None:
        """Writes all of it or nothing, in order (the last entry of a key wins), together with the meta record
        (None leaves it as it is). What has returned survives the death of the process; after the death of the
        machine the store is as after some earlier write, entries and meta together. `META_KEY` among the
        entries is a ValueError."""
        ...

    def meta(self) -> bytes | None: ...

    def scan(self, prefix: bytes, least: bytes = b"") -> Scan:
        """Entries whose keys begin with `prefix`, from the key `least` on; the meta record is never among them."""
        ...

    def first_key(self, prefix: bytes, least: bytes) -> bytes | None:
        """The lowest key that begins with `prefix` and is not below `least`; None when there is none. It costs one seek,
        however many entries lie between; the meta record's is never given."""
        ...

    def is_empty(self) -> bool:
        """True when there is no entry; the meta record does not count."""
        ...

    def size_bytes(self) -> int:
        """About how much memory and disk the entries take."""
        ...

    def entry_count(self) -> int:
        """About how many entries there are, rather too many: on disk, a key written again counts again for a
        while."""
        ...

    def clear(self) -> None:
        """Empties it for good, meta record and all; it can be written again. Scans still open are void."""
        ...

    def close(self) -> None:
        """Releases files and locks. Safe to call twice. Anything else after it is a RuntimeError."""
        ...

    def destroy(self) -> None:
        """Closes, and removes everything."""
        ...
