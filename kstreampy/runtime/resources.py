"""What the parts of a worker share: one of each per process, made by `worker.py` and closed by it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kstreampy.broker.broker import Broker
from kstreampy.errors import StateCorrupted
from kstreampy.graph.topic import MAX_MESSAGE_BYTES
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime.layout import Layout
from kstreampy.runtime.pace import Pace
from kstreampy.runtime.query import QueryDesk
from kstreampy.runtime.settings import Settings
from kstreampy.state.budget import CacheBudget
from kstreampy.state.directory import StateDirectory
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore

_log = logging.getLogger(__name__)

_WRITE_BEHIND_MS = 3_000
MAX_VALUE_BYTES = MAX_MESSAGE_BYTES - 64 * 1024


@dataclass
class Stores:
    """Where tasks keep their state: RocksDB under the worker's state directory, or memory where there is no directory."""

    directory: StateDirectory | None
    cache_budget: CacheBudget
    rocks_budget: RocksBudget | None
    damaged: set[Path] = field(default_factory=set)
    """Stores that were found damaged while in use, over the worker's life."""

    def open(self, stage: str, partition: int) -> KeyedState:
        """The task's state as it was left. A store that cannot be read is set aside, to be rebuilt from the changelog."""
        if self.directory is None or self.rocks_budget is None:
            return KeyedState(MemoryStore(), self.cache_budget, max_value_bytes=MAX_VALUE_BYTES)
        path = self.directory.store_path(stage, partition)
        try:
            return self._open_rocks(path, self.rocks_budget)
        except StateCorrupted as error:
            aside = self.directory.quarantine(path)
            _log.error(
                "local state of %s/%d is damaged (%s): set aside as %s and rebuilt", stage, partition, error, aside
            )
            return self._open_rocks(path, self.rocks_budget)

    def _open_rocks(self, path: Path, budget: RocksBudget) -> KeyedState:
        store = RocksStore(path, budget)
        try:
            return KeyedState(
                store, self.cache_budget, max_value_bytes=MAX_VALUE_BYTES, write_behind_ms=_WRITE_BEHIND_MS
            )
        except BaseException:
            store.close()
            raise

    def set_aside_damaged(self, error: StateCorrupted) -> bool:
        """After a store turned out to be damaged while in use (and all are closed): sets aside the one that the error names.
        False if it names none of ours, or one that was set aside before and is damaged again: the fault lies deeper."""
        if self.directory is None:
            return False
        for stage, partition in self.directory.stores():
            path = self.directory.store_path(stage, partition)
            if re.search(re.escape(str(path)) + r"(?!\d)", str(error)) and path not in self.damaged:
                self.damaged.add(path)
                aside = self.directory.quarantine(path)
                _log.error(
                    "local state of %s/%d is damaged (%s): set aside as %s and rebuilt", stage, partition, error, aside
                )
                return True
        return False


@dataclass
class Resources:
    """Lives as long as the worker process, over all its drivers."""

    layout: Layout
    settings: Settings
    broker: Broker
    stores: Stores
    metrics: Metrics
    health: Health
    clock: Callable[[], int]
    worker_id: str
    attempt: int = 0
    paces: dict[str, Pace] = field(default_factory=dict)
    monotonic: Callable[[], float] = time.monotonic
    """Seconds, for intervals: of checkpoints, watermarks and looks. Where time is simulated it goes with `clock`."""
    queries: QueryDesk = field(default_factory=QueryDesk)
    """Where other threads ask for state; the driver answers between turns."""
    next_future_warning: float = float("-inf")
    """By `monotonic`: until then nothing more is said of timestamps in the future."""

    @property
    def exactly_once(self) -> bool:
        return self.settings.guarantee == "exactly_once"
