"""From `env.execute()` to a running job: what a command line or a test puts in between.

In here: `Job` (what was drawn), `Launcher` (who runs it) and the launcher in force. `python job.py` uses `LocalLauncher`,
which runs one worker in this process; the command line installs its own. Not in here: which of a program's jobs it is
(`job_number.py`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from kstreampy.broker.broker import Broker
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.job_id import JobID
from kstreampy.datastream.job_number import Place, place_of, settings_of_job
from kstreampy.errors import JobError
from kstreampy.graph.compile import compile_plan
from kstreampy.graph.node import Graph
from kstreampy.graph.plan import Plan
from kstreampy.observe import log
from kstreampy.runtime.connect import broker_factory
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_source import find_file, resolve
from kstreampy.runtime.stop import StopSignal, stopping_by_signal

_log = logging.getLogger(__name__)


class Job:
    """One `execute()`: a graph and the settings that its code made. Owned by whoever launches it."""

    def __init__(
        self,
        name: str,
        graph: Graph,
        code_settings: dict[str, Any],
        parameters: dict[str, str],
        *,
        wants_exactly_once: bool = False,
        derive_uids: bool = True,
    ) -> None:
        self.name = name
        self.graph = graph
        self.code_settings = code_settings
        self.parameters = parameters
        self.wants_exactly_once = wants_exactly_once
        self.derive_uids = derive_uids
        self.job_id = JobID()
        self.stop: StopSignal | None = None
        self.placed = threading.Event()
        """Set once its number is known, or it has ended without one."""
        self.started = threading.Event()
        self.compiled: Plan | None = None
        self.connect: Callable[[], Broker] | None = None
        self.when_ended: list[Callable[[Job], None]] = []
        """Called once it has come to its end by itself."""
        self._place: Place | None = None

    def ended(self) -> None:
        """It was run without an error. What was stopped on the way has not come to its end."""
        plan, stop = self.compiled, self.stop
        if plan is None or not plan.bounded or stop is None or stop.requested():
            return
        if self._place is not None:
            self._place.complete()
        for call in self.when_ended:
            call(self)

    def over(self, *, cancelled: bool) -> None:
        """It runs no more, however it ended. `cancelled`: by the program itself."""
        if self._place is not None and not cancelled:
            self._place.leave()
        self.placed.set()
        self.started.set()

    def own(self, settings: Settings) -> Settings:
        """The settings that it runs with on Kafka: those of its number among the jobs that this process runs under the
        application id, so that nothing there (positions, state, collected results) is taken for another job's. In memory,
        where nothing outlives a job, they are the same for all. Called once, by the launcher."""
        if settings.bootstrap_servers is not None:
            self._place = place_of(settings.application_id, self.plan(settings).explain("json"))
            settings = settings_of_job(settings, self._place.number)
        self.placed.set()
        return settings

    def plan(self, settings: Settings) -> Plan:
        """The job as it would run with these settings. JobError when it cannot."""
        if settings.guarantee == "at_least_once" and self.wants_exactly_once:
            raise JobError(
                "a sink asks for DeliveryGuarantee.EXACTLY_ONCE, but the job's guarantee is at_least_once: "
                "set guarantee to exactly_once, or ask for less at the sink"
            )
        return compile_plan(
            self.graph,
            name=self.name,
            application_id=settings.application_id,
            key_groups=settings.max_parallelism,
            parameters=self.parameters,
            derive_uids=self.derive_uids,
        )

    def attach(self, plan: Plan, settings: Settings, stop: StopSignal) -> Callable[[], Broker]:
        """Called by the launcher when a worker is about to start: from now on the job can be stopped, and its results
        read. Returns what the worker connects with."""
        if self._place is not None and self._place.number > 1:
            _log.info("job %d of this program runs as the application %s", self._place.number, plan.application_id)
        self.compiled = plan
        self.stop = stop
        self.connect = broker_factory(plan, settings)
        self.started.set()
        return self.connect


class Launcher(Protocol):
    def launch(self, job: Job) -> JobExecutionResult:
        """Runs the job to its end (or does with it whatever the command is for)."""
        ...


class LocalLauncher:
    """Runs one worker in this process: `python job.py`, a notebook, a test. Settings come from the code, a
    `kstreampy.toml` beside the job, and the environment."""

    def launch(self, job: Job) -> JobExecutionResult:
        with log.restored():
            return self._launch(job)

    def _launch(self, job: Job) -> JobExecutionResult:
        from kstreampy.runtime.process import run_process  # RocksDB and the Kafka client load only when a job runs

        script = Path(sys.argv[0]) if sys.argv and sys.argv[0].endswith(".py") else None
        file = find_file(script, None, os.environ)
        name = script.stem if script is not None else job.name
        settings = job.own(resolve(job.code_settings, file, os.environ, {}, job_name=name).settings)
        log.setup(settings.log_level, settings.log_format, secrets=settings.secrets())
        if settings.workers > 1:
            _log.warning("this process is one worker of the %d asked for: `kstreampy run` starts all", settings.workers)
        plan = job.plan(settings)
        stop = StopSignal(settings.shutdown_timeout_s)
        began = time.monotonic()
        in_main = threading.current_thread() is threading.main_thread()
        with stopping_by_signal(stop) if in_main else contextlib.nullcontext():
            run_process(plan, settings, job.attach(plan, settings, stop), stop)
        return JobExecutionResult(job.job_id, int((time.monotonic() - began) * 1000))


_in_force: ContextVar[Launcher | None] = ContextVar("launcher", default=None)


def launcher() -> Launcher:
    """The launcher that `execute()` calls."""
    return _in_force.get() or LocalLauncher()


@contextlib.contextmanager
def use(chosen: Launcher) -> Iterator[None]:
    """Puts a launcher in force for the block."""
    token = _in_force.set(chosen)
    try:
        yield
    finally:
        _in_force.reset(token)


__all__ = ["Job", "JobExecutionResult", "Launcher", "LocalLauncher", "launcher", "use"]
