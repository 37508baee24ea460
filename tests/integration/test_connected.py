"""Two inputs over crashes: workers are killed -9 while both sides come in, one loses its disk and one is added; what readers of
committed records see must be what a run without any of it gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import by_key, fill

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 30_000
"""Of each side."""
USERS = 500
RULES = 60
PARTITIONS = 4
GROUPS = 6
PARTS = 6


def order(number: int) -> tuple[str, dict[str, Any], int]:
    """Key, value and partition."""
    return f"{number}", {"user": f"user-{number * 7919 % USERS}", "amount": 10 + number % 7}, number % PARTITIONS


def payment(number: int) -> tuple[str, dict[str, Any], int]:
    return f"{number}", {"user": f"user-{number * 104729 % USERS}", "amount": number % 5}, number % PARTITIONS


def rule(number: int) -> tuple[str, dict[str, Any], int]:
    return f"{number}", {"rule": number}, number % PARTITIONS


def expected() -> dict[str, tuple[int, int]]:
    """Per user, how many records there are, and the balance after all of them."""
    found: dict[str, tuple[int, int]] = {}
    for number in range(RECORDS):
        for (_, value, _), sign in ((order(number), 1), (payment(number), -1)):
            count, balance = found.get(value["user"], (0, 0))
            found[value["user"]] = count + 1, balance + sign * value["amount"]
    return found


@pytest.mark.timeout(420)
def test_kills(real_bootstrap: str, make_fleet: MakeFleet) -> None:
    options = ("--set", f"max_parallelism={GROUPS}")
    fleet, follower, inputs = make_fleet(
        "connected.py", "orders", "payments", "rules", partitions=PARTITIONS, options=options
    )

    def grow(part: int) -> None:
        for topic, make, count in zip(inputs, (order, payment, rule), (RECORDS, RECORDS, RULES), strict=True):
            fill(real_bootstrap, topic, map(make, range(part * count // PARTS, (part + 1) * count // PARTS)))

    workers = fleet.grow_under_kills(grow, PARTS, (1.0, 3.0))
    total = 3 * RECORDS + RULES * GROUPS
    found = by_key(follower.read_until(total, 150))
    clean = expected()
    balances = {user: found[user.encode()] for user in clean if user.encode() in found}
    wrong = [
        user
        for user, (count, balance) in clean.items()
        if [value["count"] for value in balances.get(user, [])] != list(range(1, count + 1))
        or balances[user][-1]["balance"] != balance
    ]
    assert not wrong, f"{len(wrong)} users, e.g. {wrong[0]}: {balances.get(wrong[0])}\n{fleet.logs()}"
    for task in range(GROUPS):
        seen = [(value["rule"], value["seen"]) for value in found[f"task-{task}".encode()]]
        assert sorted(seen) == [(number, 1) for number in range(RULES)], fleet.logs()
    assert len(found[b"orders"]) == RECORDS
    assert [worker.terminate() for worker in workers] == [0, 0, 0]
    assert follower.read(1.0) == total
