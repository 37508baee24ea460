"""Classes of PyFlink's that take a type parameter where ours need none: `EventTimeTrigger[T]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Subscriptable:
    """Goes before `Generic`. A subclass without parameters left is itself when it is subscripted."""

    if not TYPE_CHECKING:  # for a type checker, such a subclass takes no parameters

        def __class_getitem__(cls, parameters: Any) -> Any:
            return super().__class_getitem__(parameters) if cls.__parameters__ else cls
