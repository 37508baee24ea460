"""State over real Kafka comes back: on a new disk all of it, after a clean stop nothing, after a kill only the tail, and
a damaged store is set aside. Each time the results go on exactly where they were."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.test_exactly_once import totals
from tests.integration.topic import Follower, create, fill
from tests.integration.worker import Fleet, Worker, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]

PARTITIONS = 2
USERS = 2_000
ROUND = 20_000
_RESTORED = re.compile(r"task total/(\d+): restored (\d+) records of \S+-changelog")


class Job:
    """The in-place variant of the job, with one worker."""

    def __init__(self, bootstrap: str, source: str, target: str, application: str, root: Path) -> None:
        self.bootstrap = bootstrap
        self.source = source
        self.fleet = Fleet("rekey_sum.py", application, [bootstrap, source, target, "inplace"], root)
        self.follower = Follower(bootstrap, target)
        self.expected: dict[bytes | None, list[int]] = {}
        self.count = 0

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.worker.directory

    @property
    def worker(self) -> Worker:
        return self.fleet.workers["w0"]

    def start(self) -> str:
        """Starts it and waits until it reads; the log of this start."""
        before = len(self.worker.log()) if self.fleet.workers else 0
        self.fleet.start("w0")
        wait_until(lambda: "took" in self.worker.log()[before:], 90, "the worker to join")
        self.feed(PARTITIONS * 10)
        return self.worker.log()[before:]

    def feed(self, records: int = ROUND) -> None:
        """Feeds, and waits for exactly the results of a run without interruption."""

        def made() -> Iterator[tuple[str, dict[str, object], int]]:
            for number in range(self.count, self.count + records):
                user, amount = f"user-{number * 7919 % USERS}", number % 97
                so_far = self.expected.setdefault(user.encode(), [])
                so_far.append(amount + (so_far[-1] if so_far else 0))
                yield user, {"user": user, "amount": amount}, number * 7919 % USERS % PARTITIONS

        fill(self.bootstrap, self.source, made())
        self.count += records
        found = totals(self.follower.read_until(self.count, 90))
        assert found == self.expected, self.fleet.logs()

    def restored(self, log: str) -> int:
        """Changelog records replayed, over all tasks."""
        return sum(int(records) for _, records in _RESTORED.findall(log))


@pytest.fixture
def job(real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Job]:
    source, target, application = unique("numbers"), unique("totals"), unique("restore")
    create(real_bootstrap, source, target, partitions=PARTITIONS)
    job = Job(real_bootstrap, source, target, application, tmp_path / application)
    yield job
    job.fleet.stop()
    job.follower.close()


def test_new_disk(job: Job) -> None:
    job.start()
    job.feed()
    assert job.worker.terminate() == 0
    worker_id = (job.state / "worker-id").read_text()
    shutil.rmtree(job.state)
    job.state.mkdir()
    (job.state / "worker-id").write_text(worker_id)
    log = job.start()
    assert USERS <= job.restored(log) <= ROUND + PARTITIONS * 10
    job.feed()


def test_clean_stop_replays_nothing(job: Job) -> None:
    job.start()
    job.feed()
    assert job.worker.terminate() == 0
    began = time.monotonic()
    log = job.start()
    assert time.monotonic() - began < 30
    assert job.restored(log) == 0, log
    job.feed()


def test_kill_replays_only_the_tail(job: Job) -> None:
    """The store may be behind by what a few checkpoints wrote, never by everything."""
    job.start()
    for _ in range(3):
        job.feed()
    time.sleep(6)  # longer than committed entries wait in memory for the store
    job.feed(200)
    job.worker.kill()
    log = job.start()
    assert job.restored(log) <= 400, log
    job.feed()


@pytest.mark.parametrize("damage", ["MANIFEST*", "CURRENT"])
def test_damaged_store_is_set_aside(job: Job, damage: str) -> None:
    job.start()
    job.feed()
    assert job.worker.terminate() == 0
    hurt = list((job.state / "total" / "0").glob(damage))
    assert hurt
    for file in hurt:
        file.write_bytes(file.read_bytes()[:5] if damage == "CURRENT" else b"")
    log = job.start()
    assert log.count("local state of total/0 is damaged") == 1
    assert "local state of total/1" not in log
    assert (job.state / "total" / "0.corrupt-1").is_dir()
    assert job.restored(log) >= USERS // PARTITIONS
    job.feed()
