"""Asynchronous steps at work: functions whose calls end when, and as, a test says."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kstreampy.operators.async_function import AsyncFunction, AsyncFunctionDescriptor
from kstreampy.operators.async_io import AsyncOperator
from kstreampy.operators.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from kstreampy.operators.operator import Operator, TaskContext
from tests.unit.operators.standin import Collecting, context, opened

ORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED
UNORDERED = AsyncFunctionDescriptor.OutputMode.UNORDERED


class Gate:
    """Holds calls back until they are let through, by value. Shared by the copies of a function."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self._open: set[Any] = set()
        self._all = False

    def __deepcopy__(self, memo: object) -> Gate:
        return self

    def let(self, *values: Any) -> None:
        self._open.update(values)

    def let_all(self) -> None:
        self._all = True

    async def wait(self, value: Any) -> None:
        self.begun.append(value)
        while not self._all and value not in self._open:
            await asyncio.sleep(0.001)


class Asking(AsyncFunction):
    """Gives `[value]` once the gate lets it through; `failing` are refused."""

    def __init__(self, gate: Gate, failing: tuple[Any, ...] = ()) -> None:
        self.gate = gate
        self.failing = failing

    async def async_invoke(self, value: Any) -> list[Any]:
        await self.gate.wait(value)
        if value in self.failing:
            raise ValueError(f"no answer for {value}")
        return [value]


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def asking(
    function: AsyncFunction,
    mode: AsyncFunctionDescriptor.OutputMode = ORDERED,
    *,
    capacity: int = 100,
    timeout_ms: int = 20_000,
    retry: AsyncRetryStrategy = NO_RETRY_STRATEGY,
    out: Operator | None = None,
    task: TaskContext | None = None,
) -> Iterator[tuple[AsyncOperator, Any]]:
    """An operator, open, and what follows it."""
    operator = AsyncOperator("ask", AsyncFunctionDescriptor(function, timeout_ms, capacity, retry, mode))
    try:
        yield operator, opened(operator, task or context(clock=wall_ms), out or Collecting())
    finally:
        operator.close()


def until(condition: Any, what: str, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.001)


def done(operator: AsyncOperator, left: int) -> None:
    """Waits until no more than so many records are not done; nothing goes on meanwhile."""
    until(lambda: operator.flight.under_way <= left, f"{left} calls to be left")


def loop_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "async functions"]
