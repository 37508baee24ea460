"""How a process is asked to stop, and how it is made to: signals, the shutdown budget and its watchdog.

In here: the request (`StopSignal`), and `stopping_by_signal`, which turns SIGTERM and SIGINT into it. Not in
here: what a worker does to stop (`driver.py`), and the stopping of other processes (`supervisor.py`).

    running --first signal, or request()--> stopping --worker closes--> ended (its own exit code)
                                               |
                                               +--second signal--> ended at once, 128 + signal
                                               +--budget spent---> ended by the watchdog, 8

Signals are taken by a thread: Python runs a signal's handler only when the main thread comes back from
whatever C call it is in, and a commit to a broker that is gone does not come back for long. The handler
itself does nothing; the bytes that the interpreter writes to the wakeup pipe wake the thread.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final, NoReturn

from kstreampy.errors import ShutdownTimeout

_log = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_WAKE: Final = b"\0"
"""Written by us; the interpreter writes signal numbers, which are never 0."""


class StopSignal:
    """A request to stop, made once, and the time left for it. Of one process or one job; safe from any
    thread, but not from inside a signal handler."""

    def __init__(self, budget_s: float = 25.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget_s = budget_s
        self._clock = clock
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._deadline = float("inf")
        self._listeners: list[Callable[[], None]] = []

    def set_budget(self, budget_s: float) -> None:
        """Another budget than at construction; without effect once the stop is requested."""
        self._budget_s = budget_s

    def requested(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why, or None while nobody has asked."""
        return self._reason

    def request(self, reason: str) -> None:
        """Asks to stop; the budget begins. Only the first request counts."""
        with self._lock:
            if self._reason is not None:
                return
            self._deadline = self._clock() + self._budget_s
            self._reason = reason
            listeners = list(self._listeners)
        self._event.set()
        for listener in listeners:
            listener()

    def remaining_s(self) -> float:
        """Seconds left to stop in: infinite before the request, never below 0."""
        return max(self._deadline - self._clock(), 0.0)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Sleeps until the request, or for the time given. True when requested."""
        return self._event.wait(timeout_s)

    def on_request(self, listener: Callable[[], None]) -> None:
        """`listener` is called once, by the thread that makes the request; at once when that has happened
        already."""
        with self._lock:
            if self._reason is None:
                self._listeners.append(listener)
                return
        listener()


@contextlib.contextmanager
def stopping_by_signal(stop: StopSignal, *, until_exit: bool = False) -> Iterator[None]:
    """While inside, the first SIGTERM or SIGINT requests the stop, a second one ends the process at once, and
    so does the watchdog when the budget of the stop is spent.

    With `until_exit`, a stop that was requested keeps its watchdog (and its second signal) after the block
    too: the process is meant to end then. Outside the main thread signals cannot be taken, and only the
    watchdog is there.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wake = _waker(writer)
    stop.on_request(wake)
    done = threading.Event()
    restore = _take_signals(writer)
    thread = threading.Thread(target=_watch, args=(stop, reader, done), name="kstreampy-stop", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if not (until_exit and stop.requested()):
            restore()
            done.set()
            wake()
            thread.join()
            os.close(reader)
            os.close(writer)


def _waker(writer: int) -> Callable[[], None]:
    def wake() -> None:
        # Full means that the thread has plenty to wake for; closed means that it is gone.
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(writer, _WAKE)

    return wake


def _take_signals(writer: int) -> Callable[[], None]:
    """Points the interpreter's wakeup pipe here; returns what undoes it."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    handlers = {number: signal.signal(number, _nothing) for number in _SIGNALS}
    pipe = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def restore() -> None:
        signal.set_wakeup_fd(pipe)
        for number, handler in handlers.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    return restore


def _nothing(number: int, frame: FrameType | None) -> None:
    """The thread has been told through the pipe."""


def _watch(stop: StopSignal, reader: int, done: threading.Event) -> None:
    while not done.is_set():
        left = stop.remaining_s()
        ready, _, _ = select.select([reader], [], [], None if left == float("inf") else left)
        if not ready:
            if stop.remaining_s() <= 0:
                _end_overdue(stop)
            continue
        for number in os.read(reader, 64):
            if number in _SIGNALS:
                _take(stop, signal.Signals(number))


def _take(stop: StopSignal, number: signal.Signals) -> None:
    if stop.requested():
        end_at_once(128 + number, f"{number.name} again ({stop.reason} came first): ending at once")
    _log.info("%s: stopping within %.0f s", number.name, stop._budget_s)
    stop.request(number.name)


def _end_overdue(stop: StopSignal) -> NoReturn:
    with contextlib.suppress(Exception):  # standard error may be closed or no file
        faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    end_at_once(
        ShutdownTimeout.exit_code,
        f"not stopped within {stop._budget_s:g} s of {stop.reason}: ended by the watchdog; "
        "what was not committed will be done again. Above is where each thread was",
    )


def end_at_once(code: int, message: str) -> NoReturn:
    """Ends the process from any thread, with a message and without any clean-up."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"kstreampy: {message}\n")
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(code)
