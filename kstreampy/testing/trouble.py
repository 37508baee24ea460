"""What can happen to the workers of a job under test, at the test's will.

In here: `Trouble`, the part of `JobHarness` that kills, expels, adds and removes workers. Not in here: what happens then
(`simulation.py`, `worker.py`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal

from kstreampy.errors import JobError
from kstreampy.testing.fault import CRASH_POINTS, CrashPoint
from kstreampy.testing.simulation import Simulation

_LATEST_CRASH = 20


class Trouble:
    """Workers are named by their numbers, from 0."""

    _simulation: Simulation

    def _acting(self) -> AbstractContextManager[None]:
        """The job is ready, and inside, its code may run."""
        raise NotImplementedError

    def crash(self, worker: int = 0) -> None:
        """Kills a worker where it stands, as kill -9: what it has not committed is gone, its transaction stays open and its
        place in the groups is kept. It comes up again with the next `run`, on the same disk."""
        self._simulation.crash(self._number(worker))

    def crash_at(
        self,
        point: CrashPoint,
        nth: int | None = None,
        *,
        side: Literal["before", "after"] = "before",
        worker: int = 0,
    ) -> None:
        """Kills a worker later: before, or right after, its `nth` call of that kind from now on (None: the seed decides which
        of the next 20). One crash is planned per worker; a new call takes the place of the one before. See `crashes` for
        whether it has come about."""
        if point not in CRASH_POINTS or side not in ("before", "after"):
            raise JobError(f"crash_at: {side!r} {point!r} is no point: use before or after {', '.join(CRASH_POINTS)}")
        if nth is not None and nth < 1:
            raise JobError(f"crash_at: the first call is 1, not {nth}")
        fuse = self._simulation.workers[self._number(worker)].fuse
        fuse.point, fuse.side = point, side
        fuse.left = self._simulation.dice.randint(1, _LATEST_CRASH) if nth is None else nth

    @property
    def crashes(self) -> int:
        """How many crashes there were."""
        return sum(" killed" in event or " crashed" in event for event in self._simulation.events)

    def fail_commit(self, *, applied: bool) -> None:
        """The next commit is not answered. With `applied` the broker has made it durable all the same: the worker cannot
        know, drops everything and finds out."""
        self._simulation.cluster.fail_next_commit(applied=applied)
        self._simulation.cluster.fail_next_offset_commit(applied=applied)

    def lose_disk(self, worker: int = 0) -> None:
        """Kills a worker and empties its disk: it comes up again with the next `run`, and reads its state back."""
        number = self._number(worker)
        self._simulation.crash(number)
        self._simulation.workers[number].wipe()
        self._simulation.tell(self._simulation.workers[number], "lost its disk")

    def expel(self, worker: int = 0) -> None:
        """A worker's sessions time out although it lives: others may take its tasks, and it learns of it later."""
        with self._acting():
            self._simulation.workers[self._number(worker)].expel()

    def add_worker(self) -> int:
        """One more worker, which takes over its share with the next `run`. Returns its number, for the other calls."""
        return self._simulation.add_worker()

    def remove_worker(self, worker: int | None = None, *, crash: bool = False) -> None:
        """A worker (by default the last one) goes for good, and others take over: cleanly, with all it has processed
        committed, or with `crash` as a killed one whose sessions have timed out."""
        numbers = list(self._simulation.workers)
        number = self._number(numbers[-1] if worker is None and numbers else worker or 0)
        if len(numbers) == 1:
            raise JobError("remove_worker: this is the last worker; use crash() or restart() for one that comes back")
        with self._acting():
            self._simulation.remove(number, crash=crash)

    def rebalance(self) -> None:
        """Every worker gives up all of its tasks, having committed them, and they are given anew: to other workers, where
        there are several."""
        with self._acting():
            self._simulation.rebalance()

    def _number(self, worker: int) -> int:
        if worker not in self._simulation.workers:
            known = ", ".join(map(str, self._simulation.workers)) or "none, since the harness is closed"
            raise JobError(f"there is no worker {worker}: there are {known}")
        return worker
