"""A guard against clocks that are wrong: records whose timestamp lies too far in the future must not move event time on, or
every good record behind them would be late.

In here: `FutureGuard`, used wherever timestamps are assigned, and `TimeRules`, what a task's settings say of event time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kstreampy.errors import RecordError
from kstreampy.serde.batch import Batch

FuturePolicy = Literal["drop_from_watermark", "clamp", "fail"]


@dataclass
class FutureGuard:
    """One per task. `max_future_ms`: how far a timestamp may be ahead of `clock` (int ms, wall clock).

    Policies for a record that is further ahead: `drop_from_watermark`, it passes as it is, but the watermark generator does
    not see it; `clamp`, its timestamp becomes the latest that is allowed; `fail`, a `RecordError` names it.
    """

    max_future_ms: int
    policy: FuturePolicy
    clock: Callable[[], int]
    count: int = 0
    """Records that were too far ahead, since `take`."""
    furthest: int = 0
    """The latest timestamp among them, int ms."""

    def check(self, step: str, batch: Batch) -> tuple[Batch, Batch]:
        """What goes on, and what the generator sees, of a batch that is not empty."""
        limit = self.clock() + self.max_future_ms
        latest = max(batch.timestamps)
        if latest <= limit:
            return batch, batch
        self.count += sum([timestamp > limit for timestamp in batch.timestamps])
        self.furthest = max(self.furthest, latest)
        if self.policy == "fail":
            self._fail(step, batch, limit)
        if self.policy == "clamp":
            clamped = [timestamp if timestamp <= limit else limit for timestamp in batch.timestamps]
            batch = Batch(batch.values, clamped, batch.keys, batch.headers)
            return batch, batch
        kept = [
            (value, timestamp)
            for value, timestamp in zip(batch.values, batch.timestamps, strict=True)
            if timestamp <= limit
        ]
        return batch, Batch([value for value, _ in kept], [timestamp for _, timestamp in kept])

    def _fail(self, step: str, batch: Batch, limit: int) -> None:
        index = next(index for index, timestamp in enumerate(batch.timestamps) if timestamp > limit)
        ahead = batch.timestamps[index] - limit + self.max_future_ms
        raise RecordError(
            f"{step}: the timestamp {batch.timestamps[index]} lies {ahead} ms in the future, and max_future_ms is "
            f"{self.max_future_ms}: correct the clock or the timestamp assigner, or set max_future_policy to "
            "drop_from_watermark or clamp",
            step=step,
            index=index,
        )

    def take(self) -> int:
        """The count, which begins anew."""
        count, self.count = self.count, 0
        return count


@dataclass(frozen=True)
class TimeRules:
    """What the settings say of event time in a task."""

    periodic: bool = True
    """False: generators are asked by records only (`watermark_interval_ms` is 0)."""
    idle_timeout_ms: int | None = None
    """For sources whose strategy says nothing of idleness; None: they are never idle."""
    future: FutureGuard | None = None
