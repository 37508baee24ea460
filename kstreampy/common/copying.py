"""`copy_value`: an independent copy of a record or of a piece of state, made only where something could
change.

In here: the copy and the list of types that need none. Not in here: copying by serialization, which nothing
does.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import types
import uuid
from collections.abc import Callable
from operator import is_
from typing import Any

from kstreampy.common.time import Duration, Instant, Time
from kstreampy.common.types import Row, new_row

__all__ = ["IMMUTABLE_TYPES", "copy_value"]

IMMUTABLE_TYPES: frozenset[type] = frozenset(
    {
        *(int, float, complex, str, bytes, bool, type(None), type(...), range, frozenset),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone),
        *(Duration, Instant, Time),
        *(type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType),
    }
)
"""Exact types whose values are never copied. Enum members and tuples of such values are not copied either."""

_Copier = Callable[[Any], Any]
_copiers: dict[type, _Copier | None] = dict.fromkeys(IMMUTABLE_TYPES)


def copy_value(value: Any) -> Any:
    """`value` itself when nothing in it can change, otherwise a copy that shares nothing changeable with it.

    Keys of dicts and members of frozen sets are shared: what has a hash is not changed. An object that occurs twice in
    `value` may be two objects in the copy; values that contain themselves are
    copied by `copy.deepcopy`, and so are objects of unknown classes and those that define how they are copied
    or pickled. Errors are those of `copy.deepcopy`.
    """
    try:
        copier = _copiers[type(value)]
    except KeyError:
        copier = _copier_of(type(value))
    if copier is None:
        return value
    try:
        return copier(value)
    except RecursionError:
        return copy.deepcopy(value)


def _copy(value: Any) -> Any:
    try:
        copier = _copiers[type(value)]
    except KeyError:
        copier = _copier_of(type(value))
    return value if copier is None else copier(value)


def _copy_list(value: list[Any]) -> list[Any]:
    if IMMUTABLE_TYPES.issuperset(map(type, value)):
        return value.copy()
    return [_copy(item) for item in value]


def _copy_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    immutable = IMMUTABLE_TYPES
    for item in value.values():  # half the time of a check at C speed, for the few fields of a record
        if type(item) not in immutable:
            return {key: _copy(item) for key, item in value.items()}
    return value.copy()


def _copy_set(value: set[Any]) -> set[Any]:
    return {_copy(item) for item in value}


def _copy_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if IMMUTABLE_TYPES.issuperset(map(type, value)):
        return value
    copied = [_copy(item) for item in value]
    return value if all(map(is_, copied, value)) else tuple(copied)


def _copy_row(value: Row) -> Row:
    return new_row(value._fields, [_copy(item) for item in value._values], value._row_kind)


def _copy_dataclass(value: Any) -> Any:
    twin = object.__new__(type(value))
    twin.__dict__.update({name: _copy(item) for name, item in value.__dict__.items()})
    return twin


_copiers[list] = _copy_list
_copiers[dict] = _copy_dict
_copiers[set] = _copy_set
_copiers[tuple] = _copy_tuple
_copiers[Row] = _copy_row
_copiers[bytearray] = bytearray


def _copier_of(cls: type) -> _Copier | None:
    """Decides once per class. Classes made inside of functions stay in the table for the life of the
    process."""
    copier: _Copier | None
    if issubclass(cls, (enum.Enum, type)):
        copier = None
    elif _is_plain_dataclass(cls):
        copier = _copy_dataclass
    else:
        copier = copy.deepcopy
    _copiers[cls] = copier
    return copier


def _is_plain_dataclass(cls: type) -> bool:
    """True where a copy of `__dict__` is all there is to copy."""
    if not dataclasses.is_dataclass(cls) or cls.__dictoffset__ == 0:
        return False
    return not any(ancestor.__dict__.get(name) for ancestor in cls.__mro__[:-1] for name in _OWN_WAYS)


_OWN_WAYS = (
    *("__slots__", "__new__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__"),
    *("__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"),
)
"""What a class defines when there is more to its copies than `__dict__`."""
