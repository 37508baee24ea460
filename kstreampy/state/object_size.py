"""About how much memory an object takes.

In here: `object_bytes`, an estimate for budgets, made from a few samples. Not in here: who keeps to a budget
(`cache.py`, `budget.py`).
"""

from __future__ import annotations

from itertools import islice
from sys import getsizeof
from typing import Any


def object_bytes(value: Any, depth: int = 3) -> int:
    """About how much memory an object takes with what it holds: containers by a few of their items, a few
    levels deep."""
    if value is None or isinstance(value, bool | type):
        return 0
    size = getsizeof(value, 64)
    if depth == 0 or isinstance(value, str | bytes | int | float):
        return size
    if isinstance(value, dict):
        items = list(islice(value.items(), 8))
        return size + _scaled(
            sum(object_bytes(k, depth - 1) + object_bytes(v, depth - 1) for k, v in items), value, items
        )
    if isinstance(value, list | tuple | set | frozenset):
        some = list(islice(value, 8))
        return size + _scaled(sum(object_bytes(item, depth - 1) for item in some), value, some)
    size += sum(object_bytes(item, depth - 1) for item in _slots(value))
    fields = getattr(value, "__dict__", None)
    return size if fields is None else size + object_bytes(fields, depth)


def _scaled(sampled_bytes: int, container: Any, sample: list[Any]) -> int:
    return sampled_bytes * len(container) // len(sample) if sample else 0


def _slots(value: Any) -> list[Any]:
    names = [name for cls in type(value).__mro__ for name in _slot_names(cls)]
    return [getattr(value, name, None) for name in names]


def _slot_names(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
