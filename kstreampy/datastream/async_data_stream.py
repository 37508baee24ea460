"""`AsyncDataStream`: another system is asked about each record, many at a time.

In here: PyFlink's four calls and what they refuse. Not in here: the step itself (`operators/async_io.py`).
"""

from __future__ import annotations

import inspect
from typing import Any

from kstreampy.common.time import Amount, to_millis
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.data_stream import DataStream
from kstreampy.errors import JobError
from kstreampy.operators.async_function import AsyncFunction, AsyncFunctionDescriptor
from kstreampy.operators.async_io import AsyncOperator
from kstreampy.operators.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy, NoRetryStrategy
from kstreampy.operators.function import where

_MODE = AsyncFunctionDescriptor.OutputMode


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream. In each task at most `capacity` records are asked about at a time; while there are
    more to come the task reads no further. A record whose calls take longer than `timeout` together, with the waits between
    them, gets the results of the function's `timeout`; a timeout of 0 is none.

    Results keep the timestamp and the key of their record, and are brought to `output_type`. Watermarks wait for the records
    before them. A checkpoint waits for all records under way, so that none is lost or comes twice over a crash; keep the
    timeout well below the job's `transaction_timeout_ms`.

    All four raise TypeError for a function that is no `AsyncFunction` with an `async def async_invoke`, ValueError for a
    capacity below 1, and `JobError` for retries without a timeout.
    """

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Amount,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results in the order of the records."""
        return _drawn(data_stream, async_function, timeout, capacity, NO_RETRY_STRATEGY, _MODE.ORDERED, output_type)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Amount,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results in the order of the records. A strategy of `max_attempts` n allows n calls after the first."""
        return _drawn(data_stream, async_function, timeout, capacity, async_retry_strategy, _MODE.ORDERED, output_type)

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Amount,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Results as they come, but never past a watermark; on a `KeyedStream` the results of each key stay in the order of
        its records (in Flink they do not)."""
        return _drawn(data_stream, async_function, timeout, capacity, NO_RETRY_STRATEGY, _MODE.UNORDERED, output_type)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Amount,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `unordered_wait`. A strategy of `max_attempts` n allows n calls after the first."""
        return _drawn(
            data_stream, async_function, timeout, capacity, async_retry_strategy, _MODE.UNORDERED, output_type
        )


def _drawn(
    stream: DataStream,
    function: Any,
    timeout: Amount,
    capacity: int,
    strategy: AsyncRetryStrategy[Any],
    mode: AsyncFunctionDescriptor.OutputMode,
    output_type: TypeInformation | None,
) -> DataStream:
    if not isinstance(function, AsyncFunction):
        raise TypeError(f"AsyncDataStream takes an instance of an AsyncFunction subclass, not {function!r}")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(
            f"Method 'async_invoke' of class '{type(function).__name__}' should be declared as 'async def'."
        )
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ValueError(f"capacity is the number of records asked about at a time, 1 or more, not {capacity!r}")
    timeout_ms = to_millis(timeout)
    _check_strategy(strategy, timeout_ms)
    descriptor = AsyncFunctionDescriptor(function, timeout_ms, capacity, strategy, mode)

    def build(step: str, _: str) -> AsyncOperator:
        return AsyncOperator(step, descriptor)

    detail = f"{where(function)}, {mode.name.lower()}, {capacity} at a time, timeout {timeout_ms} ms"
    return stream._step("async_wait", build, output_type, detail=detail)


def _check_strategy(strategy: Any, timeout_ms: int) -> None:
    if strategy is None:
        raise JobError("Async retry strategy should not be None.")
    if not isinstance(strategy, AsyncRetryStrategy):
        raise TypeError(f"the retry strategy is an AsyncRetryStrategy, not {strategy!r}")
    if strategy.get_retry_predicate() is None:
        raise JobError(f"Retry predicate of the async retry strategy '{type(strategy).__name__}' is None.")
    if not isinstance(strategy, NoRetryStrategy) and timeout_ms <= 0:
        raise JobError("Timeout should be configured when do async with retry.")
