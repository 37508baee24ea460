"""A small world for the runtime: real drivers of one plan on one in-memory cluster, interleaved turn by turn in one
thread, with everything that can go wrong brought about by hand or by a seeded random.

In here: `Scene` (cluster, topics, clock). Not in here: its workers, which are those of `kstreampy.testing`, jobs (`jobs.py`)
and what tests expect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kstreampy.broker.broker import GroupConsumer, Message, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.broker.memory.log import PartitionLog
from kstreampy.graph.plan import Plan
from kstreampy.runtime.layout import Layout
from kstreampy.runtime.pace import Pace
from kstreampy.runtime.settings import Settings
from kstreampy.state.keyed import KeyedState
from kstreampy.testing.disk import KeptStore, KeptStores
from kstreampy.testing.fault import Crash, Fuse
from kstreampy.testing.worker import Disk
from kstreampy.testing.worker import SimulatedWorker as Worker


class Scene:
    """Use as a context manager. `disk`: "none" (state lives as long as a driver), "kept" (in memory, over crashes),
    "rocks" (RocksDB under `root`)."""

    def __init__(
        self, plan: Plan, root: Path, *, disk: Disk = "kept", guarantee: str = "exactly_once", partitions: int = 2
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
        self.dead: list[GroupConsumer] = []
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

    def monotonic(self) -> float:
        return time.monotonic()

    def opened(self, stage: str, state: KeyedState) -> None: ...

    def directory(self, worker: str) -> Path:
        return self.root / worker

    def settings(self, worker: str) -> Settings:
        return Settings(
            application_id=self.plan.application_id,
            guarantee=self.guarantee,
            state_dir=self.directory(worker),
            worker_id=worker,
        )

    def paces(self, layout: Layout) -> dict[str, Pace]:
        return {}

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


__all__ = ["Crash", "Fuse", "KeptStore", "KeptStores", "Scene", "Sequence", "Worker", "state_of"]
