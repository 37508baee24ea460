"""How much memory state may take in one worker.

In here: the limit under which the process runs (`memory_limit_bytes`) and the object caches' share of it
(`CacheBudget`). Not in here: RocksDB's share, which is `rocks.RocksBudget`.
"""

from __future__ import annotations

import os
from pathlib import Path

_MIB = 1 << 20
CACHE_BYTES_LEAST = 32 * _MIB
CACHE_BYTES_MOST = 512 * _MIB


def memory_limit_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """The least of the memory limits of this process's cgroup and the cgroups around it (v2 or v1) and the
    machine's physical memory."""
    limits = [_physical_bytes()]
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            limits += _limits_along(cgroup, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_along(cgroup / "memory", path, "memory.limit_in_bytes")
    return min(limits)


def _physical_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _limits_along(mount: Path, path: str, name: str) -> list[int]:
    """Limits found in `mount/path` and every directory above it, down to the mount itself. In a container the
    path may be one that only the host can see: then the mount's own file is the container's."""
    limits = []
    parts = [part for part in path.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        try:
            text = mount.joinpath(*parts[:depth], name).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) > 0:
            limits.append(int(text))
    return limits


class CacheBudget:
    """The bytes that all object caches of one worker may hold together. Owned by the worker, lives as long as
    it.

    A task may use what the others leave, and never less than an equal part; it learns its allowance after
    each commit, so that together they are over the total for an interval at most."""

    def __init__(self, total_bytes: int) -> None:
        if total_bytes <= 0:
            raise ValueError(f"a cache budget must be positive, not {total_bytes} bytes")
        self.total_bytes = total_bytes
        self._used: dict[object, int] = {}

    @classmethod
    def from_cgroup(cls, workers: int = 1) -> CacheBudget:
        """A quarter of the memory limit, shared by `workers` processes under it, between 32 and 512 MiB
        each."""
        share = memory_limit_bytes() // 4 // max(1, workers)
        return cls(min(CACHE_BYTES_MOST, max(CACHE_BYTES_LEAST, share)))

    def allowance(self, owner: object, used_bytes: int) -> int:
        """Records what `owner` uses now; returns what it may use."""
        self._used[owner] = used_bytes
        others = sum(self._used.values()) - used_bytes
        return max(self.total_bytes // len(self._used), self.total_bytes - others)

    def used_bytes(self) -> int:
        return sum(self._used.values())

    def leave(self, owner: object) -> None:
        """Forgets the owner; its part is free. Safe to call twice."""
        self._used.pop(owner, None)
