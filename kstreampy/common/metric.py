"""Metrics of the user's own, as functions see them (PyFlink's `pyflink.metrics`): got by `RuntimeContext.get_metrics_group()`.

In here: what can be measured, as abstract classes. Not in here: how it is counted and shown, `observe/function_metric.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]


class Metric(ABC):  # noqa: B024 - the root of the others, as in PyFlink
    """Anything that is measured."""


class Counter(Metric):
    """A number that goes up, and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Adds `n`."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Takes `n` away."""

    @abstractmethod
    def get_count(self) -> int:
        """The count of this task, from 0 at its start on this worker."""


class Meter(Metric):
    """Events, and how many of them there are per second."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """`value` events have happened."""

    @abstractmethod
    def get_count(self) -> int:
        """The events of this task, from 0 at its start on this worker."""


class Distribution(Metric):
    """How many values there were, their sum, the smallest and the largest."""

    @abstractmethod
    def update(self, value: float) -> None:
        """One more value."""


class MetricGroup(ABC):
    """Where a function's metrics are made. Asked again for a metric of one name, it gives the same one.

    A name is a non-empty string, otherwise `ValueError`.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group inside this one: its metrics' names begin with `name` and a dot. With `extra`, they get a label `name` with
        that value instead."""

    @abstractmethod
    def counter(self, name: str) -> Counter: ...

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Shows what `obj()` gives. It is called about once a second, by the thread that calls the function, between batches:
        without a current key, so that keyed state is out of its reach. When it fails or gives no number, nothing is shown.
        A second gauge of one name takes the first one's place."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Its rate is that of the last `time_span_in_seconds` (`ValueError` unless above 0), looked at once a second."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution: ...
