"""One worker as a process has it: its metrics, its probes, its HTTP server, and its exit.

In here: what `kstreampy run` and `python job.py` have in common. Not in here: signals (`stop.py`), several workers
(`supervisor.py`), the work itself (`worker.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from kstreampy.broker.broker import Broker
from kstreampy.errors import KStreamError
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.http import HttpServer
from kstreampy.observe.metrics import Metrics
from kstreampy.observe.state_page import StatePages
from kstreampy.runtime import allocator, open_files
from kstreampy.runtime.query_route import StateService
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.worker import run_worker


def run_process(plan: Plan, settings: Settings, connect: Callable[[], Broker], stop: StopSignal) -> None:
    """Runs a worker with its HTTP server, if a port is set. A function of the job that calls `sys.exit()` has ended the
    worker before its time: that is a failure, whatever code it chose."""
    allocator.tune()
    open_files.allow_many()
    metrics, health = Metrics(), Health(stall_s=settings.stall_timeout_s)
    states = StateService(settings.http_token)
    stop.on_request(lambda: health.stopping(str(stop.reason)))
    with contextlib.ExitStack() as stack:
        if settings.http_port is not None:
            pages = StatePages(states.get, settings.http_token)
            stack.enter_context(HttpServer(settings.http_host, settings.http_port, metrics, health, pages))
        try:
            run_worker(plan, settings, connect=connect, stop=stop, metrics=metrics, health=health, states=states)
        except SystemExit as error:
            if error.code:
                raise
            raise KStreamError("a function of the job called sys.exit(): the worker ended too early") from error
