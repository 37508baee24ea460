"""The bytes of values that have no parts: text, big ints, dates and times, amounts of time, Decimal, UUID.

In here: one exact, reversible byte form per type, shared by keys (`serde/key.py`) and values
(`serde/value.py`). What holds other values (tuples, rows, dataclasses ...) is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kstreampy.common.time import Duration, Instant, Time

_DATE = Struct(">I")
_TIME = Struct(">BBBIB")
_DATETIME = Struct(">IBBBIB")
_TIMEDELTA = Struct(">iii")


class Atom(NamedTuple):
    """How one type becomes bytes and comes back. `tag`, one byte, stands for the type and never changes. `decode` raises
    ValueError for bytes that `encode` cannot have made, or another exception where a constructor of the standard library does."""

    tag: bytes
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def encode_text(value: str) -> bytes:
    """UTF-8; a lone surrogate, which UTF-8 does not allow, as the three bytes its number would have."""
    return value.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def encode_int(value: int) -> bytes:
    """Two's complement, big endian, as few bytes as hold it."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def decode_int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _encode_zone(zone: tzinfo | None) -> bytes:
    if zone is None:
        return b""
    if zone is UTC:
        return b"U"
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        label = b"" if name == timezone(offset).tzname(None) else encode_text(name)
        return b"+" + _encode_timedelta(offset) + label
    if type(zone) is ZoneInfo and zone.key is not None:
        return b"Z" + encode_text(zone.key)
    raise TypeError(
        f"the time zone {zone!r} ({_name(type(zone))}) cannot be stored: use zoneinfo.ZoneInfo with a name, "
        "datetime.timezone, or convert with .astimezone(datetime.timezone.utc)"
    )


def _decode_zone(data: bytes) -> tzinfo | None:
    if not data:
        return None
    if data == b"U":
        return UTC
    kind, rest = data[:1], data[1:]
    if kind == b"+":
        offset, label = _decode_timedelta(rest[:12]), decode_text(rest[12:])
        return timezone(offset, label) if label else timezone(offset)
    if kind == b"Z":
        name = decode_text(rest)
        try:
            return ZoneInfo(name)
        except ZoneInfoNotFoundError as error:
            raise ValueError(
                f"time zone {name!r} is not known on this machine: install the package tzdata or the "
                "operating system's time zone data"
            ) from error
    raise ValueError(f"unknown kind of time zone {kind!r}")


def _encode_date(value: date) -> bytes:
    return _DATE.pack(value.toordinal())


def _decode_date(data: bytes) -> date:
    return date.fromordinal(_DATE.unpack(data)[0])


def _encode_time(value: time) -> bytes:
    zone = value.tzinfo
    clock = _TIME.pack(value.hour, value.minute, value.second, value.microsecond, value.fold)
    return clock if zone is None else clock + _encode_zone(zone)


def _decode_time(data: bytes) -> time:
    hour, minute, second, microsecond, fold = _TIME.unpack_from(data)
    return time(hour, minute, second, microsecond, _decode_zone(data[8:]), fold=fold)


def _encode_datetime(value: datetime) -> bytes:
    zone = value.tzinfo
    wall = _DATETIME.pack(
        value.year << 9 | value.month << 5 | value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.fold,
    )
    return wall if zone is None else wall + _encode_zone(zone)


def _decode_datetime(data: bytes) -> datetime:
    day, hour, minute, second, microsecond, fold = _DATETIME.unpack_from(data)
    return datetime(
        day >> 9,
        day >> 5 & 15,
        day & 31,
        hour,
        minute,
        second,
        microsecond,
        _decode_zone(data[12:]),
        fold=fold,
    )


def _encode_timedelta(value: timedelta) -> bytes:
    return _TIMEDELTA.pack(value.days, value.seconds, value.microseconds)


def _decode_timedelta(data: bytes) -> timedelta:
    days, seconds, microseconds = _TIMEDELTA.unpack(data)
    return timedelta(days, seconds, microseconds)


def _encode_decimal(value: Decimal) -> bytes:
    return str(value).encode("ascii")


def _decode_decimal(data: bytes) -> Decimal:
    return Decimal(data.decode("ascii"))


def _encode_uuid(value: UUID) -> bytes:
    return value.bytes


def _decode_uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _encode_instant(value: Instant) -> bytes:
    return value.nanos.to_bytes(4, "big") + encode_int(value.seconds)


def _decode_instant(data: bytes) -> Instant:
    return Instant(decode_int(data[4:]), int.from_bytes(data[:4], "big"))


ATOMS: dict[type, Atom] = {
    date: Atom(b"D", _encode_date, _decode_date),
    time: Atom(b"T", _encode_time, _decode_time),
    datetime: Atom(b"M", _encode_datetime, _decode_datetime),
    timedelta: Atom(b"P", _encode_timedelta, _decode_timedelta),
    Decimal: Atom(b"N", _encode_decimal, _decode_decimal),
    UUID: Atom(b"U", _encode_uuid, _decode_uuid),
    Instant: Atom(b"J", _encode_instant, _decode_instant),
    Duration: Atom(b"K", lambda value: encode_int(value.nanos), lambda data: Duration(decode_int(data))),
    Time: Atom(
        b"L", lambda value: encode_int(value.to_milliseconds()), lambda data: Time.milliseconds(decode_int(data))
    ),
}
"""Times and datetimes are their wall time, fold, and the zone by name or offset: 12:00+02:00 and 10:00+00:00 have
different bytes. Decimals are their text: 1.0 and 1.00 have different bytes, as they print differently."""
