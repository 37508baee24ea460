"""Amounts of time and points in time: `Duration`, `Time`, `Instant`, and `to_millis`, which reads any amount
as int ms.

Not in here: clocks (the runtime hands them in), event time (`watermark_strategy.py`).
"""

from __future__ import annotations

import datetime
import operator
from dataclasses import dataclass
from typing import SupportsIndex, TypeAlias

__all__ = ["Amount", "Duration", "Instant", "Time", "to_millis"]

_NANOS_PER_MILLI = 1_000_000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """An amount of time, exact to the nanosecond; may be negative. Equal when the amounts are."""

    nanos: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "nanos", _whole("Duration", self.nanos))

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration.of_millis(seconds * 1000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration.of_nanos(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(nanos)

    def to_millis(self) -> int:
        """Whole milliseconds, rounded down as in Java."""
        return self.nanos // _NANOS_PER_MILLI

    def __repr__(self) -> str:
        millis, rest = divmod(self.nanos, _NANOS_PER_MILLI)
        return f"Duration.of_nanos({self.nanos})" if rest else f"Duration.of_millis({millis})"


@dataclass(frozen=True, slots=True, order=True, init=False)
class Time:
    """An amount of time in whole milliseconds: what Flink's window assigners take."""

    _milliseconds: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "_milliseconds", _whole("Time", milliseconds))

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time.milliseconds(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        return Time.hours(days * 24)

    def __repr__(self) -> str:
        return f"Time.milliseconds({self._milliseconds})"


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """A point on the time line: whole seconds since 1970-01-01T00:00:00Z (may be negative) plus 0 to
    999,999,999 ns."""

    seconds: int
    nanos: int

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < 1_000_000_000:
            raise ValueError(f"Instant: nanos must lie in 0..999999999, not {self.nanos}")

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_datetime(moment: datetime.datetime) -> Instant:
        """Of an aware datetime; a naive one is taken to be UTC, whatever the process's time zone is."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        since = moment - _EPOCH
        return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)

    def to_datetime(self) -> datetime.datetime:
        """As an aware datetime in UTC, rounded down to microseconds."""
        return _EPOCH + datetime.timedelta(seconds=self.seconds, microseconds=self.nanos // 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


Amount: TypeAlias = Duration | Time | datetime.timedelta | int
"""What is accepted wherever an amount of time is: an int is milliseconds."""


def to_millis(value: Amount) -> int:
    """Any amount of time as int milliseconds. `TypeError` for anything else: a float or a bool is most often
    a mistake."""
    if type(value) is int:
        return value
    if isinstance(value, Duration):
        return value.to_millis()
    if isinstance(value, Time):
        return value.to_milliseconds()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    return _whole("an amount of time (a Duration, a Time, a timedelta, or int milliseconds)", value)


def _whole(what: str, value: object) -> int:
    """Ints and int-like objects (numpy's); a float or a bool is refused."""
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        return operator.index(value)
    raise TypeError(f"{what} takes a whole number, not {type(value).__name__}: {value!r}")
