"""`TypeInformation`, what is declared about a type: how values are made to fit it, and whether they can
change.

In here: the abstract class. Its kinds are in `typeinfo.py` (scalars, and `Types`, where users start) and
`composite_type.py`. How values of a type become bytes is `serde/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from kstreampy.common.coercion import Coercer


class TypeInformation(ABC):
    """A declared type. Immutable; equal and hashed by what it declares; prints as PyFlink's do."""

    @abstractmethod
    def coercer(self) -> Coercer:
        """The function that makes a value fit this type, the fastest there is: take it once, call it in a
        loop.

        It returns a value that fits as it is (containers are always made anew), leaves None alone, and raises
        `TypeError` with the type's and the value's type for a value that cannot be made to fit. SHORT, INT,
        LONG and BYTE wrap around, FLOAT rounds to 32 bits; ROW makes `Row`s with the type's field names out
        of tuples, lists, dicts, dataclasses and rows.
        """

    def coerce(self, value: Any) -> Any:
        """`coercer()` applied to one value: for one value; a loop takes `coercer()` first."""
        return self.coercer()(value)

    @property
    def is_immutable(self) -> bool:
        """True when no value of this type can change, so that it never needs a copy."""
        return True

    def need_conversion(self) -> bool:
        """True when `to_internal_type` does something."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """The value as numbers, texts, bytes and tuples of them (dates: days, times and timestamps: µs since
        the epoch, UTC)."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """The reverse of `to_internal_type`."""
        return obj

    @abstractmethod
    def _identity(self) -> tuple[Any, ...]:
        """What makes two infos of the same class equal; hashable."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeInformation):
            return NotImplemented
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._identity()))


def require_type(info: object, where: str) -> TypeInformation:
    """`info` itself. `TypeError` naming `where` when it is not a `TypeInformation` (a class, or a call without its brackets,
    mostly)."""
    if not isinstance(info, TypeInformation):
        hint = ". Did you forget its brackets?" if isinstance(info, FunctionType) else ""
        raise TypeError(f"{where}: expected a TypeInformation such as Types.STRING(), not {info!r}{hint}")
    return info


def require_types(infos: object, where: str) -> tuple[TypeInformation, ...]:
    """As `require_type`, of several. `TypeError` for what is no list of them."""
    if not isinstance(infos, Iterable):
        raise TypeError(f"{where}: expected a list of types such as [Types.STRING()], not {infos!r}")
    return tuple(require_type(info, where) for info in infos)
