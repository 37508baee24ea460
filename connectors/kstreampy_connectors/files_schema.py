"""What a schema makes of a record's text: converters from CSV fields and from JSON to `Row`s.

In here: which Python type msgspec is asked for, and the words of the error. How values are made to fit beyond
that is the schema's own coercer (`kstreampy/common`). Unlike it, text out of range is refused, not wrapped
around: a file is not arithmetic.
"""

from __future__ import annotations

import datetime
import decimal
import re
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec

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
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from kstreampy.common.types import Row, new_row
from kstreampy.errors import JobError


def _whole(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(1 << (bits - 1)), le=(1 << (bits - 1)) - 1)]


_BASIC: dict[BasicType, Any] = {
    BasicType.STRING: str,
    BasicType.CHAR: Annotated[str, msgspec.Meta(min_length=1, max_length=1)],
    BasicType.BYTE: _whole(8),
    BasicType.SHORT: _whole(16),
    BasicType.INT: _whole(32),
    BasicType.LONG: _whole(64),
    BasicType.BIG_INT: int,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BOOLEAN: bool,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: datetime.datetime,
}
_COERCED = (BasicType.FLOAT, BasicType.INSTANT)


def text_converter(schema: RowTypeInfo) -> Callable[[Sequence[str | None]], Row]:
    """Of the texts of a record's fields, in the schema's order (None: null). Raises ValueError naming the
    column."""
    names, infos = tuple(schema.get_field_names()), [_plain(info) for info in schema.get_field_types()]
    for name, info in zip(names, infos, strict=True):
        if isinstance(info, _NESTED) and not _is_bytes(info):
            raise JobError(f"schema: column {name!r} is {info}, which a CSV field cannot hold; use JSON lines")
    # A Struct, since what msgspec has to know about any other type is worked out anew at each call.
    fields = [(f"f{i}", _python_type(info)) for i, info in enumerate(infos)]
    shape = msgspec.defstruct("Fields", fields, array_like=True)
    width = len(names)
    coerced = [(i, info.coercer()) for i, info in enumerate(infos) if not _fits(info)]

    def convert(texts: Sequence[str | None]) -> Row:
        if len(texts) != width:
            raise ValueError(f"{len(texts)} fields where the schema has {width}")
        try:
            values = list(msgspec.structs.astuple(msgspec.convert(texts, shape, strict=False)))
        except msgspec.ValidationError as error:
            raise ValueError(_in_words(error, names, infos, texts)) from None
        for place, coerce in coerced:
            values[place] = coerce(values[place])
        return new_row(names, values)

    return convert


def json_converter(schema: RowTypeInfo) -> Callable[[bytes], Row]:
    """Of one JSON object. Raises `msgspec.DecodeError` naming the place in it."""
    decode = msgspec.json.Decoder(_object_type(schema)).decode
    coerce = schema.coercer()

    def convert(line: bytes) -> Row:
        row: Row = coerce(decode(line))
        return row

    return convert


_NESTED = (
    RowTypeInfo,
    TupleTypeInfo,
    MapTypeInfo,
    ListTypeInfo,
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)


def _plain(info: TypeInformation) -> TypeInformation:
    if isinstance(info, LocalTimeTypeInfo):
        return info.sql_type
    return _plain(info.type_info) if isinstance(info, ExternalTypeInfo) else info


def _is_bytes(info: TypeInformation) -> bool:
    return isinstance(info, PrimitiveArrayTypeInfo) and info.is_immutable


def _fits(info: TypeInformation) -> bool:
    """What msgspec gives needs no coercer."""
    if isinstance(info, BasicTypeInfo):
        return info.basic_type not in _COERCED
    return isinstance(info, DateTypeInfo) or _is_bytes(info)


def _python_type(info: TypeInformation) -> Any:
    """The type to ask msgspec for; every type admits None."""
    return typing.Optional[_required_type(_plain(info))]  # noqa: UP045 (a type made at run time)


def _required_type(info: TypeInformation) -> Any:
    match info:
        case BasicTypeInfo():
            return _BASIC[info.basic_type]
        case DateTypeInfo():
            return datetime.date
        case TimeTypeInfo():
            return datetime.time
        case TimestampTypeInfo():
            return datetime.datetime
        case RowTypeInfo():
            return _object_type(info)
        case TupleTypeInfo():
            return tuple.__class_getitem__(tuple(map(_python_type, info.get_field_types())))
        case MapTypeInfo():
            return dict.__class_getitem__((_required_type(info.key_type), _python_type(info.value_type)))
        case PrimitiveArrayTypeInfo() if _is_bytes(info):
            return bytes
        case ListTypeInfo() | BasicArrayTypeInfo() | ObjectArrayTypeInfo():
            return list.__class_getitem__(_python_type(info.element_type))
    raise JobError(f"schema: {info} cannot be read from a file")


def _object_type(schema: RowTypeInfo) -> Any:
    fields = zip(schema.get_field_names(), map(_python_type, schema.get_field_types()), strict=True)
    typed_dict: Any = typing.TypedDict
    return typed_dict("Row", dict(fields), total=False)


def _in_words(
    error: msgspec.ValidationError,
    names: Sequence[str],
    infos: Sequence[TypeInformation],
    texts: Sequence[str | None],
) -> str:
    found = re.search(r"at `\$\[(\d+)\]", str(error))
    if found is None:
        return str(error)
    place = int(found[1])
    what = str(error).split(" - at ")[0]
    return f"column {names[place]!r}: {texts[place]!r:.200} cannot be read as {infos[place]} ({what})"
