"""One event-time timer per record: a job for `timers.py`. Arguments: bootstrap, input, output (which is not written)."""

import sys
from typing import Any

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema

FAR_MS = 10**13
"""Later than any clock of these days."""


class Alarms(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.fired = runtime_context.get_metrics_group().counter("fired")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        if "at" not in value:
            ctx.timer_service().register_event_time_timer(FAR_MS + value["id"])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.fired.inc()


def main(bootstrap: str, topic: str, _: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, timestamp: value.get("at", timestamp)
    )
    records = env.from_source(built, strategy, "events")
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(records, lambda record: record["user"])
    keyed.process(Alarms()).uid("alarms").print()
    env.execute()


main(*sys.argv[1:])
