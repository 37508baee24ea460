"""One worker as a test has it: the real driver, taken through its turns by hand, that can be killed at any of them.

In here: `World` (what the simulated workers of one job share) and `SimulatedWorker` (one process after another over the
same disk). A crash drops the driver where it stands: nothing is flushed, aborted or left; its members stay in their groups
and its transaction stays open until somebody times them out or takes over. Not in here: who takes turns when
(`schedule.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

from kstreampy.broker.broker import GroupConsumer
from kstreampy.broker.memory import MemoryCluster
from kstreampy.errors import BrokerUnavailable, TaskMigrated
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.operators.sink import ConnectorSinkOperator
from kstreampy.runtime.assignment import Assignment
from kstreampy.runtime.driver import Driver
from kstreampy.runtime.layout import Layout, lay_out
from kstreampy.runtime.pace import Pace
from kstreampy.runtime.resources import Resources, Stores
from kstreampy.runtime.restore import Restore
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.task import Task
from kstreampy.state.budget import CacheBudget
from kstreampy.state.directory import StateDirectory
from kstreampy.state.keyed import KeyedState
from kstreampy.state.rocks import RocksBudget
from kstreampy.testing.disk import KeptStores, RocksStores
from kstreampy.testing.fault import Crash, Fuse, FusedBroker

Disk = Literal["none", "kept", "rocks"]
"""Where workers keep their state: nowhere (it lives as long as a driver), in memory over crashes, in RocksDB."""

_CACHE_BYTES = 1 << 20
_ROCKS_BYTES = 1 << 20


class World(Protocol):
    """What the workers of one job share."""

    cluster: MemoryCluster
    disk: Disk
    write_behind_ms: int
    dead: list[GroupConsumer]
    """Members of groups whose processes are gone."""

    @property
    def plan(self) -> Plan: ...

    @property
    def directory(self) -> Callable[[str], Path]:
        """Of a worker's disk; used with "rocks" only."""
        ...

    @property
    def opened(self) -> Callable[[str, KeyedState], None]:
        """Told the stage and the state of each task that is opened."""
        ...

    @property
    def clock(self) -> Callable[[], int]: ...
    def monotonic(self) -> float: ...
    def settings(self, worker: str) -> Settings: ...
    def paces(self, layout: Layout) -> dict[str, Pace]:
        """How much each stage takes per turn; stages left out find their own pace."""
        ...


class SimulatedWorker:
    """One process, with its disk. `driver` is None while it is down."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.fuse = Fuse()
        self.metrics, self.health = Metrics(), Health(clock=world.monotonic)
        self.directory: StateDirectory | None = None
        self.stores = self._disk()
        self.driver: Driver | None = None
        self.crashes = self.rejoins = 0
        self.restored: list[tuple[str, int]] = []
        """Task and changelog records of every restore that ended, over all drivers."""
        self.attempt = -1
        self.gone: list[GroupConsumer] = []
        """The last process's members, once it is gone."""

    def _disk(self) -> Stores:
        budget = CacheBudget(_CACHE_BYTES)
        if self.world.disk == "none":
            return Stores(None, budget, None)
        if self.world.disk == "rocks":
            self.directory = StateDirectory(self.world.directory(self.name))
            return RocksStores(self.directory, budget, RocksBudget(_ROCKS_BYTES), opened=self.world.opened)
        return KeptStores(
            None, budget, None, fuse=self.fuse, write_behind_ms=self.world.write_behind_ms, opened=self.world.opened
        )

    def wipe(self) -> None:
        """A new disk. The worker must be down."""
        if self.directory is None:
            self.stores = self._disk()
            return
        for stage, partition in self.directory.stores():
            self.directory.remove(stage, partition)

    def start(self) -> SimulatedWorker:
        """A new process comes up, as far as joining. Crash where the fuse burns down meanwhile."""
        world = self.world
        broker = FusedBroker(world.cluster, self.fuse)
        layout = lay_out(world.plan, broker)
        self.attempt += 1
        self.resources = Resources(
            layout,
            world.settings(self.name),
            broker,
            self.stores,
            self.metrics,
            self.health,
            world.clock,
            self.name,
            attempt=self.attempt,
            paces=world.paces(layout),
            monotonic=world.monotonic,
        )
        self.stages = layout.stages
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

    def _watch(self, assignment: Assignment) -> None:
        told: Callable[[Restore], bool] = assignment.restored

        def restored(restore: Restore) -> bool:
            done = told(restore)
            if done:
                self.restored.append((restore.task, restore.records))
            return done

        assignment.restored = restored  # type: ignore[method-assign]  # watched, for tests to tell a replay

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
                self._rejoin()
        except Crash:
            self.crash()
        return self.driver is not None

    def _rejoin(self) -> None:
        assert self.driver is not None, "it was running"
        self.rejoins += 1
        self.attempt += 1
        self.resources.attempt = self.attempt
        self.driver.abandon()
        self._new_driver()

    def crash(self) -> None:
        """Drops the driver; only the locks that a dead process does not hold any more are let go."""
        self.fuse.left = self.fuse.point = None
        self.crashes += 1
        driver, self.driver = self.driver, None
        if driver is not None:
            for task in self.tasks_of(driver):
                if task.state is not None:
                    task.state._behind.clear()  # memory dies with the process
                    task.state.close()
                for operator in task._operators:
                    if isinstance(operator, ConnectorSinkOperator):
                        operator.close()
            self._leave_behind(driver)

    def fail(self) -> None:
        """After an error that ends the worker: nothing more is committed, everything is closed."""
        driver, self.driver = self.driver, None
        if driver is not None:
            driver.abandon()
            self._leave_behind(driver)

    def stop(self) -> None:
        """A clean stop, within this call. Raises what a last commit may raise; the worker is still up then."""
        assert self.driver is not None, "it runs"
        self.driver._commit()
        self.driver.leave()
        self._leave_behind(self.driver)
        self.driver = None

    def _leave_behind(self, driver: Driver) -> None:
        """Members of a process that is gone: their places stay theirs until their sessions time out."""
        self.gone = [a.consumer for a in driver.assignments if hasattr(a, "consumer")]
        self.world.dead += self.gone

    def expel(self) -> None:
        """Its sessions time out although it lives: it learns of it in its next poll."""
        if self.driver is not None:
            for assignment in self.driver.assignments:
                self.world.cluster.expel(assignment.consumer)

    @staticmethod
    def tasks_of(driver: Driver) -> list[Task]:
        return [task for assignment in driver.assignments for task in assignment.tasks.values()]

    @property
    def tasks(self) -> dict[str, Task]:
        return {} if self.driver is None else {task.name: task for task in self.tasks_of(self.driver)}

    @property
    def restoring(self) -> bool:
        """Some of its tasks are not ready yet."""
        return self.driver is not None and bool(self.driver.restorer.running())

    @property
    def ended(self) -> bool:
        """The job has come to its end."""
        return self.driver is not None and self.driver.job_has_ended()

    def close(self) -> None:
        """The end of the test: whatever is open is closed, nothing is committed."""
        self.fuse.left = None
        if self.driver is not None:
            self.driver.abandon()
            self.driver = None
        if self.directory is not None:
            self.directory.close()
