"""One partition: its messages, the offsets that markers take, and how far readers of committed records may
see.

In here: `StoredMessage`, `PartitionLog` and `Topic`. Not in here: who writes, who reads, groups, locks (the
cluster's lock is held by every caller).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping

from kstreampy.broker.broker import Message

Headers = list[tuple[str, bytes | None]]


class StoredMessage:
    """One message of a partition; satisfies `Message`. Shared by all readers, so it is never changed."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: tuple[int, int],
        headers: Headers | None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp = timestamp
        self._headers = headers

    def __repr__(self) -> str:
        return f"<{self._topic}[{self._partition}]@{self._offset} {self._key!r}: {self._value!r}>"

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def headers(self) -> Headers | None:
        return None if self._headers is None else list(self._headers)


class PartitionLog:
    """Messages in offset order. Offsets may have gaps: markers, aborted messages (dropped when their
    transaction aborts, since nobody may read them) and what compaction removed."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.begin = 0
        self.end = 0
        """The high watermark: the offset that the next message or marker takes."""
        self._messages: list[Message] = []
        self._offsets: list[int] = []
        self._open: dict[Hashable, list[int]] = {}

    @property
    def stable_end(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction, or the end."""
        if not self._open:
            return self.end
        return max(self.begin, min(offsets[0] for offsets in self._open.values()))

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: tuple[int, int],
        headers: Headers | None,
        transaction: Hashable | None,
    ) -> int:
        """Appends a message, hidden until `finish` when it belongs to a transaction; returns its offset."""
        offset = self.end
        self._messages.append(StoredMessage(self.topic, self.partition, offset, key, value, timestamp, headers))
        self._offsets.append(offset)
        self.end = offset + 1
        if transaction is not None:
            self._open.setdefault(transaction, []).append(offset)
        return offset

    def finish(self, transaction: Hashable, *, committed: bool) -> None:
        """Ends a transaction that wrote here: its marker takes an offset, and aborted messages are
        dropped."""
        written = self._open.pop(transaction)
        if not committed:
            start = bisect_left(self._offsets, written[0])
            aborted = set(written)
            kept = [message for message in self._messages[start:] if message.offset() not in aborted]
            self._messages[start:] = kept
            self._offsets[start:] = [message.offset() for message in kept]
        self.end += 1

    def read(self, position: int, limit: int) -> tuple[list[Message], int]:
        """At most `limit` committed messages from `position` on, and the position after them, which steps
        over gaps and markers once no message is left before the stable end."""
        stable = self.stable_end
        first = bisect_left(self._offsets, position)
        last = bisect_left(self._offsets, stable) if self._open else len(self._offsets)
        stop = min(first + limit, last)
        if stop >= last:
            return self._messages[first:last], max(position, stable)
        found = self._messages[first:stop]
        return found, (found[-1].offset() + 1 if found else position)

    def everything(self) -> list[Message]:
        """All messages there are, also those of transactions that are still open."""
        return list(self._messages)

    def first_at(self, timestamp_ms: int) -> int:
        """The first committed offset whose timestamp is at or after the given one, or the stable end."""
        stable = self.stable_end
        for offset, message in zip(self._offsets, self._messages, strict=True):
            if offset >= stable:
                break
            if message.timestamp()[1] >= timestamp_ms:
                return offset
        return stable

    def delete_before(self, offset: int) -> None:
        """Moves the begin up to `offset`; an offset below it changes nothing."""
        if offset > self.begin:
            cut = bisect_left(self._offsets, offset)
            del self._messages[:cut]
            del self._offsets[:cut]
            self.begin = offset

    def compact(self, *, drop_tombstones: bool) -> None:
        """Keeps the last committed message of each key; begin and end stay where they are."""
        stable = bisect_left(self._offsets, self.stable_end)
        last = {message.key(): message.offset() for message in self._messages[:stable]}
        kept = [
            message
            for message in self._messages[:stable]
            if last[message.key()] == message.offset() and not (drop_tombstones and message.value() is None)
        ]
        self._messages[:stable] = kept
        self._offsets[:stable] = [message.offset() for message in kept]


class Topic:
    """A topic that is: `configs` has Kafka's names, defaults included."""

    def __init__(self, name: str, topic_id: str, partitions: int, replication: int, configs: Mapping[str, str]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.replication = replication
        self.configs = dict(configs)
        self.logs = [PartitionLog(name, partition) for partition in range(partitions)]

    @property
    def compacted(self) -> bool:
        return "compact" in self.configs["cleanup.policy"]

    @property
    def deleting(self) -> bool:
        return "delete" in self.configs["cleanup.policy"]
