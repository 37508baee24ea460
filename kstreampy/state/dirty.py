"""What a checkpoint writes of one task's state."""

from __future__ import annotations

from dataclasses import dataclass, field

from kstreampy.state.store import Entry


@dataclass(frozen=True)
class Dirty:
    """What a checkpoint writes: each key once. `entries` go to the changelog, `timers` to the timers topic."""

    entries: list[Entry]
    timers: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries) + len(self.timers)

    def size_bytes(self) -> int:
        """Of keys and values."""
        return sum(len(key) + (0 if value is None else len(value)) for key, value in [*self.entries, *self.timers])
