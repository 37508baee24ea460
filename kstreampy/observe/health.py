"""What a worker says of itself to probes: is it alive, is it ready, and if not, why.

In here: the object the driver writes and the HTTP server (`http.py`) reads. Not in here: metrics, and any
decision about what a worker does next.

Live means: the loop turns, and every task that has records waiting moves. Ready means: joined, restored, and
the broker answers. A worker without partitions is live and ready. While the broker is away a worker stays
live (a restart brings no broker back) and is not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class _Task:
    """Position and lag as last told, and when the position last changed or nothing was waiting."""

    position: int
    lag: int | None
    moved_at: float


@dataclass(frozen=True)
class _Restore:
    done: int
    total: int
    began_at: float
    began_done: int


class Health:
    """Of one process. Written by the driver's thread, read by the server's threads: every write replaces one
    value."""

    def __init__(self, *, stall_s: float = 120.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stall_s = stall_s
        self._clock = clock
        self._progress_at = clock()
        self._joining: dict[str, bool] = {}
        self._tasks: dict[tuple[str, int], _Task] = {}
        self._restores: dict[tuple[str, int], _Restore] = {}
        self._started = False
        self._broker_lost: str | None = None
        self._stopping: str | None = None

    def progress(self) -> None:
        """The loop has turned. Once per turn, and from inside long waits that are not the worker's own
        fault."""
        self._progress_at = self._clock()

    def started(self) -> None:
        """Settings and topics are checked, and the stages have been told to join."""
        self._started = True

    def joining(self, stage: str) -> None:
        self._joining[stage] = True

    def joined(self, stage: str) -> None:
        self._joining.pop(stage, None)

    def moved(self, stage: str, partition: int, position: int, lag: int | None) -> None:
        """Where a task is and how many records wait behind it (None: not known). About once a second, not per
        batch."""
        now = self._clock()
        before = self._tasks.get((stage, partition))
        idle = not lag
        moved_at = now if before is None or idle or before.position != position else before.moved_at
        self._tasks[stage, partition] = _Task(position, lag, moved_at)

    def restoring(self, stage: str, partition: int, done: int, total: int) -> None:
        """Changelog records replayed so far, of all that there are to replay."""
        before = self._restores.get((stage, partition))
        restore = before or _Restore(done, total, self._clock(), done)
        self._restores[stage, partition] = replace(restore, done=done, total=total)

    def restored(self, stage: str, partition: int) -> None:
        self._restores.pop((stage, partition), None)
        task = self._tasks.get((stage, partition))
        if task is not None:
            self._tasks[stage, partition] = replace(task, moved_at=self._clock())

    def gone(self, stage: str, partition: int) -> None:
        """The task was revoked or lost."""
        self._tasks.pop((stage, partition), None)
        self._restores.pop((stage, partition), None)

    def broker_lost(self, reason: str) -> None:
        self._broker_lost = reason

    def broker_found(self) -> None:
        """Answers again. Tasks get a full bound of time from here, since they could not move before."""
        if self._broker_lost is None:
            return
        self._broker_lost = None
        now = self._clock()
        for key, task in self._tasks.copy().items():
            self._tasks[key] = replace(task, moved_at=now)

    def stopping(self, reason: str) -> None:
        self._stopping = reason

    def live(self) -> list[dict[str, Any]]:
        """Reasons why the process should be restarted; none: it is live."""
        if self._broker_lost is not None:
            return []
        now = self._clock()
        reasons: list[dict[str, Any]] = []
        if now - self._progress_at > self._stall_s:
            reasons.append({"reason": "the loop stands still", "seconds": round(now - self._progress_at, 1)})
        restores = self._restores.copy()
        for (stage, partition), task in sorted(self._tasks.copy().items()):
            if task.lag and (stage, partition) not in restores and now - task.moved_at > self._stall_s:
                reasons.append(
                    {
                        "reason": "the task does not move although records wait",
                        **_named(stage, partition),
                        "position": task.position,
                        "lag": task.lag,
                        "seconds": round(now - task.moved_at, 1),
                    }
                )
        return reasons

    def ready(self) -> list[dict[str, Any]]:
        """Reasons why the worker does not do its part now; none: it is ready."""
        reasons: list[dict[str, Any]] = []
        if not self._started:
            reasons.append({"reason": "starting"})
        if self._stopping is not None:
            reasons.append({"reason": "stopping", "because": self._stopping})
        if self._broker_lost is not None:
            reasons.append({"reason": "the broker is unavailable", "error": self._broker_lost})
        reasons.extend({"reason": "joining", "stage": stage} for stage in sorted(self._joining.copy()))
        reasons.extend(self._restore_reasons())
        return reasons

    def _restore_reasons(self) -> list[dict[str, Any]]:
        now = self._clock()
        return [
            {
                "reason": "restoring",
                **_named(stage, partition),
                "done": restore.done,
                "total": restore.total,
                "eta_s": _eta_s(restore, now),
            }
            for (stage, partition), restore in sorted(self._restores.copy().items())
        ]

    def tasks(self) -> list[dict[str, Any]]:
        """What this worker runs, for the overview page: one entry per task, with position, lag and
        restore."""
        tasks, restores = self._tasks.copy(), self._restores.copy()
        return [
            {
                **_named(stage, partition),
                "position": task.position if (task := tasks.get((stage, partition))) else None,
                "lag": task.lag if task else None,
                "restoring": (stage, partition) in restores,
            }
            for stage, partition in sorted({*tasks, *restores})
        ]


def _named(stage: str, partition: int) -> dict[str, Any]:
    return {"stage": stage, "partition": partition}


def _eta_s(restore: _Restore, now: float) -> float | None:
    """Seconds to go at the speed so far; None while there is no speed."""
    replayed, took = restore.done - restore.began_done, now - restore.began_at
    if replayed <= 0 or took <= 0:
        return None
    return round(max(restore.total - restore.done, 0) * took / replayed, 1)
