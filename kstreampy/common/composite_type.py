"""Declared types that are made of others: rows, tuples, lists, maps, arrays.

In here: the classes and their coercers. Users reach them through `Types` in `typeinfo.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from kstreampy.common.coercion import Coercer, coerce_bytes, refuse
from kstreampy.common.type_information import TypeInformation, require_type
from kstreampy.common.types import Row, RowKind, new_row


class RowTypeInfo(TypeInformation):
    """Rows of these field types. Without names the fields are called f0, f1, …

    Equal when field types and field names are (PyFlink compares types alone and would unite rows of different
    names).
    """

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        self._field_types = tuple(require_type(info, "ROW") for info in field_types)
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
                _name_culprit(names, coercers, values, error)

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
        self._field_types = tuple(require_type(info, "TUPLE") for info in field_types)

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
                _name_culprit(range(count), coercers, value, error)

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


def _name_culprit(
    names: Iterable[Any], coercers: Sequence[Coercer], values: Iterable[Any], error: TypeError
) -> NoReturn:
    """Raises again with the name of the field that did not fit."""
    for name, coerce, value in zip(names, coercers, values, strict=False):
        try:
            coerce(value)
        except TypeError as found:
            raise TypeError(f"field {name!r}: {found}") from None
    raise error


class _SequenceTypeInfo(TypeInformation):
    """Values of one type in order; in Python a list."""

    _name: str

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, self._name)

    @property
    def element_type(self) -> TypeInformation:
        return self._element_type

    def coercer(self) -> Coercer:
        coerce = self._element_type.coercer()

        def coerce_sequence(value: Any) -> Any:
            if type(value) is list or type(value) is tuple:
                items = value
            elif value is None:
                return None
            elif hasattr(value, "tolist"):  # array.array, numpy
                items = value.tolist()
            elif isinstance(value, (list, tuple, set, frozenset, range)):
                items = list(value)
            else:
                refuse(value, self)
            try:
                return [coerce(item) for item in items]
            except TypeError as error:
                _name_culprit(range(len(items)), [coerce] * len(items), items, error)

        return coerce_sequence

    @property
    def is_immutable(self) -> bool:
        return False

    def need_conversion(self) -> bool:
        return self._element_type.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        return None if obj is None else [self._element_type.to_internal_type(item) for item in obj]

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else [self._element_type.from_internal_type(item) for item in obj]

    def _identity(self) -> tuple[Any, ...]:
        return (self._element_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self._element_type}>"


class ListTypeInfo(_SequenceTypeInfo):
    _name = "LIST"

    @property
    def elem_type(self) -> TypeInformation:
        """PyFlink's name of `element_type`."""
        return self._element_type


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    _name = "OBJECT_ARRAY"


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """Arrays of numbers, booleans, characters or strings, any of which may be None; in Python a list."""

    _name = "BASIC_ARRAY"
    _allowed = frozenset(("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Char", "String"))

    def __init__(self, element_type: TypeInformation) -> None:
        super().__init__(element_type)
        if str(element_type) not in self._allowed:
            raise TypeError(f"{self._name}: elements cannot be {element_type}; use Types.OBJECT_ARRAY")


class PrimitiveArrayTypeInfo(BasicArrayTypeInfo):
    """Arrays of numbers, booleans or characters; in Python a list, and `bytes` where the elements are
    BYTE."""

    _name = "PRIMITIVE_ARRAY"
    _allowed = BasicArrayTypeInfo._allowed - {"String"}

    @property
    def _is_bytes(self) -> bool:
        return str(self._element_type) == "Byte"

    def coercer(self) -> Coercer:
        return coerce_bytes if self._is_bytes else super().coercer()

    @property
    def is_immutable(self) -> bool:
        return self._is_bytes

    def to_internal_type(self, obj: Any) -> Any:
        return obj if self._is_bytes else super().to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        return obj if self._is_bytes else super().from_internal_type(obj)


class MapTypeInfo(TypeInformation):
    """Maps; in Python a dict."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = require_type(key_type_info, "MAP (keys)")
        self._value_type_info = require_type(value_type_info, "MAP (values)")

    @property
    def key_type(self) -> TypeInformation:
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation:
        return self._value_type_info

    def coercer(self) -> Coercer:
        coerce_key, coerce_value = self._key_type_info.coercer(), self._value_type_info.coercer()

        def coerce_map(value: Any) -> Any:
            if value is None:
                return None
            if not isinstance(value, dict):
                refuse(value, self)
            try:
                return {coerce_key(key): coerce_value(item) for key, item in value.items()}
            except TypeError as error:
                _name_culprit(value, [coerce_value] * len(value), value.values(), error)

        return coerce_map

    @property
    def is_immutable(self) -> bool:
        return False

    def need_conversion(self) -> bool:
        return self._key_type_info.need_conversion() or self._value_type_info.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        return _map(obj, self._key_type_info.to_internal_type, self._value_type_info.to_internal_type)

    def from_internal_type(self, obj: Any) -> Any:
        return _map(obj, self._key_type_info.from_internal_type, self._value_type_info.from_internal_type)

    def _identity(self) -> tuple[Any, ...]:
        return self._key_type_info, self._value_type_info

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


def _map(obj: Any, key: Callable[[Any], Any], value: Callable[[Any], Any]) -> Any:
    return None if obj is None else {key(k): value(v) for k, v in obj.items()}


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
