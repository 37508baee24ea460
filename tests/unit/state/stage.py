"""State of one task as a function sees it, with the store, the changelog and the clock in hand."""

from __future__ import annotations

from typing import Any

from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.state.budget import CacheBudget
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import parse
from kstreampy.state.memory import MemoryStore
from kstreampy.state.store import Entry, Store
from kstreampy.state.task_meta import LocalMeta, TaskMeta

MIB = 1 << 20


class Stage:
    """`handles` gives state for the key in `scope.token`, "k" unless changed; `now_ms` is the clock."""

    def __init__(
        self, store: Store | None = None, budget_bytes: int = 64 * MIB, now_ms: int = 0, write_behind_ms: int = 0
    ) -> None:
        self.store: Store = store or MemoryStore()
        self.budget = CacheBudget(budget_bytes)
        self.now_ms = now_ms
        self.write_behind_ms = write_behind_ms
        self.log: list[Entry] = []
        self.start()

    def start(self) -> None:
        """Opens the state anew over the same store: what was not committed is gone, and so is all that was in memory."""
        self.scope = KeyScope()
        self.scope.token = "k"
        self.state = KeyedState(self.store, self.budget, write_behind_ms=self.write_behind_ms)
        self.handles = TaskKeyedStateStore("step", "op", self.state, self.scope, lambda: self.now_ms)

    def commit(self) -> list[Entry]:
        """A checkpoint; what it wrote to the changelog, without counters of lists."""
        dirty = self.state.take_dirty()
        self.log += dirty.entries
        self.state.committed(dirty, self.local())
        return [(key, value) for key, value in dirty.entries if parse(key).typed_key]

    def local(self) -> LocalMeta:
        return LocalMeta("topic", 1, 1, True, TaskMeta(1, states=self.state.types).encode())

    def restart(self) -> None:
        """A checkpoint, then `start`."""
        self.commit()
        self.start()

    def rebuild(self) -> None:
        """Restores everything from the changelog into an empty store."""
        self.store = MemoryStore()
        KeyedState(self.store, self.budget).apply(self.log, self.local())
        self.start()

    def stored(self) -> dict[bytes, bytes]:
        """What the store has, without counters of lists."""
        with self.store.scan(b"") as rows:
            return {key: value for key, value in rows if parse(key).typed_key}


class CountingStore(MemoryStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up: list[bytes] = []
        self.scans = 0

    def get_many(self, keys: Any) -> list[bytes | None]:
        self.looked_up += keys
        return super().get_many(keys)

    def scan(self, prefix: bytes, least: bytes = b"") -> Any:
        self.scans += 1
        return super().scan(prefix, least)
