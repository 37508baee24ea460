"""When a worker is live and when it is ready, with a clock in hand."""

from __future__ import annotations

import pytest

from kstreampy.observe.health import Health


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    return Health(stall_s=10, clock=clock)


def turn(health: Health, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    health.progress()


def test_a_loop_that_stands_still_is_not_live(health: Health, clock: Clock) -> None:
    clock.now = 10
    assert health.live() == []
    clock.now = 10.5
    assert health.live() == [{"reason": "the loop stands still", "seconds": 10.5}]
    health.progress()
    assert health.live() == []


def test_a_task_that_does_not_move_although_records_wait_is_not_live(health: Health, clock: Clock) -> None:
    health.moved("count", 0, position=5, lag=100)
    health.moved("count", 1, position=5, lag=100)
    turn(health, clock, 11)
    health.moved("count", 0, position=5, lag=200)
    health.moved("count", 1, position=6, lag=200)
    (reason,) = health.live()
    assert (reason["stage"], reason["partition"], reason["position"], reason["lag"]) == ("count", 0, 5, 200)
    health.moved("count", 0, position=6, lag=199)
    assert health.live() == []


@pytest.mark.parametrize("lag", [0, None])
def test_an_idle_task_is_live_for_ever(health: Health, clock: Clock, lag: int | None) -> None:
    for _ in range(10):
        turn(health, clock, 9)
        health.moved("count", 0, position=5, lag=lag)
    assert health.live() == []


def test_work_that_just_arrived_gets_a_full_bound_of_time(health: Health, clock: Clock) -> None:
    health.moved("count", 0, position=5, lag=0)
    turn(health, clock, 100)
    health.moved("count", 0, position=5, lag=0)
    turn(health, clock, 9)
    health.moved("count", 0, position=5, lag=3)
    assert health.live() == []
    turn(health, clock, 2)
    assert len(health.live()) == 1


def test_a_task_that_restores_or_is_gone_need_not_move(health: Health, clock: Clock) -> None:
    health.moved("count", 0, position=5, lag=100)
    health.moved("count", 1, position=5, lag=100)
    health.restoring("count", 0, 0, 1000)
    health.gone("count", 1)
    turn(health, clock, 100)
    assert health.live() == []
    health.restored("count", 0)
    turn(health, clock, 9)
    assert health.live() == []
    turn(health, clock, 2)
    assert len(health.live()) == 1


def test_without_a_broker_a_worker_is_live_but_not_ready(health: Health, clock: Clock) -> None:
    health.started()
    health.moved("count", 0, position=5, lag=100)
    health.broker_lost("connection refused")
    clock.now = 60
    assert health.live() == []
    assert health.ready() == [{"reason": "the broker is unavailable", "error": "connection refused"}]
    health.broker_found()
    health.progress()
    assert health.live() == []
    assert health.ready() == []
    turn(health, clock, 11)
    assert len(health.live()) == 1


def test_readiness_from_start_to_stop(health: Health, clock: Clock) -> None:
    assert health.ready() == [{"reason": "starting"}]
    health.started()
    health.joining("count")
    assert health.ready() == [{"reason": "joining", "stage": "count"}]
    health.joined("count")
    health.restoring("count", 2, 100, 1100)
    clock.now = 2
    health.restoring("count", 2, 600, 1100)
    (reason,) = health.ready()
    assert reason == {
        "reason": "restoring", "stage": "count", "partition": 2, "done": 600, "total": 1100, "eta_s": 2.0
    }  # fmt: skip
    health.restored("count", 2)
    assert health.ready() == []
    health.stopping("SIGTERM")
    assert health.ready() == [{"reason": "stopping", "because": "SIGTERM"}]


def test_a_worker_without_partitions_is_live_and_ready(health: Health, clock: Clock) -> None:
    health.started()
    health.joining("count")
    health.joined("count")
    for _ in range(10):
        turn(health, clock, 9)
    assert (health.live(), health.ready(), health.tasks()) == ([], [], [])


def test_an_unknown_speed_has_no_eta(health: Health, clock: Clock) -> None:
    health.started()
    health.restoring("count", 0, 0, 100)
    clock.now = 1
    assert health.ready()[0]["eta_s"] is None


def test_overview_of_tasks(health: Health) -> None:
    health.moved("b", 1, position=5, lag=None)
    health.restoring("a", 0, 0, 1)
    assert health.tasks() == [
        {"stage": "a", "partition": 0, "position": None, "lag": None, "restoring": True},
        {"stage": "b", "partition": 1, "position": 5, "lag": None, "restoring": False},
    ]
