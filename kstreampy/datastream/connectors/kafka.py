"""Kafka as source and sink, as a user describes it: PyFlink's builders, and the frozen descriptions they
build.

In here: no client and no offsets: what is described here is read by the environment, which plans the job.
Whole records and their schemas are `common/kafka_record.py`, exported here; which properties are refused is
`kafka_property.py`. PyFlink's FlinkKafkaConsumer and FlinkKafkaProducer are not offered: Flink has removed
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kstreampy.common import left_out
from kstreampy.common.kafka_deserialization import (
    KafkaRecordDeserializationSchema,
    KeyValueDeserializationSchema,
    ValueOnlyDeserializationSchema,
)
from kstreampy.common.kafka_record import ConsumerRecord, KafkaSinkContext, ProducerRecord
from kstreampy.common.kafka_serialization import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
    SchemaRecordSerializer,
)
from kstreampy.common.serialization import DeserializationSchema
from kstreampy.datastream.connectors import kafka_property
from kstreampy.datastream.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
    StreamTransformer,
    SupportsPreprocessing,
)
from kstreampy.datastream.connectors.kafka_offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetsKind,
)
from kstreampy.errors import JobError

__all__ = [
    "ConsumerRecord",
    "DeliveryGuarantee",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSinkContext",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "KeyValueDeserializationSchema",
    "OffsetsKind",
    "ProducerRecord",
    "SchemaRecordSerializer",
    "ValueOnlyDeserializationSchema",
]

if not TYPE_CHECKING:  # to a type checker, what is not here is not here
    __getattr__ = left_out.of_module(__name__)

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class KafkaSource(Source):
    """A source of Kafka topics. Exactly one of `topics`, `topic_pattern` and `partitions` is there.

    `starting` counts only for partitions that no checkpoint has a position for. `stopping` None: never; with
    `bounded` the job's other inputs treat the source as ended there, without it the source stays unbounded
    and merely stops. `properties` are client settings under Kafka's names; `bootstrap_servers` None: the
    job's own cluster; `group_id` None: the job's own name for the stage.
    """

    deserializer: KafkaRecordDeserializationSchema
    bootstrap_servers: str | None = None
    group_id: str | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    partitions: frozenset[KafkaTopicPartition] = frozenset()
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    bounded: bool = False
    client_id_prefix: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        return KafkaSourceBuilder()


class KafkaSourceBuilder:
    """Needs topics (or a pattern, or partitions) and a deserializer. Every setter returns the builder; the
    last call of a setter counts, `set_property` adds up. All errors are `JobError`."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """`host:port`, several separated by commas."""
        return self._set("bootstrap_servers", _text(_SOURCE, "set_bootstrap_servers", bootstrap_servers))

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        return self._set("group_id", _text(_SOURCE, "set_group_id", group_id))

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        for topic in topics:
            if not isinstance(topic, str) or not _TOPIC_NAME.fullmatch(topic):
                raise JobError(
                    f"{_SOURCE}.set_topics: {topic!r} is no topic's name; give one argument for each topic, "
                    "as in set_topics('a', 'b')"
                )
        return self._set("topics", tuple(dict.fromkeys(topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """A regular expression (Python's) for the whole name."""
        pattern = _text(_SOURCE, "set_topic_pattern", topic_pattern)
        try:
            re.compile(pattern)
        except re.error as error:
            raise JobError(f"{_SOURCE}.set_topic_pattern: {pattern!r} is no regular expression: {error}") from None
        return self._set("topic_pattern", pattern)

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        chosen = frozenset(partitions)
        for partition in chosen:
            if not isinstance(partition, KafkaTopicPartition):
                raise JobError(f"{_SOURCE}.set_partitions: expected KafkaTopicPartition(topic, n), not {partition!r}")
        return self._set("partitions", chosen)

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Where to start: the beginning, unless this is called."""
        return self._set("starting", _offsets("set_starting_offsets", starting_offsets_initializer))

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stops there, but the source still counts as unbounded."""
        self._set("bounded", False)
        return self._set("stopping", _offsets("set_unbounded", stopping_offsets_initializer))

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Ends there: the job ends when all of its sources have."""
        self._set("bounded", True)
        return self._set("stopping", _offsets("set_bounded", stopping_offsets_initializer))

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Decodes the records' values; key, headers and timestamp stay behind the scenes. Null values are
        None."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise JobError(
                f"{_SOURCE}.set_value_only_deserializer: expected a DeserializationSchema instance, "
                f"not {deserialization_schema!r}"
            )
        return self._set("deserializer", ValueOnlyDeserializationSchema(deserialization_schema))

    def set_deserializer(self, deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Decodes whole records: key, headers, timestamp and offset are at hand. Java's call; PyFlink has
        none."""
        if not isinstance(deserializer, KafkaRecordDeserializationSchema):
            raise JobError(
                f"{_SOURCE}.set_deserializer: expected a KafkaRecordDeserializationSchema instance, "
                f"not {deserializer!r}"
            )
        return self._set("deserializer", deserializer)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        return self._set("client_id_prefix", _text(_SOURCE, "set_client_id_prefix", prefix))

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """A client setting under Kafka's name. Those that the guarantees need are refused with the reason;
        `bootstrap.servers` and `group.id` are what their own setters are told."""
        if key == "bootstrap.servers":
            return self.set_bootstrap_servers(value)
        if key == "group.id":
            return self.set_group_id(value)
        text = kafka_property.checked(f"{_SOURCE}.set_property", key, value, kafka_property.SOURCE)
        if text is not None:
            self._properties[key] = text
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Names the call that is missing or too much."""
        calls = {"topics": "set_topics", "topic_pattern": "set_topic_pattern", "partitions": "set_partitions"}
        chosen = [call for name, call in calls.items() if self._settings.get(name)]
        if not chosen:
            raise JobError(f"{_SOURCE}: no topics: call set_topics(...), set_topic_pattern(...) or set_partitions(...)")
        if len(chosen) > 1:
            raise JobError(f"{_SOURCE}: {' and '.join(chosen)} were both called: call only one of them")
        if "deserializer" not in self._settings:
            raise JobError(
                f"{_SOURCE}: no deserializer: call set_value_only_deserializer(schema) or set_deserializer(schema)"
            )
        return KafkaSource(**self._settings, properties=dict(self._properties))

    def _set(self, name: str, value: Any) -> KafkaSourceBuilder:
        self._settings[name] = value
        return self


_SOURCE = "KafkaSource.builder()"
_SINK = "KafkaSink.builder()"


def _text(builder: str, call: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise JobError(f"{builder}.{call}: expected text, not {value!r}")
    return value


def _offsets(call: str, initializer: Any) -> KafkaOffsetsInitializer:
    if not isinstance(initializer, KafkaOffsetsInitializer):
        raise JobError(
            f"{_SOURCE}.{call}: expected a KafkaOffsetsInitializer, such as "
            f"KafkaOffsetsInitializer.latest(), not {initializer!r}"
        )
    return initializer


@dataclass(frozen=True)
class KafkaSink(Sink, SupportsPreprocessing):
    """A sink of Kafka topics. `delivery_guarantee` None: the job's own. `transactional_id_prefix` is kept for
    PyFlink's sake: the worker's one transaction, named after the job and the worker, covers its sinks.
    Elements' timestamps are written as the records'."""

    record_serializer: KafkaRecordSerializationSchema
    bootstrap_servers: str | None = None
    delivery_guarantee: DeliveryGuarantee | None = None
    transactional_id_prefix: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        return KafkaSinkBuilder()

    def get_transformer(self) -> StreamTransformer | None:
        """None: topic selectors need no step of their own here."""
        return None


class KafkaSinkBuilder:
    """Needs a record serializer. Every setter returns the builder. All errors are `JobError`."""

    def __init__(self) -> None:
        self._settings: dict[str, Any] = {}
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """`host:port`, several separated by commas."""
        return self._set("bootstrap_servers", _text(_SINK, "set_bootstrap_servers", bootstrap_servers))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise JobError(
                f"{_SINK}.set_delivery_guarantee: expected a DeliveryGuarantee, such as "
                f"DeliveryGuarantee.EXACTLY_ONCE, not {delivery_guarantee!r}"
            )
        return self._set("delivery_guarantee", delivery_guarantee)

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        return self._set(
            "transactional_id_prefix", _text(_SINK, "set_transactional_id_prefix", transactional_id_prefix)
        )

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise JobError(
                f"{_SINK}.set_record_serializer: expected a KafkaRecordSerializationSchema, such as its "
                f"builder builds (was build() called?), not {record_serializer!r}"
            )
        return self._set("record_serializer", record_serializer)

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """A client setting under Kafka's name. Those that the guarantees need are refused with the reason. `group.id`
        is dropped: a producer has no group, but programs hand one dict to source and sink."""
        if key == "bootstrap.servers":
            return self.set_bootstrap_servers(value)
        if key == "group.id":
            return self
        text = kafka_property.checked(f"{_SINK}.set_property", key, value, kafka_property.SINK)
        if text is not None:
            self._properties[key] = text
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSinkBuilder:
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSink:
        """Names the call that is missing."""
        if "record_serializer" not in self._settings:
            raise JobError(f"{_SINK}: no record serializer: call set_record_serializer(schema)")
        return KafkaSink(**self._settings, properties=dict(self._properties))

    def _set(self, name: str, value: Any) -> KafkaSinkBuilder:
        self._settings[name] = value
        return self
