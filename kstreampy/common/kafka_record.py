"""Whole Kafka records as a user sees them: what a source decodes and what a sink writes, beyond the bare
value.

In here: the records, and what a sink schema is told of its place. Users reach them through
`kstreampy.datastream.connectors.kafka`, as in PyFlink; they live here so that operators can see them. Not in here: how
records are read (`kafka_deserialization.py`) and made (`kafka_serialization.py`), and the Kafka client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

Headers: TypeAlias = list[tuple[str, bytes | None]]


class ClientMessage(Protocol):
    """A message as the Kafka client gives it: the part that decoding needs."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Headers | None: ...


class ConsumerRecord(NamedTuple):
    """A record of a topic, read but not decoded. `timestamp` in ms, None when the record has none; `headers`
    in order, possibly empty, a key possibly more than once."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of_message(cls, message: ClientMessage) -> ConsumerRecord:
        kind, stamp = message.timestamp()
        return cls(
            message.topic(),
            message.partition(),
            message.offset(),
            None if kind == 0 or stamp < 0 else stamp,
            message.key(),
            message.value(),
            message.headers() or [],
        )


@dataclass(slots=True)
class ProducerRecord:
    """A record to write. `value` None is a tombstone. None elsewhere leaves it open: no key, no headers, the
    partition of the key (as Java's partitioner chooses it), the element's own timestamp. `timestamp` in
    ms."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class KafkaSinkContext(Protocol):
    """What a record serializer may ask for."""

    def get_partitions_for_topic(self, topic: str) -> list[int]:
        """The topic's partitions, in order."""
        ...

    def get_parallel_instance_id(self) -> int:
        """The number of the writing task, from 0."""
        ...

    def get_number_of_parallel_instances(self) -> int:
        """How many tasks write."""
        ...
