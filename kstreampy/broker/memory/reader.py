"""Reading partitions chosen by hand. In here: `MemoryReader`. Not in here: groups (`consumer.py`)."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.cursor import Cursor, Cursors


class MemoryReader:
    """A `Reader` on the in-memory log. Owned by one thread, which need not be the driver's."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._cursors = Cursors(cluster, "a reader")

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """JobError when a topic or partition is missing; nothing is changed then."""
        with self._cluster.lock:
            cursors = {partition: Cursor(self._cluster.log(partition), offset) for partition, offset in starts.items()}
            self._cursors.clear()
            self._cursors.update(cursors)

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        """JobError for offsets that are gone or a topic that was deleted."""
        deadline: float | None = None
        with self._cluster.lock:
            while True:
                chunks = self._cursors.take(max_messages)
                if chunks or timeout_s <= 0 or not self._cluster.blocking:
                    return chunks
                deadline = deadline if deadline is not None else time.monotonic() + timeout_s
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                self._cluster.changed.wait(left)

    def positions(self) -> dict[TopicPartition, int]:
        return self._cursors.positions(self._cursors)

    def close(self) -> None:
        self._cursors.clear()
