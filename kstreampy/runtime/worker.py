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
from kstreampy.runtime.layout import StageLayout, lay_out
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
_GC_THRESHOLD = (50_000, 20, 50)


def run_worker(
    plan: Plan,
    settings: Settings,
    *,
    connect: Callable[[], Broker],
    stop: StopSignal,
    metrics: Metrics | None = None,
    health: Health | None = None,
    clock: Callable[[], int] = now_ms,
) -> None:
    """Runs the plan until it ends by itself or `stop` is requested; everything is committed when it returns. Raises what
    made it impossible to go on (see `errors.py`), and then nothing uncommitted is left behind."""
    metrics = metrics or Metrics()
    health = health or Health(stall_s=settings.stall_timeout_s)
    for warning in plan.warnings():
        _log.warning("%s", warning)
    broker = connect()
    directory: StateDirectory | None = None
    try:
        in_memory = isinstance(broker, MemoryBroker)
        if not in_memory:
            directory = StateDirectory(settings.state_dir)
        layout = lay_out(plan, broker)
        worker_id = settings.worker_id or (directory.worker_id if directory else "memory")
        metrics.worker(settings.application_id, worker_id, settings.guarantee)
        memory = settings.memory
        stores = Stores(
            directory,
            CacheBudget(memory.cache_bytes),
            RocksBudget(memory.store_bytes) if directory is not None else None,
        )
        resources = Resources(layout, settings, broker, stores, metrics, health, clock, worker_id)
        _drive(resources, _stages(resources), stop, in_memory=in_memory)
    finally:
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


def _drive(resources: Resources, stages: tuple[StageLayout, ...], stop: StopSignal, *, in_memory: bool) -> None:
    """Drivers, one after another, until one ends well."""
    away_since: float | None = None
    pause_s = _FIRST_PAUSE_S
    thresholds = gc.get_threshold()
    try:
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLD)
        while True:
            began = time.monotonic()
            try:
                driver = Driver(resources, stages, stop, in_memory=in_memory)
                resources.health.broker_found()
                resources.metrics.broker_up(True)
                driver.run()
                return
            except TaskMigrated as error:
                _log.warning("rejoining: %s", error)
                away_since = None
            except StateCorrupted as error:
                resources.stores.set_aside_damaged(error)
                away_since = None
            except BrokerUnavailable as error:
                now = time.monotonic()
                away_since = now if away_since is None or now - began > _LONGEST_PAUSE_S * 4 else away_since
                bound_s = resources.settings.broker_timeout_s
                if stop.requested() or now - away_since >= bound_s:
                    raise
                resources.health.broker_lost(str(error))
                resources.metrics.broker_up(False)
                _log.warning(
                    "the broker is unavailable (%s): trying again for %.0f s", error, bound_s - (now - away_since)
                )
            if stop.requested():
                _log.warning("stopping without a last checkpoint: what was not committed is redone at the next start")
                return
            resources.attempt += 1
            pause_s = _FIRST_PAUSE_S if time.monotonic() - began > 30 else min(pause_s * 2, _LONGEST_PAUSE_S)
            stop.wait(pause_s)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
