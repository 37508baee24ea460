"""What hurts users of other tools about time (P40, P41, P42, P44): late data that one operator drops and another keeps, days that
begin at midnight of the wrong zone, one clock that closes everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kstreampy.datastream import CoGroupFunction, DataStream
from kstreampy.datastream.functions import AllWindowFunction, WindowFunction
from kstreampy.datastream.window import CalendarEventTimeWindows, EventTimeSessionWindows, TumblingEventTimeWindows
from tests.unit.api.job import Job, first

TEN = TumblingEventTimeWindows.of(10)
LATENESS = 5
LAST = 10 - 1 + LATENESS
"""The watermark at which the window from 0 takes nothing more."""


class Listed(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield [value[1] for value in inputs]


class AllListed(AllWindowFunction):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield [value[1] for value in inputs]


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield [value[1] for value in [*first, *second]]


def summed(a: DataStream, b: DataStream) -> DataStream:
    return a.union(b).key_by(first).window(TEN).allowed_lateness(LATENESS).reduce(lambda x, y: (x[0], x[1] + y[1]))


def listed(a: DataStream, b: DataStream) -> DataStream:
    return a.union(b).key_by(first).window(TEN).allowed_lateness(LATENESS).apply(Listed())


def sessions(a: DataStream, b: DataStream) -> DataStream:
    gap = EventTimeSessionWindows.with_gap(10)
    return a.union(b).key_by(first).window(gap).allowed_lateness(LATENESS).apply(Listed())


def all_together(a: DataStream, b: DataStream) -> DataStream:
    return a.union(b).window_all(TEN).allowed_lateness(LATENESS).apply(AllListed())


def joined(a: DataStream, b: DataStream) -> DataStream:
    keyed = a.join(b).where(first).equal_to(first).window(TEN)
    return keyed.allowed_lateness(LATENESS).apply(lambda x, y: [x[1], y[1]])


def co_grouped(a: DataStream, b: DataStream) -> DataStream:
    return a.co_group(b).where(first).equal_to(first).window(TEN).allowed_lateness(LATENESS).apply(Both())


@pytest.mark.parametrize("draw", [summed, listed, sessions, all_together, joined, co_grouped])
@pytest.mark.parametrize("late_side", [0, 1])
@pytest.mark.parametrize(("watermark", "is_late"), [(LAST - 1, False), (LAST, True), (LAST + 1, True)])
def test_all_operators_call_the_same_record_late(
    draw: Callable[[DataStream, DataStream], DataStream], late_side: int, watermark: int, is_late: bool
) -> None:
    """P42: at the last millisecond of the allowed lateness, one before it and one after; on both sides of a join. What is
    taken is seen in a result, what is dropped is counted."""
    with Job(draw, sources=2) as job:
        job.send(("k", "early"), 0, source=1 - late_side)
        for source in (0, 1):
            job.watermark(watermark, source=source)
        found = job.send(("k", "last"), 0, source=late_side)
        assert any("last" in str(result) for result in found) is not is_late
        dropped = sum(
            count
            for name, count in job.harness.metrics().items()
            if name.startswith("kstreampy_records_late_dropped_total")
        )
        assert dropped == (1 if is_late else 0)


def at(zone: str, *parts: int) -> int:
    return int(datetime(*parts, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("zone", "day", "times", "hours"),
    [
        ("America/Los_Angeles", (2021, 3, 14), [(0, 0), (1, 30), (3, 30), (23, 59)], 23),
        ("America/Los_Angeles", (2021, 11, 7), [(0, 0), (1, 30), (3, 30), (23, 59)], 25),
        ("Asia/Kolkata", (2021, 3, 14), [(0, 0), (1, 30), (3, 30), (23, 59)], 24),
        ("America/Phoenix", (2021, 3, 14), [(0, 0), (1, 30), (3, 30), (23, 59)], 24),
    ],
)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_day_begins_at_midnight_of_its_zone(
    zone: str, day: tuple[int, int, int], times: list[tuple[int, int]], hours: int, is_killed: bool
) -> None:
    """P44: nothing of the day is lost, nothing of its neighbours is in it, and the result lies in its last millisecond."""
    year, month, number = day
    begin, end = at(zone, *day), at(zone, year, month, number + 1)
    assert end - begin == hours * 3_600_000
    assigner = CalendarEventTimeWindows.days(zone)
    with Job(lambda stream: stream.key_by(first).window(assigner).apply(Listed()).uid("days")) as job:
        job.send(("k", "before"), begin - 1)
        for hour, minute in times:
            job.send(("k", f"{hour}:{minute:02}"), at(zone, *day, hour, minute))
        job.send(("k", "last"), end - 1)
        job.send(("k", "after"), end)
        if is_killed:
            job.harness.lose_disk()
        assert job.watermark(begin - 2) == []
        assert job.watermark(begin - 1) == [["before"]]
        assert job.watermark(end - 2) == []
        job.sources[0].watermark(end - 1)
        assert job.records() == [([*(f"{hour}:{minute:02}" for hour, minute in times), "last"], end - 1)]
