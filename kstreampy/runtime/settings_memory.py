"""How the memory of a worker's state is divided, and how much of the container it takes where nothing is set.

Not in here: reading the limit (`state/budget.py`), and what holds the bytes (`state/cache.py`,
`state/rocks.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kstreampy.state.budget import memory_limit_bytes

_MIB: Final = 1 << 20
_SHARE_OF_LIMIT: Final = 3 / 8
"""The rest is for the interpreter, the client's queues and the user's own objects."""
_LEAST: Final = 48 * _MIB
_MOST: Final = 320 * _MIB


@dataclass(frozen=True)
class MemoryBudget:
    """Of one worker process: `store_bytes` for RocksDB, `cache_bytes` for the objects in front of it, and
    `dirty_bytes`, the amount of changed objects that brings the next checkpoint forward."""

    store_bytes: int
    cache_bytes: int
    dirty_bytes: int


def memory_budget(
    state_memory_bytes: int | None,
    cache_bytes: int | None = None,
    dirty_bytes: int | None = None,
    *,
    workers: int = 1,
) -> MemoryBudget:
    """Divides what is set, or else this worker's share of the limit among `workers` on the machine: two
    thirds are objects, one third is RocksDB's. What is set by name is kept as it is."""
    total = state_memory_bytes or default_state_memory_bytes(workers)
    cache = cache_bytes or total * 2 // 3
    return MemoryBudget(
        store_bytes=max(total - cache, total // 3, _MIB),
        cache_bytes=cache,
        dirty_bytes=dirty_bytes or max(min(cache // 4, 64 * _MIB), _MIB),
    )


def default_state_memory_bytes(workers: int = 1) -> int:
    """What the state of one of `workers` processes on this machine may use in all."""
    share = int(memory_limit_bytes() * _SHARE_OF_LIMIT) // max(workers, 1)
    return min(max(share, _LEAST), _MOST)
