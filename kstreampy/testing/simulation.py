"""A job at work under a virtual clock: its workers take turns in one thread, in an order that a seed decides.

In here: `Simulation`: the log, the workers, and bringing them to rest. Not in here: what a test calls (`harness.py`), one
worker (`worker.py`), and where crashes strike (`fault.py`).

Rest is a state in which a round of turns, with checkpoints, changes nothing: all input is processed and committed, and no
timer is due at the present time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kstreampy.broker.broker import GroupConsumer, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan
from kstreampy.graph.source import ConnectorInput
from kstreampy.runtime.layout import Layout, lay_out
from kstreampy.runtime.pace import Pace
from kstreampy.runtime.settings import Settings
from kstreampy.state.keyed import KeyedState
from kstreampy.testing.clock import VirtualClock
from kstreampy.testing.fault import Crash
from kstreampy.testing.source import HarnessSource
from kstreampy.testing.worker import Disk, SimulatedWorker

_MOST_ROUNDS = 200_000
_MOST_IDLE_ROUNDS = 500
_LET_GO_ROUNDS = 20
_BATCHES = (1, 3, 10, 100, 500)


class SeededPace(Pace):
    """Messages per poll, drawn anew after each: batches of every size, whatever the functions' speed."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.took(0.0)

    def took(self, seconds: float) -> None:
        self.messages = self._dice.choice(_BATCHES)


