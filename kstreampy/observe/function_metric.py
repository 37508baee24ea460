"""Metrics that the user's functions make: counted in plain Python, shown to Prometheus.

In here: the classes behind `RuntimeContext.get_metrics_group()`, and `FunctionMetrics`, which knows all of a process and is a
collector of its registry. Counting is the functions' business, per record if they like, so it is an addition and nothing
else; gauges and rates are looked at by `sample`, which the driver calls once a second.
"""

from __future__ import annotations

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from kstreampy.common.metric import Counter, Distribution, Meter, MetricGroup

_log = logging.getLogger(__name__)

LABELS = ("stage", "partition", "step", "name")
"""Those of every series; groups with a value (`add_group(name, value)`) add more."""


class _Shown(Protocol):
    """What every metric below can do besides what the user sees."""

    family: str

    def sample(self, now: float) -> None: ...
    def values(self) -> Iterator[tuple[str, float]]:
        """(name of the family or one of its samples, value)."""
        ...


class TaskCounter(Counter):
    __slots__ = ("_count",)
    family = "counter"

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        self._count += n

    def dec(self, n: int = 1) -> None:
        self._count -= n

    def get_count(self) -> int:
        return self._count

    def sample(self, now: float) -> None: ...

    def values(self) -> Iterator[tuple[str, float]]:
        yield "counter", self._count


class TaskMeter(Meter):
    """Keeps its count of each second within the span."""

    __slots__ = ("_count", "_seen", "_span_s")
    family = "meter"

    def __init__(self, span_s: float, now: float) -> None:
        self._span_s = span_s
        self._count = 0
        self._seen: deque[tuple[float, int]] = deque([(now, 0)])

    def mark_event(self, value: int = 1) -> None:
        self._count += value

    def get_count(self) -> int:
        return self._count

    def sample(self, now: float) -> None:
        seen = self._seen
        seen.append((now, self._count))
        while len(seen) > 2 and seen[1][0] <= now - self._span_s:
            seen.popleft()

    def rate(self) -> float:
        """Events per second, up to the last sample."""
        (began, before), (ended, after) = self._seen[0], self._seen[-1]
        return (after - before) / (ended - began) if ended > began else 0.0

    def values(self) -> Iterator[tuple[str, float]]:
        yield "meter", self._count
        yield "meter_rate", self.rate()


class TaskDistribution(Distribution):
    __slots__ = ("_count", "_max", "_min", "_sum")
    family = "distribution"

    def __init__(self) -> None:
        self._count = 0
        self._sum: float = 0
        self._min: float = 0
        self._max: float = 0

    def update(self, value: float) -> None:
        if not self._count:
            self._min = self._max = value
        elif value < self._min:
            self._min = value
        elif value > self._max:
            self._max = value
        self._sum += value
        self._count += 1

    def sample(self, now: float) -> None: ...

    def values(self) -> Iterator[tuple[str, float]]:
        yield "distribution_count", self._count
        yield "distribution_sum", self._sum
        if self._count:
            yield "distribution_min", self._min
            yield "distribution_max", self._max


class TaskGauge:
    __slots__ = ("_function", "_name", "_value", "_warned")
    family = "gauge"

    def __init__(self, name: str, function: Callable[[], float]) -> None:
        self._name = name
        self._function = function
        self._value: float | None = None
        self._warned = False

    def sample(self, now: float) -> None:
        try:
            self._value = float(self._function())
        except Exception as error:
            self._value = None
            if not self._warned:
                self._warned = True
                _log.warning("gauge %s shows nothing: %s: %s", self._name, type(error).__name__, error)

    def values(self) -> Iterator[tuple[str, float]]:
        if self._value is not None:
            yield "gauge", self._value


_Kind = TypeVar("_Kind", bound=_Shown)
_Key = tuple[str, tuple[tuple[str, str], ...]]
"""Family, and labels in order, the name among them."""


