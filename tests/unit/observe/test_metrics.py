"""The text that Prometheus gets: names, labels, and that a task's series go when the task goes."""

from __future__ import annotations

import math

import pytest
from prometheus_client.exposition import generate_latest

from kstreampy.observe.metrics import LOOP_SHARES, Metrics


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_what_was_told_is_in_the_text(metrics: Metrics) -> None:
    metrics.records_in("count", 500)
    metrics.records_in("count", 20)
    metrics.records_out("count", 7)
    metrics.records_failed("count", "map", "dead-letter", 2)
    metrics.lag("count", "orders", 3, 42)
    metrics.watermark("count", 3, 1_700_000_000_000)
    metrics.checkpoint_done(0.02, 99)
    metrics.state_bytes("count", 3, 4096)
    metrics.restore_progress("count", 3, 10, 100)
    metrics.rebalance("count", "lost")
    text = generate_latest(metrics.registry).decode()
    for line in (
        'kstreampy_records_in_total{stage="count"} 520.0',
        'kstreampy_records_out_total{stage="count"} 7.0',
        'kstreampy_records_failed_total{policy="dead-letter",stage="count",step="map"} 2.0',
        'kstreampy_lag_records{partition="3",stage="count",topic="orders"} 42.0',
        'kstreampy_watermark_milliseconds{partition="3",stage="count"} 1.7e+12',
        'kstreampy_checkpoint_duration_seconds_bucket{le="0.025"} 1.0',
        "kstreampy_checkpoint_records_total 99.0",
        'kstreampy_state_bytes{partition="3",stage="count"} 4096.0',
        'kstreampy_restore_records_done{partition="3",stage="count"} 10.0',
        'kstreampy_restore_records_total{partition="3",stage="count"} 100.0',
        'kstreampy_rebalances_total{reason="lost",stage="count"} 1.0',
    ):
        assert line in text.splitlines()
    assert "process_resident_memory_bytes" in text
    assert "python_info" in text


def test_a_task_that_goes_takes_all_of_its_series_along(metrics: Metrics) -> None:
    for partition in (3, 4):
        metrics.lag("count", "orders", partition, 42)
        metrics.lag("count", "users", partition, 1)
        metrics.watermark("count", partition, 5)
        metrics.state_bytes("count", partition, 5)
        metrics.timers("count", partition, 5)
        metrics.restore_progress("count", partition, 1, 2)
        metrics.async_in_flight("count", partition, "ask", 5)
        metrics.async_in_flight("count", partition, "ask again", 1)
    metrics.records_in("count", 1)
    metrics.async_counts("count", "ask", 5, 0, 0)
    metrics.task_gone("count", 3)
    metrics.task_gone("count", 3)
    left = metrics.values()
    assert not [name for name in left if 'partition="3"' in name]
    assert len([name for name in left if 'partition="4"' in name]) == 9
    assert left['kstreampy_records_in_total{stage="count"}'] == 1
    assert left['kstreampy_async_completed_total{stage="count",step="ask"}'] == 5


def test_age_of_the_last_checkpoint() -> None:
    clock = Clock()
    metrics = Metrics(clock=clock)
    assert math.isnan(metrics.values()["kstreampy_checkpoint_age_seconds"])
    metrics.checkpoint_done(0.1, 1)
    clock.now = 12.5
    assert metrics.values()["kstreampy_checkpoint_age_seconds"] == 12.5


def test_shares_of_the_loop_are_there_from_the_beginning(metrics: Metrics) -> None:
    metrics.loop_time("poll", 0.5)
    metrics.loop_time("poll", 0.25)
    shares = {share: metrics.values()[f'kstreampy_loop_seconds_total{{share="{share}"}}'] for share in LOOP_SHARES}
    assert shares == {"poll": 0.75, "process": 0, "checkpoint": 0, "idle": 0}
    with pytest.raises(KeyError):
        metrics.loop_time("lunch", 1)


def test_the_longest_gap_between_polls_is_shown_once(metrics: Metrics) -> None:
    for seconds in (0.1, 3.0, 0.2):
        metrics.poll_gap(seconds)
    assert metrics.values()["kstreampy_poll_gap_seconds"] == 3.0
    assert metrics.values()["kstreampy_poll_gap_seconds"] == 0.0


def test_two_workers_in_one_process_do_not_share_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.records_in("count", 1)
    assert 'kstreampy_records_in_total{stage="count"}' not in second.values()
