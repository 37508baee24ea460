"""What operators count while they work, brought to the metrics: once a second, and before a task is given away."""

from __future__ import annotations

import logging
from collections import Counter

from kstreampy.runtime.resources import Resources
from kstreampy.runtime.task import Task

_log = logging.getLogger(__name__)

_WARNING_INTERVAL_S = 60.0


def tell_counts(resources: Resources, task: Task) -> None:
    """The counts of a task since the last call."""
    context, metrics = task.context, resources.metrics
    stage = context.stage
    metrics.records_out(stage, context.records_out)
    metrics.records_late_dropped(stage, context.late_dropped)
    context.records_out = context.late_dropped = 0
    _tell_calls(resources, task)
    future = context.time.future
    if future is None or not future.count:
        return
    count = future.take()
    metrics.records_future(stage, future.policy, count)
    now = resources.monotonic()
    if now < resources.next_future_warning:
        return
    resources.next_future_warning = now + _WARNING_INTERVAL_S
    _log.warning(
        "task %s: %d records have timestamps more than max_future_ms (%d) ahead of the clock, the latest %d: a clock or the "
        "timestamp assigner is wrong (max_future_policy: %s)",
        task.name, count, future.max_future_ms, future.furthest, future.policy,
    )  # fmt: skip


def _tell_calls(resources: Resources, task: Task) -> None:
    """Of asynchronous steps; those of one name in one stage are counted together."""
    metrics, stage = resources.metrics, task.context.stage
    under_way: Counter[str] = Counter()
    for step, calls in task.context.calls:
        under_way[step] += calls.under_way
        metrics.async_counts(stage, step, *calls.take_counts())
    for step, records in under_way.items():
        metrics.async_in_flight(stage, task.number, step, records)
