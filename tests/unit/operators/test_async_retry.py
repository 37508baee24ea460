"""Retry strategies and predicates, value by value."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from kstreampy.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    RetryPredicate,
)
from kstreampy.datastream.functions import AsyncRetryStrategy


def test_no_restart() -> None:
    strategy = AsyncRetryStrategy.no_restart()
    assert strategy is NO_RETRY_STRATEGY
    assert not strategy.can_retry(1)
    assert strategy.get_backoff_time_millis(1) == -1
    predicate = strategy.get_retry_predicate()
    assert (predicate.result_predicate(), predicate.exception_predicate()) == (None, None)


def test_fixed_delay() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 30, empty_result_predicate, has_exception_predicate)
    assert isinstance(strategy, FixedDelayRetryStrategy)
    assert [strategy.can_retry(attempts) for attempts in (1, 2, 3)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3)] == [30, 30, 30]
    predicate = strategy.get_retry_predicate()
    assert isinstance(predicate, RetryPredicate)
    assert predicate.result_predicate() is empty_result_predicate
    assert predicate.exception_predicate() is has_exception_predicate


def test_exponential_backoff() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(4, 10, 75, 2.0, None, has_exception_predicate)
    assert isinstance(strategy, ExponentialBackoffDelayRetryStrategy)
    assert [strategy.can_retry(attempts) for attempts in (1, 4, 5)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(attempts) for attempts in range(1, 6)] == [10, 20, 40, 75, 75]


def test_waits_follow_from_the_attempts_alone() -> None:
    """Records that are retried side by side do not lengthen each other's waits."""
    strategy = AsyncRetryStrategy.exponential_backoff(9, 10, 1000, 2.0)
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 1, 2, 2, 3)] == [10, 20, 10, 20, 20, 40]


def test_many_attempts_do_not_overflow() -> None:
    assert AsyncRetryStrategy.exponential_backoff(10**6, 10, 75, 10.0).get_backoff_time_millis(10**5) == 75


@pytest.mark.parametrize(
    ("arguments", "name"), [((0, 1), "max_attempts"), ((1, 0), "backoff_time_millis"), ((-1, 1), "max_attempts")]
)
def test_fixed_delay_refuses(arguments: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} should be greater than zero"):
        AsyncRetryStrategy.fixed_delay(*arguments)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 1, 1, 1.0), "max_attempts"),
        ((1, 0, 1, 1.0), "initial_delay"),
        ((1, 1, 0, 1.0), "max_retry_delay"),
        ((1, 1, 1, 0.0), "multiplier"),
    ],
)
def test_exponential_backoff_refuses(arguments: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} should be greater than zero"):
        AsyncRetryStrategy.exponential_backoff(*arguments)


def test_predicates() -> None:
    assert [empty_result_predicate(result) for result in (None, [], [0])] == [True, True, False]
    assert [has_exception_predicate(error) for error in (None, OSError())] == [False, True]
    assert exception_type_predicate(FileNotFoundError(), OSError)
    assert not exception_type_predicate(KeyError(), OSError)
