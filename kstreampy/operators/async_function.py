"""`AsyncFunction`: what a user writes to ask another system about each record without waiting for the answers one by one.

In here: the class and `AsyncFunctionDescriptor`, all that is said of one step of `AsyncDataStream`. Not in here: how calls are
made (`async_flight.py`). Names and semantics are PyFlink's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any, Generic, TypeVar

from kstreampy.operators.async_retry import AsyncRetryStrategy
from kstreampy.operators.function import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """A function whose calls are coroutines. All calls of a worker run in one event loop, in a thread of its own: whatever
    waits must be awaited, since a call that blocks holds up all others (`asyncio.to_thread` is for clients that block).

    `open` and `close` run in that loop too, so that sessions and pools can be made there; they may be coroutines (this is
    not in PyFlink). Keyed state cannot be used: other records of the key are processed meanwhile.
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> Iterable[OUT]:
        """The results for a value: a list, empty for none. An exception that is not retried fails the job with a
        `RecordError` that names the record."""

    def timeout(self, value: IN) -> Iterable[OUT]:
        """The results for a value whose call took too long; the call itself is cancelled. By default the job fails."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncFunctionDescriptor:
    """One step of `AsyncDataStream`: the function and how it is called."""

    class OutputMode(Enum):
        """In which order results go on."""

        ORDERED = 0
        """That of the input."""
        UNORDERED = 1
        """As they come; never past a watermark, and on a keyed stream never past results of the same key."""

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: int,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: OutputMode,
    ) -> None:
        """`timeout` in ms, for a record's calls and the waits between them together; 0 or less: none. `capacity`: how many
        records are asked about at a time, per task."""
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
