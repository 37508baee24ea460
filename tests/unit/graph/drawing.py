"""Small jobs to compile, and how their plans are looked at."""

from __future__ import annotations

from typing import Any

from kstreampy.common import SimpleStringSchema, WatermarkStrategy
from kstreampy.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.graph.compile import compile_plan
from kstreampy.graph.plan import Link, Plan, Stage


class Rich(MapFunction):
    """Has an `open`, and so may use state where there is a key."""

    def open(self, runtime_context: RuntimeContext) -> None: ...

    def map(self, value: Any) -> Any:
        return value


def by(value: Any) -> Any:
    return value[0]


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def from_topic(env: StreamExecutionEnvironment, topic: str = "orders", *, bounded: bool = False) -> DataStream:
    builder = KafkaSource.builder().set_topics(topic).set_value_only_deserializer(SimpleStringSchema())
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), topic.title())


def to_topic(topic: str = "totals") -> KafkaSink:
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer.set_value_serialization_schema(SimpleStringSchema())
    return KafkaSink.builder().set_record_serializer(serializer.build()).build()


def compiled(env: StreamExecutionEnvironment, **changes: Any) -> Plan:
    settings: dict[str, Any] = {"name": "job", "application_id": "app", "key_groups": 12, **changes}
    return compile_plan(env.graph, **settings)


def shape(plan: Plan) -> dict[str, Any]:
    """Stage → its chain, as nested lists of kinds."""
    return {stage.uid: [_kinds(link) for link in stage.chain] for stage in plan.stages}


def _kinds(link: Link) -> Any:
    sides = {tag_id: [_kinds(following) for following in links] for tag_id, links in link.sides}
    following = [*map(_kinds, link.next), *([sides] if sides else [])]
    return [link.step.kind, *following] if following else link.step.kind


def uids(plan: Plan) -> list[str]:
    return [step.uid for stage in plan.stages for step in stage.steps()]


def stateful_uids(stage: Stage) -> list[str]:
    return [step.uid for step in stage.steps() if step.stateful]
