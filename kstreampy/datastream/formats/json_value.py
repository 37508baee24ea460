"""JSON's values as those of a declared type, and back: one function per type, made once.

In here: what text stands for which date, number or bytes. JSON as bytes is `json.py`. As in Flink, reading is
lenient where nothing is lost: `"42"` is a number where one is declared, a number is text where a string is
declared.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from kstreampy.common.coercion import Coercer, refuse
from kstreampy.common.collection_type import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from kstreampy.common.composite_type import ExternalTypeInfo, RowTypeInfo, TupleTypeInfo
from kstreampy.common.time import Instant
from kstreampy.common.time_type import DateTypeInfo, LocalTimeTypeInfo, TimestampTypeInfo, TimeTypeInfo
from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import BasicType, BasicTypeInfo
from kstreampy.common.types import new_row

Writer = Callable[[Any], Any]

_MAX_DIGITS = 400
"""Beyond any float: a record with the number 1e999999999 must not keep a worker busy writing it out."""

_SEQUENCES = (ListTypeInfo, ObjectArrayTypeInfo, BasicArrayTypeInfo)


def children_of(info: TypeInformation) -> list[TypeInformation]:
    """The types that a type is made of."""
    if isinstance(info, (RowTypeInfo, TupleTypeInfo)):
        return info.get_field_types()
    if isinstance(info, _SEQUENCES):
        return [info.element_type]
    if isinstance(info, MapTypeInfo):
        return [info.key_type, info.value_type]
    return [info.type_info] if isinstance(info, ExternalTypeInfo) else []


def contains_decimals(info: TypeInformation) -> bool:
    """True when numbers must be read to their last digit."""
    if isinstance(info, BasicTypeInfo):
        return info.basic_type is BasicType.BIG_DEC
    return any(map(contains_decimals, children_of(info)))


# ---- reading


def reader_of(info: TypeInformation, fail_on_missing: bool) -> Coercer:
    """The function that makes a value of JSON one of this type; it raises `TypeError` or `ValueError`, naming
    the field."""
    if isinstance(info, ExternalTypeInfo):
        return reader_of(info.type_info, fail_on_missing)
    if isinstance(info, LocalTimeTypeInfo):
        return reader_of(info.sql_type, fail_on_missing)
    if isinstance(info, RowTypeInfo):
        return _row_reader(info, fail_on_missing)
    if isinstance(info, MapTypeInfo):
        return _map_reader(info, fail_on_missing)
    if isinstance(info, TupleTypeInfo):
        return _tuple_reader(info, fail_on_missing)
    if isinstance(info, PrimitiveArrayTypeInfo) and info.is_immutable:
        return _through_text(_bytes, info.coercer())
    if isinstance(info, _SEQUENCES):
        return _list_reader(info, fail_on_missing)
    return _scalar_reader(info)


def _scalar_reader(info: TypeInformation) -> Coercer:
    coerce = info.coercer()
    if isinstance(info, DateTypeInfo):
        return _through_text(datetime.date.fromisoformat, coerce)
    if isinstance(info, TimeTypeInfo):
        return _through_text(datetime.time.fromisoformat, coerce)
    if isinstance(info, TimestampTypeInfo):
        return _through_text(datetime.datetime.fromisoformat, coerce)
    if not isinstance(info, BasicTypeInfo):
        return coerce
    kind = info.basic_type
    if kind is BasicType.STRING:
        return _read_string
    if kind is BasicType.INSTANT:
        return _through_text(datetime.datetime.fromisoformat, coerce)
    if kind is BasicType.BIG_DEC:
        return _through_text(_decimal, coerce)
    if kind in (BasicType.FLOAT, BasicType.DOUBLE):
        return _through_text(float, coerce, float if kind is BasicType.DOUBLE else None)
    if kind is BasicType.BOOLEAN:
        return _through_text(_boolean, coerce, bool)
    if kind is BasicType.CHAR:
        return coerce
    return _whole_number_reader(coerce, kind)


def _through_text(parse: Callable[[str], Any], coerce: Coercer, exact: type | None = None) -> Coercer:
    """Text is parsed, the rest coerced; a value of the type `exact` is taken as it is."""

    def read(value: Any) -> Any:
        kind = type(value)
        if kind is exact:
            return value
        return coerce(parse(value) if kind is str else value)

    return read


def _whole_number_reader(coerce: Coercer, basic_type: BasicType) -> Coercer:
    """`1.0` is a whole number in JSON; it is a Decimal here when another field needs all digits. One that is beyond the type
    is refused, as in Flink: wrapped around, it would be another number than the one that was sent. A byte may be unsigned."""
    highest = 255 if basic_type is BasicType.BYTE else None

    def read(value: Any) -> Any:
        kind = type(value)
        if kind is Decimal and value.adjusted() > _MAX_DIGITS:
            raise ValueError(f"a whole number of more than {_MAX_DIGITS} digits: {value}")
        if kind is str or (kind is Decimal and value == value.to_integral_value()):
            value = int(value)
        coerced = coerce(value)
        if coerced != value and (highest is None or not 0 <= value <= highest):
            raise ValueError(f"{value} is beyond what {basic_type.value} can hold")
        return coerced

    return read


def _read_string(value: Any) -> Any:
    if type(value) is str or value is None:
        return value
    return msgspec.json.Encoder(decimal_format="number").encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"no number: {text!r}") from None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"neither true nor false: {text!r}")
    return lowered == "true"


def _row_reader(info: RowTypeInfo, fail_on_missing: bool) -> Coercer:
    names = tuple(info.get_field_names())
    readers = [reader_of(field, fail_on_missing) for field in info.get_field_types()]
    fields = list(zip(names, readers, strict=True))

    def read_row(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            refuse(value, "a row, which is an object in JSON")
        get = value.get
        if fail_on_missing:
            missing = [name for name in names if name not in value]
            if missing:
                raise ValueError(f"missing field {missing[0]!r}")
        try:
            return new_row(names, [read(get(name)) for name, read in fields])
        except (TypeError, ValueError):
            for name, read in fields:
                _read_at(name, read, get(name))
            raise

    return read_row


def _read_at(place: object, read: Coercer, value: Any) -> Any:
    """Reads, and names the place in the error."""
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"field {place!r}: {error}") from error


def _list_reader(info: Any, fail_on_missing: bool) -> Coercer:
    read = reader_of(info.element_type, fail_on_missing)

    def read_list(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list:
            refuse(value, info)
        return [read(item) for item in value]

    return read_list


def _tuple_reader(info: TupleTypeInfo, fail_on_missing: bool) -> Coercer:
    readers = [reader_of(field, fail_on_missing) for field in info.get_field_types()]

    def read_tuple(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not list or len(value) != len(readers):
            refuse(value, info)
        return tuple(read(item) for read, item in zip(readers, value, strict=True))

    return read_tuple


def _map_reader(info: MapTypeInfo, fail_on_missing: bool) -> Coercer:
    read_key, read = reader_of(info.key_type, fail_on_missing), reader_of(info.value_type, fail_on_missing)

    def read_map(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not dict:
            refuse(value, info)
        return {read_key(key): read(item) for key, item in value.items()}

    return read_map


# ---- writing


def writer_of(info: TypeInformation) -> Writer:
    """The function that makes a value of this type (coerced already) what msgspec writes as Flink does."""
    if isinstance(info, RowTypeInfo):
        return _row_writer(info)
    if isinstance(info, TupleTypeInfo):
        writers = [writer_of(field) for field in info.get_field_types()]
        return lambda value: value and [write(item) for write, item in zip(writers, value, strict=True)]
    if isinstance(info, PrimitiveArrayTypeInfo) and info.is_immutable:
        return _same
    if isinstance(info, _SEQUENCES):
        return _list_writer(writer_of(info.element_type))
    if isinstance(info, MapTypeInfo):
        return _map_writer(writer_of(info.key_type), writer_of(info.value_type))
    if isinstance(info, ExternalTypeInfo):
        return writer_of(info.type_info)
    if isinstance(info, LocalTimeTypeInfo):
        return _same  # local: without a zone
    if isinstance(info, BasicTypeInfo) and info.basic_type is BasicType.INSTANT:
        return _instant_text
    return _timestamp_text if isinstance(info, TimestampTypeInfo) else _same


def _same(value: Any) -> Any:
    return value


def _row_writer(info: RowTypeInfo) -> Writer:
    names = info.get_field_names()
    writers = [writer_of(field) for field in info.get_field_types()]
    if all(write is _same for write in writers):
        return lambda row: None if row is None else dict(zip(names, row._values, strict=True))
    fields = list(zip(names, writers, strict=True))

    def write_row(row: Any) -> Any:
        if row is None:
            return None
        return {name: write(item) for (name, write), item in zip(fields, row._values, strict=True)}

    return write_row


def _list_writer(write: Writer) -> Writer:
    return _same if write is _same else lambda value: value and [write(item) for item in value]


def _map_writer(write_key: Writer, write: Writer) -> Writer:
    if write_key is _same and write is _same:
        return _same
    return lambda value: value and {write_key(key): write(item) for key, item in value.items()}


def _timestamp_text(value: Any) -> Any:
    return None if value is None else f"{value.isoformat()}Z"


def _instant_text(value: Instant | None) -> str | None:
    if value is None:
        return None
    seconds = Instant(value.seconds, 0).to_datetime().replace(tzinfo=None).isoformat()
    fraction = f"{value.nanos:09d}".rstrip("0")
    return f"{seconds}.{fraction}Z" if fraction else f"{seconds}Z"
