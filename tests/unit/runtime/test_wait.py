"""How long a driver with nothing to do waits: until a task wants to be woken, at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kstreampy.runtime.driver import Driver
from kstreampy.runtime.task import Status
from kstreampy.serde.batch import MAX_WATERMARK


def wait_s(*tasks: tuple[Status, int]) -> float:
    """Of a driver at 1,000 ms whose tasks are in these states and ask for these times."""
    made = {
        number: SimpleNamespace(status=status, context=SimpleNamespace(wake_at_ms=wake_at_ms))
        for number, (status, wake_at_ms) in enumerate(tasks)
    }
    driver: Any = SimpleNamespace(
        assignments=[SimpleNamespace(tasks=made), SimpleNamespace(tasks={})],
        resources=SimpleNamespace(clock=lambda: 1_000),
    )
    return Driver._until_wake_s(driver)


@pytest.mark.parametrize(
    ("wake_at_ms", "seconds"), [(MAX_WATERMARK, 0.02), (1_500, 0.02), (1_001, 0.001), (1_000, 0.0), (3, 0.0)]
)
def test_until_the_first_task_wants_to_be_woken(wake_at_ms: int, seconds: float) -> None:
    assert wait_s((Status.RUNNING, MAX_WATERMARK), (Status.RUNNING, wake_at_ms)) == pytest.approx(seconds)


@pytest.mark.parametrize("status", [Status.FINISHED, Status.RESTORING, Status.CREATED])
def test_tasks_that_are_not_woken_do_not_count(status: Status) -> None:
    """Or the driver would turn without a pause until they are gone."""
    assert wait_s((status, 3)) == 0.02


def test_without_tasks() -> None:
    assert wait_s() == 0.02
