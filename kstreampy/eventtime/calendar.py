"""Where days, weeks, months and the like of a named time zone begin and end, as instants.

In here: `Calendar`, pure. A unit's boundaries are local wall times, midnights for instance; the instant of one is the
first at which the zone's clocks show it or a later time. So units tile time without gap or overlap on every day:

- a day on which clocks go forward has 23 hours, one on which they go back 25, whatever the zone's change is;
- where clocks go forward over midnight, the day begins at the change;
- where they go back over midnight, the next day begins the first time its midnight is shown;
- a unit that the clocks leave out, such as a skipped hour or day, does not exist.

Instants are int seconds since the epoch here. Years 1 to 9999 of local time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)


class Unit(NamedTuple):
    """Local boundaries without a zone: `floor(t)` is the last at or before `t`, `following(boundary)` the next."""

    name: str
    floor: Callable[[datetime], datetime]
    following: Callable[[datetime], datetime]
    shortest: timedelta


def hours(count: int) -> Unit:
    """`count` hours from midnight on. ValueError when 24 is no multiple of it."""
    if not 1 <= count <= 24 or 24 % count:
        raise ValueError(f"a day must be a multiple of the hours: 1, 2, 3, 4, 6, 8, 12 or 24, not {count}")
    length = timedelta(hours=count)

    def floor(moment: datetime) -> datetime:
        return midnight(moment) + (moment.hour // count) * length

    return Unit(f"{count} h", floor, lambda boundary: boundary + length, length)


def days() -> Unit:
    day = timedelta(days=1)
    return Unit("day", midnight, lambda boundary: boundary + day, day)


def weeks(first_day: int) -> Unit:
    """`first_day` as `datetime.weekday` counts: 0 is Monday."""
    week = timedelta(days=7)

    def floor(moment: datetime) -> datetime:
        return midnight(moment) - timedelta(days=(moment.weekday() - first_day) % 7)

    return Unit("week", floor, lambda boundary: boundary + week, week)


def months(count: int) -> Unit:
    """`count` months from January on: 1 is a month, 3 a quarter, 12 a year."""

    def floor(moment: datetime) -> datetime:
        return datetime(moment.year, (moment.month - 1) // count * count + 1, 1)

    def following(boundary: datetime) -> datetime:
        years, month = divmod(boundary.month - 1 + count, 12)
        return datetime(boundary.year + years, month + 1, 1)

    return Unit({1: "month", 3: "quarter", 12: "year"}[count], floor, following, timedelta(days=28 * count))


def midnight(moment: datetime) -> datetime:
    return datetime(moment.year, moment.month, moment.day)


class Calendar:
    """The bounds of the units of one zone. `shift` moves every boundary, in wall time: a day with a shift of 6 hours
    begins when clocks show 06:00."""

    __slots__ = ("_shift", "_unit", "_zone")

    def __init__(self, zone: tzinfo, unit: Unit, shift: timedelta) -> None:
        self._zone = zone
        self._unit = unit
        self._shift = shift

    def bounds(self, instant: int) -> tuple[int, int]:
        """Start and end of the unit that has the instant in it. ValueError outside of years 1 to 9999."""
        try:
            return self._bounds(instant)
        except (OverflowError, ValueError) as error:
            raise ValueError(f"{instant} s since the epoch lies outside of the years 1 to 9999: {error}") from error

    def _bounds(self, instant: int) -> tuple[int, int]:
        shift, unit = self._shift, self._unit
        boundary = unit.floor(self._local(instant) - shift) + shift
        start = self._instant_of(boundary)
        while True:
            # Clocks may have shown the next boundary before, and been put back since: then its unit has begun.
            boundary = unit.following(boundary - shift) + shift
            end = self._instant_of(boundary)
            if end > instant:
                return start, end
            start = end

    def _instant_of(self, boundary: datetime) -> int:
        """The first instant at which the zone's clocks show `boundary` or later."""
        first, second = self._reading(boundary, 0), self._reading(boundary, 1)
        if first <= second:
            return first
        # Clocks go forward over the boundary, somewhere after `second` and not after `first`.
        before, after = second, first
        while after - before > 1:
            middle = (before + after) // 2
            if self._local(middle) < boundary:
                before = middle
            else:
                after = middle
        return after

    def _reading(self, local: datetime, fold: int) -> int:
        """The instant at which clocks show `local`: for the first time, or for the second where they go back. Where
        they leave it out: as if they had not gone forward yet, or as if they already had."""
        offset = local.replace(fold=fold, tzinfo=self._zone).utcoffset() or timedelta()
        return (local - offset - _EPOCH) // _SECOND

    def _local(self, instant: int) -> datetime:
        return (_EPOCH + timedelta(seconds=instant)).replace(tzinfo=UTC).astimezone(self._zone).replace(tzinfo=None)
