"""The window jobs as a user writes them. Run by `kstreampy_jobs.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kstreampy.common import Duration, Time
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.datastream import DataStream, DataStreamUtils, KeyedStream
from kstreampy.datastream.functions import AggregateFunction, ProcessWindowFunction
from kstreampy.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from tests.bench.window_data import WINDOWS, sensor_hour, stats_add, stats_result


class Stats(AggregateFunction):
    """Count, sum, min, max and sum of squares of the amounts."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return stats_add(accumulator, value["amount"])

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        if acc_a is None or acc_b is None:
            return acc_b if acc_a is None else acc_a
        return (
            acc_a[0] + acc_b[0], acc_a[1] + acc_b[1], min(acc_a[2], acc_b[2]), max(acc_a[3], acc_b[3]),
            acc_a[4] + acc_b[4],
        )  # fmt: skip


class Described(ProcessWindowFunction[Any, dict[str, Any], str, TimeWindow]):
    """The statistics with their key and the end of their window."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[dict[str, Any]]:
        for stats in elements:
            yield stats_result(key, context.window().end, stats)


class Total(AggregateFunction):
    """The sum of the amounts."""

    def create_accumulator(self) -> float:
        return 0.0

    def add(self, value: Any, accumulator: float) -> float:
        return accumulator + float(value["amount"])

    def get_result(self, accumulator: float) -> float:
        return accumulator

    def merge(self, acc_a: float, acc_b: float) -> float:
        return acc_a + acc_b


class Ended(ProcessWindowFunction[Any, dict[str, Any], str, TimeWindow]):
    """The sum with its key and the end of its window."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterable[dict[str, Any]]:
        for total in elements:
            yield {"key": key, "end": context.window().end, "sum": total}


def by_user(records: DataStream) -> KeyedStream:
    return DataStreamUtils.reinterpret_as_keyed_stream(records, lambda record: record["user"])


def tumbling(records: DataStream) -> DataStream:
    size = Time.milliseconds(WINDOWS["tumbling"].size_ms)
    return by_user(records).window(TumblingEventTimeWindows.of(size)).sum("amount")


def sliding(records: DataStream) -> DataStream:
    size, slide = Time.milliseconds(WINDOWS["sliding"].size_ms), Time.milliseconds(WINDOWS["sliding"].slide_ms)
    return by_user(records).window(SlidingEventTimeWindows.of(size, slide)).sum("amount")


def sessions(records: DataStream) -> DataStream:
    gap = Time.milliseconds(WINDOWS["sessions"].size_ms)
    return by_user(records).window(EventTimeSessionWindows.with_gap(gap)).sum("amount")


def uc2(records: DataStream) -> DataStream:
    size = Time.milliseconds(WINDOWS["uc2"].size_ms)
    return by_user(records).window(TumblingEventTimeWindows.of(size)).aggregate(Stats(), Described())


def uc3(records: DataStream) -> DataStream:
    size, slide = Time.milliseconds(WINDOWS["uc3"].size_ms), Time.milliseconds(WINDOWS["uc3"].slide_ms)
    keyed = records.key_by(lambda record: sensor_hour(record["user"], record["time"]))
    return keyed.window(SlidingEventTimeWindows.of(size, slide)).aggregate(Total(), Ended())


def strategy() -> WatermarkStrategy:
    """Times never go back within a partition."""
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))


BUILDERS: dict[str, Callable[[DataStream], DataStream]] = {
    "tumbling": tumbling,
    "sliding": sliding,
    "sessions": sessions,
    "uc2": uc2,
    "uc3": uc3,
}
KEYS = {"tumbling": "user", "sliding": "user", "sessions": "user", "uc2": "key", "uc3": "key"}
