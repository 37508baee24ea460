"""A small world for the runtime: real drivers of one plan on one in-memory cluster, interleaved turn by turn in one
thread, with everything that can go wrong brought about by hand or by a seeded random.

In here: `Scene` (cluster, topics, clock), `Worker` (one process: drivers one after another over the same disk), `Fuse`
(a crash at a chosen call). A crash drops the driver where it stands: nothing is flushed, aborted or left; its members
stay in their groups and its transaction stays open until somebody times them out or takes over. Not in here: jobs
(`jobs.py`) and what tests expect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstreampy.broker.broker import Message, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster, MemoryConsumer, MemoryProducer, MemoryReader
from kstreampy.broker.memory.log import PartitionLog
from kstreampy.errors import BrokerUnavailable, TaskMigrated
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime.driver import Driver
from kstreampy.runtime.layout import StageLayout, lay_out
from kstreampy.runtime.resources import Resources, Stores
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.task import Task
from kstreampy.state.budget import CacheBudget
from kstreampy.state.directory import StateDirectory
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget
from kstreampy.state.store import Entry


class Crash(BaseException):
    """The process dies here. No handler for errors may see it."""


@dataclass
class Fuse:
    """Counts calls of a worker into its broker and its stores; after `left` of them, it crashes. None: never."""

    left: int | None = None

    def __call__(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                self.left = None
                raise Crash


class FusedBroker(MemoryBroker):
    """A worker's view of the cluster that may crash before and after every call that matters."""

    def __init__(self, cluster: MemoryCluster, fuse: Fuse) -> None:
        super().__init__(cluster, queue_messages=64)
        self.fuse = fuse

    def producer(self, transactional_id: str | None = None) -> MemoryProducer:
        producer = super().producer(transactional_id)
        for name in ("produce", "produce_tracked", "flush", "commit", "serve"):
            _burn(producer, name, self.fuse)
        return producer

    def consumer(self, *arguments: Any, **keywords: Any) -> MemoryConsumer:
        consumer = super().consumer(*arguments, **keywords)
        for name in ("poll", "commit", "seek"):
            _burn(consumer, name, self.fuse)
        return consumer

    def reader(self) -> MemoryReader:
        reader = super().reader()
        _burn(reader, "poll", self.fuse)
        return reader


def _burn(owner: object, name: str, fuse: Fuse) -> None:
    call = getattr(owner, name)

    def burning(*arguments: Any, **keywords: Any) -> Any:
        fuse()
        result = call(*arguments, **keywords)
        fuse()
        return result

    setattr(owner, name, burning)


class KeptStore(MemoryStore):
    """A store in memory that outlives its driver, as one on disk does."""

    def __init__(self, path: str, fuse: Fuse) -> None:
        super().__init__(path)
        self.fuse = fuse

    def open(self) -> KeptStore:
        self._closed = False
        return self

    def write(self, entries: Iterable[Entry], meta: bytes | None) -> None:
        self.fuse()
        super().write(entries, meta)
        self.fuse()


@dataclass
class KeptStores(Stores):
    """A disk made of `KeptStore`s."""

    fuse: Fuse = field(default_factory=Fuse)
    kept: dict[tuple[str, int], KeptStore] = field(default_factory=dict)
    write_behind_ms: int = 0

    def open(self, stage: str, partition: int) -> KeyedState:
        store = self.kept.get((stage, partition))
        if store is None:
            store = self.kept[stage, partition] = KeptStore(f"disk/{stage}/{partition}", self.fuse)
        return KeyedState(store.open(), self.cache_budget, write_behind_ms=self.write_behind_ms)


