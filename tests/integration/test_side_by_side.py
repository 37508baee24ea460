"""A join of two topics as they are, over crashes: workers are killed -9 while both topics grow, one loses its disk and one is
added; what readers of committed records see must be every pair once. The job makes no topics but for its state."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kstreampy.serde.key import partition_of
from tests.integration.conftest import MakeFleet
from tests.integration.topic import Follower, fill

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 24_000
"""Of each topic."""
USERS = 500
PARTITIONS = 4
PARTS = 6
BY_KEY = -1
OPTIONS = ("--set", "group_protocol=classic", "--set", "session_timeout_ms=6000")
"""A worker that was killed is missed soon."""


def click(number: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition: each partition in the order of event time."""
    value: dict[str, Any] = {"user": f"user-{number * 7919 % USERS}", "number": number, "time": number * 10}
    return value["user"], value, BY_KEY


def view(number: int) -> tuple[str, dict[str, Any], int]:
    value: dict[str, Any] = {
        "user": f"user-{number * number % 1009 % USERS}",
        "number": number,
        "time": number * 10 + 3,
    }
    return value["user"], value, BY_KEY


def expected() -> Counter[tuple[str, int, int, int]]:
    views: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(RECORDS):
        value = view(number)[1]
        views[value["user"]].append(value)
    found: Counter[tuple[str, int, int, int]] = Counter()
    for number in range(RECORDS):
        left = click(number)[1]
        for right in views[left["user"]]:
            if abs(right["time"] - left["time"]) <= 1000:
                found[left["user"], left["number"], right["number"], max(left["time"], right["time"])] += 1
    return found


@pytest.mark.timeout(300)
def test_kills(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    fleet, follower, inputs = make_fleet("side_by_side.py", "clicks", "views", partitions=PARTITIONS, options=OPTIONS)

    def grow(part: int) -> None:
        numbers = range(part * RECORDS // PARTS, (part + 1) * RECORDS // PARTS)
        for topic, make in zip(inputs, (click, view), strict=True):
            fill(real_bootstrap, topic, map(make, numbers))

    workers = fleet.grow_under_kills(grow, PARTS, (2.0, 4.0))
    clean = expected()
    messages = follower.read_until(clean.total(), 150)
    found = Counter((row["user"], row["click"], row["view"], row["time"]) for row in map(json_of, messages))
    fleet.assert_same(found, clean)
    assert [worker.terminate() for worker in workers] == [0, 0, 0]
    assert follower.read(1.0) == clean.total()
    assert own_topics(real_bootstrap, fleet.application_id) == [f"{fleet.application_id}-pairs-changelog"]
    for topic in inputs:
        check_places(real_bootstrap, topic)


def own_topics(bootstrap: str, application_id: str) -> list[str]:
    names: list[str] = list(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics)
    return [name for name in names if name.startswith(f"{application_id}-")]


def check_places(bootstrap: str, topic: str) -> None:
    """What the job takes for given: every record lies where its user's key belongs, and no partition is empty."""
    reader = Follower(bootstrap, topic)
    try:
        messages = reader.read_until(RECORDS, 60)
    finally:
        reader.close()
    assert len(messages) == RECORDS
    places = {(json_of(message)["user"], message.partition()) for message in messages}
    assert all(partition_of(user, PARTITIONS) == partition for user, partition in places)
    assert {partition for _, partition in places} == set(range(PARTITIONS))


def json_of(message: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(message.value())
    return value
