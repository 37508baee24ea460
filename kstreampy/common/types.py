"""`Row`, the tuple whose fields may have names, and `RowKind`, what a row means in a changelog.

Not in here: the declared types of rows (`row_type.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, SupportsIndex

__all__ = ["Row", "RowKind", "new_row"]


class RowKind(Enum):
    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT[self.value]


_SHORT = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT


class Row:
    """Values in order, with or without field names.

    `Row(1, "a")` has no names and prints `<Row(1, 'a')>`; `Row(name="Alice", age=11)` has, sorted by name as
    in PyFlink, and prints `Row(age=11, name='Alice')`. The two kinds are never equal. Values are read and set
    by position, by name (`row["age"]`) or as attributes (read only, as in PyFlink). `x in row` looks among
    the values. A row of strings can be called to make named rows: `Person = Row("name", "age");
    Person("Alice", 11)`.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Row: give either positional values or named ones, not both")
        names = tuple(sorted(kwargs)) if kwargs else None
        self._fields = names
        self._values = list(args) if names is None else [kwargs[name] for name in names]
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """As `Row(...)`, of the given kind."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Name to value; with `recursive`, also for rows inside of rows, lists, tuples and dicts. `TypeError`
        without names."""
        if self._fields is None:
            raise TypeError(f"as_dict: {self!r} has no field names; give it some with set_field_names")
        values = [_plain(value) for value in self._values] if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def get_row_kind(self) -> RowKind:
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        if not isinstance(row_kind, RowKind):
            raise TypeError(f"set_row_kind: expected a RowKind, not {row_kind!r}")
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        self._fields = tuple(field_names)

    def get_field_names(self) -> list[str] | None:
        """The names in order, or None for a row without names."""
        return None if self._fields is None else list(self._fields)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of these fields, in the order of `names`; all values for a row without names.
        `KeyError` names the fields that are not there."""
        fields = self._fields
        if fields is None:
            return list(self._values)
        unknown = [name for name in names if name not in fields]
        if unknown:
            raise KeyError(f"no fields {unknown} in {self!r}")
        return [self._values[fields.index(name)] for name in names]

    def __call__(self, *args: Any) -> Row:
        """A new row whose field names are this row's values."""
        if len(args) > len(self._values):
            raise ValueError(f"{self!r} names {len(self._values)} fields, but {len(args)} values were given: {args!r}")
        return new_row(tuple(str(name) for name in self._values), list(args), self._row_kind)

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __getitem__(self, item: SupportsIndex | slice | str) -> Any:
        return self._values[self._index(item) if isinstance(item, str) else item]

    def __setitem__(self, key: SupportsIndex | slice | str, value: Any) -> None:
        self._values[self._index(key) if isinstance(key, str) else key] = value

    def _index(self, name: str) -> int:
        try:
            return self._fields.index(name)  # type: ignore[union-attr]  # no names: AttributeError, caught below
        except (ValueError, AttributeError):
            raise KeyError(f"no field {name!r} in {self!r}") from None

    def __getattr__(self, item: str) -> Any:
        if item.startswith("__") or item in Row.__slots__:
            raise AttributeError(item)
        try:
            return self._values[self._index(item)]
        except (KeyError, IndexError) as error:
            raise AttributeError(str(error)) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return new_row, (self._fields, list(self._values), self._row_kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and self._fields == other._fields
            and self._row_kind is other._row_kind
            and self._values == other._values
        )

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


_allocate = Row.__new__


def new_row(fields: tuple[str, ...] | None, values: Iterable[Any], row_kind: RowKind = _INSERT) -> Row:
    """A row around a list of values (a list is not copied), fast: for codecs and coercion, and for
    unpickling."""
    row = _allocate(Row)
    row._fields = fields
    row._values = values if type(values) is list else list(values)
    row._row_kind = row_kind
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True) if value._fields is not None else [_plain(item) for item in value._values]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if type(value) is tuple:
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
