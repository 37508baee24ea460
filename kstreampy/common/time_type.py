"""Declared types of dates, times and timestamps: SQL's and Java's local ones. Users reach them through
`Types`.

Instants are in `typeinfo.py`; the coercion of values is `coercion.py`.
"""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any, ClassVar

from kstreampy.common import coercion
from kstreampy.common.coercion import Coercer
from kstreampy.common.type_information import TypeInformation

_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)


class _MomentTypeInfo(TypeInformation):
    """What dates, times and timestamps share."""

    _coerce: ClassVar[tuple[Coercer]]  # in a tuple, so that it is not taken for a method

    def coercer(self) -> Coercer:
        return self._coerce[0]

    def need_conversion(self) -> bool:
        return True

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return type(self).__name__


class DateTypeInfo(_MomentTypeInfo):
    """`datetime.date`; of a datetime the day is kept. The internal form is days since 1970-01-01."""

    EPOCH_ORDINAL = _EPOCH.toordinal()
    _coerce = (coercion.coerce_date,)

    def to_internal_type(self, d: Any) -> Any:
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: Any) -> Any:
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)


class TimeTypeInfo(_MomentTypeInfo):
    """`datetime.time` without an offset (one with an offset is turned into UTC). The internal form is
    microseconds of the day; PyFlink's shifts them by the process's time zone, this one does not."""

    EPOCH_ORDINAL = 0
    _coerce = (coercion.coerce_time,)

    def to_internal_type(self, t: Any) -> Any:
        if t is None:
            return None
        moment = coercion.coerce_time(t)
        return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond

    def from_internal_type(self, t: Any) -> Any:
        return None if t is None else (_EPOCH + t * _MICROSECOND).time()


class TimestampTypeInfo(_MomentTypeInfo):
    """Naive `datetime.datetime` (an aware one is turned into UTC). The internal form is microseconds since
    1970-01-01T00:00; PyFlink's reads a naive datetime in the process's time zone, this one does not."""

    _coerce = (coercion.coerce_timestamp,)

    def to_internal_type(self, dt: Any) -> Any:
        return None if dt is None else (coercion.coerce_timestamp(dt) - _EPOCH) // _MICROSECOND

    def from_internal_type(self, ts: Any) -> Any:
        return None if ts is None else _EPOCH + ts * _MICROSECOND


class LocalTimeTypeInfo(TypeInformation):
    """Java's local dates and times: in Python the same values as the SQL types."""

    class TimeType(Enum):
        LOCAL_DATE = "LocalDate"
        LOCAL_TIME = "LocalTime"
        LOCAL_DATE_TIME = "LocalDateTime"

    def __init__(self, time_type: TimeType) -> None:
        self._time_type = LocalTimeTypeInfo.TimeType(time_type)

    @property
    def time_type(self) -> TimeType:
        return self._time_type

    @property
    def sql_type(self) -> TypeInformation:
        """The SQL type of the same values."""
        kind = LocalTimeTypeInfo.TimeType
        of = {
            kind.LOCAL_DATE: DateTypeInfo,
            kind.LOCAL_TIME: TimeTypeInfo,
            kind.LOCAL_DATE_TIME: TimestampTypeInfo,
        }
        return of[self._time_type]()

    def coercer(self) -> Coercer:
        return self.sql_type.coercer()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        return self.sql_type.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        return self.sql_type.from_internal_type(obj)

    def _identity(self) -> tuple[Any, ...]:
        return (self._time_type.value,)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo({self._time_type.value})"
