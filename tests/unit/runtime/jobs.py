"""Plans for the scene: drawn with the public API, compiled as a launcher would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreampy.common import SerializationSchema, SimpleStringSchema, WatermarkStrategy
from kstreampy.datastream import DataStreamUtils, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
)
from kstreampy.graph.compile import compile_plan
from kstreampy.graph.plan import Plan
from kstreampy.operators.connector import ConnectorSource

GROUPS = 3


class Total(SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        return str(value[1]).encode()


def user_and_amount(text: str) -> tuple[str, int]:
    user, amount = text.split(":")
    return user, int(amount)


def source(*topics: str) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema())
    return builder.set_topics(*(topics or ("in",))).set_starting_offsets(KafkaOffsetsInitializer.earliest())


def sink(topic: str = "out") -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_selector(lambda pair: str(pair[0]))
        .set_value_serialization_schema(Total())
        .build()
    )
    return KafkaSink.builder().set_record_serializer(serializer).build()


def compiled(env: StreamExecutionEnvironment, application_id: str = "app", key_groups: int = GROUPS) -> Plan:
    return compile_plan(env.take_job(None).graph, name="job", application_id=application_id, key_groups=key_groups)


def totals(
    *,
    in_place: bool = False,
    bounded: bool = False,
    built: KafkaSourceBuilder | None = None,
    parse: Callable[[str], Any] = user_and_amount,
    strategy: WatermarkStrategy | None = None,
    application_id: str = "app",
    uid: str = "total",
) -> Plan:
    """`user:amount` from topic in, running totals per user to topic out. `in_place`: one stage, keyed by the input's own
    partitions; otherwise two."""
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = built or source()
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    numbers = env.from_source(builder.build(), strategy or WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    pairs = numbers.map(parse)
    if in_place:
        keyed = DataStreamUtils.reinterpret_as_keyed_stream(pairs, lambda pair: pair[0])
    else:
        keyed = pairs.key_by(lambda pair: pair[0])
    keyed.sum(1).uid(uid).sink_to(sink())
    return compiled(env, application_id)


def totals_of(parts: ConnectorSource) -> Plan:
    """As `totals` in two stages behind a source that is not Kafka."""
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(parts, WatermarkStrategy.no_watermarks(), "parts").uid("parts")
    numbers.map(user_and_amount).key_by(lambda pair: pair[0]).sum(1).uid("total").sink_to(sink())
    return compiled(env)


def passing(*, bounded: bool = False, built: KafkaSourceBuilder | None = None, application_id: str = "app") -> Plan:
    """One stage without state: `user:amount` from topic in to topic out."""
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = built or source()
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    numbers = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(user_and_amount).sink_to(sink())
    return compiled(env, application_id)


__all__ = ["GROUPS", "compiled", "passing", "sink", "source", "totals", "totals_of", "user_and_amount"]
