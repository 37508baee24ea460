"""Windows over crashes: workers are killed -9 ten times in the middle of open windows, and one loses its disk; what readers
of committed records see must be what a run without any of it gives."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from typing import Any

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import Follower, by_key, fill
from tests.integration.worker import wait_joined

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30_000
USERS = 200
PARTITIONS = 4
KILLS = 10
STEP_MS = 25
TUMBLING_MS, EARLY_MS, COUNT = 30_000, 10_000, 7
LAST_MS = 10**12
NO_END = 2**63 - 1

Results = dict[str, list[tuple[int, list[int]]]]
"""User and kind of window → end and elements of each result, in order."""


def record(number: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition. A user has a record every 5 s of event time, and all of them in one partition."""
    user = number * 7919 % USERS
    gap = 1_000 if number % 7 == 0 else USERS * STEP_MS
    return str(number), {"user": f"u{user}", "number": number, "time": number * STEP_MS, "gap": gap}, user % PARTITIONS


def expected() -> Results:
    by_user: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number in range(RECORDS):
        value = record(number)[1]
        by_user[value["user"]].append(value)
    found: Results = {}
    for user, values in by_user.items():
        found[f"{user} early"] = early(values)
        found[f"{user} session"] = sessions(values)
        numbers = [value["number"] for value in values]
        whole = len(numbers) // COUNT * COUNT
        found[f"{user} count"] = [(NO_END, numbers[at : at + COUNT]) for at in range(0, whole, COUNT)]
    return found


def early(values: list[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    """Every 10 s after a window's first element, and at its end, with everything up to then at least."""
    windows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for value in values:
        windows[value["time"] // TUMBLING_MS * TUMBLING_MS].append(value)
    results = []
    for start, inside in windows.items():
        end = start + TUMBLING_MS - 1
        first = inside[0]["time"] // EARLY_MS * EARLY_MS + EARLY_MS
        results += [
            (end, [value["number"] for value in inside if value["time"] <= at])
            for at in [*range(first, end, EARLY_MS), end]
        ]
    return results


def sessions(values: list[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    results: list[tuple[int, list[int]]] = []
    inside: list[int] = []
    end = 0
    for value in values:
        if inside and value["time"] > end:
            results.append((end - 1, inside))
            inside = []
        inside = [*inside, value["number"]]
        end = max(end, value["time"] + value["gap"])
    return [*results, (end - 1, inside)]


def told(follower: Follower) -> Results:
    return {
        (key or b"").decode(): [(value["end"], value["numbers"]) for value in values]
        for key, values in by_key(follower.messages).items()
    }


def right(key: str, found: list[tuple[int, list[int]]], clean: list[tuple[int, list[int]]]) -> bool:
    """Early results may have in them what came while the watermark was on its way; they are of the same windows, and begin
    with what they must have."""
    if not key.endswith("early"):
        return found == clean
    whole = dict(clean)
    return [end for end, _ in found] == [end for end, _ in clean] and all(
        numbers[: len(least)] == least and whole[end][: len(numbers)] == numbers
        for (end, numbers), (_, least) in zip(found, clean, strict=True)
    )


@pytest.mark.timeout(500)
def test_kills_in_open_windows_exactly_once(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    fleet, follower, (source,) = make_fleet("windows.py", "records", partitions=PARTITIONS)
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    chance = random.Random(5)
    part = RECORDS // KILLS
    for kill in range(KILLS):
        fill(real_bootstrap, source, map(record, range(kill * part, (kill + 1) * part)))
        time.sleep(chance.uniform(0.5, 3.0))
        fleet.kill_one(chance, lose_disk=kill == KILLS // 2)
    last = {"user": "last", "number": 0, "time": LAST_MS, "gap": 1}
    fill(real_bootstrap, source, ((None, last, partition) for partition in range(PARTITIONS)))
    clean = expected()
    follower.read_until(sum(map(len, clean.values())), 150)
    found = told(follower)
    wrong = [key for key in clean if not right(key, found.get(key, []), clean[key])]
    assert not wrong, f"{len(wrong)}, e.g. {wrong[0]}: {found.get(wrong[0])} != {clean[wrong[0]]}\n{fleet.logs()}"
    assert set(found) == set(clean)
    assert [worker.terminate() for worker in fleet.workers.values()] == [0, 0]
    assert follower.read(1.0) == sum(map(len, clean.values()))
