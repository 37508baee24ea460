"""`Types`, where a user declares a type, and the scalar types; every class of PyFlink's `typeinfo` is
exported here.

Not in here: rows, lists, maps and arrays (`composite_type.py`), coercion itself (`coercion.py`), bytes
(`serde/`).
"""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

from kstreampy.common import coercion
from kstreampy.common.coercion import Coercer
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

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class BasicType(Enum):
    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


_COERCERS: dict[BasicType, Coercer] = {
    BasicType.STRING: coercion.coerce_string,
    BasicType.BYTE: coercion.coerce_byte,
    BasicType.BOOLEAN: coercion.coerce_boolean,
    BasicType.SHORT: coercion.coerce_short,
    BasicType.INT: coercion.coerce_int,
    BasicType.LONG: coercion.coerce_long,
    BasicType.FLOAT: coercion.coerce_float,
    BasicType.DOUBLE: coercion.coerce_double,
    BasicType.CHAR: coercion.coerce_char,
    BasicType.BIG_INT: coercion.coerce_big_int,
    BasicType.BIG_DEC: coercion.coerce_big_dec,
    BasicType.INSTANT: coercion.coerce_instant,
}


class BasicTypeInfo(TypeInformation):
    """Strings, numbers, booleans and instants."""

    def __init__(self, basic_type: BasicType) -> None:
        if not isinstance(basic_type, BasicType):
            raise TypeError(f"BasicTypeInfo: expected a BasicType, not {basic_type!r}")
        self._basic_type = basic_type

    @property
    def basic_type(self) -> BasicType:
        return self._basic_type

    def coercer(self) -> Coercer:
        return _COERCERS[self._basic_type]

    def _identity(self) -> tuple[Any, ...]:
        return (self._basic_type.value,)

    def __repr__(self) -> str:
        return str(self._basic_type.value)

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> InstantTypeInfo:
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """`Instant`; datetimes are accepted, naive ones as UTC. The internal form is microseconds."""

    def __init__(self, basic_type: BasicType = BasicType.INSTANT) -> None:
        super().__init__(basic_type)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        return None if obj is None else obj.seconds * 1_000_000 + obj.nanos // 1000

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        seconds, micros = divmod(obj, 1_000_000)
        return Instant(seconds, micros * 1000)


class SqlTimeTypeInfo:
    """PyFlink's way to the three types of SQL's dates and times."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        return TimestampTypeInfo()


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object, pickled wherever it becomes bytes: only by this declaration does anything get
    unpickled."""

    @staticmethod
    def PICKLED_BYTE_ARRAY_TYPE_INFO() -> PickledBytesTypeInfo:
        return PickledBytesTypeInfo()

    def coercer(self) -> Coercer:
        return coercion.coerce_nothing

    @property
    def is_immutable(self) -> bool:
        return False

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class Types:
    """Where types are declared: `Types.ROW_NAMED(["id", "amount"], [Types.STRING(), Types.LONG()])`.

    Every type admits None. What each does to a value is at `TypeInformation.coercer`.
    """

    STRING = BasicTypeInfo.STRING_TYPE_INFO
    BYTE = BasicTypeInfo.BYTE_TYPE_INFO
    BOOLEAN = BasicTypeInfo.BOOLEAN_TYPE_INFO
    SHORT = BasicTypeInfo.SHORT_TYPE_INFO
    INT = BasicTypeInfo.INT_TYPE_INFO
    LONG = BasicTypeInfo.LONG_TYPE_INFO
    FLOAT = BasicTypeInfo.FLOAT_TYPE_INFO
    DOUBLE = BasicTypeInfo.DOUBLE_TYPE_INFO
    CHAR = BasicTypeInfo.CHAR_TYPE_INFO
    BIG_INT = BasicTypeInfo.BIG_INT_TYPE_INFO
    BIG_DEC = BasicTypeInfo.BIG_DEC_TYPE_INFO
    INSTANT = BasicTypeInfo.INSTANT_TYPE_INFO
    SQL_DATE = SqlTimeTypeInfo.DATE
    SQL_TIME = SqlTimeTypeInfo.TIME
    SQL_TIMESTAMP = SqlTimeTypeInfo.TIMESTAMP
    PICKLED_BYTE_ARRAY = PickledBytesTypeInfo.PICKLED_BYTE_ARRAY_TYPE_INFO

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        """Rows whose fields are called f0, f1, …"""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> BasicArrayTypeInfo:
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> ObjectArrayTypeInfo:
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> MapTypeInfo:
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> ListTypeInfo:
        return ListTypeInfo(element_type_info)

    @staticmethod
    def of(annotation: Any) -> TypeInformation | None:
        """The type that a type hint stands for, None where there is no exact one (dataclasses, datetime, Any,
        unions …).

        `int` is LONG, which holds 64 bits: encode by such a type, but do not coerce by it, since the author
        of a hint did not ask for larger numbers to wrap around.
        """
        return _of_hint(annotation)


_HINTS: dict[Any, TypeInformation] = {
    str: Types.STRING(),
    int: Types.LONG(),
    float: Types.DOUBLE(),
    bool: Types.BOOLEAN(),
    bytes: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Decimal: Types.BIG_DEC(),
    datetime.date: Types.SQL_DATE(),
    Instant: Types.INSTANT(),
}


def _of_hint(annotation: Any) -> TypeInformation | None:
    if isinstance(annotation, TypeInformation):
        return annotation
    origin, hints = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        return _HINTS.get(annotation) if isinstance(annotation, type) else None
    if origin is typing.Annotated:
        return _of_hint(hints[0])
    if origin in (typing.Union, types.UnionType):
        others = [hint for hint in hints if hint is not type(None)]
        return _of_hint(others[0]) if len(others) == 1 else None
    if origin not in (tuple, list, dict) or ... in hints:
        return None
    inner = [info for info in map(_of_hint, hints) if info is not None]
    if len(inner) != len(hints):
        return None
    if origin is tuple:
        return TupleTypeInfo(inner)
    return ListTypeInfo(*inner) if origin is list else MapTypeInfo(*inner)
