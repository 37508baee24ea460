"""Calendar windows against a walk, minute by minute, over days on which clocks change; and golden days."""

from __future__ import annotations

import datetime
from datetime import UTC, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Time
from kstreampy.eventtime import calendar_window
from kstreampy.eventtime.calendar import Calendar
from kstreampy.eventtime.calendar_window import CalendarEventTimeWindows, CalendarProcessingTimeWindows
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.window import TimeWindow
from tests.unit.eventtime.stage import Clock

MINUTE = 60_000
HOUR = 60 * MINUTE


def ms(moment: datetime.datetime) -> int:
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def at(zone: str, *when: int, fold: int = 0) -> int:
    """The instant in ms at which clocks of the zone show it."""
    return ms(datetime.datetime(*when, fold=fold, tzinfo=ZoneInfo(zone)).astimezone(UTC))  # type: ignore[misc, arg-type]


def local(zone: str, time: int) -> datetime.datetime:
    moment = datetime.datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


CHANGES = [
    ("America/New_York", 2021, 3, 14),
    ("America/New_York", 2021, 11, 7),
    ("America/Los_Angeles", 2021, 3, 14),
    ("Europe/Berlin", 2024, 3, 31),
    ("Europe/Berlin", 2024, 10, 27),
    ("Australia/Lord_Howe", 2024, 4, 7),  # half an hour back
    ("Australia/Lord_Howe", 2024, 10, 6),  # half an hour forward
    ("America/Sao_Paulo", 2018, 11, 4),  # forward at midnight: there is no 00:00
    ("America/Sao_Paulo", 2019, 2, 17),  # back at midnight: 23:00 twice
    ("America/Havana", 2024, 3, 10),  # forward at midnight
    ("America/Havana", 2024, 11, 3),  # back at 01:00: midnight twice
    ("America/Toronto", 1919, 3, 31),  # from 23:30 to 00:30
    ("Pacific/Apia", 2011, 12, 30),  # a day that did not exist
    ("Asia/Kolkata", 2024, 3, 10),  # never changes, not at a full hour from UTC
    ("Asia/Kathmandu", 1986, 1, 1),  # a quarter of an hour forward at midnight
    ("UTC", 2024, 2, 29),
]

UNITS = [
    ("days", (), lambda t: t.date()),
    ("hours", (), lambda t: (t.date(), t.hour)),
    ("hours", (6,), lambda t: (t.date(), t.hour // 6)),
    ("weeks", (), lambda t: t.date() - timedelta(days=t.weekday())),
    ("weeks", ("sunday",), lambda t: t.date() - timedelta(days=(t.weekday() + 1) % 7)),
    ("months", (), lambda t: (t.year, t.month)),
    ("quarters", (), lambda t: (t.year, (t.month - 1) // 3)),
    ("years", (), lambda t: t.year),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]:02}-{c[3]:02}")
@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u[0] + "".join(map(str, u[1])))
def test_a_walk_by_minutes(change: tuple[str, int, int, int], unit: tuple[str, tuple[Any, ...], Any]) -> None:
    """Minutes that clocks show with the same label are one window, and others are another; windows have no gaps."""
    zone, *day = change
    name, arguments, label = unit
    assigner = getattr(CalendarEventTimeWindows, name)(zone, *arguments)
    middle = ms(datetime.datetime(*day, tzinfo=UTC))  # type: ignore[misc, arg-type]
    known: TimeWindow | None = None
    labels: dict[Any, TimeWindow] = {}
    for time in range(middle - 36 * HOUR, middle + 60 * HOUR, MINUTE):
        (window,) = assigner.assign_windows("x", time, None)
        assert window.start <= time < window.end
        assert labels.setdefault(label(local(zone, time)), window) == window
        if known is not None and window != known:
            assert window.start == known.end == time
        known = window
    assert len(set(labels.values())) == len(labels)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/New_York", (2021, 3, 14), 23),
        ("America/New_York", (2021, 11, 7), 25),
        ("America/New_York", (2021, 6, 1), 24),
        ("Europe/Berlin", (2024, 3, 31), 23),
        ("Europe/Berlin", (2024, 10, 27), 25),
        ("Australia/Lord_Howe", (2024, 4, 7), 24.5),
        ("Australia/Lord_Howe", (2024, 10, 6), 23.5),
        ("America/Sao_Paulo", (2018, 11, 4), 23),
        ("America/Sao_Paulo", (2019, 2, 16), 25),
        ("America/Havana", (2024, 11, 3), 25),
        ("Asia/Kolkata", (2024, 3, 10), 24),
    ],
)
def test_how_long_a_day_is(zone: str, day: tuple[int, int, int], hours: float) -> None:
    window = CalendarEventTimeWindows.days(zone).window_of(at(zone, *day, 12))
    assert (window.end - window.start) / HOUR == hours


def test_the_days_of_new_york_as_instants() -> None:
    days = CalendarEventTimeWindows.days("America/New_York")
    assert days.window_of(at("America/New_York", 2021, 3, 14, 1, 30)) == TimeWindow(1615698000000, 1615780800000)
    assert days.window_of(at("America/New_York", 2021, 3, 14, 3, 30)) == TimeWindow(1615698000000, 1615780800000)
    assert days.window_of(1615698000000 - 1).end == 1615698000000
    assert days.window_of(1615780800000).start == 1615780800000


