"""Asynchronous look-ups over crashes: workers are killed -9 with calls under way; what readers of committed records see must
be what a run without any of it gives: of each user the same answers in the same order, none twice, none missing."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import by_key, fill
from tests.integration.worker import wait_joined

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30_000
USERS = 300
PARTITIONS = 4
KILLS = 5


def record(number: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition. All records of a user are in one partition."""
    user = number * 7919 % USERS
    return f"{number}", {"user": f"user-{user}", "number": number}, user % PARTITIONS


def expected() -> dict[bytes | None, list[dict[str, Any]]]:
    """A clean run's answers of each user, in order."""
    answers: dict[bytes | None, list[dict[str, Any]]] = {}
    for number in range(RECORDS):
        _, value, _ = record(number)
        answer = {**value, "first": number * 3, "second": number * 3 + 1}
        answers.setdefault(value["user"].encode(), []).append(answer)
    return answers


@pytest.mark.timeout(420)
def test_kills_with_calls_under_way(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    fleet, follower, (source,) = make_fleet("asking.py", "records", partitions=PARTITIONS)
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    chance = random.Random(5)
    part = RECORDS // KILLS
    for kill in range(KILLS):
        fill(real_bootstrap, source, (record(number) for number in range(kill * part, (kill + 1) * part)))
        time.sleep(chance.uniform(0.3, 2.0))
        fleet.kill_one(chance)
    follower.read_until(RECORDS, 150)
    found, clean = by_key(follower.messages), expected()
    wrong = [user for user in clean if found.get(user) != clean[user]]
    assert not wrong, f"{len(wrong)} users, e.g. {wrong[0]!r}: {found.get(wrong[0])}\n{fleet.logs()}"
    assert set(found) == set(clean)
    assert [worker.terminate() for worker in workers] == [0, 0]
    assert follower.read(1.0) == RECORDS
