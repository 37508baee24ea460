"""From `env.execute()` to a running job: what a command line or a test puts in between.

In here: `Job` (what was drawn), `Launcher` (who runs it) and the launcher in force. `python job.py` uses `LocalLauncher`,
which runs one worker in this process; the command line installs its own.
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
        number: int = 1,
    ) -> None:
        """`number`: which of its environment's jobs it is."""
        self.name = name
        self.number = number
        self.graph = graph
        self.code_settings = code_settings
        self.parameters = parameters
        self.wants_exactly_once = wants_exactly_once
        self.derive_uids = derive_uids
        self.job_id = JobID()
        self.stop: StopSignal | None = None
        self.started = threading.Event()
        self.compiled: Plan | None = None
        self.connect: Callable[[], Broker] | None = None
        self.when_ended: list[Callable[[Job], None]] = []
        """Called once it has come to its end by itself."""

    def ended(self) -> None:
        """It was run without an error. What was stopped on the way has not come to its end."""
        plan, stop = self.compiled, self.stop
        if plan is None or not plan.bounded or stop is None or stop.requested():
            return
        for call in self.when_ended:
            call(self)

    def own(self, settings: Settings) -> Settings:
        """The settings with an application id of the job's own: what an environment runs later is another application than
        its first job, so that nothing on Kafka (positions, state, collected results) is taken for the other's."""
        if self.number == 1:
            return settings
        return settings.model_copy(update={"application_id": f"{settings.application_id}-job-{self.number}"})

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
