"""What may be given to `key_by`: a callable, a `KeySelector`, or (deprecated) positions and field names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.operators.field import Field
from kstreampy.operators.function import KeySelector, callable_of, where


@dataclass(frozen=True)
class KeySelection:
    """`select` gives the key of a value; `given` is what the author wrote; `where` says where that stands."""

    select: Callable[[Any], Any]
    given: Any
    where: str
    key_type: TypeInformation | None


def selection(call: str, given: Any, more: tuple[Any, ...], key_type: TypeInformation | None) -> KeySelection:
    """A `TypeInformation` or None in the second place is the key type, as in PyFlink. TypeError for what cannot select a key.
    Called by a method of the public API directly, so that a warning is told of the author's line."""
    if more and (more[0] is None or isinstance(more[0], TypeInformation)):
        key_type, more = more[0], more[1:]
    if key_type is not None:
        require_type(key_type, f"{call}, key type")
    if isinstance(given, int | str) and not isinstance(given, bool):
        warnings.warn(
            f"{call} by positions or field names is deprecated: give a function, e.g. lambda value: value[0]",
            DeprecationWarning,
            stacklevel=3,
        )
        fields = [Field(position) for position in (given, *more)]
        select: Callable[[Any], Any] = lambda value: tuple([field.get(value) for field in fields])  # noqa: E731
        return KeySelection(_typed(select, key_type), given, f"fields {(given, *more)!r}", key_type)
    if more:
        raise TypeError(f"{call} takes one selector (and a key type), or field positions and names; got also {more!r}")
    return KeySelection(_typed(callable_of(given, KeySelector, "get_key"), key_type), given, where(given), key_type)


def _typed(select: Callable[[Any], Any], key_type: TypeInformation | None) -> Callable[[Any], Any]:
    if key_type is None:
        return select
    coerce = key_type.coercer()
    return lambda value: coerce(select(value))
