"""The weather at each flight's departure: an interval join of two streams, and a table of airlines looked up.

Weather is observed at every airport at the beginning of an hour. A flight meets the observation of its airport whose hour it
was scheduled to leave in, and its airline's name out of a table that every task has whole. Both files are far from sorted, so
everything waits for up to a year of event time, here until the files end. The topic must be there.

    kstreampy run examples/flights_weather.py --bootstrap-servers localhost:9092
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from flights import flights_file, sink

from kstreampy.common import Duration, Types, WatermarkStrategy
from kstreampy.datastream import DataStream, ProcessJoinFunction, StreamExecutionEnvironment
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


def with_airline(departure: dict[str, Any], airline: Any) -> dict[str, Any]:
    return {**departure, "airline": None if airline is None else airline.name}


def csv(env: StreamExecutionEnvironment, path: Path, columns: dict[str, Any], time: Any, late: Duration) -> DataStream:
    """A table as a stream, with rows at most so `late`."""
    schema = Types.ROW_NAMED(list(columns), list(columns.values()))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(late).with_timestamp_assigner(time)
    name = path.name.partition(".")[0]
    return env.from_source(FileSource.csv(path, schema=schema, null_values=["NA"]), strategy, name).uid(name)


def departures(env: StreamExecutionEnvironment, flights: Path, weather: Path, late: Duration) -> DataStream:
    flown = csv(env, flights, FLIGHT, scheduled_ms, late).key_by(lambda flight: flight.origin)
    observed = csv(env, weather, WEATHER, observed_ms, late).key_by(lambda weather: weather.origin)
    hour = observed.interval_join(flown).between(Duration.of_millis(0), Duration.of_hours(1)).upper_bound_exclusive()
    met = hour.align_by_time(Duration.of_days(1)).process(Departure()).uid("departures")
    rows = Types.ROW_NAMED(list(AIRLINE), list(AIRLINE.values()))
    airlines = env.global_table(
        FileSource.csv(data_file("airlines.csv"), schema=rows), key=lambda row: row.carrier, name="airlines"
    ).uid("airlines")
    return met.left_join_table(airlines, lambda departure: departure["carrier"], with_airline).uid("named")


def data_file(name: str) -> Path:
    return flights_file().parent / name


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    year = Duration.of_days(366)
    departures(env, flights_file(), data_file("weather.csv"), year).sink_to(sink("departures"))
    env.execute("flights-weather")


if __name__ == "__main__":
    main()
