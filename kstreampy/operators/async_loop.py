"""The event loop that coroutines of users run in: one per process, in a thread of its own, while somebody needs it.

In here: `LoopThread`, and who has it (`join_loop`, `leave_loop`). Not in here: what runs in it (`async_flight.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
import select
import selectors
import sys
import threading
from collections.abc import Callable
from typing import Any

from kstreampy.errors import KStreamError

_LAST_WORDS_S = 1.0
"""How long what was cancelled may take to clean up."""
_JOIN_S = 5.0
_SWITCH_S = 0.0005
"""How long one thread of the process may keep the others waiting while somebody uses the loop. With Python's own 5 ms, calls
of a few ms would wait longer for the driver's thread, when that is busy, than for their answers."""
_MOST_SELECTED = 1024
_SHORT_S = 0.05
_SET_TIMER_SLACK = 29
"""`PR_SET_TIMERSLACK` of Linux's prctl."""
_SLACK_NS = 1_000


if sys.platform == "linux":

    class PreciseSelector(selectors.EpollSelector):
        """Waits for less than a millisecond where it is asked to: epoll itself rounds up, which costs calls of a few ms a
        tenth of their speed."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            number = self.fileno()
            if timeout is not None and 0 < timeout < _SHORT_S and number < _MOST_SELECTED:
                select.select([number], [], [], timeout)
                timeout = 0
            return super().select(timeout)


def _wait_precisely() -> None:
    """For the calling thread: Linux lets waits last up to 50 µs longer than asked for, to wake up less often. Where that
    cannot be changed it stays so."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, ctypes.c_ulong(_SLACK_NS), 0, 0, 0)


def _new_loop() -> asyncio.AbstractEventLoop:
    """Precise, unless the job has chosen another kind of loop."""
    loop = asyncio.new_event_loop()
    if sys.platform == "linux" and type(loop) is asyncio.SelectorEventLoop:
        loop.close()
        return asyncio.SelectorEventLoop(PreciseSelector())
    return loop


class LoopThread:
    """An event loop at work. Ends with its last user."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self.switch_s = sys.getswitchinterval()
        """What it was before."""
        self.users = 0
        self._thread = threading.Thread(target=self._run, name="async functions", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        loop = self.loop
        _wait_precisely()
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            loop.run_until_complete(cancelled(asyncio.all_tasks(loop)))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, function: Callable[[], Any]) -> Any:
        """Calls a function, which may be a coroutine function, in the loop, and waits. Raises what it raises."""
        try:
            result, error = asyncio.run_coroutine_threadsafe(_outcome(function), self.loop).result()
        except RuntimeError as stopped:
            raise KStreamError("the event loop of the async functions has ended") from stopped
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        """Ends the thread. From another thread, waits a while for that."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_S)


async def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What it returned and raised. An event loop that saw a SystemExit would end."""
    try:
        result = function()
        return (await result if inspect.isawaitable(result) else result), None
    except BaseException as error:
        return None, error


async def cancelled(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancels them and lets them clean up, for a while."""
    tasks = {task for task in tasks if task is not asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_LAST_WORDS_S)


_shared: LoopThread | None = None
_lock = threading.Lock()


def join_loop() -> LoopThread:
    """The loop of this process; starts it for the first user."""
    global _shared
    with _lock:
        if _shared is None or not _shared.is_alive():
            _shared = LoopThread()
            sys.setswitchinterval(min(_shared.switch_s, _SWITCH_S))
        _shared.users += 1
        return _shared


def leave_loop(thread: LoopThread) -> None:
    """Of one user; stops the loop behind the last one."""
    global _shared
    with _lock:
        thread.users -= 1
        last = thread.users == 0
        if last and thread is _shared:
            _shared = None
            sys.setswitchinterval(thread.switch_s)
    if last:
        thread.stop()
