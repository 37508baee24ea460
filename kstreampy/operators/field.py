"""Fields of a value as `sum(1)`, `max("price")`, `min("order.total")` and `key_by("user")` name them.

In here: from a position (int), a name, a dotted path or `*` to a getter and a setter that leaves the old value alone.
Works on tuples, named tuples, lists, Rows, dicts, dataclasses and other objects with attributes; on a basic value only
position 0 or `*`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.types import Row, new_row

Getter = Callable[[Any], Any]
Setter = Callable[[Any, Any], Any]
Position = int | str


class Field:
    """One field by its position, name or path. Accessors are made once per type of value that comes by."""

    def __init__(self, position: Position) -> None:
        if isinstance(position, bool) or not isinstance(position, (int, str)):
            raise TypeError(f"a field position must be an int or a str, not {type(position).__name__}: {position!r}")
        if isinstance(position, int) and position < 0:
            raise ValueError(f"a field position must not be negative: {position}")
        if position == "" or (isinstance(position, str) and "" in position.split(".")):
            raise ValueError(f"not a field path: {position!r}")
        self.position = position
        self._path: list[Position] = list(position.split(".")) if isinstance(position, str) else [position]
        self.is_step = len(self._path) == 1 and position != "*"
        """Whether it leads into a value by one name or position."""
        self.known: dict[type, tuple[Getter, Setter]] = {}
        """Accessors by type of value, for loops that look before they ask `accessors`."""

    def get(self, value: Any) -> Any:
        return self.accessors(value)[0](value)

    def put(self, value: Any, new: Any) -> Any:
        """A value like `value` with the field set to `new`; `value` itself is not changed."""
        return self.accessors(value)[1](value, new)

    def accessors(self, value: Any) -> tuple[Getter, Setter]:
        found = self.known.get(type(value))
        if found is None:
            found = self._make(value)
            self.known[type(value)] = found
        return found

    def _make(self, value: Any) -> tuple[Getter, Setter]:
        if self._path == ["*"]:
            return (lambda v: v), (lambda _, new: new)
        if self.is_step:
            return _one(self._path[0], value)
        head_get, head_put = _one(self._path[0], value)
        rest = Field(".".join(str(part) for part in self._path[1:]))
        return (
            lambda v: rest.get(head_get(v)),
            lambda v, new: head_put(v, rest.put(head_get(v), new)),
        )


def _one(position: Position, value: Any) -> tuple[Getter, Setter]:
    """Accessors for one step of a path on values of the type of `value`."""
    kind = type(value)
    if isinstance(value, dict):
        return itemgetter(position), (lambda v, new: _dict_with(v, position, new))
    if isinstance(value, Row):
        return itemgetter(position), (lambda v, new: _row_with(v, position, new))
    if isinstance(value, (tuple, list)):
        return _sequence(position, value)
    if dataclasses.is_dataclass(kind):
        return _dataclass_field(position, kind)
    if isinstance(position, str) and kind not in IMMUTABLE_TYPES and hasattr(value, position):
        return _attribute(position, kind)
    if position in (0, "0"):
        return (lambda v: v), (lambda _, new: new)
    raise TypeError(
        f"the field {position!r} was selected on a basic type: {kind.__name__} has no fields, "
        "only position 0 or '*' (the value itself) can be named"
    )


def _dataclass_field(position: Position, kind: type) -> tuple[Getter, Setter]:
    names = kind.__dataclass_fields__  # type: ignore[attr-defined]  # is_dataclass() was asked
    if not isinstance(position, str) or position not in names:
        raise KeyError(f"{kind.__name__} has no field {position!r}: its fields are {', '.join(names)}")
    return _attribute(position, kind)


def _attribute(name: str, kind: type) -> tuple[Getter, Setter]:
    """The changed copy is made without calling `__init__` or `__post_init__`."""

    def put(value: Any, new: Any) -> Any:
        changed = copy.copy(value)
        object.__setattr__(changed, name, new)
        return changed

    def put_in_dict(value: Any, new: Any) -> Any:
        changed: Any = object.__new__(kind)
        changed.__dict__.update(value.__dict__)
        changed.__dict__[name] = new
        return changed

    return attrgetter(name), put_in_dict if _is_all_dict(kind) else put


def _is_all_dict(kind: type) -> bool:
    """True where a copy of `__dict__` is all there is to copy."""
    if kind.__dictoffset__ == 0:
        return False
    return not any(own_way in ancestor.__dict__ for ancestor in kind.__mro__[:-1] for own_way in _OWN_WAYS)


_OWN_WAYS = ("__slots__", "__new__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")


def _dict_with(value: dict[Any, Any], position: Position, new: Any) -> dict[Any, Any]:
    changed = value.copy() if type(value) is dict else copy.copy(value)
    changed[position] = new
    return changed


def _sequence(position: Position, value: Any) -> tuple[Getter, Setter]:
    kind = type(value)
    names = getattr(kind, "_fields", None)
    if names is not None and position in names:
        index = names.index(position)
    elif isinstance(position, int):
        index = position
    elif position.isdigit():
        index = int(position)
    elif position[0] == "f" and position[1:].isdigit():
        index = int(position[1:])
    else:
        raise TypeError(
            f"the field {position!r} was selected on a {kind.__name__}: name it by position (0, 1, …) or f0, f1, …"
        )

    get = itemgetter(index)
    if kind is tuple:
        return get, lambda v, new: (*v[:index], new, *v[index + 1 :])
    if names is not None:
        return get, lambda v, new: v._replace(**{names[index]: new})
    return get, lambda v, new: kind([*v[:index], new, *v[index + 1 :]])


def _row_with(row: Row, position: Position, new: Any) -> Row:
    changed = new_row(row._fields, list(row._values), row._row_kind)
    changed[position] = new
    return changed
