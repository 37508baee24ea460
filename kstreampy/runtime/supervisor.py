"""The parent of several workers on one machine (`workers` > 1): starts them, passes signals on, ends when
they end.

In here: the processes. Each child is the very same command as the parent's with `KSTREAMPY_WORKER` in its
environment, from which it learns that it is one worker of several (`membership`) and what is its own
(`settings_of_worker`). Not in here: what a worker does. Which worker has which task is decided by Kafka's
groups, not by the parent.

A child that fails ends the whole command with the child's exit code, after the others were stopped
gracefully: whoever started the command starts it again. With the setting `restart_workers` the child alone is
started again, unless it says that the job or the broker's answer is wrong. A parent that is killed takes its
children along: each holds the read end of a pipe of the parent's, and stops when it closes.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kstreampy.errors import BrokerRefused, JobError, ShutdownTimeout
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_memory import default_state_memory_bytes
from kstreampy.runtime.settings_source import WORKER_VARIABLE
from kstreampy.runtime.stop import StopSignal

_log = logging.getLogger(__name__)

_NEVER_RESTARTED: Final = (JobError.exit_code, BrokerRefused.exit_code)
_LONGEST_PAUSE_S: Final = 30.0
_STEADY_S: Final = 60.0
"""A child that ran so long has its pauses counted from the shortest again."""
_TURN_S: Final = 0.05
PARENT_GRACE_S: Final = 2.0
"""Parents wait this much longer than the budget that each child's own watchdog keeps."""


@dataclass(frozen=True)
class Membership:
    """What a child knows of its place: worker `index` of `count`, and the pipe that closes when the parent
    ends."""

    index: int
    count: int
    parent_pipe: int


@functools.cache
def membership() -> Membership | None:
    """This process's place among a supervisor's children, or None. The first call takes it out of the
    environment, so that programs started by the job do not inherit it, and begins to watch the parent."""
    place = parse_membership(os.environ.pop(WORKER_VARIABLE, None))
    if place is not None:
        watch_parent(place.parent_pipe)
    return place


def parse_membership(text: str | None) -> Membership | None:
    """`index/count/pipe`; None where there is nothing. JobError for anything else."""
    if not text:
        return None
    parts = text.split("/")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise JobError(f"{WORKER_VARIABLE} is set by kstreampy for its own workers: unset it (it is {text!r})")
    return Membership(*(int(part) for part in parts))


def watch_parent(pipe: int) -> None:
    """Stops this process, as a SIGTERM would, when the pipe's other end closes."""
    os.set_inheritable(pipe, False)

    def watch() -> None:
        try:
            while os.read(pipe, 1):
                pass
        except OSError as error:
            _log.warning("the supervisor cannot be watched (%s)", error)
            return
        _log.warning("the supervisor is gone: stopping")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="kstreampy-parent", daemon=True).start()


def settings_of_worker(settings: Settings, index: int, count: int) -> Settings:
    """The settings of one of several workers on a machine: a state directory, port and name of its own, and
    its share of the memory where none was set."""
    own: dict[str, object] = {"workers": 1, "state_dir": settings.state_dir / f"worker-{index}"}
    if settings.http_port is not None:
        port = settings.http_port + index
        if port > 65535:
            raise JobError(f"worker {index} would serve on port {port}: choose a lower http_port")
        own["http_port"] = port
    if settings.worker_id is not None:
        own["worker_id"] = f"{settings.worker_id}-{index}"
    if settings.state_memory_bytes is None:
        own["state_memory_bytes"] = default_state_memory_bytes(count)
    return settings.model_copy(update=own)


def same_command() -> list[str]:
    """The command that started this process, to be started again."""
    return [sys.executable, *sys.orig_argv[1:]]


@dataclass
class _Child:
    """One worker and its history. `starts_at` is set while it waits to be started again."""

    index: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    starts_at: float | None = None
    failures: int = 0
    ended: bool = False


