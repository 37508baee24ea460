"""A million distinct keys: a job for `million.py`. Arguments: bootstrap, input, output."""

import sys

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from tests.bench.kstreampy_jobs import sink


def main(bootstrap: str, topic: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    (
        env.from_source(built, WatermarkStrategy.no_watermarks(), "events")
        .map(lambda record: (f"key-{record['id']}", record["amount"]))
        .key_by(lambda pair: pair[0])
        .sum(1)
        .uid("total")
        .map(lambda pair: {"key": pair[0], "total": pair[1]})
        .sink_to(sink(bootstrap, target))
    )
    env.execute()


main(*sys.argv[1:])
