"""`kstreampy run job.py`: runs a job's worker, or several of them.

In here: from the drawn job to a running worker: settings, logging, metrics server, signals. Not in here: the
worker (`kstreampy/runtime/worker.py`) and the parent of several (`kstreampy/runtime/supervisor.py`).
"""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Iterator

from kstreampy.datastream.job_file import never_executed
from kstreampy.datastream.launch import Job, JobExecutionResult
from kstreampy.graph.plan import Plan
from kstreampy.observe import log
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_source import Resolved
from kstreampy.runtime.stop import StopSignal, end_at_once, stopping_by_signal
from kstreampy.runtime.supervisor import PARENT_GRACE_S, membership, settings_of_worker, supervise

from .invocation import Invocation
from .options import Arguments, JobFile, Overrides

_log = logging.getLogger("kstreampy.run")


def run(job: JobFile, *, arguments: Arguments = None, overrides: Overrides) -> None:
    """Run a job until it ends or is told to stop (SIGTERM, Ctrl-C)."""
    membership()  # a supervisor's child watches its parent from the very beginning
    invocation = Invocation(job, tuple(arguments or ()), overrides)
    launcher = RunLauncher(invocation)
    with log.restored(), stopping_by_signal(launcher.stop, until_exit=True):
        invocation.run_file(launcher)
        launcher.conclude()


class RunLauncher:
    """Runs each job that the file executes, and remembers how the last one ended. Owned by the process.

    `stop` is the process's, asked by signals; it asks the jobs that run then. Each job has a signal of its
    own beside it, since a job's client may cancel that job alone. Jobs run in the thread that executes them.
    """

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._launched = 0
        self._failure: BaseException | None = None
        self._running: list[StopSignal] = []
        self._changed = threading.Condition()
        self._supervising = threading.Lock()
        self._exit_code: int | None = None
        self.stop = StopSignal()
        self.stop.on_request(self._pass_on)

    def launch(self, job: Job) -> JobExecutionResult:
        if self.stop.requested():
            raise SystemExit(0)  # stopped in a job before this one
        self._launched += 1
        self._failure = None
        began = time.monotonic()
        try:
            self._run(job)
        except BaseException as error:
            self._failure = error
            raise
        return JobExecutionResult(job.job_id, int((time.monotonic() - began) * 1000))

    def conclude(self) -> None:
        """The job file came to its end: waits for jobs that it left running. Raises what the last job failed
        with, should the file have kept it to itself (a crash never exits 0). JobError when the file executed
        nothing."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        if self._failure is not None:
            raise self._failure
        if self._launched == 0:
            raise never_executed(self._invocation.job_file)

    def _pass_on(self) -> None:
        with self._changed:
            running = list(self._running)
        reason = str(self.stop.reason)
        for stop in running:
            stop.request(reason)
        if not running:
            number = signal.Signals[reason]
            end_at_once(128 + number, f"ended by {reason} while no job was running")

    @contextlib.contextmanager
    def _counted(self, stop: StopSignal) -> Iterator[None]:
        """While inside, the job is one that a signal stops."""
        with self._changed:
            self._running.append(stop)
        if self.stop.requested():
            stop.request(str(self.stop.reason))
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(stop)
                self._changed.notify_all()

    def _run(self, job: Job) -> None:
        resolved = self._invocation.resolve(job)
        settings = job.own(resolved.settings)
        if (place := membership()) is not None:
            settings = settings_of_worker(settings, place.index, place.count)
        self._set_up_log(resolved, settings)
        if settings.workers > 1 and settings.bootstrap_servers is None:
            _log.warning("without a broker there is one worker, not %d", settings.workers)
            settings = settings.model_copy(update={"workers": 1})
        plan = job.plan(settings)
        budget_s = settings.shutdown_timeout_s + (PARENT_GRACE_S if settings.workers > 1 else 0)
        self.stop.set_budget(budget_s)
        stop = StopSignal(budget_s)
        with self._counted(stop):
            if settings.workers > 1:
                raise SystemExit(self._supervised(settings, stop))
            _work(job, plan, settings, stop)

    def _supervised(self, settings: Settings, stop: StopSignal) -> int:
        """The exit code of the children. They are started once: each runs the whole file, with all of its jobs."""
        with self._supervising:
            if self._exit_code is None:
                self._exit_code = supervise(settings, stop)
            return self._exit_code

    def _set_up_log(self, resolved: Resolved, settings: Settings) -> None:
        place = membership()
        context = {"worker": place.index} if place is not None else {}
        log.setup(settings.log_level, settings.log_format, secrets=settings.secrets(), context=context)
        for name, value, origin in resolved.rows():
            if origin != "default":
                _log.debug("setting %s = %s (%s)", name, value, origin)


def _work(job: Job, plan: Plan, settings: Settings, stop: StopSignal) -> None:
    """Runs one worker in this process."""
    from kstreampy.runtime.process import run_process  # brings RocksDB and the Kafka client: only workers need them

    run_process(plan, settings, job.attach(plan, settings, stop), stop)
