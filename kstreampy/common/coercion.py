"""Values made to fit a declared type, one function per scalar type: what PyFlink's coders do to a value on
its way.

In here: the functions that `TypeInformation.coercer` hands out for scalar types, and the error they share.
Not in here: rows and tuples (`composite_type.py`), lists, maps and arrays (`collection_type.py`). All of them leave
None alone and raise `TypeError` for what cannot be coerced.
"""

from __future__ import annotations

import datetime
import operator
import reprlib
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_float
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from kstreampy.common.time import Instant

__all__ = ["Coercer", "name_culprit", "refuse"]

Coercer: TypeAlias = Callable[[Any], Any]

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


def refuse(value: object, type_name: object) -> NoReturn:
    """Raises the `TypeError` of a value that does not fit."""
    raise TypeError(f"a {type(value).__name__} cannot be made {type_name}: {_short.repr(value)}")


def unboxed(value: Any) -> Any:
    """A numpy scalar as Python's own, anything else as it is."""
    if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def coerce_nothing(value: Any) -> Any:
    return value


def coerce_string(value: Any) -> Any:
    if type(value) is str or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    refuse(value, "String")


def coerce_char(value: Any) -> Any:
    if value is None or (type(value) is str and len(value) == 1):
        return value
    if isinstance(value, str) and len(value) == 1:
        return str.__str__(value)
    refuse(value, "Char, which is one character")


def coerce_boolean(value: Any) -> Any:
    if value is True or value is False or value is None:
        return value
    plain = unboxed(value)
    if isinstance(plain, int):
        return bool(plain)
    refuse(value, "Boolean")


def _whole_number(value: Any, type_name: str) -> int:
    """Ints and int-like objects, and floats without a fraction: nothing is lost."""
    plain = unboxed(value)
    if isinstance(plain, float) and plain.is_integer():
        return int(plain)
    try:
        return operator.index(plain)
    except TypeError:
        refuse(value, type_name)


def _wrapping(type_name: str, bits: int) -> Coercer:
    low, high, span = -(1 << (bits - 1)), (1 << (bits - 1)) - 1, 1 << bits

    def coerce_integer(value: Any) -> Any:
        if type(value) is int and low <= value <= high:
            return value
        if value is None:
            return None
        return (_whole_number(value, type_name) - low) % span + low

    return coerce_integer


coerce_byte = _wrapping("Byte", 8)
coerce_short = _wrapping("Short", 16)
coerce_int = _wrapping("Integer", 32)
coerce_long = _wrapping("Long", 64)


def coerce_big_int(value: Any) -> Any:
    if type(value) is int or value is None:
        return value
    return _whole_number(value, "BigInteger")


def coerce_double(value: Any) -> Any:
    if type(value) is float or value is None:
        return value
    return _real_number(value, "Double")


def coerce_float(value: Any) -> Any:
    if value is None:
        return None
    return c_float(value if type(value) is float else _real_number(value, "Float")).value


def _real_number(value: Any, type_name: str) -> float:
    plain = unboxed(value)
    if isinstance(plain, (int, float, Decimal)):
        try:
            return float(plain)
        except OverflowError:
            pass
    refuse(value, type_name)


def coerce_big_dec(value: Any) -> Any:
    """A float becomes the decimal it prints as: 0.1 is `Decimal("0.1")`."""
    if type(value) is Decimal or value is None:
        return value
    plain = unboxed(value)
    if isinstance(plain, (int, Decimal)):
        return Decimal(plain)
    if isinstance(plain, float):
        return Decimal(repr(float(plain)))
    refuse(value, "BigDecimal")


def coerce_instant(value: Any) -> Any:
    if type(value) is Instant or value is None:
        return value
    if isinstance(value, datetime.datetime):
        return Instant.of_datetime(value)
    refuse(value, "Instant")


def coerce_date(value: Any) -> Any:
    if type(value) is datetime.date or value is None:
        return value
    if isinstance(value, datetime.date):
        return datetime.date(value.year, value.month, value.day)
    refuse(value, "a date")


def coerce_time(value: Any) -> Any:
    """A time with a fixed offset becomes the time in UTC at that moment, a naive one stays as it is."""
    if value is None or (isinstance(value, datetime.time) and value.tzinfo is None):
        return value
    if isinstance(value, datetime.time):
        offset = value.utcoffset() or datetime.timedelta()
        return (datetime.datetime.combine(datetime.date(2000, 1, 1), value.replace(tzinfo=None)) - offset).time()
    refuse(value, "a time")


def coerce_timestamp(value: Any) -> Any:
    """An aware datetime becomes the naive one in UTC, a naive one stays as it is; the process's time zone is
    never asked."""
    if value is None or (isinstance(value, datetime.datetime) and value.tzinfo is None):
        return value
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    refuse(value, "a timestamp (datetime)")


def coerce_bytes(value: Any) -> Any:
    """Bytes, and lists of numbers, which wrap to 8 bits."""
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        items = value.tolist() if hasattr(value, "tolist") else value
        return bytes([coerce_byte(item) & 0xFF for item in items])
    refuse(value, "an array of bytes")


def name_culprit(
    names: Iterable[Any], coercers: Sequence[Coercer], values: Iterable[Any], error: TypeError
) -> NoReturn:
    """Raises again with the name of the field that did not fit."""
    for name, coerce, value in zip(names, coercers, values, strict=False):
        try:
            coerce(value)
        except TypeError as found:
            raise TypeError(f"field {name!r}: {found}") from None
    raise error