class Supervisor:
    """Runs `count` children of one command until all have ended. Owned by the parent process, lives as long
    as it."""

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        stop: StopSignal,
        *,
        restart: bool = False,
        environment: Mapping[str, str] | None = None,
        pause_s: float = 1.0,
    ) -> None:
        self._command = list(command)
        self._stop = stop
        self._restart = restart
        self._environment = dict(os.environ if environment is None else environment)
        self._pause_s = pause_s
        self._children = [_Child(index) for index in range(count)]
        self._exit_code = 0
        self._told_to_stop = False

    def run(self) -> int:
        """Blocks until all children have ended; the exit code for the whole: 0, or that of the child that
        failed first.

        When `stop` is requested the children get SIGTERM, and SIGKILL if they are still there at its
        deadline.
        """
        self._pipe, parent_end = os.pipe()
        try:
            for child in self._children:
                self._start(child)
            while not all(child.ended for child in self._children):
                self._turn()
        finally:
            self._kill_all()
            os.close(self._pipe)
            os.close(parent_end)
        return self._exit_code

    def _turn(self) -> None:
        for child in self._children:
            if child.process is not None and (code := child.process.poll()) is not None:
                self._ended(child, code)
            elif child.starts_at is not None and time.monotonic() >= child.starts_at:
                self._start(child)
        if self._stop.requested():
            self._pass_on()
            if self._stop.remaining_s() <= PARENT_GRACE_S / 2:
                self._overdue()
            time.sleep(_TURN_S)
        else:
            self._stop.wait(_TURN_S)

    def _start(self, child: _Child) -> None:
        place = f"{child.index}/{len(self._children)}/{self._pipe}"
        # A session of its own: Ctrl-C in a terminal goes to every process of the parent's group, and a child
        # that is also told by the parent would take the second signal for "at once".
        child.process = subprocess.Popen(
            self._command,
            env={**self._environment, WORKER_VARIABLE: place},
            pass_fds=(self._pipe,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        child.started_at, child.starts_at = time.monotonic(), None
        _log.info("worker %d started (process %d)", child.index, child.process.pid)

    def _ended(self, child: _Child, returncode: int) -> None:
        child.process = None
        code = returncode if returncode >= 0 else 128 - returncode
        if returncode == -signal.SIGTERM and self._told_to_stop:
            code = 0  # told before it could listen: it had done nothing yet
        if code == 0:
            child.ended = True
            return
        if self._restart and code not in _NEVER_RESTARTED and not self._stop.requested():
            self._restart_later(child, code)
            return
        child.ended = True
        if self._exit_code == 0:
            self._exit_code = code
        if not self._stop.requested():
            _log.error("worker %d ended with code %d: stopping the others", child.index, code)
            self._stop.request(f"worker {child.index} ended with code {code}")

    def _restart_later(self, child: _Child, code: int) -> None:
        now = time.monotonic()
        child.failures = 1 if now - child.started_at > _STEADY_S else child.failures + 1
        pause_s = min(self._pause_s * 2 ** (child.failures - 1), _LONGEST_PAUSE_S)
        child.starts_at = now + pause_s
        _log.error("worker %d ended with code %d: starting it again in %.1f s", child.index, code, pause_s)

    def _pass_on(self) -> None:
        if self._told_to_stop:
            return
        self._told_to_stop = True
        for child in self._children:
            if child.process is None:
                child.ended = True
            else:
                child.process.send_signal(signal.SIGTERM)

    def _overdue(self) -> None:
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                _log.error("worker %d has not stopped within its budget: killed", child.index)
                child.process.kill()
                child.process.wait()
                child.process, child.ended = None, True
                self._exit_code = self._exit_code or ShutdownTimeout.exit_code

    def _kill_all(self) -> None:
        """Nothing is left to kill on the ordinary way; this is for an error in the parent."""
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                child.process.kill()
                child.process.wait()


def supervise(settings: Settings, stop: StopSignal) -> int:
    """Runs `settings.workers` children of this process's own command; the exit code to end with."""
    _log.info("starting %d workers of %s", settings.workers, settings.application_id)
    return Supervisor(same_command(), settings.workers, stop, restart=settings.restart_workers).run()
