"""Topics as a test sees them: what it writes to the job's inputs, and what it reads of the job's results.

In here: `InputTopic`, `Output` and `OutputRecord`. Not in here: the forms of values (`form.py`), and the log (`broker/memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kstreampy.broker.broker import Message, TopicPartition
from kstreampy.broker.memory import MemoryCluster
from kstreampy.broker.memory.log import Headers
from kstreampy.broker.memory.partitioner import partition_of
from kstreampy.errors import JobError
from kstreampy.operators.decode import PackedDecoder
from kstreampy.serde.batch import NO_TIMESTAMP, Token
from kstreampy.serde.key import key_of
from kstreampy.testing.form import Encode

_CREATE_TIME = 1


class InputTopic:
    """Writes records to a topic, at once and committed. Got by `JobHarness.topic`."""

    def __init__(self, cluster: MemoryCluster, name: str, value: Encode, key: Encode) -> None:
        self.name = name
        self._cluster = cluster
        self._value = value
        self._key = key

    def send(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
    ) -> None:
        """One record. `timestamp` in ms, by default the virtual present; `partition` by default that of the key, and without
        a key each in turn. A `value` of None is a null (a deletion, in compacted topics). JobError for a partition that is
        not there or a time before 1970."""
        if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, int) or timestamp < 0):
            raise JobError(f"topic {self.name!r}: a record's timestamp is an int of at least 0 (ms), not {timestamp!r}")
        data, key_data = self._value(value), self._key(key)
        stamp = self._cluster.clock() if timestamp is None else timestamp
        copied: Headers | None = list(headers) if headers else None
        with self._cluster.lock:
            number = self._choose(key_data) if partition is None else partition
            log = self._cluster.log(TopicPartition(self.name, number))
            log.append(key_data, data, (_CREATE_TIME, stamp), copied, None)
            self._cluster.touch()

    def _choose(self, key: bytes | None) -> int:
        logs = self._cluster.topic(self.name).logs
        return sum(log.end for log in logs) % len(logs) if key is None else partition_of(key, len(logs))

    def send_all(self, values: Iterable[Any], *, key: Callable[[Any], Any] | None = None) -> None:
        """Each value as one record of the present; `key` makes its key of the value."""
        for value in values:
            self.send(value, key=None if key is None else key(value))


@dataclass(frozen=True)
class OutputRecord:
    """One record that the job wrote."""

    value: Any
    key: Any = None
    timestamp: int | None = None
    """Event time in ms; None where it has none."""
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int = 0
    offset: int = 0


class Output:
    """Results as readers of committed records see them. Got by `JobHarness.output` and `JobHarness.collect`.

    In the order of partitions, and within one in the order in which they were written.
    """

    def __init__(
        self, cluster: MemoryCluster, name: str, decode: Callable[[Message], list[OutputRecord]], taken: dict[int, int]
    ) -> None:
        """`taken` holds, by partition, the offset up to which `take` has come."""
        self.name = name
        self._cluster = cluster
        self._decode = decode
        self._taken = taken

    def records(self, *, uncommitted: bool = False) -> list[OutputRecord]:
        """All there are; with `uncommitted` also those that no checkpoint has yet, or never will have."""
        return [record for message in self._messages(uncommitted) for record in self._decode(message)]

    def values(self, *, uncommitted: bool = False) -> list[Any]:
        """The records' values."""
        return [record.value for record in self.records(uncommitted=uncommitted)]

    def by_key(self) -> dict[Any, list[Any]]:
        """The values of each key, in order."""
        found: dict[Any, list[Any]] = {}
        for record in self.records():
            found.setdefault(record.key, []).append(record.value)
        return found

    def take(self) -> list[OutputRecord]:
        """The records that were committed since the last call."""
        new: list[OutputRecord] = []
        for message in self._messages(False):
            if message.offset() >= self._taken.get(message.partition(), 0):
                self._taken[message.partition()] = message.offset() + 1
                new += self._decode(message)
        return new

    def take_values(self) -> list[Any]:
        """Their values; as `take`, which goes on behind them."""
        return [record.value for record in self.take()]

    def __len__(self) -> int:
        return len(self.records())

    def __iter__(self) -> Iterator[OutputRecord]:
        return iter(self.records())

    def __repr__(self) -> str:
        return f"<{self.name}: {self.values()!r}>"

    def _messages(self, uncommitted: bool) -> list[Message]:
        with self._cluster.lock:
            if self.name not in self._cluster.topics:
                return []
            logs = self._cluster.topic(self.name).logs
            if uncommitted:
                return [message for log in logs for message in log.everything()]
            return [message for log in logs for message in log.read(log.begin, 10**9)[0]]


def record_of(
    read_value: Callable[[bytes | None], Any], read_key: Callable[[bytes | None], Any], message: Message
) -> list[OutputRecord]:
    """The record of a message in a topic of the user's."""
    timestamp = message.timestamp()[1]
    return [
        OutputRecord(
            read_value(message.value()),
            read_key(message.key()),
            None if timestamp < 0 else timestamp,
            message.headers() or [],
            message.partition(),
            message.offset(),
        )
    ]


def records_packed(decoder: PackedDecoder, message: Message) -> list[OutputRecord]:
    """The records of a message that a job's stage packed."""
    batch = decoder.decode(message).batch
    keys: Sequence[Token | None] = batch.keys or [None] * len(batch)
    headers = batch.headers or [None] * len(batch)
    return [
        OutputRecord(
            value,
            None if key is None else key_of(key),
            None if timestamp == NO_TIMESTAMP else timestamp,
            pairs or [],
            message.partition(),
            message.offset(),
        )
        for value, timestamp, key, pairs in zip(batch.values, batch.timestamps, keys, headers, strict=True)
    ]
