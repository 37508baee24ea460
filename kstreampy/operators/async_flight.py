"""The calls of one asynchronous step that are under way: the side of it that lives in the event loop.

In here: `Element` (a record that is asked about), and `Flight`, which makes the calls, as many at a time as there is capacity
for, ends those that take too long and makes again those that are to be retried. Not in here: in which order results go on
(`async_order.py`), and the operator (`async_io.py`).

Two threads meet here. The driver's hands elements over (`launch`) and takes those that are done (`finished`); all else is done
by the loop's. What passes between them passes through deques, whose ends are safe to use from both sides; each counter is
changed by one of them only; `Element.done` is set last.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.types import Row
from kstreampy.errors import KStreamError
from kstreampy.operators.async_function import AsyncFunction, AsyncFunctionDescriptor
from kstreampy.operators.async_loop import LoopThread, cancelled, join_loop, leave_loop
from kstreampy.operators.async_retry import NoRetryStrategy, Retry
from kstreampy.operators.function import detached, settle

if TYPE_CHECKING:
    from kstreampy.operators.async_order import Section
    from kstreampy.serde.batch import Batch

Place = Callable[[int], str]
"""Where a record of a batch comes from, by its index."""

_WAIT_S = 0.002
"""How long the driver's thread waits at most before it hands on what is done."""


class Element:
    """A record under way: number `index` of `batch`; `place` says where that comes from, for messages."""

    __slots__ = (
        "batch",
        "deadline",
        "done",
        "error",
        "index",
        "number",
        "place",
        "results",
        "section",
        "task",
        "value",
    )

    task: asyncio.Task[None]
    deadline: float
    number: int
    """In the order in which calls began."""
    section: Section
    """Of an unordered step."""

    def __init__(self, batch: Batch, index: int, value: Any, place: Place | None) -> None:
        self.batch = batch
        self.index = index
        self.value = value
        self.place = place
        self.results: list[Any] = []
        self.error: BaseException | None = None
        self.done = False


