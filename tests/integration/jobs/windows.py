"""A job for the crash tests: windows of three kinds per user, from a topic to a topic. Arguments: bootstrap, input, output."""

import sys

from kstreampy.common import SerializationSchema, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.datastream.functions import WindowFunction
from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    DynamicEventTimeSessionWindows,
    TumblingEventTimeWindows,
)

TUMBLING_MS = 30_000
EARLY_MS = 10_000
COUNT = 7


class UserKey(SerializationSchema):
    def serialize(self, value: dict) -> bytes:
        return f"{value['user']} {value['kind']}".encode()


class Time(TimestampAssigner):
    def extract_timestamp(self, value: dict, record_timestamp: int) -> int:
        return value["time"]


class Listed(WindowFunction):
    """Everything that was in a window."""

    def __init__(self, kind: str):
        self.kind = kind

    def apply(self, key, window, inputs):
        numbers = [value["number"] for value in inputs]
        yield {"user": key, "kind": self.kind, "end": window.max_timestamp(), "numbers": numbers}


def main(bootstrap: str, source: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    read = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_key_serialization_schema(UserKey())
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    keyed = env.from_source(read, strategy, "records").key_by(lambda value: value["user"])
    early = keyed.window(TumblingEventTimeWindows.of(TUMBLING_MS)).trigger(ContinuousEventTimeTrigger.of(EARLY_MS))
    early.apply(Listed("early")).uid("early").sink_to(sink)
    sessions = keyed.window(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda value: value["gap"]))
    sessions.apply(Listed("session")).uid("session").sink_to(sink)
    keyed.count_window(COUNT).apply(Listed("count")).uid("count").sink_to(sink)
    env.execute()


main(*sys.argv[1:])
