"""Declared types as MessagePack sees them: for each `TypeInformation` what is needed to encode it without
loss.

In here: `Shape` and `shape_of`. The codecs made of shapes, their tags and errors are in `serde/typed.py`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from types import GenericAlias
from typing import Any, NamedTuple, TypeAlias

from kstreampy.common.time import Instant
from kstreampy.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from kstreampy.common.types import Row, RowKind, new_row

Convert: TypeAlias = Callable[[Any], Any]

_NONE = type(None)
_KNOWN_LIMIT = 256
_KINDS = tuple(RowKind)


class Shape(NamedTuple):
    """One declared type. None is a value of every shape.

    `name` says the type, and is the same in every version; `native` is the type msgspec decodes to; `fits`
    tells of a whole column whether each value is exactly of the type; `lower` makes a value one of `native`
    and `lift` undoes it (None where `native` is the type itself).
    """

    name: str
    native: Any
    fits: Callable[[Sequence[Any]], bool]
    lower: Convert | None = None
    lift: Convert | None = None
    by_class: bool = False
    """Whether `fits` depends on nothing but the values' classes."""


def shape_of(info: TypeInformation) -> Shape | None:
    """None for a type that is not one of ours, or contains such a one."""
    if isinstance(info, ExternalTypeInfo):
        return shape_of(info.type_info)
    if isinstance(info, LocalTimeTypeInfo):
        return shape_of(info.sql_type)
    if isinstance(info, BasicTypeInfo):
        return _BASIC[info.basic_type]
    if isinstance(info, PrimitiveArrayTypeInfo) and info.element_type == BasicTypeInfo(BasicType.BYTE):
        return _scalar("BYTES", bytes)
    if isinstance(info, (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return _of_list(shape_of(info.element_type))
    if isinstance(info, MapTypeInfo):
        return _of_map(shape_of(info.key_type), shape_of(info.value_type))
    if isinstance(info, (TupleTypeInfo, RowTypeInfo)):
        fields = [shape for shape in map(shape_of, info.get_field_types()) if shape is not None]
        if len(fields) < len(info.get_field_types()):
            return None
        names = info.get_field_names() if isinstance(info, RowTypeInfo) else None
        return _of_tuple(fields) if names is None else _of_row(fields, tuple(names))
    return _OTHERS.get(type(info))


def _scalar(
    name: str,
    cls: Any,
    *,
    native: Any = None,
    exact: Callable[[Any], bool] | None = None,
    lower: Convert | None = None,
    lift: Convert | None = None,
) -> Shape:
    """Values of one class; `exact` says of a value of the class whether it survives as `native`."""
    allowed = frozenset((cls, _NONE))

    def fits(values: Sequence[Any]) -> bool:
        return allowed.issuperset(map(type, values))

    def fits_exactly(values: Sequence[Any]) -> bool:
        return fits(values) and all(value is None or exact(value) for value in values)  # type: ignore[misc]  # not None

    return Shape(name, (native or cls) | None, fits if exact is None else fits_exactly, lower, lift, exact is None)


def _of_list(element: Shape | None) -> Shape | None:
    if element is None:
        return None

    def fits(values: Sequence[Any]) -> bool:
        present = _present(values, list)
        return present is not None and element.fits(list(chain.from_iterable(present)))

    return Shape(
        f"LIST({element.name})",
        GenericAlias(list, (element.native,)) | None,
        fits,
        _each(element.lower),
        _each(element.lift),
    )


def _of_map(key: Shape | None, value: Shape | None) -> Shape | None:
    if key is None or value is None:
        return None

    def fits(values: Sequence[Any]) -> bool:
        present = _present(values, dict)
        if present is None or not key.fits(list(chain.from_iterable(present))):
            return False
        return value.fits(list(chain.from_iterable(map(dict.values, present))))

    return Shape(
        f"MAP({key.name}, {value.name})",
        GenericAlias(dict, (key.native, value.native)) | None,
        fits,
        _each_pair(key.lower, value.lower),
        _each_pair(key.lift, value.lift),
    )


def _of_tuple(fields: Sequence[Shape]) -> Shape:
    fields_fit = _fields_fit(fields)

    def fits(values: Sequence[Any]) -> bool:
        present = _present(values, tuple)
        return present is not None and fields_fit(present)

    return Shape(
        f"TUPLE({', '.join(field.name for field in fields)})",
        GenericAlias(tuple, tuple(field.native for field in fields)) | None,
        fits,
        _each_field([field.lower for field in fields]),
        _each_field([field.lift for field in fields]),
    )


def _of_row(fields: Sequence[Shape], names: tuple[str, ...]) -> Shape:
    """A row lies as its kind and its values."""
    fields_fit = _fields_fit(fields)

    def fits(values: Sequence[Any]) -> bool:
        present = _present(values, Row)
        return (
            present is not None
            and {names}.issuperset(map(attrgetter("_fields"), present))
            and fields_fit(list(map(attrgetter("_values"), present)))
        )

    lower_fields = _each_field([None, *(field.lower for field in fields)])
    lift_fields = _each_field([None, *(field.lift for field in fields)])

    def lower(row: Row | None) -> Any:
        if row is None:
            return None
        parts = (row._row_kind.value, *row._values)
        return parts if lower_fields is None else lower_fields(parts)

    def lift(parts: tuple[Any, ...] | None) -> Row | None:
        if parts is None:
            return None
        kind, *values = parts if lift_fields is None else lift_fields(parts)
        return new_row(names, values, _KINDS[kind])

    pairs = zip(names, fields, strict=True)
    return Shape(
        f"ROW({', '.join(f'{name}: {field.name}' for name, field in pairs)})",
        GenericAlias(tuple, (int, *(field.native for field in fields))) | None,
        fits,
        lower,
        lift,
    )


def _present(values: Sequence[Any], cls: type) -> Sequence[Any] | None:
    """The values that are not None; None if any is of another class."""
    types = set(map(type, values))
    if not types.issubset((cls, _NONE)):
        return None
    return values if _NONE not in types else [value for value in values if value is not None]


def _fields_fit(fields: Sequence[Shape]) -> Callable[[Sequence[Sequence[Any]]], bool]:
    """Whether all these tuples (or values of rows) have the fields' types. Of single ones, as state has them,
    the combinations of classes that fitted are remembered."""
    widths = {len(fields)}
    by_class = all(field.by_class for field in fields)
    known: set[tuple[type, ...]] = set()

    def fit(rows: Sequence[Sequence[Any]]) -> bool:
        if len(rows) == 1 and tuple(map(type, rows[0])) in known:
            return True
        if not widths.issuperset(map(len, rows)):
            return False
        columns = zip(*rows, strict=True)
        fitted = all(field.fits(column) for field, column in zip(fields, columns, strict=False))
        if fitted and by_class and len(rows) == 1 and len(known) < _KNOWN_LIMIT:
            known.add(tuple(map(type, rows[0])))
        return fitted

    return fit


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: None if values is None else [convert(value) for value in values]


def _each_pair(key: Convert | None, value: Convert | None) -> Convert | None:
    if key is None and value is None:
        return None
    key, value = key or _same, value or _same
    return lambda pairs: None if pairs is None else {key(k): value(v) for k, v in pairs.items()}


def _each_field(converts: Sequence[Convert | None]) -> Convert | None:
    if not any(converts):
        return None
    functions = [convert or _same for convert in converts]
    return lambda parts: None if parts is None else tuple([f(part) for f, part in zip(functions, parts, strict=True)])


def _same(value: Any) -> Any:
    return value


def _lower_instant(value: Instant | None) -> Any:
    return None if value is None else (value.seconds, value.nanos)


def _lift_instant(parts: Any) -> Any:
    return None if parts is None else Instant(*parts)


def _pickle(value: Any) -> bytes | None:
    return None if value is None else pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def _unpickle(data: bytes | None) -> Any:
    return None if data is None else pickle.loads(data)


def _is_naive(value: datetime | time) -> bool:
    return value.tzinfo is None and not value.fold


_BASIC: dict[BasicType, Shape] = {
    BasicType.STRING: _scalar("STRING", str),
    BasicType.CHAR: _scalar("CHAR", str),
    BasicType.BYTE: _scalar("BYTE", int),
    BasicType.SHORT: _scalar("SHORT", int),
    BasicType.INT: _scalar("INT", int),
    BasicType.LONG: _scalar("LONG", int),
    BasicType.BIG_INT: _scalar("BIG_INT", int),
    BasicType.FLOAT: _scalar("FLOAT", float),
    BasicType.DOUBLE: _scalar("DOUBLE", float),
    BasicType.BOOLEAN: _scalar("BOOLEAN", bool),
    BasicType.BIG_DEC: _scalar("BIG_DEC", Decimal),
    BasicType.INSTANT: _scalar("INSTANT", Instant, native=tuple[int, int], lower=_lower_instant, lift=_lift_instant),
}
_OTHERS: dict[type, Shape] = {
    DateTypeInfo: _scalar("SQL_DATE", date),
    TimeTypeInfo: _scalar("SQL_TIME", time, exact=_is_naive),
    TimestampTypeInfo: _scalar("SQL_TIMESTAMP", datetime, exact=_is_naive),
    PickledBytesTypeInfo: Shape("PICKLED_BYTE_ARRAY", bytes | None, lambda values: True, _pickle, _unpickle),
}
