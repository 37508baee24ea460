"""The declared type of objects of one dataclass or named tuple.

In here: `ObjectTypeInfo`, which state descriptors make of such a class. Its values are stored field by field, by name, so
that the class may gain, lose and widen fields (`serde/evolution.py`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from kstreampy.common.coercion import Coercer, coerce_nothing
from kstreampy.common.type_information import TypeInformation


class ObjectTypeInfo(TypeInformation):
    """Objects of the class `cls`. Values are never changed to fit."""

    def __init__(self, cls: type) -> None:
        """TypeError when `cls` is no dataclass and no named tuple."""
        if not is_record_class(cls):
            raise TypeError(f"{cls!r} is neither a dataclass nor a named tuple")
        self._cls = cls

    @property
    def cls(self) -> type:
        return self._cls

    def coercer(self) -> Coercer:
        return coerce_nothing

    @property
    def is_immutable(self) -> bool:
        return False

    def _identity(self) -> tuple[Any, ...]:
        return (self._cls,)

    def __repr__(self) -> str:
        return f"ObjectTypeInfo<{self._cls.__module__}.{self._cls.__qualname__}>"


def is_record_class(cls: Any) -> bool:
    """Whether `cls` is a dataclass or a named tuple (the class, not an object of it)."""
    if not isinstance(cls, type):
        return False
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
