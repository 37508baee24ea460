"""What memory knows of one key's elements, in a list or a map.

In here: `Elements`, and what stands in for elements. Not in here: the elements of all keys (`element_cache.py`).
"""

from __future__ import annotations

from typing import Any


class _Absent:
    """Stands for an element that is known not to be there, since None is a value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
UNKNOWN: Any = object()
"""Stands for an element of which memory knows nothing."""
CLEAN: Any = frozenset()
"""Stands for the sets of those that differ in nothing."""


class Elements:
    """One key's elements, as far as memory knows them."""

    __slots__ = ("changed", "cleared", "counted", "fresh", "known", "whole")

    def __init__(self, whole: bool) -> None:
        self.known: dict[Any, Any] = {}
        """Id → value, or `ABSENT`."""
        self.whole = whole
        """What is not in `known` is not there; then no `ABSENT` is in it either."""
        self.changed: set[Any] = CLEAN
        """Ids whose value, or absence, differs from what was committed."""
        self.fresh: set[Any] = CLEAN
        """Those of `changed` that nothing was committed of: removed again, they leave nothing to write."""
        self.cleared = False
        """What else the store has of this key is to be removed."""
        self.counted = 0
