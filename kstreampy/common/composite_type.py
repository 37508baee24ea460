"""Declared types of a fixed number of fields: rows and tuples; and types that stand for another.

In here: the classes and their coercers. Users reach them through `Types` in `typeinfo.py`. Not in here: types of many values
of one type (`collection_type.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kstreampy.common.coercion import Coercer, name_culprit, refuse
from kstreampy.common.type_information import TypeInformation, require_type, require_types
from kstreampy.common.types import Row, RowKind, new_row


class RowTypeInfo(TypeInformation):
    """Rows of these field types. Without names the fields are called f0, f1, …

    Equal when field types and field names are (PyFlink compares types alone and would unite rows of different
    names).
    """

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        self._field_types = require_types(field_types, "ROW")
        self._declared_names = field_names is not None
        names = [f"f{i}" for i in range(len(self._field_types))] if field_names is None else list(field_names)
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"ROW_NAMED: field names must be strings: {names}")
        if len(names) != len(self._field_types):
            raise ValueError(f"ROW_NAMED: {len(names)} names {names} for {len(self._field_types)} field types")
        if len(set(names)) != len(names):
            raise ValueError(f"ROW_NAMED: a field name occurs twice: {names}")
        self._field_names = tuple(names)

    def get_field_names(self) -> list[str]:
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """The field's place, -1 when there is none of that name."""
        return self._field_names.index(field_name) if field_name in self._field_names else -1

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def coercer(self) -> Coercer:
        names = self._field_names
        coercers = [info.coercer() for info in self._field_types]
        count, insert, pick = len(names), RowKind.INSERT, self._values_of

        def coerce_row(value: Any) -> Any:
            if value is None:
                return None
            kind = insert
            values: Sequence[Any]
            if type(value) is tuple or type(value) is list:
                values = value
            else:
                values = pick(value)
                if type(value) is Row:
                    kind = value._row_kind
            if len(values) != count:
                raise TypeError(f"{len(values)} values for the {count} fields of {self}: {value!r:.200}")
            try:
                return new_row(names, [coerce(item) for coerce, item in zip(coercers, values, strict=True)], kind)
            except TypeError as error:
                name_culprit(names, coercers, values, error)

        return coerce_row

    def _values_of(self, value: Any) -> Sequence[Any]:
        """The values in the order of the fields: named rows, dicts and objects by name, all else by
        position."""
        names = self._field_names
        if isinstance(value, Row):
            if value._fields is None or value._fields == names or not self._declared_names:
                return value._values
            try:
                return value.get_fields_by_names(names)
            except KeyError as error:
                raise TypeError(f"a row does not fit {self}: {error.args[0]}") from None
        if isinstance(value, dict):
            return [value.get(name) for name in names]
        if isinstance(value, (tuple, list)):
            return value
        if dataclasses.is_dataclass(value) or hasattr(value, "__struct_fields__") or hasattr(value, "__dict__"):
            try:
                return [getattr(value, name) for name in names]
            except AttributeError as error:
                raise TypeError(f"a {type(value).__name__} cannot be made {self}: {error}") from None
        refuse(value, self)

    @property
    def is_immutable(self) -> bool:
        return False

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        """`(row kind's number, field, field, …)`."""
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        pairs = zip(self._field_types, self._values_of(obj), strict=True)
        return (kind.value, *(info.to_internal_type(item) for info, item in pairs))

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        values = [info.from_internal_type(item) for info, item in zip(self._field_types, obj[1:], strict=True)]
        return new_row(self._field_names, values, RowKind(obj[0]))

    def _identity(self) -> tuple[Any, ...]:
        return self._field_types, self._field_names

    def __repr__(self) -> str:
        pairs = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {info}' for name, info in pairs)})"


class TupleTypeInfo(TypeInformation):
    """Tuples of these field types; lists and rows become tuples."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = require_types(field_types, "TUPLE")

    def get_field_types(self) -> list[TypeInformation]:
        return list(self._field_types)

    def coercer(self) -> Coercer:
        coercers = [info.coercer() for info in self._field_types]
        count = len(coercers)

        def coerce_tuple(value: Any) -> Any:
            if value is None:
                return None
            if not isinstance(value, (tuple, list, Row)):
                refuse(value, self)
            if len(value) != count:
                raise TypeError(f"{len(value)} values for the {count} fields of {self}: {value!r:.200}")
            try:
                return tuple([coerce(item) for coerce, item in zip(coercers, value, strict=True)])
            except TypeError as error:
                name_culprit(range(count), coercers, value, error)

        return coerce_tuple

    @property
    def is_immutable(self) -> bool:
        return all(info.is_immutable for info in self._field_types)

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(info.to_internal_type(item) for info, item in zip(self._field_types, obj, strict=True))

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        return tuple(info.from_internal_type(item) for info, item in zip(self._field_types, obj, strict=True))

    def _identity(self) -> tuple[Any, ...]:
        return (self._field_types,)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class ExternalTypeInfo(TypeInformation):
    """Another type under a name that matters to Flink's Table API only; behaves as that type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = require_type(type_info, "ExternalTypeInfo")

    @property
    def type_info(self) -> TypeInformation:
        return self._type_info

    def coercer(self) -> Coercer:
        return self._type_info.coercer()

    @property
    def is_immutable(self) -> bool:
        return self._type_info.is_immutable

    def need_conversion(self) -> bool:
        return self._type_info.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        return self._type_info.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        return self._type_info.from_internal_type(obj)

    def _identity(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"
