"""Declared types as trees of plain JSON values, to be kept beside what is stored by them.

In here: `tree_of`, and the way back for the types that `serde/shape.py` knows. Not in here: which change of a type is
harmless (`evolution.py`).

    "ANY"                                      nothing declared
    "LONG", "STRING", …                        a shape's name
    ["LIST", t]  ["MAP", k, v]  ["TUPLE", [t, …]]
    ["ROW", [[name, t], …]]
    ["OBJECT", class, [[name, hint, has a default], …]]     a dataclass or named tuple, with the hints of its fields:
        "int", "decimal.Decimal", …  ["list", h]  ["dict", k, v]  ["tuple", [h, …]]  ["UNION", [h, …]]  ["OBJECT", …]
    ["OTHER", text]                            a type that is not one of ours
"""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any, TypeAlias

from kstreampy.common.collection_type import BasicArrayTypeInfo, ListTypeInfo, MapTypeInfo, ObjectArrayTypeInfo
from kstreampy.common.composite_type import ExternalTypeInfo, RowTypeInfo, TupleTypeInfo
from kstreampy.common.object_type import ObjectTypeInfo, is_record_class
from kstreampy.common.time_type import DateTypeInfo, TimestampTypeInfo, TimeTypeInfo
from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, Types
from kstreampy.serde.fields import layout_of
from kstreampy.serde.shape import shape_of

Tree: TypeAlias = Any

ANY = "ANY"
_LISTS = (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)


def tree_of(info: TypeInformation | None) -> Tree:
    """The tree of a declared type; the same for types that are stored alike. TypeError for a class whose name does not
    lead back to it."""
    if info is None:
        return ANY
    if isinstance(info, ExternalTypeInfo):
        return tree_of(info.type_info)
    if isinstance(info, ObjectTypeInfo):
        return _of_class(info.cls, ())
    shape = shape_of(info)
    if shape is not None and "(" not in shape.name:
        return shape.name
    if isinstance(info, _LISTS):
        return ["LIST", tree_of(info.element_type)]
    if isinstance(info, MapTypeInfo):
        return ["MAP", tree_of(info.key_type), tree_of(info.value_type)]
    if isinstance(info, TupleTypeInfo):
        return ["TUPLE", [tree_of(field) for field in info.get_field_types()]]
    if isinstance(info, RowTypeInfo):
        pairs = zip(info.get_field_names(), info.get_field_types(), strict=True)
        return ["ROW", [[name, tree_of(field)] for name, field in pairs]]
    return ["OTHER", repr(info)]


def info_of(tree: Tree) -> TypeInformation | None:
    """A type with this tree; None where there is none that `serde/shape.py` knows."""
    if isinstance(tree, str):
        return _SCALARS.get(tree)
    kind, *parts = tree
    if kind == "ROW":
        fields = [info_of(field) for _, field in parts[0]]
        return None if None in fields else RowTypeInfo(_known(fields), [name for name, _ in parts[0]])
    if kind not in _COMPOSITES:
        return None
    inner = [info_of(part) for part in (parts[0] if kind == "TUPLE" else parts)]
    return None if None in inner else _COMPOSITES[kind](_known(inner))


def _known(infos: list[TypeInformation | None]) -> list[TypeInformation]:
    return [info for info in infos if info is not None]


_COMPOSITES: dict[str, Any] = {
    "LIST": lambda inner: ListTypeInfo(inner[0]),
    "MAP": lambda inner: MapTypeInfo(*inner),
    "TUPLE": TupleTypeInfo,
}
_SCALARS: dict[str, TypeInformation] = {
    **{shape.name: info for info in map(BasicTypeInfo, BasicType) if (shape := shape_of(info)) is not None},
    "BYTES": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "SQL_DATE": DateTypeInfo(),
    "SQL_TIME": TimeTypeInfo(),
    "SQL_TIMESTAMP": TimestampTypeInfo(),
    "PICKLED_BYTE_ARRAY": PickledBytesTypeInfo(),
}


def _of_class(cls: type, around: tuple[type, ...]) -> Tree:
    """`around`: the classes that this one is a field of, directly or not; such a class is not gone into again."""
    layout = layout_of(cls)
    if cls in around:
        return ["OBJECT", layout.class_name, []]
    hints = _hints(cls)
    around = (*around, cls)
    fields = [[name, _of_hint(hints.get(name, Any), around), name in layout.defaults] for name in layout.names]
    return ["OBJECT", layout.class_name, fields]


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:  # a name that only a type checker knows: the hints as they were written
        return {
            name: hint for parent in reversed(cls.__mro__) for name, hint in inspect.get_annotations(parent).items()
        }


def _of_hint(hint: Any, around: tuple[type, ...]) -> Tree:
    if hint is Any or hint is object:
        return ANY
    if hint is None or hint is type(None):
        return "None"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Annotated, typing.Final, typing.ClassVar, typing.Required, typing.NotRequired):
        return _of_hint(arguments[0], around)
    if origin in (typing.Union, types.UnionType):
        return ["UNION", sorted((_of_hint(argument, around) for argument in arguments), key=repr)]
    if origin in (list, dict) and arguments:
        return [origin.__name__, *(_of_hint(argument, around) for argument in arguments)]
    if origin is tuple and arguments:
        return ["tuple", ["..." if argument is ... else _of_hint(argument, around) for argument in arguments]]
    if isinstance(hint, typing.NewType):
        return _of_hint(hint.__supertype__, around)
    if origin is None and is_record_class(hint):
        try:
            return _of_class(hint, around)
        except TypeError:
            return _name(hint)
    return _name(hint)


def _name(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
    return hint if isinstance(hint, str) else repr(hint)


def shown(tree: Tree) -> str:
    """A tree for a message."""
    if isinstance(tree, str):
        return tree
    kind, *parts = tree
    if kind == "ROW":
        return f"ROW({', '.join(f'{name}: {shown(field)}' for name, field in parts[0])})"
    if kind == "OBJECT":
        return f"{parts[0]}({', '.join(f'{field[0]}: {shown(field[1])}' for field in parts[1])})"
    if kind == "UNION":
        return " | ".join(map(shown, parts[0]))
    if kind == "OTHER":
        return str(parts[0])
    inner = parts[0] if kind in ("TUPLE", "tuple") else parts
    brackets = "[]" if kind in ("list", "dict", "tuple") else "()"
    return f"{kind}{brackets[0]}{', '.join(map(shown, inner))}{brackets[1]}"
