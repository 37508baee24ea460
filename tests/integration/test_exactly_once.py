"""Exactly-once over crashes: workers are killed -9, stopped and added in the middle; what readers of committed records see
must be what a run without any of it gives: per key the same records in the same order, none twice, none missing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from tests.integration.conftest import MakeFleet
from tests.integration.topic import Follower, by_key, producer
from tests.integration.worker import Fleet, wait_joined, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 300_000
USERS = 3_000
PARTITIONS = 4


def record(number: int) -> tuple[int, str, int]:
    """Partition, user and amount of record `number`: all records of a user are in one partition, under other keys."""
    user = number * 7919 % USERS
    return user % PARTITIONS, f"user-{user}", number % 97


def expected() -> dict[bytes | None, list[int]]:
    """A clean run's result: the running totals of every user."""
    totals: dict[bytes | None, list[int]] = {}
    for number in range(RECORDS):
        _, user, amount = record(number)
        so_far = totals.setdefault(user.encode(), [])
        so_far.append(amount + (so_far[-1] if so_far else 0))
    return totals


class Feeder(threading.Thread):
    """Writes the records over `seconds`, while the job runs."""

    def __init__(self, bootstrap: str, topic: str, seconds: float) -> None:
        super().__init__(daemon=True)
        self._producer = producer(bootstrap)
        self._topic = topic
        self._seconds = seconds

    def run(self) -> None:
        began = time.monotonic()
        for number in range(RECORDS):
            partition, user, amount = record(number)
            value = f'{{"id":{number},"user":"{user}","amount":{amount}}}'
            while True:
                try:
                    self._producer.produce(self._topic, value, f"{number}", partition)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if number % 1000 == 0:
                self._producer.poll(0)
                ahead = number / RECORDS * self._seconds - (time.monotonic() - began)
                if ahead > 0:
                    time.sleep(ahead)
        self._producer.flush()


def totals(messages: list) -> dict[bytes | None, list[int]]:  # type: ignore[type-arg]
    return {key: [value["amount"] for value in values] for key, values in by_key(messages).items()}


def assert_clean(found: dict[bytes | None, list[int]], fleet: Fleet) -> None:
    clean = expected()
    wrong = [key for key in clean if found.get(key) != clean[key]]
    shown = [(key, found.get(key, [])[:8], clean[key][:8]) for key in wrong[:3]]
    assert not wrong, f"{len(wrong)} of {len(clean)} users differ, e.g. {shown}\n{fleet.logs()}"
    assert set(found) == set(clean)


@pytest.fixture
def scene(real_bootstrap: str, make_fleet: MakeFleet) -> Callable[..., tuple[Fleet, Follower, Feeder]]:
    """A fleet of workers not started yet, a follower of the output, a feeder of the input."""

    def make(seconds: float, *options: str, more: Sequence[str] = ()) -> tuple[Fleet, Follower, Feeder]:
        fleet, follower, (source,) = make_fleet(
            "rekey_sum.py", "numbers", partitions=PARTITIONS, options=options, more=more
        )
        return fleet, follower, Feeder(real_bootstrap, source, seconds)

    return make


@pytest.mark.timeout(420)
@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_ten_kills_of_two_workers(protocol: str, scene: Callable[..., tuple[Fleet, Follower, Feeder]]) -> None:
    fleet, follower, feeder = scene(40.0, "--set", f"group_protocol={protocol}")
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    feeder.start()
    chance = random.Random(11)
    for _ in range(10):
        time.sleep(chance.uniform(1.0, 5.0))
        fleet.kill_one(chance)
    feeder.join()
    found = totals(follower.read_until(RECORDS, 180))
    assert_clean(found, fleet)
    assert [worker.terminate() for worker in workers] == [0, 0]
    assert follower.read(1.0) == RECORDS


@pytest.mark.timeout(300)
def test_one_worker_stopped_and_one_added(scene: Callable[..., tuple[Fleet, Follower, Feeder]]) -> None:
    fleet, follower, feeder = scene(20.0)
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    feeder.start()
    time.sleep(5)
    assert workers[0].terminate() == 0
    time.sleep(3)
    fleet.start("w2")
    time.sleep(3)
    workers[1].kill()
    workers[1].start()
    feeder.join()
    assert_clean(totals(follower.read_until(RECORDS, 180)), fleet)


def run_at_least_once(fleet: Fleet, feeder: Feeder) -> None:
    """Two workers under at-least-once, four kills while the input is written."""
    workers = [fleet.start("w0"), fleet.start("w1")]
    wait_joined(workers)
    feeder.start()
    chance = random.Random(5)
    for _ in range(4):
        time.sleep(chance.uniform(1.5, 4.0))
        fleet.kill_one(chance)
    feeder.join()


@pytest.mark.timeout(300)
def test_at_least_once_loses_nothing(scene: Callable[..., tuple[Fleet, Follower, Feeder]]) -> None:
    """Records may pass the topic between the stages twice, so totals may be too large; never too small, never too few."""
    fleet, follower, feeder = scene(20.0, "--guarantee", "at_least_once")
    run_at_least_once(fleet, feeder)
    clean = expected()

    def complete() -> bool:
        follower.read()
        found = totals(follower.messages)
        return all(len(found.get(key, ())) >= len(values) for key, values in clean.items()) and all(
            max(found[key]) >= values[-1] for key, values in clean.items()
        )

    wait_until(complete, 120, "every user's results", 1.0)


@pytest.mark.timeout(300)
def test_state_of_one_stage_is_exact_at_least_once(scene: Callable[..., tuple[Fleet, Follower, Feeder]]) -> None:
    """At-least-once may write a result twice; but the state that results come from is exact: unfinished checkpoints are
    void. So every total of the clean run is there, and none besides."""
    fleet, follower, feeder = scene(20.0, "--guarantee", "at_least_once", more=["inplace"])
    run_at_least_once(fleet, feeder)
    clean = expected()

    def complete() -> bool:
        follower.read()
        found = totals(follower.messages)
        return all(values[-1] in set(found.get(key, ())) for key, values in clean.items())

    wait_until(complete, 120, "every user's last total", 1.0)
    found = totals(follower.messages)
    wrong = {key: set(values) ^ set(found[key]) for key, values in clean.items() if set(values) != set(found[key])}
    assert not wrong, f"{len(wrong)} users differ, e.g. {list(wrong.items())[:2]}\n{fleet.logs()}"
