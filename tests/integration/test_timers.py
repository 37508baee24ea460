"""Timers over crashes: workers are killed -9 while timers are pending and fire, and one loses its disk; what readers of
committed records see must be what a run without any of it gives."""

from __future__ import annotations

import random
import time
from itertools import groupby
from typing import Any

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import Follower, by_key, fill
from tests.integration.worker import Fleet, wait_joined, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30_000
USERS = 500
PARTITIONS = 4
LATER_MS = 1_000
FAR_MS = 10**12
KILLS = 6
SECONDS = 30


def record(number: int, began_ms: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition. All records of a user are in one partition; event times of a user are all different."""
    user = number * 7919 % USERS
    wall = began_ms + number * SECONDS * 1_000 // RECORDS
    return f"{number}", {"user": f"user-{user}", "time": number * 10, "wall": wall}, user % PARTITIONS


Told = dict[str, tuple[list[tuple[int, int]], list[int]]]


def expected(began_ms: int) -> Told:
    """Per user: event time and count of each timer in order, and the processing times."""
    told: Told = {}
    for number in range(RECORDS):
        _, value, _ = record(number, began_ms)
        event, walls = told.setdefault(value["user"], ([], []))
        event.append((value["time"] + LATER_MS, len(event) + 1))
        walls.append(value["wall"])
    for event, walls in told.values():
        event.append((event[-1][0] - LATER_MS + FAR_MS, len(event) + 1))
        walls[:] = [wall for wall, _ in groupby(sorted(walls))]  # one timer per key and time
    return told


def told_by(follower: Follower) -> Told:
    return {
        (key or b"").decode(): (
            [(value["time"], value["fired"]) for value in values if "time" in value],
            sorted(value["wall"] for value in values if "wall" in value),
        )
        for key, values in by_key(follower.messages).items()
    }


def count(told: Told) -> int:
    return sum(len(event) + len(walls) for event, walls in told.values())


def run(bootstrap: str, fleet: Fleet, source: str, began_ms: int) -> None:
    """Two workers; the input is written in parts, with kills in between, one of them with the loss of the disk."""
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    chance = random.Random(3)
    part = RECORDS // KILLS
    for kill in range(KILLS):
        fill(bootstrap, source, (record(number, began_ms) for number in range(kill * part, (kill + 1) * part)))
        time.sleep(chance.uniform(1.0, 4.0))
        fleet.kill_one(chance, lose_disk=kill == KILLS // 2)


def push(bootstrap: str, source: str) -> None:
    """The watermark of a source is not part of a checkpoint, so it waits for one more record behind a crash."""
    end = {"user": "end", "time": 2 * FAR_MS, "wall": 0}
    fill(bootstrap, source, ((None, end, partition) for partition in range(PARTITIONS)))


@pytest.mark.timeout(420)
def test_kills_exactly_once(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    fleet, follower, (source,) = make_fleet("alarms.py", "records", partitions=PARTITIONS)
    began_ms = time.time_ns() // 1_000_000 + 10_000
    run(real_bootstrap, fleet, source, began_ms)
    clean = expected(began_ms)
    wait_until(lambda: "took" in fleet.workers["w0"].log(), 60, "the workers")
    time.sleep(5)
    push(real_bootstrap, source)
    follower.read_until(count(clean), 120)
    found = told_by(follower)
    wrong = [user for user in clean if found.get(user) != clean[user]]
    assert not wrong, f"{len(wrong)} users, e.g. {wrong[0]}: {found.get(wrong[0])} != {clean[wrong[0]]}\n{fleet.logs()}"
    assert set(found) == set(clean)
    assert [worker.terminate() for worker in fleet.workers.values()] == [0, 0]
    assert follower.read(1.0) == count(clean)


@pytest.mark.timeout(420)
def test_kills_at_least_once_in_one_stage(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    """Results may come twice, but none is missing, and none but a clean run's is there: unfinished checkpoints are void."""
    options = ("--guarantee", "at_least_once")
    fleet, follower, (source,) = make_fleet(
        "alarms.py", "records", partitions=PARTITIONS, options=options, more=["inplace"]
    )
    began_ms = time.time_ns() // 1_000_000 + 10_000
    run(real_bootstrap, fleet, source, began_ms)
    clean = {user: (set(event), set(walls)) for user, (event, walls) in expected(began_ms).items()}
    time.sleep(5)
    push(real_bootstrap, source)

    def found() -> dict[str, tuple[set[Any], set[Any]]]:
        follower.read()
        return {user: (set(event), set(walls)) for user, (event, walls) in told_by(follower).items()}

    def complete() -> bool:
        now = found()
        return all(
            user in now and event <= now[user][0] and walls <= now[user][1] for user, (event, walls) in clean.items()
        )

    wait_until(complete, 120, "every timer", 1.0)
    assert found() == clean, fleet.logs()
