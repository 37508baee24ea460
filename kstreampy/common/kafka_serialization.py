"""How a sink makes whole Kafka records of values.

In here: the contracts, and the usual schema with its builder. Users reach it through
`kstreampy.datastream.connectors.kafka`, as in PyFlink; it lives here so that operators can see it. Not in here: the records
themselves (`kafka_record.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreampy.common.kafka_key import RecordKey, key_bytes
from kstreampy.common.kafka_record import Headers, KafkaSinkContext, ProducerRecord
from kstreampy.common.serialization import SerializationSchema
from kstreampy.errors import JobError

TopicSelector: TypeAlias = Callable[[Any], str]
HeaderProvider: TypeAlias = Callable[[Any], Headers | None]
Partitioner: TypeAlias = Callable[[bytes | None, Any, int], int]


class SelectedKeySchema(SerializationSchema):
    """The key that a function picks out of the element, as Kafka's own serializers write it."""

    def __init__(self, select: Callable[[Any], RecordKey]) -> None:
        self.select = select

    def serialize(self, value: Any) -> bytes | None:
        return key_bytes(self.select(value))

    def serialize_each(self, values: list[Any]) -> Iterable[bytes | None]:
        """As `serialize` of every value, in order, as they are asked for; quicker where all keys are text."""
        try:
            keys = [self.select(value) for value in values]
        except Exception:
            return (self.serialize(value) for value in values)  # fails where that one is asked for, and so is known
        write: Callable[[Any], bytes | None] = str.encode if {str}.issuperset(map(type, keys)) else key_bytes
        return map(write, keys)


class KafkaTopicSelector(ABC):
    """Chooses the topic of an element."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """The topic's name."""


class KafkaRecordSerializationSchema(ABC):
    """Elements to records. Users build one from value and key schemas with `builder()`, or subclass it."""

    @abstractmethod
    def serialize(self, value: Any, context: KafkaSinkContext, timestamp: int | None) -> ProducerRecord | None:
        """The record to write, None to write nothing. `timestamp` in ms, None when the element has none. Any
        exception is an encode error of this record."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        return KafkaRecordSerializationSchemaBuilder()


@dataclass(frozen=True)
class SchemaRecordSerializer(KafkaRecordSerializationSchema):
    """What the builder builds. Exactly one of `topic` and `topic_selector` is set.

    A None element is a tombstone: `value_schema` is not asked, the others (key, headers, topic, partition)
    are, with None. To write a tombstone that has a key, give elements that hold the key and a value schema
    that returns None for them.
    """

    value_schema: SerializationSchema
    topic: str | None = None
    topic_selector: TopicSelector | None = None
    key_schema: SerializationSchema | None = None
    header_provider: HeaderProvider | None = None
    partitioner: Partitioner | None = None

    @property
    def is_plain(self) -> bool:
        """True when topic, value and key are all there is: a sink may then write without making records."""
        return self.topic is not None and self.header_provider is None and self.partitioner is None

    def serialize(self, value: Any, context: KafkaSinkContext, timestamp: int | None) -> ProducerRecord:
        topic = self.topic
        if topic is None:
            assert self.topic_selector is not None, "the builder sees to it that one of the two is there"
            topic = self.topic_selector(value)
            if not isinstance(topic, str) or not topic:
                raise TypeError(f"the topic selector must return a topic's name, not {topic!r}")
        key = None if self.key_schema is None else self.key_schema.serialize(value)
        record = ProducerRecord(
            topic,
            None if value is None else self.value_schema.serialize(value),
            key,
            timestamp=timestamp,
        )
        if self.header_provider is not None:
            headers = self.header_provider(value)
            record.headers = None if headers is None else list(headers)
        if self.partitioner is not None:
            record.partition = self._partition(topic, key, value, context)
        return record

    def _partition(self, topic: str, key: bytes | None, value: Any, context: KafkaSinkContext) -> int:
        assert self.partitioner is not None, "called only with a partitioner"
        count = len(context.get_partitions_for_topic(topic))
        partition = self.partitioner(key, value, count)
        if not isinstance(partition, int) or not 0 <= partition < count:
            raise ValueError(
                f"the partitioner must return a partition of topic {topic!r}, 0 to {count - 1}, not {partition!r}"
            )
        return partition


class KafkaRecordSerializationSchemaBuilder:
    """Needs a topic (or a selector) and a value schema. Every setter returns the builder."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._selector: TopicSelector | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._headers: HeaderProvider | None = None
        self._partitioner: Partitioner | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """One topic for all elements."""
        if not isinstance(topic, str) or not topic:
            raise JobError(f"{_BUILDER}.set_topic: expected a topic's name, not {topic!r}")
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: TopicSelector | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """A topic per element, chosen by `selector(element)`."""
        selector = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        self._selector = _function("set_topic_selector", selector)
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Makes the key of the whole element, as in Flink. Without it (and `set_key_selector`), records have no key."""
        self._key = _schema("set_key_serialization_schema", key_serialization_schema)
        return self

    def set_key_selector(self, key_selector: Callable[[Any], RecordKey]) -> KafkaRecordSerializationSchemaBuilder:
        """`key_selector(element)`, or a `KeySelector`, returns the key: str, bytes, int, float, bool, UUID, written as
        Kafka's own serializers do (`key_bytes`), or None for none. So a topic is partitioned as a stream keyed by it is. In
        place of `set_key_serialization_schema` (the later call of the two counts); Flink has no such shorthand."""
        select = key_selector if isinstance(key_selector, type) else getattr(key_selector, "get_key", key_selector)
        self._key = SelectedKeySchema(_function("set_key_selector", select))
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        self._value = _schema("set_value_serialization_schema", value_serialization_schema)
        return self

    def set_header_provider(self, header_provider: HeaderProvider) -> KafkaRecordSerializationSchemaBuilder:
        """`provider(element)` returns the headers, a list of pairs `(str, bytes or None)`, or None for none.
        Without it, the headers that the element's record came with are written."""
        self._headers = _function("set_header_provider", header_provider)
        return self

    def set_partitioner(self, partitioner: Partitioner) -> KafkaRecordSerializationSchemaBuilder:
        """`partitioner(key bytes or None, element, number of partitions)` returns the partition. Without it,
        the key's hash decides as in Java's clients, and chance where there is no key."""
        self._partitioner = _function("set_partitioner", partitioner)
        return self

    def build(self) -> SchemaRecordSerializer:
        """`JobError` names the call that is missing or too much."""
        if self._topic is None and self._selector is None:
            raise JobError(f"{_BUILDER}: no topic: call set_topic(name) or set_topic_selector(function)")
        if self._topic is not None and self._selector is not None:
            raise JobError(f"{_BUILDER}: both set_topic and set_topic_selector were called: call only one of them")
        if self._value is None:
            raise JobError(f"{_BUILDER}: no value schema: call set_value_serialization_schema(schema)")
        return SchemaRecordSerializer(
            self._value, self._topic, self._selector, self._key, self._headers, self._partitioner
        )


_BUILDER = "KafkaRecordSerializationSchema.builder()"


def _function(call: str, function: Any) -> Any:
    if isinstance(function, type) or not callable(function):
        raise JobError(f"{_BUILDER}.{call}: expected a function, not {function!r}")
    return function


def _schema(call: str, schema: Any) -> SerializationSchema:
    if not isinstance(schema, SerializationSchema):
        raise JobError(f"{_BUILDER}.{call}: expected a SerializationSchema instance, not {schema!r}")
    return schema
