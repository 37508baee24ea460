"""A member of a group: polling, with everything that a rebalance does inside a poll.

In here: `MemoryConsumer`. Not in here: who should have which partition (`group.py`) and reading them
(`cursor.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from kstreampy.broker.broker import Chunk, Position, RebalanceListener, Start, TopicPartition
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.cursor import Cursor, Cursors
from kstreampy.broker.memory.group import Member, Standing
from kstreampy.errors import BrokerUnavailable, JobError, TaskMigrated


class MemoryConsumer:
    """A `GroupConsumer` on the in-memory log; it has joined when it is made. Owned by one thread.

    Listeners are called without the cluster's lock, so that they may wait for other threads that read.
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        instance_id: str | None,
    ) -> None:
        self.group = group
        self._cluster = cluster
        self._topics = tuple(topics)
        self._instance_id = instance_id
        self._listener = listener
        self._cursors = Cursors(cluster, f"group {group}")
        self._closed = False
        self._member = self._join()

    def _join(self) -> Member:
        with self._cluster.lock:
            member = self._cluster.group(self.group).join(self, self._topics, self._instance_id)
            self._cluster.touch()
        return member

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        """Also the only place, beside `close`, where the listener is called. TaskMigrated when another
        consumer with the same instance id has taken over; JobError for a missing topic or for offsets that
        are gone."""
        deadline: float | None = None
        while True:
            with self._cluster.lock:
                seen = self._cluster.version
            self._rebalance()
            with self._cluster.lock:
                for topic in self._topics:
                    self._cluster.topic(topic)
                chunks = self._cursors.take(max_messages)
                if chunks or timeout_s <= 0 or not self._cluster.blocking:
                    return chunks
                deadline = deadline if deadline is not None else time.monotonic() + timeout_s
                left = deadline - time.monotonic()
                if left <= 0:
                    return []
                if self._cluster.version == seen:
                    self._cluster.changed.wait(left)

    def _rebalance(self) -> None:
        if self._closed:
            raise RuntimeError(f"the consumer of group {self.group} is closed and cannot be polled")
        standing = self._member.standing
        if standing is not Standing.CURRENT:
            self._lose()
        if standing is Standing.FENCED:
            raise TaskMigrated(
                f"another consumer of group {self.group} joined with instance id {self._instance_id} and "
                "took over; give every worker its own id, or stop this one"
            )
        if standing is Standing.EXPELLED:
            self._member = self._join()
        self._give_up()
        self._take_over()

    def _lose(self) -> None:
        lost = sorted(self._cursors)
        self._cursors.clear()
        if lost:
            self._listener.lost(lost)

    def _give_up(self) -> None:
        """Lets go of what the group wants elsewhere, whatever the listener says to it."""
        with self._cluster.lock:
            going = sorted(self._cursors.keys() - self._member.target)
        if not going:
            return
        try:
            self._listener.revoked(going)
        finally:
            with self._cluster.lock:
                for partition in going:
                    del self._cursors[partition]
                self._member.group.let_go(self._member, going)
                self._cluster.touch()

    def _take_over(self) -> None:
        with self._cluster.lock:
            new = self._member.group.take(self._member)
            for partition in new:
                self._cursors[partition] = Cursor(self._cluster.log(partition))
        if not new:
            return
        starts = self._listener.assigned(new)
        missing = [partition for partition in new if partition not in starts]
        if missing:
            raise JobError(f"the listener of group {self.group} gave no start for {missing}; return one for each")
        for partition in new:
            self._begin(self._cursors[partition], starts[partition])

    @staticmethod
    def _begin(cursor: Cursor, start: Start) -> None:
        cursor.position = start.offset
        cursor.paused = start.paused

    def assignment(self) -> set[TopicPartition]:
        return set(self._cursors)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are not assigned are passed over, as the Kafka client does."""
        self._set_paused(partitions, True)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are not assigned are passed over, as the Kafka client does."""
        self._set_paused(partitions, False)

    def _set_paused(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        for partition in partitions:
            cursor = self._cursors.get(partition)
            if cursor is not None:
                cursor.paused = paused

    def seek(self, partition: TopicPartition, offset: int) -> None:
        cursor = self._cursors.get(partition)
        if cursor is None:
            raise TaskMigrated(
                f"{partition.topic}[{partition.partition}] is not assigned to this consumer of group "
                f"{self.group}: it cannot seek to {offset}; drop the task"
            )
        cursor.position = offset

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._cursors.positions(partitions)

    def lag(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            return {
                partition: max(0, self._cursors[partition].log.stable_end - position)
                for partition, position in self._cursors.positions(partitions).items()
            }

    def check(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Refuses what `store` must not be given: TaskMigrated for a member that is not current or partitions
        that it does not own, JobError for a missing topic. The caller holds the lock."""
        for partition in positions:
            self._cluster.log(partition)
        self._member.group.check(self._member, positions)

    def store(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Makes checked offsets the group's. The caller holds the lock."""
        self._member.group.offsets.update(positions)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        with self._cluster.lock:
            self.check(positions)
            fault = self._cluster.take_offset_commit_fault(self.group)
            if fault is not False:
                self.store(positions)
        if fault is not None:
            raise BrokerUnavailable(f"the commit of offsets of group {self.group} was not answered (injected fault)")

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        owned = sorted(self._cursors)
        try:
            if self._member.standing is not Standing.CURRENT:
                self._lose()
            elif owned:
                self._listener.revoked(owned)
        finally:
            self._cursors.clear()
            with self._cluster.lock:
                self._member.group.leave(self._member)
                self._cluster.touch()
