"""Jobs of bounded sources that run to their end although their workers crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

from kstreampy.datastream import DataStream, StreamExecutionEnvironment
from kstreampy.testing import JobHarness
from kstreampy.testing.fault import CrashPoint

Draw = Callable[[StreamExecutionEnvironment], DataStream]

_POINTS: tuple[CrashPoint, ...] = ("poll", "produce", "commit")
_CRASHES = 4


def results_under_crashes(
    draw: Draw, seed: int, *, workers: int = 2, guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once"
) -> list[Any]:
    """What the stream gives until the job has ended. Some workers crash several times, at any point; some lose their
    disks."""
    dice = random.Random(seed)
    with JobHarness(draw, workers=workers, key_groups=3, seed=seed, guarantee=guarantee) as harness:
        found = harness.collect(harness.drawn)
        simulation = harness._simulation
        tell = simulation.tell

        def plan(worker: int) -> None:
            harness.crash_at(
                dice.choice(_POINTS), dice.randint(1, 8), side=dice.choice(["before", "after"]), worker=worker
            )

        def told(worker: Any, what: str) -> None:
            tell(worker, what)
            if "crashed" in what and harness.crashes < _CRASHES:
                if dice.random() < 0.3:
                    worker.wipe()
                plan(int(worker.name.rpartition("-")[2]))

        simulation.tell = told  # type: ignore[method-assign]
        for worker in range(workers):
            plan(worker)
        harness.run()
        assert harness.ended, harness.events
        assert harness.crashes, harness.events
        return found.values()
