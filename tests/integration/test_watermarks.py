"""Event time over real Kafka: a partition that falls silent and one that was never written hold nothing back, what returns is
not late, a restart never goes back, and partitions of one group wait for each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.topic import Follower, by_key, create, fill
from tests.integration.worker import Fleet, Worker, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(240)]


class Job:
    """One worker of the job, its input and what it has said."""

    def __init__(self, bootstrap: str, names: tuple[str, str, str], root: Path, guarantee: str, *more: str) -> None:
        source, target, application = names
        self.bootstrap = bootstrap
        self.source = source
        self.exact = guarantee == "exactly_once"
        self.fleet = Fleet(
            "timed.py", application, [bootstrap, source, target, *more], root, ["--guarantee", guarantee]
        )
        self.follower = Follower(bootstrap, target)

    @property
    def worker(self) -> Worker:
        return self.fleet.workers["w0"]

    def start(self) -> None:
        before = len(self.worker.log()) if self.fleet.workers else 0
        self.fleet.start("w0")
        wait_until(lambda: "stage timed: took" in self.worker.log()[before:], 90, "the worker to join")

    def feed(self, partition: int, *times: int) -> None:
        fill(self.bootstrap, self.source, [(None, {"user": f"user-{partition}", "time": t}, partition) for t in times])

    def said(self, what: str, partition: int) -> list[int]:
        """Times of records of a partition that came, were late, or whose timers fired; at-least-once, each once."""
        self.follower.read()
        values: list[dict[str, Any]] = by_key(self.follower.messages).get(f"user-{partition}".encode(), [])
        times = [value[what] for value in values if what in value]
        return times if self.exact else list(dict.fromkeys(times))

    def wait(self, what: str, partition: int, times: list[int]) -> None:
        """Until this is what it has said."""
        try:
            wait_until(lambda: self.said(what, partition) == times, 60, f"{what} {times} of {partition}")
        except AssertionError as error:
            raise AssertionError(f"{error}, not {self.said(what, partition)}\n{self.fleet.logs()}") from None


@pytest.fixture
def job(real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(guarantee: str, partitions: int, *more: str) -> Job:
        names = unique("records"), unique("said"), unique("timed")
        create(real_bootstrap, *names[:2], partitions=partitions)
        made.append(Job(real_bootstrap, names, tmp_path / names[2], guarantee, *more))
        return made[-1]

    yield make
    for one in made:
        one.fleet.stop()
        one.follower.close()


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_silent_and_never_written_partitions(job: Callable[..., Job], guarantee: str) -> None:
    """P40: three partitions, of which one falls silent and one never has a record; a kill in the silence; it returns."""
    one = job(guarantee, 3, "idle")
    one.start()
    one.feed(1, 500)  # first, since it may be idle already when the other comes
    one.feed(0, 1000, 2000, 3000)
    one.wait("came", 0, [1000, 2000, 3000])
    one.wait("fired", 0, [1000, 2000])
    one.wait("fired", 1, [500])

    time.sleep(2)  # all of this is committed; at-least-once would do the rest again
    one.worker.kill()
    one.start()
    one.feed(0, 2500, 4000)
    one.wait("fired", 0, [1000, 2000, 2500, 3000])
    assert one.said("late", 0) == [2500], "late for the time before the kill"

    one.feed(1, 5000)
    one.feed(0, 9000)
    one.wait("fired", 0, [1000, 2000, 2500, 3000, 4000])
    one.feed(1, 9200, 9500)
    one.wait("came", 1, [500, 5000, 9200, 9500])
    one.wait("fired", 1, [500, 5000, 9200])
    one.wait("came", 0, [1000, 2000, 3000, 4000, 9000])
    assert one.said("late", 1) == []
    assert one.worker.terminate() == 0


def test_partitions_of_one_group_wait_for_each_other(job: Callable[..., Job]) -> None:
    """Held back by the client's pause, and nothing lost or doubled when it goes on; also over a restart while held."""
    one = job("exactly_once", 2, "aligned")
    one.start()
    one.feed(0, 0)
    one.feed(1, 0)
    one.wait("came", 0, [0])
    one.wait("came", 1, [0])
    one.feed(0, 5000)
    one.wait("came", 0, [0, 5000])
    time.sleep(1)
    ahead = list(range(5001, 5301))
    one.feed(0, *ahead)
    one.feed(1, 100)
    one.wait("came", 1, [0, 100])
    time.sleep(1)
    assert one.said("came", 0) == [0, 5000], "4 s ahead: not read"

    assert one.worker.terminate() == 0
    one.start()
    one.feed(1, 4900)
    one.wait("came", 1, [0, 100, 4900])
    one.wait("came", 0, [0, 5000, *ahead])
    one.feed(1, 9000)
    one.wait("fired", 0, [0, 5000, *ahead[:-1]])
    assert one.said("late", 0) == []
    assert one.worker.terminate() == 0
