"""The weather at each flight's departure: an interval join of two streams, and a third one broadcast.

Weather is observed at every airport at the beginning of an hour. A flight meets the observation of its airport whose hour it
was scheduled to leave in. The airlines' names are broadcast: every task has them all, and adds one to each departure. The
files of flights and weather are far from sorted, so everything waits for up to a year of event time, here until the files
end. The topic `departures` must be there, with retention.ms=-1: its records bear the times of 2013.

    kstreampy run examples/flights_weather.py --bootstrap-servers localhost:9092
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from flights import flights_file, sink

from kstreampy.common import Duration, Types, WatermarkStrategy
from kstreampy.common.typeinfo import RowTypeInfo
from kstreampy.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.state import ListStateDescriptor, MapStateDescriptor
from kstreampy_connectors.files import FileSource

FLIGHT = {
    "origin": Types.STRING(),
    "carrier": Types.STRING(),
    "flight": Types.LONG(),
    "dep_delay": Types.LONG(),
    "minute": Types.LONG(),
    "time_hour": Types.STRING(),
}
WEATHER = {
    "origin": Types.STRING(),
    "temp": Types.DOUBLE(),
    "wind_speed": Types.DOUBLE(),
    "visib": Types.DOUBLE(),
    "time_hour": Types.STRING(),
}
AIRLINE = {"carrier": Types.STRING(), "name": Types.STRING()}

NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())
WAITING = ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY())


def hour_ms(row: Any) -> int:
    """The hour, in UTC."""
    return int(datetime.fromisoformat(row.time_hour.replace("Z", "+00:00")).timestamp() * 1000)


def observed_ms(weather: Any, _: int) -> int:
    return hour_ms(weather)


def scheduled_ms(flight: Any, _: int) -> int:
    return hour_ms(flight) + int(flight.minute) * 60_000


class Departure(ProcessJoinFunction):
    """A flight and the weather of its hour."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[dict[str, Any]]:
        yield {
            "key": right.origin,
            "flight": f"{right.carrier} {right.flight}",
            "carrier": right.carrier,
            "scheduled": ctx.get_right_timestamp(),
            "delay": right.dep_delay,
            "temp": left.temp,
            "wind": left.wind_speed,
            "visibility": left.visib,
        }


class Named(KeyedBroadcastProcessFunction[str, Any, Any, dict[str, Any]]):
    """Adds the airline's name to departures keyed by `carrier`. Those that come before their airline wait for it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[dict[str, Any]]:
        name = ctx.get_broadcast_state(NAMES).get(ctx.get_current_key())
        if name is None:
            self.waiting.add(value)
        else:
            yield {**value, "airline": name}

    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterator[dict[str, Any]]:
        ctx.get_broadcast_state(NAMES).put(value.carrier, value.name)
        found: list[dict[str, Any]] = []

        def take(carrier: str, waiting: Any) -> None:
            if carrier == value.carrier:
                found.extend(waiting.get())
                waiting.clear()

        ctx.apply_to_keyed_state(WAITING, take)
        for departure in found:
            yield {**departure, "airline": value.name}


def departures(flown: DataStream, observed: DataStream, airlines: DataStream) -> DataStream:
    """Streams of rows with the columns of `FLIGHT`, `WEATHER` and `AIRLINE`; the first two with event time."""
    weather, flights = (stream.key_by(lambda row: row.origin) for stream in (observed, flown))
    hour = weather.interval_join(flights).between(Duration.of_millis(0), Duration.of_hours(1)).upper_bound_exclusive()
    met = hour.align_by_time(Duration.of_days(1)).process(Departure()).uid("departures")
    by_carrier = met.key_by(lambda departure: departure["carrier"])
    return by_carrier.connect(airlines.broadcast(NAMES)).process(Named()).uid("named")


def row_type(columns: dict[str, Any]) -> RowTypeInfo:
    return Types.ROW_NAMED(list(columns), list(columns.values()))


def table(env: StreamExecutionEnvironment, path: Path, columns: dict[str, Any], time: WatermarkStrategy) -> DataStream:
    source = FileSource.csv(path, schema=row_type(columns), null_values=["NA"])
    name = path.name.partition(".")[0]
    return env.from_source(source, time, name).uid(name)


def from_files(env: StreamExecutionEnvironment, flights: Path, weather: Path, late: Duration) -> DataStream:
    """`departures` of two files with rows at most so `late`."""
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(late)
    return departures(
        table(env, flights, FLIGHT, bounded.with_timestamp_assigner(scheduled_ms)),
        table(env, weather, WEATHER, bounded.with_timestamp_assigner(observed_ms)),
        table(env, data_file("airlines.csv"), AIRLINE, WatermarkStrategy.no_watermarks()),
    )


def data_file(name: str) -> Path:
    return flights_file().parent / name


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    year = Duration.of_days(366)
    from_files(env, flights_file(), data_file("weather.csv"), year).sink_to(sink("departures"))
    env.execute("flights-weather")


if __name__ == "__main__":
    main()