def test_a_day_begins_at_the_change_where_there_is_no_midnight() -> None:
    sao_paulo = CalendarEventTimeWindows.days("America/Sao_Paulo").window_of(at("America/Sao_Paulo", 2018, 11, 4, 12))
    assert local("America/Sao_Paulo", sao_paulo.start) == datetime.datetime(2018, 11, 4, 1)
    toronto = CalendarEventTimeWindows.days("America/Toronto").window_of(at("America/Toronto", 1919, 3, 31, 12))
    assert local("America/Toronto", toronto.start) == datetime.datetime(1919, 3, 31, 0, 30)
    assert local("America/Toronto", toronto.start - 1) == datetime.datetime(1919, 3, 30, 23, 29, 59, 999000)


def test_a_day_that_did_not_exist_has_no_window() -> None:
    days = CalendarEventTimeWindows.days("Pacific/Apia")
    before = days.window_of(at("Pacific/Apia", 2011, 12, 29, 12))
    after = days.window_of(at("Pacific/Apia", 2011, 12, 31, 12))
    assert before.end == after.start
    assert after.end - after.start == before.end - before.start == 24 * HOUR


def test_clocks_put_back_over_midnight_do_not_open_the_old_day_again() -> None:
    """In St John's, at 00:01 of 2006-10-29 clocks went back to 23:01: the new day had begun, and goes on."""
    zone = "America/St_Johns"
    days = CalendarEventTimeWindows.days(zone)
    first_midnight = at(zone, 2006, 10, 29)
    assert days.window_of(first_midnight - 1).end == first_midnight
    again = first_midnight + 30 * MINUTE
    assert local(zone, again) == datetime.datetime(2006, 10, 28, 23, 30)
    assert days.window_of(again) == days.window_of(first_midnight) == days.window_of(at(zone, 2006, 10, 29, 12))
    assert days.window_of(first_midnight) == TimeWindow(first_midnight, first_midnight + 25 * HOUR)


def test_an_hour_shown_twice_is_one_window() -> None:
    zone = "America/New_York"
    hours = CalendarEventTimeWindows.hours(zone)
    window = hours.window_of(at(zone, 2021, 11, 7, 1, 30))
    assert window == hours.window_of(at(zone, 2021, 11, 7, 1, 30, fold=1))
    assert window.end - window.start == 2 * HOUR


def test_an_offset_moves_the_beginning_in_wall_time() -> None:
    zone = "America/New_York"
    days = CalendarEventTimeWindows.days(zone, Time.hours(6))
    window = days.window_of(at(zone, 2021, 3, 14, 1))
    assert window == TimeWindow(at(zone, 2021, 3, 13, 6), at(zone, 2021, 3, 14, 6))
    assert window.end - window.start == 23 * HOUR
    fiscal = CalendarEventTimeWindows.months(zone, timedelta(days=3))
    assert fiscal.window_of(at(zone, 2021, 3, 3, 23)) == TimeWindow(at(zone, 2021, 2, 4), at(zone, 2021, 3, 4))
    early = CalendarEventTimeWindows.days(zone, Time.hours(-2))
    assert early.window_of(at(zone, 2021, 6, 1, 22)).start == at(zone, 2021, 6, 1, 22)


@pytest.mark.parametrize(
    ("unit", "start", "end"),
    [
        (CalendarEventTimeWindows.weeks("Europe/Berlin"), (2024, 2, 26), (2024, 3, 4)),
        (CalendarEventTimeWindows.weeks("Europe/Berlin", "Sunday"), (2024, 2, 25), (2024, 3, 3)),
        (CalendarEventTimeWindows.weeks("Europe/Berlin", 3), (2024, 2, 29), (2024, 3, 7)),
        (CalendarEventTimeWindows.months("Europe/Berlin"), (2024, 2, 1), (2024, 3, 1)),
        (CalendarEventTimeWindows.quarters("Europe/Berlin"), (2024, 1, 1), (2024, 4, 1)),
        (CalendarEventTimeWindows.years("Europe/Berlin"), (2024, 1, 1), (2025, 1, 1)),
        (CalendarEventTimeWindows.hours("Europe/Berlin", 12), (2024, 2, 29, 12), (2024, 3, 1)),
    ],
    ids=repr,
)
def test_every_unit_on_a_leap_day(unit: Any, start: tuple[int, ...], end: tuple[int, ...]) -> None:
    window = unit.window_of(at("Europe/Berlin", 2024, 2, 29, 15, 30))
    assert window == TimeWindow(at("Europe/Berlin", *start), at("Europe/Berlin", *end))


def test_a_year_ends_in_the_next() -> None:
    months = CalendarEventTimeWindows.months("UTC")
    assert months.window_of(at("UTC", 1999, 12, 31)) == TimeWindow(at("UTC", 1999, 12, 1), at("UTC", 2000, 1, 1))


