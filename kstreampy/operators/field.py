"""Fields of a value as `sum(1)`, `max("price")`, `min("order.total")` and `key_by("user")` name them.

In here: from a position (int), a name, a dotted path or `*` to a getter and a setter that leaves the old value alone.
Works on tuples, named tuples, lists, Rows, dicts and dataclasses; on a basic value only position 0 or `*`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.types import Row

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
        self._accessors: dict[type, tuple[Getter, Setter]] = {}

    def get(self, value: Any) -> Any:
        return self.accessors(value)[0](value)

    def put(self, value: Any, new: Any) -> Any:
        """A value like `value` with the field set to `new`; `value` itself is not changed."""
        return self.accessors(value)[1](value, new)

    def accessors(self, value: Any) -> tuple[Getter, Setter]:
        found = self._accessors.get(type(value))
        if found is None:
            found = self._make(value)
            self._accessors[type(value)] = found
        return found

    def _make(self, value: Any) -> tuple[Getter, Setter]:
        if self._path == ["*"]:
            return (lambda v: v), (lambda _, new: new)
        if len(self._path) == 1:
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
        return (lambda v: v[position]), (lambda v, new: {**v, position: new})
    if isinstance(value, Row):
        return (lambda v: v[position]), (lambda v, new: _row_with(v, position, new))
    if isinstance(value, (tuple, list)):
        return _sequence(position, value)
    if dataclasses.is_dataclass(kind) and isinstance(position, str):
        name = position
        if name not in {field.name for field in dataclasses.fields(kind)}:
            raise KeyError(f"{kind.__name__} has no field {name!r}")
        return (lambda v: getattr(v, name)), (lambda v, new: dataclasses.replace(v, **{name: new}))
    if position in (0, "0") and kind in IMMUTABLE_TYPES:
        return (lambda v: v), (lambda _, new: new)
    raise TypeError(
        f"the field {position!r} was selected on a basic type: {kind.__name__} has no fields, "
        "only position 0 or '*' (the value itself) can be named"
    )


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
        raise TypeError(f"the field {position!r} was selected on a {kind.__name__}: name it by position (0, 1, …) or f0, f1, …")

    def get(v: Any) -> Any:
        return v[index]

    if kind is tuple:
        return get, lambda v, new: (*v[:index], new, *v[index + 1 :])
    if names is not None:
        return get, lambda v, new: v._replace(**{names[index]: new})
    return get, lambda v, new: kind([*v[:index], new, *v[index + 1 :]])


def _row_with(row: Row, position: Position, new: Any) -> Row:
    changed = row.__copy__()
    changed[position] = new
    return changed
