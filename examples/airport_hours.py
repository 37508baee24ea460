"""Windows over the flights that left New York City in 2013: each airport's hours, and the city's days.

Event time is when a flight was scheduled to leave. An hour is an hour anywhere; a day is a day in New York, so that the
10th of March has 23 hours and the 3rd of November 25. The file has its months in the order of their names ('1', '10',
'11' …), so flights come up to a year late: every window waits that long, here until the file ends. The topics `airport-hours` and
`city-days` must be there, with retention.ms=-1: their records bear the times of 2013.

    kstreampy run examples/airport_hours.py --bootstrap-servers localhost:9092
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from flights import flights_file, sink

from kstreampy.common import Duration, Time, Types, WatermarkStrategy
from kstreampy.datastream import DataStream, StreamExecutionEnvironment
from kstreampy.datastream.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction
from kstreampy.datastream.window import CalendarEventTimeWindows, TimeWindow, TumblingEventTimeWindows
from kstreampy_connectors.files import FileSource

ZONE = "America/New_York"
COLUMNS = {
    "origin": Types.STRING(),
    "dep_delay": Types.LONG(),
    "minute": Types.LONG(),
    "time_hour": Types.STRING(),
}


Totals: TypeAlias = tuple[int, int, int]
"""Flights, those that left, and the sum of their delays in minutes."""


class Departures(AggregateFunction):
    """Adds flights up."""

    def create_accumulator(self) -> Totals:
        return (0, 0, 0)

    def add(self, value: Any, accumulator: Totals) -> Totals:
        flights, departed, delay = accumulator
        if value.dep_delay is None:
            return (flights + 1, departed, delay)
        return (flights + 1, departed + 1, delay + value.dep_delay)

    def get_result(self, accumulator: Totals) -> Totals:
        return accumulator

    def merge(self, acc_a: Totals, acc_b: Totals) -> Totals:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1], acc_a[2] + acc_b[2])


def described(key: str, began: str, departures: Totals) -> dict[str, Any]:
    flights, departed, delay = departures
    mean = delay / departed if departed else None
    return {"key": key, "began": began, "flights": flights, "cancelled": flights - departed, "delay": mean}


class HourOf(ProcessWindowFunction[Totals, dict[str, Any], str, TimeWindow]):
    """An airport's hour."""

    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Totals]
    ) -> Iterator[dict[str, Any]]:
        began = datetime.fromtimestamp(context.window().start / 1000, UTC)
        for departures in elements:
            yield described(key, began.isoformat(), departures)


class DayOf(ProcessAllWindowFunction[Totals, dict[str, Any], TimeWindow]):
    """A day of the whole city, by its date there."""

    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Totals]
    ) -> Iterator[dict[str, Any]]:
        began = datetime.fromtimestamp(context.window().start / 1000, ZoneInfo(ZONE))
        for departures in elements:
            yield described("NYC", began.date().isoformat(), departures)


def scheduled_ms(flight: Any, _: int) -> int:
    """When it was to leave: `time_hour` is the hour in UTC."""
    hour = datetime.fromisoformat(flight.time_hour.replace("Z", "+00:00"))
    minute: int = flight.minute
    return int(hour.timestamp() * 1000) + minute * 60_000


def flights(env: StreamExecutionEnvironment, path: Path, late: Duration) -> DataStream:
    """The table, with flights at most so `late`."""
    schema = Types.ROW_NAMED(list(COLUMNS), list(COLUMNS.values()))
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(late).with_timestamp_assigner(scheduled_ms)
    return env.from_source(FileSource.csv(path, schema=schema, null_values=["NA"]), strategy, "flights").uid("flights")


def by_hour(flights: DataStream) -> DataStream:
    hours = flights.key_by(lambda flight: flight.origin).window(TumblingEventTimeWindows.of(Time.hours(1)))
    return hours.aggregate(Departures(), HourOf()).uid("by-hour")


def by_day(flights: DataStream) -> DataStream:
    days = flights.window_all(CalendarEventTimeWindows.days(ZONE))
    return days.aggregate(Departures(), DayOf()).uid("by-day")


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    table = flights(env, flights_file(), Duration.of_days(366))
    by_hour(table).sink_to(sink("airport-hours"))
    by_day(table).sink_to(sink("city-days"))
    env.execute("airport-hours")


if __name__ == "__main__":
    main()
