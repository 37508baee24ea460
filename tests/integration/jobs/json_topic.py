"""Topics of JSON values, as the jobs beside this file read and write them."""

from collections.abc import Callable

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStream, DataStreamUtils, KeyedStream
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema


def user_of(value: dict) -> str:
    return value["user"]


def by_user(stream: DataStream, *, inplace: bool) -> KeyedStream:
    """`inplace`: the topic that the stream reads is partitioned by user already."""
    if inplace:
        return DataStreamUtils.reinterpret_as_keyed_stream(stream, user_of)
    return stream.key_by(user_of)


def by_time() -> WatermarkStrategy:
    """Event time is in the values, and each partition in its order."""
    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value["time"])


def source(bootstrap: str, topic: str, *, bounded: bool = False) -> KafkaSource:
    """From the beginning; `bounded`: to where the topic ends as the job starts."""
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
    )
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def sink(bootstrap: str, topic: str, key_of: Callable[[dict], str] | None = user_of) -> KafkaSink:
    """`key_of` None: records without keys."""
    builder = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(JsonSerializationSchema())
    )
    if key_of is not None:
        builder.set_key_selector(key_of)
    return KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(builder.build()).build()
