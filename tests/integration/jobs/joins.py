"""A job for the crash tests: clicks joined with views of the same user within a second, then with a table of users. Arguments:
bootstrap, clicks, views, users, output."""

import sys

from kstreampy.common import Duration, SerializationSchema, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import ProcessJoinFunction, StreamExecutionEnvironment
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


class Time(TimestampAssigner):
    def extract_timestamp(self, value: dict, record_timestamp: int) -> int:
        return value["time"]


class Pair(ProcessJoinFunction):
    def process_element(self, left: dict, right: dict, ctx):
        yield {"user": left["user"], "click": left["number"], "view": right["number"], "time": ctx.get_timestamp()}


def source(bootstrap: str, topic: str) -> KafkaSource:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )


def main(bootstrap: str, clicks: str, views: str, users: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
    left, right = (
        env.from_source(source(bootstrap, topic), strategy, name).uid(name).key_by(lambda value: value["user"])
        for topic, name in ((clicks, "clicks"), (views, "views"))
    )
    second = Duration.of_seconds(1)
    pairs = left.interval_join(right).between(Duration.of_millis(-1000), second).process(Pair()).uid("pairs")
    table = env.global_table(source(bootstrap, users), name="users").uid("users")
    named = pairs.key_by(lambda pair: pair["user"]).left_join_table(
        table, lambda pair: pair["user"], lambda pair, row: {**pair, "name": row and row["name"]}
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_key_serialization_schema(UserKey())
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer).build()
    named.uid("named").sink_to(sink)
    env.execute()


main(*sys.argv[1:])