class Worker:
    """One process, with its disk. `driver` is None while it is down."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.name = name
        self.fuse = Fuse()
        self.metrics, self.health = Metrics(), Health()
        self.directory: StateDirectory | None = None
        self.stores = self._disk()
        self.driver: Driver | None = None
        self.stop_signal = StopSignal()
        self.crashes = self.rejoins = 0
        self.restored: list[tuple[str, int]] = []
        """Task and changelog records of every restore that ended, over all drivers."""

    def _disk(self) -> Stores:
        budget = CacheBudget(1 << 20)
        if self.scene.disk == "none":
            return Stores(None, budget, None)
        if self.scene.disk == "rocks":
            self.directory = StateDirectory(self.scene.root / self.name)
            return Stores(self.directory, budget, RocksBudget(1 << 20))
        return KeptStores(None, budget, None, fuse=self.fuse, write_behind_ms=self.scene.write_behind_ms)

    def wipe(self) -> None:
        """A new disk."""
        assert self.scene.disk == "kept", "other disks are wiped on disk"
        self.stores = self._disk()

    def start(self) -> Worker:
        """A new process comes up, as far as joining."""
        scene = self.scene
        broker = FusedBroker(scene.cluster, self.fuse)
        settings = Settings(
            application_id=scene.plan.application_id,
            guarantee=scene.guarantee,
            state_dir=scene.root / self.name,
            worker_id=self.name,
        )
        layout = lay_out(scene.plan, broker)
        self.resources = Resources(
            layout, settings, broker, self.stores, self.metrics, self.health, scene.clock, self.name
        )
        self.stages: tuple[StageLayout, ...] = layout.stages
        self.stop_signal = StopSignal()
        self._new_driver()
        return self

    def _new_driver(self) -> None:
        self.driver = None
        driver = Driver(self.resources, self.stages, self.stop_signal, in_memory=True)
        self.driver = driver
        for assignment in driver.assignments:
            self._watch(assignment)
        driver.join()

    def _watch(self, assignment: Any) -> None:
        told = assignment.restored

        def restored(restore: Any) -> bool:
            done = told(restore)
            if done:
                self.restored.append((restore.task, restore.records))
            return bool(done)

        assignment.restored = restored

    def turn(self, *, commit: bool = True) -> bool:
        """One turn, with a checkpoint or without. What a worker reacts to with a new driver is reacted to so; a fuse that
        burns down is a crash. False if the worker is down afterwards."""
        if self.driver is None:
            return False
        try:
            try:
                self.driver.checkpoint.interval_s = 0.0 if commit else math.inf
                self.driver.turn()
            except (TaskMigrated, BrokerUnavailable):
                self.rejoins += 1
                self.driver.abandon()
                self._new_driver()
        except Crash:
            self.crash()
        return self.driver is not None

    def crash(self) -> None:
        """Drops the driver; only the locks that a dead process does not hold any more are let go."""
        self.fuse.left = None
        self.crashes += 1
        driver, self.driver = self.driver, None
        if driver is not None:
            for task in self.tasks_of(driver):
                if task.state is not None:
                    task.state._behind.clear()  # memory dies with the process
                    task.state.close()
            self.scene.dead += [a.consumer for a in driver.assignments if hasattr(a, "consumer")]

    def stop(self) -> None:
        """A clean stop, within this call."""
        assert self.driver is not None, "it runs"
        self.driver._commit()
        self.driver.leave()
        self.scene.dead += [a.consumer for a in self.driver.assignments]
        self.driver = None

    def expel(self) -> None:
        """Its sessions time out although it lives: it learns of it in its next poll."""
        if self.driver is not None:
            for assignment in self.driver.assignments:
                self.scene.cluster.expel(assignment.consumer)

    def tasks_of(self, driver: Driver) -> list[Task]:
        return [task for assignment in driver.assignments for task in assignment.tasks.values()]

    @property
    def tasks(self) -> dict[str, Task]:
        return {} if self.driver is None else {task.name: task for task in self.tasks_of(self.driver)}

    @property
    def ended(self) -> bool:
        return self.driver is not None and self.driver.job_has_ended()

    def close(self) -> None:
        """The end of the test."""
        if self.driver is not None:
            self.driver.abandon()
            self.driver = None
        if self.directory is not None:
            self.directory.close()


class Scene:
    """Use as a context manager. `disk`: "none" (state lives as long as a driver), "kept" (in memory, over crashes),
    "rocks" (RocksDB under `root`)."""

    def __init__(
        self, plan: Plan, root: Path, *, disk: str = "kept", guarantee: str = "exactly_once", partitions: int = 2
    ) -> None:
        self.plan = plan
        self.root = root
        self.disk = disk
        self.guarantee = guarantee
        self.write_behind_ms = 0
        self.now_ms = 1_700_000_000_000
        self.cluster = MemoryCluster(clock=self.clock, blocking=False)
        self.broker = MemoryBroker(self.cluster)
        self.workers: dict[str, Worker] = {}
        self.dead: list[MemoryConsumer] = []
        self.create("in", partitions)
        self.create("out", partitions)
        self._producer = self.broker.producer()

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.close()

    def clock(self) -> int:
        return self.now_ms

    def create(self, topic: str, partitions: int, **config: str) -> None:
        """Configuration with underscores for Kafka's dots."""
        named = {key.replace("_", "."): value for key, value in config.items()}
        self.broker.create_topics([TopicSpec(topic, partitions, named)])

    def grow(self, topic: str) -> None:
        """One more partition."""
        with self.cluster.lock:
            logs = self.cluster.topic(topic).logs
            logs.append(PartitionLog(topic, len(logs)))
            self.cluster.topics_changed()

    def start(self, name: str = "w0") -> Worker:
        worker = self.workers.get(name) or self.workers.setdefault(name, Worker(self, name))
        return worker.start()

    def time_out_dead(self) -> None:
        """Sessions and transactions of processes that are gone time out."""
        for consumer in self.dead:
            self.cluster.expel(consumer)
        self.dead.clear()
        for worker in self.workers.values():
            if worker.driver is None:
                self.cluster.expire_transaction(f"{self.plan.application_id}-worker/{worker.name}")

    def turns(self, count: int = 1, *workers: Worker, commit: bool = True) -> None:
        """Each of the workers (none given: all that are up) takes so many turns, in turn."""
        for _ in range(count):
            for worker in workers or tuple(self.workers.values()):
                worker.turn(commit=commit)

    def until(self, condition: Callable[[], bool], *workers: Worker, bound: int = 200) -> None:
        """Turns until the condition holds."""
        for _ in range(bound):
            if condition():
                return
            self.turns(1, *workers)
        raise AssertionError(f"not after {bound} turns")

    # The log from outside

    def feed(self, records: Iterable[tuple[str | bytes | None, str | bytes | None, int]], topic: str = "in") -> None:
        """(key, value, partition)."""
        for key, value, partition in records:
            self._producer.produce(topic, _bytes(value), _bytes(key), partition, None, None, self.now_ms)
        self._producer.flush()

    def messages(self, topic: str) -> list[Message]:
        """What a reader of committed records sees, partition by partition."""
        log = self.cluster.topic(topic).logs
        return [message for part in log for message in part.read(part.begin, 10**9)[0]]

    def by_key(self, topic: str = "out") -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for message in self.messages(topic):
            found.setdefault((message.key() or b"").decode(), []).append((message.value() or b"").decode())
        return found

    def end(self, topic: str, partition: int = 0) -> int:
        return self.cluster.log(TopicPartition(topic, partition)).end

    def changelog(self, uid: str = "total") -> str:
        return f"{self.plan.application_id}-{uid}-changelog"

    def offsets(self, uid: str) -> dict[TopicPartition, int]:
        """Of the stage's group."""
        group = self.cluster.groups[f"{self.plan.application_id}-{uid}"]
        return {tp: position.offset for tp, position in group.offsets.items()}


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def state_of(worker: Worker, task: str) -> dict[bytes, bytes]:
    """All entries of a task's open store."""
    state = worker.tasks[task].state
    assert state is not None, "the task keeps state"
    with state.store.scan(b"") as rows:
        return dict(rows)


__all__ = ["Crash", "Fuse", "KeptStore", "Scene", "Sequence", "Worker", "state_of"]
