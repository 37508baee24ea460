"""The graph of `examples/flights_weather.py` over topics, for a crash test. Arguments: bootstrap, flights, weather, airlines,
output."""

import sys
from pathlib import Path
from typing import Any

from kstreampy.common import Duration, WatermarkStrategy
from kstreampy.datastream import DataStream, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonRowDeserializationSchema

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

from flights import sink
from flights_weather import (
    AIRLINE,
    FLIGHT,
    WEATHER,
    departures,
    observed_ms,
    row_type,
    scheduled_ms,
)


def main(bootstrap: str, flights: str, weather: str, airlines: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    in_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1))

    def rows(topic: str, name: str, columns: dict[str, Any], strategy: WatermarkStrategy) -> DataStream:
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(bootstrap)
            .set_topics(topic)
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(row_type(columns)).build())
            .build()
        )
        return env.from_source(source, strategy, name).uid(name)

    named = departures(
        rows(flights, "flights", FLIGHT, in_order.with_timestamp_assigner(scheduled_ms)),
        rows(weather, "weather", WEATHER, in_order.with_timestamp_assigner(observed_ms)),
        rows(airlines, "airlines", AIRLINE, WatermarkStrategy.no_watermarks()),
    )
    named.sink_to(sink(target)).uid("to-departures")
    env.execute()


main(*sys.argv[1:])