class TaskMetricGroup(MetricGroup):
    """The metrics of one step in one task, or a part of them."""

    def __init__(
        self, made: dict[_Key, _Shown], clock: Callable[[], float], labels: dict[str, str], scope: str = ""
    ) -> None:
        self._made = made
        self._clock = clock
        self._labels = labels
        self._scope = scope

    def add_group(self, name: str, extra: str | None = None) -> TaskMetricGroup:
        _check(name)
        if extra is None:
            return TaskMetricGroup(self._made, self._clock, self._labels, f"{self._scope}{name}.")
        return TaskMetricGroup(self._made, self._clock, {**self._labels, _label(name): str(extra)}, self._scope)

    def counter(self, name: str) -> TaskCounter:
        return self._metric(name, TaskCounter())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        if not callable(obj):
            raise TypeError(f"gauge {name!r}: expected a function that gives a number, not {obj!r}")
        gauge = TaskGauge(name, obj)
        self._made[self._key(name, gauge.family)] = gauge

    def meter(self, name: str, time_span_in_seconds: int = 60) -> TaskMeter:
        if time_span_in_seconds <= 0:
            raise ValueError(f"meter {name!r}: time_span_in_seconds must be above 0, not {time_span_in_seconds}")
        return self._metric(name, TaskMeter(time_span_in_seconds, self._clock()))

    def distribution(self, name: str) -> TaskDistribution:
        return self._metric(name, TaskDistribution())

    def _metric(self, name: str, new: _Kind) -> _Kind:
        return self._made.setdefault(self._key(name, new.family), new)  # type: ignore[return-value]  # by family

    def _key(self, name: str, family: str) -> _Key:
        _check(name)
        return family, tuple({**self._labels, "name": self._scope + name}.items())


class FunctionMetrics(Collector):
    """All metrics of the functions of one process. Owned by `Metrics`; filled by the driver's thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[tuple[str, int], dict[_Key, _Shown]] = {}

    def group(self, stage: str, partition: int, step: str) -> MetricGroup:
        """The group that `RuntimeContext.get_metrics_group()` gives to a function of this step."""
        made = self._tasks.setdefault((stage, partition), {})
        return TaskMetricGroup(made, self._clock, {"stage": stage, "partition": str(partition), "step": step})

    def forget(self, stage: str, partition: int) -> None:
        """The task is gone, and its series with it; begun again, it counts from 0."""
        self._tasks.pop((stage, partition), None)

    def sample(self) -> None:
        """Asks the gauges, and notes where the meters are. Called once a second by the thread that calls the functions."""
        now = self._clock()
        for made in self._tasks.values():
            for metric in list(made.values()):
                metric.sample(now)

    def describe(self) -> list[Family]:
        return [Family(name, text, kind) for name, text, kind in _FAMILIES]

    def collect(self) -> Iterator[Family]:
        families = {family.name: family for family in self.describe()}
        for made in list(self._tasks.values()):
            for (_, labels), metric in list(made.items()):
                for name, value in metric.values():
                    family, sample = _NAMES[name]
                    families[family].add_sample(sample, dict(labels), value)
        yield from (family for family in families.values() if family.samples)


_PREFIX = "kstreampy_function_"
_FAMILIES = (
    (f"{_PREFIX}counter", "Counters that the job's functions made; they may go down", "gauge"),
    (f"{_PREFIX}gauge", "Gauges that the job's functions made", "gauge"),
    (f"{_PREFIX}meter", "Events of the meters that the job's functions made", "counter"),
    (f"{_PREFIX}meter_rate", "Events per second over each meter's time span", "gauge"),
    (f"{_PREFIX}distribution", "Number and sum of the values of the functions' distributions", "summary"),
    (f"{_PREFIX}distribution_min", "Smallest value of each distribution", "gauge"),
    (f"{_PREFIX}distribution_max", "Largest value of each distribution", "gauge"),
)
_NAMES: dict[str, tuple[str, str]] = {
    **{name.removeprefix(_PREFIX): (name, name) for name, _, _ in _FAMILIES},
    "meter": (f"{_PREFIX}meter", f"{_PREFIX}meter_total"),
    "distribution_count": (f"{_PREFIX}distribution", f"{_PREFIX}distribution_count"),
    "distribution_sum": (f"{_PREFIX}distribution", f"{_PREFIX}distribution_sum"),
}
"""What `_Shown.values` calls a value → its family and its sample's name."""


def _check(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"a metric and a group of metrics must have a name, not {name!r}")


def _label(name: str) -> str:
    """A group's name as the name of a label, apart from those that every series has."""
    label = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    return f"group_{label}" if label in LABELS or not label[0].isalpha() else label
