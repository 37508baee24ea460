"""Trouble for jobs in the harness, drawn from seeded dice: a job that had it must give what a clean run gives."""

from __future__ import annotations

import random
from typing import Any

from kstreampy.testing import JobHarness, Output
from kstreampy.testing.fault import CRASH_POINTS


def trouble(harness: JobHarness, dice: random.Random, *, workers_come_and_go: bool = False) -> None:
    """One kind of it, for one of two workers: a crash now or at the next call of some kind, a lost disk, a rebalance; with
    `workers_come_and_go` also a worker that is added and leaves again."""
    worker = dice.choice((0, 1))
    match dice.randrange(8 if workers_come_and_go else 6):
        case 0:
            harness.run(commit=False)
            harness.crash(worker)
        case 1:
            harness.lose_disk(worker)
        case 2:
            harness.rebalance()
        case 3 if workers_come_and_go:
            number = harness.add_worker()
            harness.run()
            harness.remove_worker(number, crash=dice.random() < 0.5)
        case _:
            point: Any = dice.choice(CRASH_POINTS)
            side: Any = dice.choice(("before", "after"))
            harness.crash_at(point, dice.randint(1, 5), side=side, worker=worker)


def committed(output: Output) -> list[tuple[Any, Any]]:
    """(timestamp, value) of all committed results, in an order that no run has a say in."""
    return sorted(((record.timestamp, record.value) for record in output), key=repr)
