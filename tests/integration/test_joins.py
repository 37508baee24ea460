"""Joins over crashes: workers are killed -9 while both streams come in, one loses its disk and one is added; what readers of
committed records see must be every pair once, each with its row of the table."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import fill

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30_000
"""Of each stream."""
USERS = 500
PARTITIONS = 4
GROUPS = 6
PARTS = 6


def click(number: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition: each partition in the order of event time."""
    value = {"user": f"user-{number * 7919 % USERS}", "number": number, "time": number * 10}
    return f"{number}", value, number % PARTITIONS


def view(number: int) -> tuple[str, dict[str, Any], int]:
    value = {"user": f"user-{number * number % 1009 % USERS}", "number": number, "time": number * 10 + 3}
    return f"{number}", value, number % PARTITIONS


def rows() -> Iterator[tuple[str, dict[str, Any] | None, int]]:
    """Every user has an old row; then a third of them has a new one, and a third none any more."""
    for number in range(USERS):
        yield f"user-{number}", {"name": "old"}, number % PARTITIONS
    for number in range(USERS):
        if number % 3 < 2:
            yield f"user-{number}", {"name": f"n{number}"} if number % 3 else None, number % PARTITIONS


def name_of(user: str) -> str | None:
    number = int(user.removeprefix("user-"))
    return (None, f"n{number}", "old")[number % 3]


def expected() -> Counter[tuple[str, int, int, int, str | None]]:
    views: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(RECORDS):
        value = view(number)[1]
        views[value["user"]].append(value)
    found: Counter[tuple[str, int, int, int, str | None]] = Counter()
    for number in range(RECORDS):
        left = click(number)[1]
        for right in views[left["user"]]:
            if abs(right["time"] - left["time"]) <= 1000:
                later = max(left["time"], right["time"])
                found[left["user"], left["number"], right["number"], later, name_of(left["user"])] += 1
    return found


@pytest.mark.timeout(420)
def test_kills(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    options = ("--set", f"max_parallelism={GROUPS}")
    fleet, follower, inputs = make_fleet("joins.py", "clicks", "views", "users", partitions=PARTITIONS, options=options)
    fill(real_bootstrap, inputs[2], rows())

    def grow(part: int) -> None:
        numbers = range(part * RECORDS // PARTS, (part + 1) * RECORDS // PARTS)
        for topic, make in zip(inputs, (click, view), strict=False):
            fill(real_bootstrap, topic, map(make, numbers))

    workers = fleet.grow_under_kills(grow, PARTS, (1.0, 3.0))
    clean = expected()
    messages = follower.read_until(clean.total(), 150)
    found = Counter(
        (row["user"], row["click"], row["view"], row["time"], row["name"]) for row in map(json_of, messages)
    )
    fleet.assert_same(found, clean)
    assert [worker.terminate() for worker in workers] == [0, 0, 0]
    assert follower.read(1.0) == clean.total()


def json_of(message: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(message.value())
    return value
