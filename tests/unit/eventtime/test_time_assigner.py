"""Tumbling and sliding windows: golden values, and a search for every window that should have been found."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Duration, Time
from kstreampy.eventtime.time_assigner import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.window import TimeWindow
from kstreampy.eventtime.window_serializer import TimeWindowSerializer
from tests.unit.eventtime.stage import Clock

TIMES = st.integers(-(10**13), 10**13)


def windows(assigner: Any, timestamp: int, now: int = 0) -> list[tuple[int, int]]:
    return [(window.start, window.end) for window in assigner.assign_windows("x", timestamp, Clock(now))]


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(0, (0, 1000)), (999, (0, 1000)), (1000, (1000, 2000)), (-1, (-1000, 0))]
)
def test_tumbling(timestamp: int, expected: tuple[int, int]) -> None:
    assert windows(TumblingEventTimeWindows.of(Time.seconds(1)), timestamp) == [expected]


def test_tumbling_with_offset() -> None:
    assigner = TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))
    assert windows(assigner, 0) == [(-45 * 60_000, 15 * 60_000)]
    assert windows(assigner, 15 * 60_000) == [(15 * 60_000, 75 * 60_000)]
    assert windows(TumblingEventTimeWindows.of(10, -3), 7) == [(7, 17)]
    assert windows(TumblingEventTimeWindows.of(10, -3), 6) == [(-3, 7)]


def test_processing_time_windows_follow_the_clock() -> None:
    assert windows(TumblingProcessingTimeWindows.of(10, 2), 555, now=12) == [(12, 22)]
    assert windows(SlidingProcessingTimeWindows.of(10, 5, 1), 555, now=12) == [(11, 21), (6, 16)]
    assert windows(TumblingProcessingTimeWindows.of(10), -(2**63), now=12) == [(10, 20)]


def test_sliding_gives_the_latest_window_first() -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    assert windows(assigner, 12) == [(10, 20), (5, 15)]
    assert windows(assigner, -1) == [(-5, 5), (-10, 0)]


def test_sliding_over_gaps_leaves_elements_out() -> None:
    assigner = SlidingEventTimeWindows.of(3, 10)
    assert [len(windows(assigner, timestamp)) for timestamp in range(10, 20)] == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "size", [60_000, Time.minutes(1), Duration.of_minutes(1), datetime.timedelta(minutes=1)], ids=lambda s: str(type(s))
)
def test_any_amount_of_time_is_taken(size: Any) -> None:
    assert windows(TumblingEventTimeWindows.of(size), 1) == [(0, 60_000)]
    assert windows(SlidingEventTimeWindows.of(size, size), 1) == [(0, 60_000)]


@given(TIMES, st.integers(1, 10**7), st.data())
def test_each_timestamp_is_in_exactly_one_tumbling_window(timestamp: int, size: int, data: st.DataObject) -> None:
    assigner = TumblingEventTimeWindows.of(size, data.draw(st.integers(-size + 1, size - 1)))
    ((start, end),) = windows(assigner, timestamp)
    assert start <= timestamp < end == start + size
    for inside in (start, end - 1):
        assert windows(assigner, inside) == [(start, end)]
    assert windows(assigner, end) == [(end, end + size)]
    assert windows(assigner, start - 1) == [(start - size, start)]


@given(st.integers(-200, 200), st.integers(1, 40), st.integers(1, 40), st.data())
def test_every_sliding_window_is_found(timestamp: int, size: int, slide: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(-slide + 1, slide - 1))
    every_start = [start for start in range(-300, 300) if (start - offset) % slide == 0]
    expected = [(start, start + size) for start in every_start if start <= timestamp < start + size]
    assert windows(SlidingEventTimeWindows.of(size, slide, offset), timestamp) == expected[::-1]
    assert windows(SlidingProcessingTimeWindows.of(size, slide, offset), 0, now=timestamp) == expected[::-1]


@pytest.mark.parametrize("cls", [TumblingEventTimeWindows, TumblingProcessingTimeWindows])
@pytest.mark.parametrize(("size", "offset"), [(0, 0), (-1, 0), (5, 5), (5, -5), (5, 6)])
def test_bad_tumbling_sizes(cls: Any, size: int, offset: int) -> None:
    with pytest.raises(ValueError, match=rf"{cls.__name__} parameters must satisfy abs\(offset\) < size"):
        cls.of(size, offset)


@pytest.mark.parametrize("cls", [SlidingEventTimeWindows, SlidingProcessingTimeWindows])
@pytest.mark.parametrize(
    ("size", "slide", "offset"), [(0, 5, 0), (-1, 5, 0), (5, 0, 0), (5, -1, 0), (9, 5, 5), (9, 5, -5)]
)
def test_bad_sliding_sizes(cls: Any, size: int, slide: int, offset: int) -> None:
    with pytest.raises(ValueError, match=rf"{cls.__name__} parameters must satisfy abs\(offset\) < slide and size > 0"):
        cls.of(size, slide, offset)


@pytest.mark.parametrize("size", [1.5, "1 s", None, True])
def test_a_size_that_is_no_amount(size: Any) -> None:
    with pytest.raises(TypeError):
        TumblingEventTimeWindows.of(size)


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(5), SlidingEventTimeWindows.of(5, 1)])
def test_an_element_without_timestamp(assigner: Any) -> None:
    with pytest.raises(ValueError, match=r"Record has Long.MIN_VALUE timestamp.*assign_timestamps_and_watermarks"):
        windows(assigner, -(2**63))


@pytest.mark.parametrize(
    ("assigner", "in_event_time"),
    [
        (TumblingEventTimeWindows.of(5), True),
        (SlidingEventTimeWindows.of(5, 1), True),
        (TumblingProcessingTimeWindows.of(5), False),
        (SlidingProcessingTimeWindows.of(5, 1), False),
    ],
)
def test_domain_trigger_and_serializer(assigner: Any, in_event_time: bool) -> None:
    assert assigner.is_event_time() is in_event_time
    assert type(assigner.get_default_trigger(None)) is (EventTimeTrigger if in_event_time else ProcessingTimeTrigger)
    assert isinstance(assigner.get_window_serializer(), TimeWindowSerializer)


def test_how_they_are_shown() -> None:
    assert repr(TumblingEventTimeWindows.of(5, 1)) == "TumblingEventTimeWindows(5, 1)"
    assert repr(SlidingProcessingTimeWindows.of(5, 2, 1)) == "SlidingProcessingTimeWindows(5, 2, 1)"


def test_a_natural_stagger_starts_with_the_first_element() -> None:
    assigner = TumblingProcessingTimeWindows.of(10, 3, WindowStagger.NATURAL)
    clock = Clock(now=28)
    assert assigner.assign_windows("x", 0, clock) == [TimeWindow(28, 38)]
    clock.now = 40
    assert assigner.assign_windows("x", 0, clock) == [TimeWindow(38, 48)]


def test_a_random_stagger_is_a_tasks_own_and_stays() -> None:
    starts = {}
    for index in range(20):
        assigner = TumblingEventTimeWindows.of(1000, window_stagger=WindowStagger.RANDOM)
        (window,) = assigner.assign_windows("x", 5000, Clock(now=index * 77, index=index))
        assert window.end - window.start == 1000
        assert window.start <= 5000 < window.end
        starts[index] = window.start
        again = TumblingEventTimeWindows.of(1000, window_stagger=WindowStagger.RANDOM)
        assert again.assign_windows("x", 5000, Clock(now=1, index=index)) == [window]
    assert len(set(starts.values())) == 20


def test_one_assigner_staggers_each_task_by_itself() -> None:
    assigner = TumblingEventTimeWindows.of(1000, window_stagger=WindowStagger.RANDOM)
    first, second, again = (assigner.assign_windows("x", 5000, Clock(index=index)) for index in (0, 1, 0))
    assert first != second
    assert again == first
