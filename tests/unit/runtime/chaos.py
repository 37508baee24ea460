"""A seeded run of a scene in which everything goes wrong, and its judgement by the clean run.

In here: `Chaos`, which feeds records, lets workers take turns, and in between kills, expels, adds and removes them and
makes commits and deliveries fail. Which moment a crash hits is decided by the fuse: before or after any call into the
broker or the store, so also between a commit and the store's write, in a restore and inside a rebalance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path

from kstreampy.graph.plan import Plan
from kstreampy.testing.worker import Disk
from tests.unit.runtime.scene import Scene, Worker

USERS = 6
RECORDS = 60
NAMES = ("w0", "w1", "w2")
KINDS = (*["crash"] * 4, "now", "expel", "fail", "deliver", "add", "stop", "gone", "compact")


def record(number: int) -> tuple[str, str, int]:
    """Key, value and partition: all records of a user are in one partition."""
    user = number * 7 % USERS
    return f"u{user}", f"u{user}:{number}", user % 2


def clean() -> dict[str, list[str]]:
    """Running totals per user, as a run without any trouble gives them."""
    amounts: dict[str, list[int]] = {}
    for number in range(RECORDS):
        amounts.setdefault(record(number)[0], []).append(number)
    return {user: [str(total) for total in accumulate(found)] for user, found in amounts.items()}


class Chaos:
    """`feed` takes the next records where they do not go to topic in."""

    def __init__(
        self,
        plan: Plan,
        root: Path,
        seed: int,
        *,
        disk: Disk,
        guarantee: str = "exactly_once",
        feed: Callable[[Iterable[tuple[str, str, int]]], None] | None = None,
    ) -> None:
        self.dice = random.Random(seed)
        self.scene = Scene(plan, root, disk=disk, guarantee=guarantee)
        self.scene.write_behind_ms = self.dice.choice((0, 300, 3000))
        self.topics = [name for name, _, _ in plan.internal_topics] + ["out"]
        self.changelogs = [name for name, kind, _ in plan.internal_topics if kind != "packed"]
        self.feed = feed or self.scene.feed
        self.fed = 0
        self.happened: list[str] = []

    def run(self) -> dict[str, list[str]]:
        """What readers of committed records see in the end. Every worker that was ever started is up then."""
        scene = self.scene
        with scene:
            scene.start("w0")
            while self.fed < RECORDS or self.dice.random() < 0.95:
                self._feed()
                if self.dice.random() < 0.25:
                    self._trouble()
                self._turn(self.dice.choice(list(scene.workers.values())))
            self._calm()
            return scene.by_key()

    def _feed(self) -> None:
        count = min(self.dice.choice((0, 0, 1, 3)), RECORDS - self.fed)
        self.feed(record(number) for number in range(self.fed, self.fed + count))
        self.fed += count

    def _turn(self, worker: Worker) -> None:
        self.scene.now_ms += self.dice.choice((0, 10, 1000))
        if worker.driver is None:
            if self.dice.random() < 0.5:
                self._start(worker.name)
            return
        if self.dice.random() < 0.2:
            worker.driver.checkpoint.last_purge = -1e9
        if self.dice.random() < 0.2:
            worker.driver.last_look = -1e9
        worker.turn(commit=self.dice.random() < 0.4)

    def _start(self, name: str) -> None:
        """A start may be hit as well."""
        try:
            self.scene.start(name)
        except BaseException as error:
            if type(error).__name__ != "Crash":
                raise
            self.scene.workers[name].crash()

    def _trouble(self) -> None:
        dice, scene = self.dice, self.scene
        worker = dice.choice(list(scene.workers.values()))
        kind = dice.choice(KINDS)
        self.happened.append(f"{kind} {worker.name}")
        match kind:
            case "crash":
                worker.fuse.left = dice.choice((1, 2, 3, 5, 8, 13, 21, 34))
            case "now":
                worker.crash()
            case "expel":
                worker.expel()
            case "fail":
                scene.cluster.fail_next_commit(applied=dice.random() < 0.5)
                scene.cluster.fail_next_offset_commit(applied=dice.random() < 0.5)
            case "deliver":
                scene.cluster.fail_next_delivery(dice.choice(self.topics))
            case "add":
                new = [name for name in NAMES if name not in scene.workers]
                if new:
                    self._start(dice.choice(new))
            case "stop" if worker.driver is not None and worker.fuse.left is None:
                self._stop(worker)
            case "gone":
                scene.time_out_dead()
            case "compact" if scene.guarantee == "exactly_once":
                # At-least-once, the broker's compaction lag must be longer than an unfinished checkpoint stays.
                for name in self.changelogs:
                    scene.cluster.compact(name)

    def _stop(self, worker: Worker) -> None:
        """A clean stop; when its last commit fails, it is a crash."""
        try:
            worker.stop()
        except Exception:
            worker.crash()

    def _calm(self) -> None:
        """No more trouble: everything is brought up and worked off."""
        scene = self.scene
        for faults in (
            scene.cluster._commit_faults,
            scene.cluster._offset_commit_faults,
            scene.cluster._delivery_faults,
        ):
            faults.clear()
        for worker in scene.workers.values():
            worker.fuse.left = None
        scene.time_out_dead()
        for worker in scene.workers.values():
            if worker.driver is None:
                worker.start()
        quiet = 0
        for _ in range(400):
            before = scene.end("out", 0) + scene.end("out", 1), scene.cluster.version
            scene.turns(1)
            quiet = quiet + 1 if before == (scene.end("out", 0) + scene.end("out", 1), scene.cluster.version) else 0
            if quiet == 12:
                return
        raise AssertionError("the workers do not come to rest")
