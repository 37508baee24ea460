"""A worker's disk, in memory or real, on which somebody looks when a task's state is opened.

In here: `KeptStore` and `KeptStores` (stores that outlive the process which writes them, as those on disk do) and
`RocksStores`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kstreampy.runtime.resources import MAX_VALUE_BYTES, Stores
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.store import Entry
from kstreampy.testing.fault import Fuse


class KeptStore(MemoryStore):
    """A store in memory that outlives its driver."""

    def __init__(self, path: str, fuse: Fuse) -> None:
        super().__init__(path)
        self.fuse = fuse

    def open(self) -> KeptStore:
        self._closed = False
        return self

    def write(self, entries: Iterable[Entry], meta: bytes | None) -> None:
        self.fuse("store", "before")
        super().write(entries, meta)
        self.fuse("store", "after")


Opened = Callable[[str, KeyedState], None]
"""Told the stage and the state of each task that is opened."""


def _nobody(stage: str, state: KeyedState) -> None: ...


@dataclass
class KeptStores(Stores):
    """A disk made of `KeptStore`s."""

    fuse: Fuse = field(default_factory=Fuse)
    kept: dict[tuple[str, int], KeptStore] = field(default_factory=dict)
    write_behind_ms: int = 0
    opened: Opened = _nobody

    def open(self, stage: str, partition: int) -> KeyedState:
        store = self.kept.get((stage, partition))
        if store is None:
            store = self.kept[stage, partition] = KeptStore(f"disk/{stage}/{partition}", self.fuse)
        state = KeyedState(
            store.open(), self.cache_budget, max_value_bytes=MAX_VALUE_BYTES, write_behind_ms=self.write_behind_ms
        )
        self.opened(stage, state)
        return state


@dataclass
class RocksStores(Stores):
    """RocksDB under the worker's directory."""

    opened: Opened = _nobody

    def open(self, stage: str, partition: int) -> KeyedState:
        state = super().open(stage, partition)
        self.opened(stage, state)
        return state
