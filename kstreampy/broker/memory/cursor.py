"""Reading on: where a reader stands in each of its partitions, and taking the next messages fairly.

In here: `Cursor` (one partition) and `Cursors` (those of one consumer or reader). Not in here: who may read
what (`consumer.py`, `reader.py`); callers hold the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.log import PartitionLog
from kstreampy.errors import JobError


class Cursor:
    """One partition that is read; `position` is None until it is known."""

    __slots__ = ("log", "paused", "position")

    def __init__(self, log: PartitionLog, position: int | None = None) -> None:
        self.log = log
        self.position = position
        self.paused = False


class Cursors(dict[TopicPartition, Cursor]):
    """All cursors of one consumer or reader. `reader` names it in errors."""

    def __init__(self, cluster: MemoryCluster, reader: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._reader = reader
        self._turn = 0

    def take(self, max_messages: int) -> list[Chunk]:
        """Up to `max_messages` of what is there. The partition that comes first changes with every call, so
        that a full one does not starve the others."""
        partitions = sorted(self)
        if not partitions:
            return []
        self._turn = (self._turn + 1) % len(partitions)
        chunks: list[Chunk] = []
        for partition in partitions[self._turn :] + partitions[: self._turn]:
            cursor = self[partition]
            if max_messages <= 0:
                break
            if cursor.paused or cursor.position is None:
                continue
            log = self._check(partition, cursor, cursor.position)
            messages, cursor.position = log.read(cursor.position, max_messages)
            if messages:
                max_messages -= len(messages)
                chunks.append(Chunk(partition.topic, partition.partition, messages))
        return chunks

    def _check(self, partition: TopicPartition, cursor: Cursor, position: int) -> PartitionLog:
        """The partition's log, if it can be read on: it is still the same one, and the position lies within
        it."""
        name = f"{partition.topic}[{partition.partition}]"
        log = self._cluster.log(partition)
        if cursor.log is not log:
            raise JobError(
                f"topic {partition.topic} was deleted and made anew while {self._reader} was reading it; "
                "offsets of the old topic mean nothing in the new one: reset the job or restart it on a new "
                "id"
            )
        if position < log.begin:
            raise JobError(
                f"{self._reader} wants to read {name} from offset {position}, but the log begins at "
                f"{log.begin}: "
                f"offsets {position} to {log.begin - 1} ({log.begin - position}) were deleted before they "
                "were read: lengthen the topic's retention. If the gap may be skipped, move the offset of the stage's "
                "group; a stage with state keeps its own, and begins anew under another application id"
            )
        if position > log.end:
            raise JobError(
                f"{self._reader} wants to read {name} from offset {position}, but the log ends at "
                f"{log.end}: the gap is "
                f"{log.end} to {position}; the topic was truncated or made anew: reset the position on "
                "purpose"
            )
        return log

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those that are read here and known."""
        return {
            partition: position
            for partition in partitions
            if partition in self and (position := self[partition].position) is not None
        }
