"""A job for the crash tests: re-key + rolling sum, from a topic to a topic. Arguments: bootstrap, input, output,
[bounded], [inplace] (the input is partitioned by user already: one stage instead of two)."""

import sys

from kstreampy.common import SerializationSchema, WatermarkStrategy
from kstreampy.datastream import DataStreamUtils, StreamExecutionEnvironment
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


def main(bootstrap: str, source: str, target: str, *more: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
    )
    if "bounded" in more:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_key_serialization_schema(UserKey())
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer).build()
    numbers = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "numbers")
    if "inplace" in more:
        keyed = DataStreamUtils.reinterpret_as_keyed_stream(numbers, lambda value: value["user"])
    else:
        keyed = numbers.key_by(lambda value: value["user"])
    keyed.sum("amount").uid("total").sink_to(sink)
    env.execute()


main(*sys.argv[1:])
