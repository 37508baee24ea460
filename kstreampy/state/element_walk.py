"""All elements of one key, as a handle gives them to the user's function.

In here: `walk`, `Once`. Not in here: where the elements come from (`element_reader.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kstreampy.errors import JobError
from kstreampy.state.element_reader import MOST_WHOLE, Rows


class Once:
    """Elements that are read from the store as they are walked over. One walk: a second would find others."""

    def __init__(self, name: str, values: Iterator[Any]) -> None:
        self._name = name
        self._values: Iterator[Any] | None = values

    def __iter__(self) -> Iterator[Any]:
        values, self._values = self._values, None
        if values is None:
            raise JobError(
                f"state {self._name!r}: more than {MOST_WHOLE:,} elements of one key are read as they are walked over, "
                "so that they need not fit into memory, and only once: ask the state again for another walk"
            )
        return values


def walk(name: str, rows: Rows, take: Callable[[Any, Any], Any]) -> Iterable[Any]:
    """`take(id, value)` of all rows: a list where they are one, otherwise to be walked over once."""
    if isinstance(rows, list):
        return [take(element_id, value) for element_id, value in rows]
    return Once(name, (take(element_id, value) for element_id, value in rows))
