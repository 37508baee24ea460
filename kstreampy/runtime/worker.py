"""One process's work: opens what is shared, runs drivers until the job ends, and decides what an error leads to.

In here: the reactions. Fenced or lost: a new driver joins. Broker away: wait, not ready meanwhile, give up after a bound.
Store damaged: set aside, a new driver rebuilds it. Anything else ends the worker, with nothing half committed.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable

from kstreampy.broker.broker import Broker
from kstreampy.broker.memory import MemoryBroker
from kstreampy.errors import BrokerUnavailable, JobError, StateCorrupted, TaskMigrated
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime.driver import Driver
from kstreampy.runtime.layout import Layout, StageLayout, lay_out
from kstreampy.runtime.query_route import StateService
from kstreampy.runtime.resources import Resources, Stores
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.task import now_ms
from kstreampy.state.budget import CacheBudget
from kstreampy.state.directory import StateDirectory
from kstreampy.state.rocks import RocksBudget

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_FIRST_CONTACT_S = 20.0
_GC_THRESHOLD = (50_000, 20, 50)


def run_worker(
    plan: Plan,
    settings: Settings,
    *,
    connect: Callable[[], Broker],
    stop: StopSignal,
    metrics: Metrics | None = None,
    health: Health | None = None,
    states: StateService | None = None,
    clock: Callable[[], int] = now_ms,
) -> None:
    """Runs the plan until it ends by itself or `stop` is requested; everything is committed when it returns. Raises what
    made it impossible to go on (see `errors.py`), and then nothing uncommitted is left behind."""
    metrics = metrics or Metrics()
    health = health or Health(stall_s=settings.stall_timeout_s)
    patience = Patience(settings.broker_timeout_s, stop, metrics, health)
    broker = connect()
    directory: StateDirectory | None = None
    try:
        in_memory = isinstance(broker, MemoryBroker)
        if not in_memory:
            directory = StateDirectory(settings.state_dir)
            for warning in plan.warnings():
                _log.warning("%s", warning)
        layout = patience.until_answered(
            lambda: lay_out(plan, broker), min(settings.broker_timeout_s, _FIRST_CONTACT_S)
        )
        if layout is None:
            return
        worker_id = settings.worker_id or (directory.worker_id if directory else "memory")
        metrics.worker(settings.application_id, worker_id, settings.guarantee)
        memory = settings.memory
        rocks = RocksBudget(memory.store_bytes) if directory is not None else None
        stores = Stores(directory, CacheBudget(memory.cache_bytes), rocks)
        resources = Resources(layout, settings, broker, stores, metrics, health, clock, worker_id)
        if states is not None:
            resources.queries = states.desk
            states.opened(layout, broker)
        _drive(resources, _stages(resources), stop, patience, in_memory=in_memory)
    finally:
        if states is not None:
            states.closed()
        broker.close()
        if directory is not None:
            directory.close()


def _stages(resources: Resources) -> tuple[StageLayout, ...]:
    """The stages this worker runs: all, or those named."""
    wanted = resources.settings.stages
    layouts = resources.layout.stages
    unknown = sorted(set(wanted) - {layout.stage.uid for layout in layouts})
    if unknown:
        known = ", ".join(layout.stage.uid for layout in layouts)
        raise JobError(f"no stage {', '.join(repr(name) for name in unknown)} in this job: its stages are {known}")
    return tuple(layout for layout in layouts if not wanted or layout.stage.uid in wanted)


class Patience:
    """How long a broker that does not answer is waited for. Lives as long as the worker."""

    def __init__(self, bound_s: float, stop: StopSignal, metrics: Metrics, health: Health) -> None:
        self._bound_s = bound_s
        self._stop = stop
        self._metrics = metrics
        self._health = health
        self._away_since: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def until_answered(self, ask: Callable[[], Layout], bound_s: float) -> Layout | None:
        """The first contact: a shorter bound, since a wrong address is likelier than a cluster that is away. Not tried again
        where that would take longer than is left. None if the worker was told to stop meanwhile."""
        began = time.monotonic()
        while not self._stop.requested():
            asked = time.monotonic()
            try:
                return ask()
            except BrokerUnavailable as error:
                if self._stop.requested():
                    break
                now = time.monotonic()
                left = bound_s - (now - began)
                if left <= now - asked:
                    raise
                self._lost(error, left)
                self._stop.wait(min(_FIRST_PAUSE_S * 5, left))
        return None

    def answered(self) -> None:
        self._health.broker_found()
        self._metrics.broker_up(True)

    def well_since(self, began: float) -> None:
        """A driver had begun at `began` and has ended: if it ran for a while, the next trouble is a new one."""
        if time.monotonic() - began > _LONGEST_PAUSE_S * 4:
            self._away_since = None
            self._pause_s = _FIRST_PAUSE_S

    def away(self, error: BrokerUnavailable) -> None:
        """Once more no answer. Raises the error when it has been long enough."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
        left = self._bound_s - (now - self._away_since)
        if left <= 0 or self._stop.requested():
            raise error
        self._lost(error, left)

    def _lost(self, error: BrokerUnavailable, left_s: float) -> None:
        self._health.broker_lost(str(error))
        self._metrics.broker_up(False)
        _log.warning("the broker is unavailable (%s): trying for another %.0f s", error, left_s)

    def pause(self) -> None:
        self._stop.wait(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


def _drive(
    resources: Resources, stages: tuple[StageLayout, ...], stop: StopSignal, patience: Patience, *, in_memory: bool
) -> None:
    """Drivers, one after another, until one ends well."""
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLD)
    try:
        while True:
            began = time.monotonic()
            try:
                driver = Driver(resources, stages, stop, in_memory=in_memory)
                patience.answered()
                began = time.monotonic()
                driver.run()
                return
            except TaskMigrated as error:
                _log.warning("rejoining: %s", error)
                patience.well_since(began)
            except StateCorrupted as error:
                patience.well_since(began)
                if not resources.stores.set_aside_damaged(error):
                    raise
            except BrokerUnavailable as error:
                patience.well_since(began)
                patience.away(error)
            if stop.requested():
                _log.warning("stopping without a last checkpoint: what was not committed is redone at the next start")
                return
            resources.attempt += 1
            patience.pause()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
