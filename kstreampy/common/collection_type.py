"""Declared types of many values of one type: lists, arrays, maps.

In here: the classes and their coercers. Users reach them through `Types` in `typeinfo.py`. Not in here: types of a fixed
number of fields (`composite_type.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreampy.common.coercion import Coercer, coerce_bytes, name_culprit, refuse
from kstreampy.common.type_information import TypeInformation, require_type


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
                name_culprit(range(len(items)), [coerce] * len(items), items, error)

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
                name_culprit(value, [coerce_value] * len(value), value.values(), error)

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
