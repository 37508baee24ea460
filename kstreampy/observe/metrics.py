"""Every metric of a worker, declared once, and the cheap methods by which the driver feeds them.

In here: names, labels and help texts, and one method per thing that happens, called per batch, checkpoint or
turn, never per record. Not in here: the HTTP server (`http.py`) and the probes (`health.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.metrics import MetricWrapperBase

from kstreampy.observe.function_metric import FunctionMetrics

LOOP_SHARES: Final = ("poll", "process", "checkpoint", "idle")

_CHECKPOINT_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_TASK: Final = ("stage", "partition")
_SOURCE: Final = ("stage", "topic", "partition")


class Metrics:
    """All metrics of one process, on a registry of their own. Owned by the process; fed by the driver's
    thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._clock = clock
        self._last_checkpoint: float | None = None
        self._lag_topics: dict[tuple[str, str], set[str]] = {}
        self._async_steps: dict[tuple[str, str], set[str]] = {}
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._declare_flow()
        self._declare_async()
        self._declare_checkpoint()
        self._declare_state()
        self._declare_worker()
        self.functions = FunctionMetrics(clock=clock)
        self.registry.register(self.functions)

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"kstreampy_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"kstreampy_{name}", text, labels, registry=self.registry)

    def _declare_flow(self) -> None:
        self._records_in = self._counter("records_in", "Records read by a stage", ("stage",))
        self._records_out = self._counter("records_out", "Records written by a stage", ("stage",))
        self._records_failed = self._counter(
            "records_failed",
            "Records that failed, by what became of them: fail, skip or dead-letter",
            ("stage", "step", "policy"),
        )
        self._records_late_dropped = self._counter(
            "records_late_dropped", "Records dropped for being later than the allowed lateness", ("stage",)
        )
        self._records_future = self._counter(
            "records_future",
            "Records with a timestamp more than max_future_ms ahead of the clock",
            ("stage", "policy"),
        )
        self._lag = self._gauge("lag_records", "Records between a task's position and the end", _SOURCE)
        self._watermark = self._gauge("watermark_milliseconds", "Watermark of a task, milliseconds since 1970", _TASK)
        self._idle = self._gauge("task_idle", "1 while all inputs of a task are idle, else 0", _TASK)

    def _declare_async(self) -> None:
        self._async_in_flight = self._gauge(
            "async_in_flight", "Records that an asynchronous step has taken and that are not done", (*_TASK, "step")
        )
        of_step = ("stage", "step")
        self._async_completed = self._counter(
            "async_completed", "Records that an asynchronous step is done with, whether they failed or not", of_step
        )
        self._async_retried = self._counter(
            "async_retried", "Calls that an asynchronous step made again, by its retry strategy", of_step
        )
        self._async_timed_out = self._counter(
            "async_timed_out", "Records whose calls took longer than an asynchronous step's timeout", of_step
        )

    def _declare_checkpoint(self) -> None:
        self._checkpoint_seconds = Histogram(
            "kstreampy_checkpoint_duration_seconds",
            "Time that a checkpoint held the loop",
            buckets=_CHECKPOINT_SECONDS,
            registry=self.registry,
        )
        self._checkpoint_records = self._counter(
            "checkpoint_records", "Changes of state that checkpoints wrote to changelogs"
        )
        self._checkpoint_failures = self._counter("checkpoint_failures", "Checkpoints that were given up")
        age = self._gauge("checkpoint_age_seconds", "Since the last checkpoint ended (NaN before the first)")
        age.set_function(self._checkpoint_age)

    def _declare_state(self) -> None:
        self._state_bytes = self._gauge("state_bytes", "Size of a task's state on disk", _TASK)
        self._cache_bytes = self._gauge("state_cache_bytes", "Estimated size of objects in the state cache")
        self._restore_done = self._gauge("restore_records_done", "Changelog records replayed so far", _TASK)
        self._restore_total = self._gauge("restore_records_total", "Changelog records to replay in all", _TASK)
        self._timers = self._gauge(
            "timers", "Timers of a task in memory; of very many the later ones wait on disk", _TASK
        )

    def _declare_worker(self) -> None:
        self._tasks = self._gauge("tasks", "Tasks that this worker runs", ("stage",))
        self._rebalances = self._counter("rebalances", "Changes of a stage's assignment", ("stage", "reason"))
        self._loop_seconds = self._counter("loop_seconds", "Time of the worker's loop by what it did", ("share",))
        self._shares = {share: self._loop_seconds.labels(share) for share in LOOP_SHARES}
        self._poll_gap = self._gauge("poll_gap_seconds", "Longest time between two polls since the last scrape")
        self._poll_gap_longest = 0.0
        self._poll_gap.set_function(self._take_poll_gap)
        self._broker_up = self._gauge("broker_up", "1 while the broker answers, else 0")
        self._broker_up.set(1)
        self._info = self._gauge(
            "worker_info", "Always 1; says what runs here", ("application_id", "worker", "guarantee")
        )

    def worker(self, application_id: str, worker: str, guarantee: str) -> None:
        self._info.labels(application_id, worker, guarantee).set(1)

    def records_in(self, stage: str, count: int) -> None:
        self._records_in.labels(stage).inc(count)

    def records_out(self, stage: str, count: int) -> None:
        self._records_out.labels(stage).inc(count)

    def records_failed(self, stage: str, step: str, policy: str, count: int = 1) -> None:
        self._records_failed.labels(stage, step, policy).inc(count)

    def records_late_dropped(self, stage: str, count: int) -> None:
        self._records_late_dropped.labels(stage).inc(count)

    def records_future(self, stage: str, policy: str, count: int) -> None:
        self._records_future.labels(stage, policy).inc(count)

    def async_in_flight(self, stage: str, partition: int, step: str, records: int) -> None:
        self._async_steps.setdefault((stage, str(partition)), set()).add(step)
        self._async_in_flight.labels(stage, partition, step).set(records)

    def async_counts(self, stage: str, step: str, completed: int, retried: int, timed_out: int) -> None:
        self._async_completed.labels(stage, step).inc(completed)
        self._async_retried.labels(stage, step).inc(retried)
        self._async_timed_out.labels(stage, step).inc(timed_out)

    def lag(self, stage: str, topic: str, partition: int, records: int) -> None:
        self._lag_topics.setdefault((stage, str(partition)), set()).add(topic)
        self._lag.labels(stage, topic, partition).set(records)

    def watermark(self, stage: str, partition: int, ms: int) -> None:
        self._watermark.labels(stage, partition).set(ms)

    def idle(self, stage: str, partition: int, idle: bool) -> None:
        self._idle.labels(stage, partition).set(idle)

    def checkpoint_done(self, seconds: float, records: int) -> None:
        """One checkpoint ended: how long it held the loop, how many changes it wrote."""
        self._checkpoint_seconds.observe(seconds)
        self._checkpoint_records.inc(records)
        self._last_checkpoint = self._clock()

    def checkpoint_failed(self) -> None:
        self._checkpoint_failures.inc()

    def state_bytes(self, stage: str, partition: int, size_bytes: int) -> None:
        self._state_bytes.labels(stage, partition).set(size_bytes)

    def cache_bytes(self, size_bytes: int) -> None:
        self._cache_bytes.set(size_bytes)

    def timers(self, stage: str, partition: int, count: int) -> None:
        self._timers.labels(stage, partition).set(count)

    def restore_progress(self, stage: str, partition: int, done: int, total: int) -> None:
        self._restore_done.labels(stage, partition).set(done)
        self._restore_total.labels(stage, partition).set(total)

    def restored(self, stage: str, partition: int) -> None:
        """The restore ended: its series go, so that a sum over them is what is still to be done."""
        _forget((self._restore_done, self._restore_total), stage, str(partition))

    def tasks(self, stage: str, count: int) -> None:
        self._tasks.labels(stage).set(count)

    def rebalance(self, stage: str, reason: str) -> None:
        """`reason` is assigned, revoked or lost."""
        self._rebalances.labels(stage, reason).inc()

    def loop_time(self, share: str, seconds: float) -> None:
        """Adds to one of `LOOP_SHARES`; KeyError for another name."""
        self._shares[share].inc(seconds)

    def poll_gap(self, seconds: float) -> None:
        """Time between two polls; the longest since the last scrape is shown (the client's deadline is
        minutes)."""
        if seconds > self._poll_gap_longest:
            self._poll_gap_longest = seconds

    def broker_up(self, up: bool) -> None:
        self._broker_up.set(1 if up else 0)

    def task_gone(self, stage: str, partition: int) -> None:
        """The task was revoked or lost: its series are taken away, so that no one's lag stands still for
        ever."""
        name = str(partition)
        _forget((self._watermark, self._idle, self._state_bytes, self._timers), stage, name)
        self.restored(stage, partition)
        self.functions.forget(stage, partition)
        for topic in self._lag_topics.pop((stage, name), ()):
            _forget((self._lag,), stage, topic, name)
        for step in self._async_steps.pop((stage, name), ()):
            _forget((self._async_in_flight,), stage, name, step)

    def values(self) -> Mapping[str, float]:
        """All samples by name and labels, `name{label="x"}`: for logs and tests."""
        return {
            sample.name
            + ("{" + ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items())) + "}")
            * bool(sample.labels): sample.value
            for family in self.registry.collect()
            for sample in family.samples
        }

    def _checkpoint_age(self) -> float:
        return float("nan") if self._last_checkpoint is None else self._clock() - self._last_checkpoint

    def _take_poll_gap(self) -> float:
        longest, self._poll_gap_longest = self._poll_gap_longest, 0.0
        return longest


def _forget(metrics: tuple[MetricWrapperBase, ...], *labels: str) -> None:
    for metric in metrics:
        try:
            metric.remove(*labels)
        except KeyError:  # it never had this series
            continue
