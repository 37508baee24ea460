"""Windows of the calendar by a named time zone: hours, days, weeks, months, quarters, years.

In here: the two assigners. Where the units begin and end, also on days on which clocks change, is `calendar.py`. Not in
Flink, whose windows have a fixed length: with its offsets a day is wrong for half the year where clocks change.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from kstreampy.common.time import Amount, to_millis
from kstreampy.eventtime import calendar
from kstreampy.eventtime.assigner import WindowAssigner, require_timestamp
from kstreampy.eventtime.calendar import Calendar, Unit
from kstreampy.eventtime.time_assigner import TimeWindowAssigner
from kstreampy.eventtime.window import TimeWindow
from kstreampy.serde.batch import NO_TIMESTAMP

C = TypeVar("C", bound="_CalendarWindows")

_KNOWN_LIMIT = 4096
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


class _CalendarWindows(TimeWindowAssigner):
    """Finds the window in hand again by comparing two numbers, and any of the last thousands by bisection; only a new
    one costs a look at the calendar."""

    def __init__(self, zone: str | ZoneInfo, unit: Unit, offset: Amount = 0) -> None:
        """Use `days` and its like. ValueError for a zone that is not known, or an offset of a whole unit or more."""
        shift_ms = to_millis(offset)
        if abs(shift_ms) >= unit.shortest // timedelta(milliseconds=1) or shift_ms % 1000:
            raise ValueError(
                f"{type(self).__name__}: abs(offset) must be less than one {unit.name}, in whole seconds, "
                f"but offset is {shift_ms} ms"
            )
        self.zone = _zone_of(zone)
        self.unit = unit
        self.offset_ms = shift_ms
        self._calendar = Calendar(self.zone, unit, timedelta(milliseconds=shift_ms))
        self._last = [TimeWindow(0, 0)]
        self._start = self._end = 0
        self._starts: list[int] = []
        self._known: list[list[TimeWindow]] = []

    @classmethod
    def hours(cls: type[C], zone: str | ZoneInfo, count: int = 1, offset: Amount = 0) -> C:
        """`count` hours by the wall clock, counted from midnight: with 6, from 00:00, 06:00, 12:00 and 18:00. ValueError
        when 24 is no multiple of `count`. An hour that is shown twice is one window of two hours, one that is left out
        is none."""
        return cls(zone, calendar.hours(count), offset)

    @classmethod
    def days(cls: type[C], zone: str | ZoneInfo, offset: Amount = 0) -> C:
        """From midnight to midnight; 23 or 25 hours where clocks change. `offset` moves the beginning in wall time:
        `Time.hours(6)` is from 06:00 to 06:00 of the next day."""
        return cls(zone, calendar.days(), offset)

    @classmethod
    def weeks(cls: type[C], zone: str | ZoneInfo, first_day: int | str = 0, offset: Amount = 0) -> C:
        """From midnight before `first_day`: 0 or "monday" to 6 or "sunday", as `calendar.MONDAY` and its like."""
        return cls(zone, calendar.weeks(_weekday(first_day)), offset)

    @classmethod
    def months(cls: type[C], zone: str | ZoneInfo, offset: Amount = 0) -> C:
        return cls(zone, calendar.months(1), offset)

    @classmethod
    def quarters(cls: type[C], zone: str | ZoneInfo, offset: Amount = 0) -> C:
        """Three months, from January, April, July and October."""
        return cls(zone, calendar.months(3), offset)

    @classmethod
    def years(cls: type[C], zone: str | ZoneInfo, offset: Amount = 0) -> C:
        return cls(zone, calendar.months(12), offset)

    def window_of(self, time: int) -> TimeWindow:
        """The window that has `time` (ms) in it. ValueError outside of the years 1 to 9999."""
        return self._windows(time)[0]

    def _windows(self, time: int) -> list[TimeWindow]:
        if self._start <= time < self._end:
            return self._last
        place = bisect_right(self._starts, time)
        is_known = place > 0 and time < self._known[place - 1][0].end
        found = self._known[place - 1] if is_known else self._learn(time, place)
        self._last, self._start, self._end = found, found[0].start, found[0].end
        return found

    def _learn(self, time: int, place: int) -> list[TimeWindow]:
        if len(self._starts) >= _KNOWN_LIMIT:
            self._starts.clear()
            self._known.clear()
            place = 0
        start, end = self._calendar.bounds(time // 1000)
        found = [TimeWindow(start * 1000, end * 1000)]
        self._starts.insert(place, found[0].start)
        self._known.insert(place, found)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.zone.key}, {self.unit.name}, {self.offset_ms})"


class CalendarEventTimeWindows(_CalendarWindows):
    """Each timestamp in exactly one window; windows follow each other without gap.

    >>> CalendarEventTimeWindows.days("America/New_York").window_of(1_615_708_800_000)  # 2021-03-14, a day of 23 hours
    TimeWindow(start=1615698000000, end=1615780800000)
    """

    in_event_time = True

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if self._start <= timestamp < self._end:
            return self._last
        if timestamp <= NO_TIMESTAMP:
            require_timestamp(timestamp)
        return self._windows(timestamp)


class CalendarProcessingTimeWindows(_CalendarWindows):
    """As `CalendarEventTimeWindows`, by the wall clock."""

    in_event_time = False

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self._windows(context.get_current_processing_time())


def _zone_of(zone: str | ZoneInfo) -> ZoneInfo:
    if isinstance(zone, ZoneInfo):
        return zone
    if not isinstance(zone, str):
        raise TypeError(f"the time zone must be a name such as 'America/New_York' or a ZoneInfo, not {zone!r}")
    try:
        return ZoneInfo(zone)
    except Exception as error:  # KeyError for unknown names, ValueError for malformed ones, OSError for directories
        raise ValueError(
            f"no time zone {zone!r}: use a name of the IANA database such as 'America/New_York' ({error})"
        ) from error


def _weekday(day: int | str) -> int:
    if isinstance(day, str) and day.lower() in _WEEKDAYS:
        return _WEEKDAYS.index(day.lower())
    if isinstance(day, int) and not isinstance(day, bool) and 0 <= day < 7:
        return int(day)
    raise ValueError(f"first_day must be 0 (Monday) to 6 (Sunday) or the day's name in English, not {day!r}")