class Simulation:
    """Owned by one harness; the `World` of its workers. Lives until `close`."""

    def __init__(self, clock: VirtualClock, seed: int, disk: Disk, directory: Callable[[str], Path]) -> None:
        self.clock = clock
        self.dice = random.Random(seed)
        self.disk = disk
        self.directory = directory
        self.write_behind_ms = 0
        self.cluster = MemoryCluster(clock=clock, blocking=False)
        self.broker = MemoryBroker(self.cluster)
        self.workers: dict[int, SimulatedWorker] = {}
        self.dead: list[GroupConsumer] = []
        self.events: list[str] = []
        self.sources: list[HarnessSource] = []
        self.opened: Callable[[str, KeyedState], None] = lambda stage, state: None
        self.ended = False
        self._plan: Plan | None = None
        self._settings: Settings | None = None
        self._numbers = 0

    # The world of workers

    @property
    def plan(self) -> Plan:
        assert self._plan is not None, "workers start when there is a plan"
        return self._plan

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def settings(self, worker: str) -> Settings:
        assert self._settings is not None, "workers start when there is a plan"
        return self._settings.model_copy(update={"worker_id": worker, "state_dir": self.directory(worker)})

    def paces(self, layout: Layout) -> dict[str, Pace]:
        return {stage.stage.uid: SeededPace(self.dice) for stage in layout.stages}

    # The job

    def load(self, plan: Plan, settings: Settings) -> None:
        """The job that workers run from now on."""
        self._plan, self._settings = plan, settings
        origins = [stage.input.origin for stage in plan.stages]
        connected = [origin.source for origin in origins if isinstance(origin, ConnectorInput)]
        self.sources = [source for source in connected if isinstance(source, HarnessSource)]
        self.ended = False

    def create_topics(self, partitions: int) -> None:
        """The topics of the user's that the plan names, where they are not there."""
        for read in self.plan.topic_inputs():
            source = read.topics
            given = {tp.topic: tp.partition + 1 for tp in sorted(source.partitions or ())}
            self.create(dict.fromkeys(source.topics, partitions))
            self.create(given)
            if source.pattern is not None and not self.broker.topics_matching(source.pattern):
                raise JobError(
                    f"source {read.name!r} reads topics that match {source.pattern!r}, and there is none: call "
                    "create_topic(...) before the harness runs"
                )
        _, written = self.topics_named()
        self.create(dict.fromkeys(written, partitions))

    def create(self, topics: Mapping[str, int]) -> None:
        """Those that are there already stay as they are."""
        self.broker.create_topics([TopicSpec(name, count) for name, count in topics.items()])

    def topics_named(self) -> tuple[list[str], list[str]]:
        """The topics of the user's that the job reads, and those that it writes, as far as the plan names them."""
        reads = {name for source in self.plan.topic_inputs() for name in source.topics.topics}
        writes = {step.writes for stage in self.plan.stages for step in stage.steps() if step.writes is not None}
        return sorted(reads), sorted(writes)

    def group_of(self, uid: str) -> tuple[str, list[TopicPartition]]:
        """The consumer group of the stage that has this operator, and all partitions that it reads. JobError when none
        has."""
        for layout in lay_out(self.plan, self.broker).stages:
            stage = layout.stage
            names = {stage.uid, stage.input.name, *(source.name for source in stage.input.sources())}
            names.update(step.uid for step in stage.steps())
            if uid in names:
                return layout.group, [tp for inputs in layout.inputs for tp in inputs]
        known = sorted({stage.uid for stage in self.plan.stages})
        raise JobError(f"no operator or stage {uid!r} in this job: its stages are {', '.join(map(repr, known))}")

    def metrics(self) -> dict[str, float]:
        """Of all workers, summed; those of the process itself left out."""
        found: dict[str, float] = {}
        for worker in self.workers.values():
            if worker.driver is not None:
                worker.driver._look(self.monotonic())
            for name, value in worker.metrics.values().items():
                if name.startswith("kstreampy_"):
                    found[name] = found.get(name, 0.0) + value
        return found

    # Workers come and go

    def add_worker(self) -> int:
        """A new one; it comes up with the next round."""
        number = self._numbers
        self._numbers += 1
        self.workers[number] = SimulatedWorker(self, f"worker-{number}")
        return number

    def remove(self, number: int, *, crash: bool) -> None:
        """For good: its tasks are free for others at once."""
        worker = self.workers[number]
        if crash:
            self.crash(number)
        else:
            self._stop(worker)
        self.time_out(worker)
        worker.close()
        del self.workers[number]
        self.tell(worker, "removed")

    def _stop(self, worker: SimulatedWorker) -> None:
        """A clean stop; where its last commit fails, it is a crash."""
        if worker.driver is None:
            return
        try:
            worker.stop()
            self.tell(worker, "stopped")
        except Crash:
            worker.crash()
            self.tell(worker, f"crashed, {worker.fuse.crashed_at}")
        except BaseException:
            worker.fail()
            raise

    def stop_all(self) -> None:
        for worker in self.workers.values():
            self._stop(worker)

    def crash(self, number: int) -> None:
        worker = self.workers[number]
        if worker.driver is not None:
            worker.crash()
            self.tell(worker, "killed")

    def time_out(self, worker: SimulatedWorker) -> None:
        """Sessions and the transaction of a process that is gone time out."""
        for consumer in worker.gone:
            self.cluster.expel(consumer)
        self.cluster.expire_transaction(f"{self.plan.application_id}-worker/{worker.name}")

    def rebalance(self) -> None:
        """Everybody gives up everything, having committed it; then what one had is the next one's."""
        self.bring_up()
        self.cluster.revoke_all()
        for _ in range(_LET_GO_ROUNDS):
            self.round(commit=False)
            if not any(assignment.owner for assignment in self._assignments()):
                break
        self.cluster.rebalance()
        self.events.append(f"{self.clock()} rebalance")

    def _assignments(self) -> list[Any]:
        drivers = [worker.driver for worker in self.workers.values() if worker.driver is not None]
        return [assignment for driver in drivers for assignment in driver.assignments]

    def bring_up(self) -> None:
        """Starts those that are down. One may crash as it starts."""
        for worker in self.workers.values():
            if worker.driver is not None or self.ended:
                continue
            try:
                worker.start()
                self.tell(worker, "started")
            except Crash:
                worker.crash()
                self.tell(worker, f"crashed, {worker.fuse.crashed_at}")
            except BaseException:
                worker.fail()
                raise

    def tell(self, worker: SimulatedWorker, what: str) -> None:
        self.events.append(f"{self.clock()} {worker.name} {what}")

    # Turns

    def round(self, *, commit: bool) -> None:
        """Each worker takes a turn. Raises what ends a worker; that one is down then, with nothing uncommitted left."""
        order = list(self.workers.values())
        self.dice.shuffle(order)
        for worker in order:
            rejoins, crashes = worker.rejoins, worker.crashes
            try:
                worker.turn(commit=commit)
            except BaseException as error:
                worker.fail()
                self.tell(worker, f"failed: {error}")
                raise
            if worker.rejoins > rejoins:
                self.tell(worker, "rejoined")
            if worker.crashes > crashes:
                self.tell(worker, f"crashed, {worker.fuse.crashed_at}")

    def settle(self, *, commit: bool) -> None:
        """Turns until nothing happens any more. With `commit` all is committed then, and a job that has come to its end has
        ended; without, no checkpoint is made."""
        quiet = still = 0
        for _ in range(_MOST_ROUNDS):
            self.bring_up()
            before = self._picture()
            commits = commit and (quiet > 0 or self.dice.random() < 0.5)
            self.round(commit=commits)
            unchanged = self._picture() == before
            still = still + 1 if unchanged else 0
            quiet = quiet + 1 if unchanged and not any(w.restoring for w in self.workers.values()) else 0
            if quiet >= 2 and (commits or not commit):
                gone_on = [source.go_on() for source in self.sources if commit]  # uncommitted, no mark has come through
                if not any(gone_on):
                    break
                quiet = 0
            if still > _MOST_IDLE_ROUNDS:
                raise JobError(f"tasks are waiting for their state and nothing comes: {self._waiting()}")
        else:
            raise JobError(
                f"the job does not come to rest at {self.clock()} ms, after {_MOST_ROUNDS} rounds: does a timer set itself "
                "again for the same time, or does a step write to the topic it reads?"
            )
        if commit and self.workers and all(worker.ended for worker in self.workers.values()):
            self.stop_all()
            self.ended = True

    def _picture(self) -> object:
        """Equal before and after a round in which nothing happened."""
        return (
            self.cluster.version,
            [worker.rejoins + worker.crashes for worker in self.workers.values()],
            [source.position for source in self.sources],
            [
                (name, task.status, task.records_in, task.context.watermark, task.context.wake_at_ms)
                for worker in self.workers.values()
                for name, task in sorted(worker.tasks.items())
            ],
        )

    def _waiting(self) -> str:
        restores = [r for w in self.workers.values() if w.driver is not None for r in w.driver.restorer.running()]
        return ", ".join(restore.task for restore in restores) or "nothing is restored"

    def next_wake(self, until_ms: int) -> int:
        """The first time after the present at which a task asked to be woken, `until_ms` at the latest."""
        asked = [
            task.context.wake_at_ms
            for worker in self.workers.values()
            for task in worker.tasks.values()
            if task.context.wake_at_ms > self.clock()
        ]
        return min([until_ms, *asked])

    def close(self) -> None:
        """Closes everything; nothing is committed. Safe to call twice."""
        workers, self.workers = self.workers, {}
        for worker in workers.values():
            worker.close()
