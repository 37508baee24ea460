"""A job for the tests of watermarks: every record sets an event-time timer at its own time, and the output says which records
came, which of them were late, and which timers fired. Arguments: bootstrap, input, output, [idle] (partitions are idle after
2 s), [aligned] (partitions wait for each other when they are 1 s of event time ahead)."""

import sys

from kstreampy.common import SerializationSchema, WatermarkStrategy
from kstreampy.common.time import Duration
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema


class UserKey(SerializationSchema):
    def serialize(self, value: dict) -> bytes:
        return value["user"].encode()


class Timed(KeyedProcessFunction):
    def process_element(self, value: dict, ctx):
        service = ctx.timer_service()
        service.register_event_time_timer(value["time"])
        late = ctx.timestamp() <= service.current_watermark()
        yield {"user": value["user"], "late" if late else "came": value["time"]}

    def on_timer(self, timestamp: int, ctx):
        yield {"user": ctx.get_current_key(), "fired": timestamp}


def main(bootstrap: str, source: str, target: str, *more: str) -> None:
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
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value["time"])
    if "idle" in more:
        strategy = strategy.with_idleness(Duration.of_seconds(2))
    if "aligned" in more:
        strategy = strategy.with_watermark_alignment("all", Duration.of_seconds(1), Duration.of_millis(100))
    records = env.from_source(read, strategy, "records").uid("records")
    records.key_by(lambda value: value["user"]).process(Timed()).uid("timed").sink_to(sink)
    env.execute()


main(*sys.argv[1:])
