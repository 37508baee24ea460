"""When an asynchronous call is made again: retry strategies and predicates, under PyFlink's names.

In here: the two contracts, PyFlink's strategies, and its ready-made predicates. Not in here: who asks them
(`async_flight.py`). The public paths are `kstreampy.datastream.functions`, `async_retry_strategies` and
`async_retry_predicates`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[OUT]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Which outcomes of a call are reasons for another."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate[OUT] | None:
        """True for results that are to be tried again; None: no result is."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """True for exceptions that are to be tried again; None: no exception is."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Whether, and how much later, a call is made again. One object serves all calls, so it keeps nothing of them."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another call after so many (from 1)."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after call number `current_attempts`, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Every call is made once."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate[Any] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """`FixedDelayRetryStrategy`."""
        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate[Any] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """`ExponentialBackoffDelayRetryStrategy`."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """Two functions, or None where nothing is a reason."""

    def __init__(
        self, result_predicate: ResultPredicate[OUT] | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate[OUT] | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """Every call is made once."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """Up to `max_attempts` more calls after the first, each `backoff_time_millis` after the outcome of the one before.
    ValueError unless both are above 0."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate[OUT] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        _above_zero(max_attempts=max_attempts, backoff_time_millis=backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT]):
    """Up to `max_attempts` more calls after the first: `initial_delay` ms after its outcome, then `multiplier` times as
    long after each further one, up to `max_retry_delay`. ValueError unless all are above 0.

    Each record's waits follow from its own attempts. (PyFlink keeps the last wait in the strategy, so that records that
    are retried side by side make each other wait longer.)
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate[OUT] | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        _above_zero(
            max_attempts=max_attempts,
            initial_delay=initial_delay,
            max_retry_delay=max_retry_delay,
            multiplier=multiplier,
        )
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * self._multiplier ** (current_attempts - 1)
        except OverflowError:
            return self._max_retry_delay
        return int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


def _above_zero(**amounts: float) -> None:
    for name, amount in amounts.items():
        if amount <= 0:
            raise ValueError(f"{name} should be greater than zero, not {amount}.")


NO_RETRY_STRATEGY: NoRetryStrategy[Any] = NoRetryStrategy()


class Retry:
    """What a strategy says of outcomes."""

    __slots__ = ("_exception", "_result", "_strategy")

    def __init__(self, strategy: AsyncRetryStrategy[Any]) -> None:
        self._strategy = strategy
        predicate = strategy.get_retry_predicate()
        self._result = predicate.result_predicate()
        self._exception = predicate.exception_predicate()

    def again(self, attempt: int, results: Any) -> bool:
        """After results."""
        wanted = self._result is not None and results is not None and self._result(results)
        return bool(wanted) and self._strategy.can_retry(attempt)

    def again_after(self, attempt: int, error: Exception) -> bool:
        """After an exception."""
        wanted = self._exception is not None and self._exception(error)
        return bool(wanted) and self._strategy.can_retry(attempt)


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Nothing was found."""
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Any exception."""
    return error is not None


def exception_type_predicate(error: BaseException, expected_error_type: type[BaseException]) -> bool:
    """An exception of this type: `lambda error: exception_type_predicate(error, OSError)`."""
    return isinstance(error, expected_error_type)
