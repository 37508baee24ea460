"""A job for the crash tests: a function that sets timers in both domains, from a topic to a topic. Arguments: bootstrap,
input, output, [inplace] (the input is partitioned by user already: one stage instead of two).

Every record sets an event-time timer a second later, a processing-time timer at a fixed time, and moves its user's timer in
the far future. The output says which timers fired, and in event time also how many of the user have fired before."""

import sys

from kstreampy.common import SerializationSchema, Types, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.time_domain import TimeDomain

LATER_MS = 1_000
FAR_MS = 10**12


class UserKey(SerializationSchema):
    def serialize(self, value: dict) -> bytes:
        return value["user"].encode()


class Time(TimestampAssigner):
    def extract_timestamp(self, value: dict, record_timestamp: int) -> int:
        return value["time"]


class Alarms(KeyedProcessFunction):
    def open(self, runtime_context) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))
        self.far = runtime_context.get_state(ValueStateDescriptor("far", Types.LONG()))

    def process_element(self, value: dict, ctx) -> None:
        if value["user"] == "end":
            return
        service = ctx.timer_service()
        service.register_event_time_timer(value["time"] + LATER_MS)
        service.register_processing_time_timer(value["wall"])
        before = self.far.value()
        if before is not None:
            service.delete_event_time_timer(before)
        self.far.update(value["time"] + FAR_MS)
        service.register_event_time_timer(value["time"] + FAR_MS)

    def on_timer(self, timestamp: int, ctx):
        user = ctx.get_current_key()
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            yield {"user": user, "wall": timestamp}
            return
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        yield {"user": user, "time": timestamp, "fired": fired}


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
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    records = env.from_source(read, strategy, "records")
    if "inplace" in more:
        keyed = DataStreamUtils.reinterpret_as_keyed_stream(records, lambda value: value["user"])
    else:
        keyed = records.key_by(lambda value: value["user"])
    keyed.process(Alarms()).uid("alarm").sink_to(sink)
    env.execute()


main(*sys.argv[1:])