ZONES = st.sampled_from(sorted({change[0] for change in CHANGES} | {"America/St_Johns", "Africa/Monrovia"}))
MAKERS = st.sampled_from([(name, arguments) for name, arguments, _ in UNITS])
TIMES = st.integers(at("UTC", 1900, 1, 1), at("UTC", 2100, 1, 1))


@given(ZONES, MAKERS, TIMES)
def test_windows_tile_time(zone: str, maker: tuple[str, tuple[Any, ...]], time: int) -> None:
    assigner = getattr(CalendarEventTimeWindows, maker[0])(zone, *maker[1])
    window = assigner.window_of(time)
    assert window.start <= time < window.end
    assert assigner.window_of(window.start) == assigner.window_of(window.end - 1) == window
    assert assigner.window_of(window.end).start == window.end
    assert assigner.window_of(window.start - 1).end == window.start


@given(ZONES, st.lists(TIMES | st.integers(1_600_000_000_000, 1_601_000_000_000), max_size=30))
def test_what_was_asked_before_does_not_matter(zone: str, times: list[int]) -> None:
    assigner = CalendarEventTimeWindows.days(zone)
    for time in times:
        assert assigner.window_of(time) == CalendarEventTimeWindows.days(zone).window_of(time)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every instant that the calendar is asked about."""
    asked: list[int] = []
    bounds = Calendar.bounds

    def counting(self: Calendar, instant: int) -> tuple[int, int]:
        asked.append(instant)
        return bounds(self, instant)

    monkeypatch.setattr(Calendar, "bounds", counting)
    return asked


def test_a_known_window_costs_no_look_at_the_calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch)
    assigner = CalendarEventTimeWindows.days("America/New_York")
    for time in range(0, 10 * 24 * HOUR, HOUR):
        for other in (time, time + 24 * HOUR, time):
            assigner.assign_windows("x", other, Clock())
    assert len(asked) == 12


def test_many_windows_are_found_again_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar_window, "_KNOWN_LIMIT", 8)
    assigner = CalendarEventTimeWindows.days("Europe/Berlin")
    fresh = CalendarEventTimeWindows.days("Europe/Berlin")
    for time in [*range(30), 3, 7, 29, 15, *range(40, 0, -1)]:
        assert assigner.window_of(time * 24 * HOUR) == fresh.window_of(time * 24 * HOUR)
        assert len(assigner._known) <= 8


def test_processing_time_follows_the_clock() -> None:
    assigner = CalendarProcessingTimeWindows.days("Asia/Kolkata")
    now = at("Asia/Kolkata", 2024, 3, 10, 5)
    expected = TimeWindow(at("Asia/Kolkata", 2024, 3, 10), at("Asia/Kolkata", 2024, 3, 11))
    assert assigner.assign_windows("x", -(2**63), Clock(now)) == [expected]
    assert not assigner.is_event_time()
    assert type(assigner.get_default_trigger()) is ProcessingTimeTrigger


def test_event_time_needs_a_timestamp() -> None:
    assigner = CalendarEventTimeWindows.days("UTC")
    assert assigner.is_event_time()
    assert type(assigner.get_default_trigger()) is EventTimeTrigger
    with pytest.raises(ValueError, match=r"Long.MIN_VALUE"):
        assigner.assign_windows("x", -(2**63), Clock())


@pytest.mark.parametrize("time", [at("UTC", 9999, 12, 31, 12), 10**17, -(10**17), 2**63 - 1])
def test_beyond_the_years_of_the_calendar(time: int) -> None:
    with pytest.raises(ValueError, match="outside of the years 1 to 9999"):
        CalendarEventTimeWindows.days("UTC").window_of(time)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc", "America"])
def test_an_unknown_zone(zone: str) -> None:
    with pytest.raises(ValueError, match="IANA"):
        CalendarEventTimeWindows.days(zone)


def test_what_is_no_zone() -> None:
    with pytest.raises(TypeError, match="time zone"):
        CalendarEventTimeWindows.days(UTC)  # type: ignore[arg-type]
    assert CalendarEventTimeWindows.days(ZoneInfo("UTC")).window_of(5) == TimeWindow(0, 24 * HOUR)


@pytest.mark.parametrize("offset", [Time.hours(24), Time.hours(-24), 500])
def test_a_bad_offset(offset: Any) -> None:
    with pytest.raises(ValueError, match="abs\\(offset\\) must be less than one day, in whole seconds"):
        CalendarEventTimeWindows.days("UTC", offset)


@pytest.mark.parametrize("count", [0, 5, 7, 25, -1])
def test_hours_must_divide_the_day(count: int) -> None:
    with pytest.raises(ValueError, match="a day must be a multiple"):
        CalendarEventTimeWindows.hours("UTC", count)


@pytest.mark.parametrize("day", [-1, 7, "someday", 1.5, True])
def test_a_bad_first_day(day: Any) -> None:
    with pytest.raises(ValueError, match="first_day"):
        CalendarEventTimeWindows.weeks("UTC", day)


def test_how_they_are_shown() -> None:
    assert repr(CalendarEventTimeWindows.days("Europe/Berlin")) == "CalendarEventTimeWindows(Europe/Berlin, day, 0)"