class Flight:
    """Owned by one operator, from `open` to `close`. Any number of calls may be over before those begun earlier."""

    def __init__(self, function: AsyncFunction[Any, Any], descriptor: AsyncFunctionDescriptor) -> None:
        """`function`: the task's own copy of the descriptor's."""
        self.function = function
        self.capacity = descriptor.capacity
        self.timeout_s = descriptor.timeout / 1000
        self.retry = descriptor.async_retry_strategy
        self.waiting: deque[Element] = deque()
        """Handed over, not begun."""
        self.running: OrderedDict[Element, None] = OrderedDict()
        """Begun, in that order, and not done."""
        self.finished: deque[Element] = deque()
        """Done, and not taken by the driver yet."""
        self.launched = self.begun = self.ended = 0
        self.retried = self.timed_out = 0
        self._told = (0, 0, 0)
        self._late: set[asyncio.Task[None]] = set()
        """Of calls that took too long and are being cancelled."""
        self._timer: asyncio.TimerHandle | None = None
        self._context = contextvars.copy_context()
        """Every call begins in a copy of this one, so that none sees what the call before it has set."""
        self._closed = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self._awaited = 0
        self.thread: LoopThread = join_loop()
        self.loop = self.thread.loop
        self._call = self._once if isinstance(self.retry, NoRetryStrategy) else self._repeatedly

    # The driver's thread

    @property
    def under_way(self) -> int:
        """Elements that are not done."""
        return self.launched - self.ended

    def take_counts(self) -> tuple[int, int, int]:
        """Since this was last asked: records done, calls made again, records that took too long."""
        told, self._told = self._told, (self.ended, self.retried, self.timed_out)
        return self._told[0] - told[0], self._told[1] - told[1], self._told[2] - told[2]

    def launch(self, elements: Sequence[Element]) -> None:
        """Hands elements over; their calls begin in this order, as there is room."""
        self.waiting.extend(elements)
        self.launched += len(elements)
        self._in_loop(self._begin)

    def wait_for(self, left: int) -> None:
        """Waits until no more than `left` elements are not done, or for as long as done ones should wait to be taken."""
        self._awaited = left
        if self.under_way > left:
            self._bell.acquire(timeout=_WAIT_S)
        if not self.thread.is_alive():
            raise KStreamError("the event loop of the async functions has ended")

    def _in_loop(self, function: Any, *arguments: Any) -> None:
        self.loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Cancels all calls, closes the function, leaves the loop. Raises what the function's `close` raises."""
        try:
            self.thread.call(self._stop)
        finally:
            leave_loop(self.thread)

    def abandon(self) -> None:
        """As `close`, for an operator that was dropped: nobody waits, and the function is not closed. From any thread."""
        if self.thread.is_alive():
            self._in_loop(self._abandoned)

    # The loop's thread

    async def _stop(self) -> None:
        self._close()
        await cancelled({element.task for element in self.running} | self._late)
        result: Any = self.function.close()  # type: ignore[func-returns-value]  # it may be a coroutine
        if result is not None:
            await result

    def _abandoned(self) -> None:
        self._close()
        for element in self.running:
            element.task.cancel()
        leave_loop(self.thread)

    def _close(self) -> None:
        self._closed = True
        self.waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _room(self) -> int:
        return self.capacity - len(self.running)

    def _begin(self) -> None:
        """Begins calls while there is room."""
        waiting = self.waiting
        room = self._room()
        if room <= 0 or not waiting:
            return
        loop, running, context = self.loop, self.running, self._context
        create_task = loop.create_task
        deadline = loop.time() + self.timeout_s
        while waiting and room > 0:
            room -= 1
            element = waiting.popleft()
            element.deadline = deadline
            element.number = self.begun
            self.begun += 1
            running[element] = None
            element.task = context.copy().run(create_task, self._call(element))
        if self._timer is None and self.timeout_s > 0:
            self._timer = loop.call_at(next(iter(running)).deadline, self._expire)

    async def _once(self, element: Element) -> None:
        try:
            results = await self.function.async_invoke(element.value)
        except BaseException as error:
            self._failed(element, error)
        else:
            self._succeeded(element, results)

    async def _repeatedly(self, element: Element) -> None:
        retry = Retry(self.retry)
        attempt = 0
        try:
            while True:
                attempt += 1
                try:
                    results = await self.function.async_invoke(element.value)
                except Exception as error:
                    if not retry.again_after(attempt, error):
                        raise
                else:
                    if not retry.again(attempt, results):
                        break
                await asyncio.sleep(self.retry.get_backoff_time_millis(attempt) / 1000)
                self.retried += 1
        except BaseException as error:
            self._failed(element, error)
        else:
            self._succeeded(element, results)

    def _succeeded(self, element: Element, results: Any) -> None:
        if element.done or self._closed:
            return
        try:
            if type(results) is list and len(results) == 1 and type(results[0]) is not tuple:
                result = results[0]
                element.results = [result if type(result) in IMMUTABLE_TYPES else detached(result)]
            else:
                settle(self._listed(results), element.results.append)
        except BaseException as error:
            element.error = error
        self._over(element)

    def _listed(self, results: Any) -> Iterable[Any]:
        if isinstance(results, Iterable) and not isinstance(results, (str, bytes, Mapping, Row)):
            return results
        name = type(self.function).__name__
        wrong = "cannot be none" if results is None else "should be of list type"
        found = f" It was {type(results).__name__}." if isinstance(results, (Iterable, AsyncIterable)) else ""
        raise TypeError(
            f"The result of AsyncFunction {wrong}, please check the methods 'async_invoke' and 'timeout' of class "
            f"'{name}'.{found}"
        )

    def _failed(self, element: Element, error: BaseException) -> None:
        if element.done or self._closed:
            return
        element.error = error
        if isinstance(error, asyncio.CancelledError):
            element.error = RuntimeError("the call was cancelled from inside (CancelledError)")
            element.error.__cause__ = error
        self._over(element)

    def _over(self, element: Element) -> None:
        del self.running[element]
        element.done = True
        self.finished.append(element)
        self.ended += 1
        if self.waiting:
            self._begin()
        if self.launched - self.ended <= self._awaited:
            self._awaited = -1
            if self._bell.locked():
                self._bell.release()

    def _expire(self) -> None:
        """Ends the calls whose time is over. All have the same time, so the first to begin is the first to expire."""
        self._timer = None
        now = self.loop.time()
        for element in list(self.running):
            if element.deadline > now:
                break
            self._give_up(element)
        if self._timer is None and self.running:
            self._timer = self.loop.call_at(next(iter(self.running)).deadline, self._expire)

    def _give_up(self, element: Element) -> None:
        self.timed_out += 1
        task = element.task
        try:
            results = self.function.timeout(element.value)
        except BaseException as error:
            self._failed(element, error)
        else:
            self._succeeded(element, results)
        task.cancel()
        self._late.add(task)
        task.add_done_callback(self._late.discard)


class OrderedFlight(Flight):
    """No call begins while one that began `capacity` calls earlier is not done: its results could not go on."""

    def _room(self) -> int:
        if not self.running:
            return self.capacity
        return self.capacity - (self.begun - next(iter(self.running)).number)
