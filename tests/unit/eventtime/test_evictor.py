"""Evictors: what they remove, before or after the function."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Time
from kstreampy.eventtime.delta import DeltaFunction
from kstreampy.eventtime.evictor import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from kstreampy.eventtime.window import TimeWindow, Window
from tests.unit.eventtime.stage import Clock

WINDOW = TimeWindow(0, 100)
NONE = -(2**63)


def stamped(*timestamps: int) -> list[TimestampedValue]:
    return [TimestampedValue(place, timestamp) for place, timestamp in enumerate(timestamps)]


def plain(*values: Any) -> list[TimestampedValue]:
    return [TimestampedValue(value) for value in values]


def before(evictor: Evictor[Any, Any], elements: list[TimestampedValue]) -> list[Any]:
    evictor.evict_before(elements, len(elements), WINDOW, Clock())
    return [element.value for element in elements]


def after(evictor: Evictor[Any, Any], elements: list[TimestampedValue]) -> list[Any]:
    evictor.evict_after(elements, len(elements), WINDOW, Clock())
    return [element.value for element in elements]


def test_a_timestamped_value() -> None:
    element = TimestampedValue("a", 5)
    assert (element.value, element.timestamp) == ("a", 5)
    assert (element.get_value(), element.get_timestamp(), element.has_timestamp()) == ("a", 5, True)
    without = TimestampedValue("a")
    assert not without.has_timestamp()
    with pytest.raises(ValueError, match="no timestamp"):
        without.get_timestamp()


@pytest.mark.parametrize(("count", "left"), [(0, ""), (1, "c"), (2, "bc"), (3, "abc"), (4, "abc")])
def test_count_keeps_the_last(count: int, left: str) -> None:
    assert before(CountEvictor.of(count), plain(*"abc")) == list(left)
    assert after(CountEvictor.of(count, True), plain(*"abc")) == list(left)


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        CountEvictor.of(-1)


@pytest.mark.parametrize(
    ("timestamps", "left"),
    [((10, 20, 30), [1, 2]), ((11, 20, 30), [0, 1, 2]), ((30, 10, 5), [0]), ((), []), ((5,), [0])],
)
@pytest.mark.parametrize("size", [20, Time.milliseconds(20), datetime.timedelta(milliseconds=20)])
def test_time_keeps_what_is_younger_than_its_size(timestamps: tuple[int, ...], left: list[int], size: Any) -> None:
    assert before(TimeEvictor.of(size), stamped(*timestamps)) == left
    assert after(TimeEvictor.of(size, True), stamped(*timestamps)) == left


def test_time_does_nothing_when_the_first_element_has_no_timestamp() -> None:
    assert before(TimeEvictor.of(5), stamped(NONE, 1, 100)) == [0, 1, 2]
    assert before(TimeEvictor.of(5), stamped(1, NONE, 100)) == [2]


class Difference(DeltaFunction):
    def get_delta(self, old_data_point: float, new_data_point: float) -> float:
        return new_data_point - old_data_point


@pytest.mark.parametrize("function", [Difference(), lambda element, last: last - element])
def test_delta_keeps_what_is_near_the_last(function: Any) -> None:
    assert before(DeltaEvictor.of(10, function), plain(0, 1, 5, 20, 10)) == [1, 5, 20, 10]
    assert after(DeltaEvictor.of(10, function, True), plain(0, 1, 5, 20, 10)) == [1, 5, 20, 10]
    assert before(DeltaEvictor.of(10, function), []) == []


def test_a_threshold_of_nothing_removes_the_last_too() -> None:
    assert before(DeltaEvictor.of(0, Difference()), plain(1, 3, 2)) == [3]


EVERY = [
    lambda after: CountEvictor.of(1, after),
    lambda after: TimeEvictor.of(5, after),
    lambda after: DeltaEvictor.of(1, Difference(), after),
]


@pytest.mark.parametrize("make", EVERY)
def test_an_evictor_works_before_or_after_but_not_both(make: Any) -> None:
    elements = [TimestampedValue(value, value * 10) for value in (1, 2, 3)]
    assert make(False).do_evict_after is False
    assert after(make(False), list(elements)) == [1, 2, 3]
    assert before(make(True), list(elements)) == [1, 2, 3]
    assert before(make(False), list(elements)) == [3]
    assert after(make(True), list(elements)) == [3]


def test_how_they_are_shown() -> None:
    shown = [repr(evictor) for evictor in (CountEvictor.of(3), TimeEvictor.of(5), DeltaEvictor.of(0.5, Difference()))]
    assert shown == ["CountEvictor(3)", "TimeEvictor(5)", "DeltaEvictor(0.5)"]


@given(st.lists(st.integers(-50, 50)), st.integers(0, 60), st.booleans())
def test_models(numbers: list[int], bound: int, late: bool) -> None:
    run = after if late else before
    elements = [TimestampedValue(number, number) for number in numbers]
    assert run(CountEvictor.of(bound, late), list(elements)) == [
        number for place, number in enumerate(numbers) if len(numbers) - place <= bound
    ]
    assert run(TimeEvictor.of(bound, late), list(elements)) == [
        number for number in numbers if not number <= max(numbers) - bound
    ]
    assert run(DeltaEvictor.of(bound, lambda a, b: abs(a - b), late), list(elements)) == [
        number for number in numbers if not abs(number - numbers[-1]) >= bound
    ]


class DropOdd(Evictor[int, Window]):
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: Evictor.EvictorContext
    ) -> None:
        elements[:] = [element for element in elements if element.value % 2 == 0]

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: Evictor.EvictorContext
    ) -> None:
        elements.clear()


def test_an_evictor_of_the_users_own() -> None:
    assert before(DropOdd(), plain(1, 2, 3, 4)) == [2, 4]
    assert after(DropOdd(), plain(1, 2)) == []
