"""Whatever happens to the workers, the results are those of a run without trouble; and one seed is one run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.common import WatermarkStrategy
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness
from kstreampy.testing.fault import CRASH_POINTS
from tests.unit.testing.jobs import Spending, order, orders, sink, spending, spent

COUNT = 40


def feed(harness: JobHarness, first: int = 0, last: int = COUNT) -> None:
    topic = harness.topic("orders")
    for number in range(first, last):
        topic.send(order(number), key=order(number)["customer"])


def results(harness: JobHarness) -> Any:
    return harness.output("spending").by_key()


class TestCrash:
    def test_what_is_not_committed_is_gone(self) -> None:
        with JobHarness(spending) as harness:
            feed(harness, 0, 10)
            harness.run()
            feed(harness, 10, 20)
            harness.run(commit=False)
            harness.crash()
            assert results(harness) == spent(10)
            harness.run()
            assert results(harness) == spent(20)
            assert harness.crashes == 1
            assert harness.events == ["0 worker-0 started", "0 worker-0 killed", "0 worker-0 started"]

    def test_of_one_that_is_down(self) -> None:
        with JobHarness(spending) as harness:
            harness.crash()
            assert harness.crashes == 0
            with pytest.raises(JobError, match="there is no worker 1: there are 0"):
                harness.crash(1)

    @pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
    @pytest.mark.parametrize(("point", "side"), list(itertools.product(CRASH_POINTS, ("before", "after"))))
    def test_at_every_point(self, point: Any, side: Any, guarantee: Any) -> None:
        """A worker that lost its disk, so that there is a restore as well."""
        with JobHarness(spending, guarantee=guarantee) as harness:
            feed(harness, 0, 10)
            harness.run()
            harness.lose_disk()
            feed(harness, 10, COUNT)
            harness.crash_at(point, 2, side=side)
            harness.run()
            assert harness.crashes == 2
            assert any(event.endswith(f"crashed, {side} {point}") for event in harness.events)
            if guarantee == "exactly-once":
                assert results(harness) == spent(COUNT)
            else:
                assert results(harness).keys() == spent(COUNT).keys()
                for key, found in spent(COUNT).items():
                    assert results(harness)[key][-1]["amount"] >= found[-1]["amount"]

    @pytest.mark.parametrize("seed", range(12))
    def test_keyed_state_at_a_moment_that_the_seed_chooses(self, seed: int) -> None:
        with JobHarness(spending, workers=2, seed=seed) as harness:
            feed(harness)
            harness.crash_at("produce", worker=0)
            harness.crash_at("commit", side="after", worker=1)
            harness.run()
            harness.run()
            assert results(harness) == spent(COUNT)
            assert harness.state("spending", "so far", "c3") == (8, spent(COUNT)["c3"][-1]["amount"])

    def test_planned_anew(self) -> None:
        with JobHarness(spending) as harness:
            harness.crash_at("commit", 1)
            harness.crash_at("commit", 1000)
            feed(harness)
            harness.run()
            assert harness.crashes == 0

    @pytest.mark.parametrize("wrong", [("comit", 1, "before"), ("commit", 0, "before"), ("commit", 1, "during")])
    def test_at_no_point(self, wrong: Any) -> None:
        point, nth, side = wrong
        with JobHarness(spending) as harness, pytest.raises(JobError, match="crash_at"):
            harness.crash_at(point, nth, side=side)

    def test_sees_that_state_would_be_lost(self) -> None:
        """The harness can fail: a job that keeps its totals in the function is not the same after a crash."""

        def careless(env: Any) -> None:
            totals: dict[int, int] = {}

            def total(value: dict[str, Any]) -> str:
                totals[0] = totals.get(0, 0) + value["amount"]
                return str(totals[0])

            stream = env.from_source(orders(), WatermarkStrategy.no_watermarks(), "orders")
            outputs.append(harness.collect(stream.map(total)))

        outputs: list[Any] = []
        with JobHarness() as harness:
            careless(harness.env)
            feed(harness, 0, 3)
            harness.crash_at("commit", 1)
            harness.run()
            assert harness.crashes == 1
            assert outputs[0].values()[-1] != "3"


class TestDisk:
    @pytest.mark.parametrize("state_store", ["memory", "rocks"])
    def test_is_kept_over_a_crash_and_lost_when_told(self, state_store: Any) -> None:
        with JobHarness(spending, state_store=state_store) as harness:
            feed(harness)
            harness.run()
            worker = harness._simulation.workers[0]
            harness.crash()
            harness.run()
            kept = sum(records for _, records in worker.restored)
            harness.lose_disk()
            harness.run()
            assert sum(records for _, records in worker.restored) >= kept + 5
            feed(harness, COUNT, COUNT + 5)
            harness.run()
            assert results(harness) == spent(COUNT + 5)
            assert "0 worker-0 lost its disk" in harness.events


class TestWorkers:
    def tasks(self, harness: JobHarness) -> list[list[str]]:
        return [sorted(worker.tasks) for worker in harness._simulation.workers.values()]

    def test_come_and_go(self) -> None:
        with JobHarness(spending, partitions=2) as harness:
            feed(harness, 0, 10)
            harness.run()
            (alone,) = self.tasks(harness)
            assert harness.add_worker() == 1
            feed(harness, 10, 20)
            harness.run()
            first, second = self.tasks(harness)
            assert first != [] != second
            assert sorted(first + second) == alone
            harness.remove_worker(0)
            feed(harness, 20, 30)
            harness.run()
            assert self.tasks(harness) == [alone]
            assert results(harness) == spent(30)
            assert harness.add_worker() == 2

    def test_the_last_one_stays(self) -> None:
        with JobHarness(spending) as harness, pytest.raises(JobError, match="the last worker"):
            harness.remove_worker()

    def test_removed_without_warning(self) -> None:
        with JobHarness(spending, workers=3) as harness:
            feed(harness, 0, 20)
            harness.run(commit=False)
            harness.remove_worker(crash=True)
            harness.run()
            assert len(self.tasks(harness)) == 2
            assert results(harness) == spent(20)

    def test_removed_while_it_is_down(self) -> None:
        with JobHarness(spending, workers=2) as harness:
            feed(harness, 0, 20)
            harness.run()
            harness.crash(1)
            harness.remove_worker(1)
            feed(harness, 20, 30)
            harness.run()
            assert results(harness) == spent(30)

    def test_rebalance_moves_every_task(self) -> None:
        with JobHarness(spending, workers=2, partitions=2) as harness:
            feed(harness, 0, 20)
            harness.run()
            before = self.tasks(harness)
            feed(harness, 20, 30)
            harness.rebalance()
            harness.run()
            assert self.tasks(harness) == before[::-1]
            assert results(harness) == spent(30)

    def test_rebalance_of_a_single_worker(self) -> None:
        with JobHarness(spending) as harness:
            feed(harness, 0, 20)
            harness.run(commit=False)
            before = self.tasks(harness)
            harness.rebalance()
            assert self.tasks(harness) == [[]]
            harness.run()
            assert self.tasks(harness) == before
            assert results(harness) == spent(20)
            assert harness.events[-1] == "0 rebalance"

    def test_expelled(self) -> None:
        with JobHarness(spending, workers=2) as harness:
            feed(harness, 0, 20)
            harness.run(commit=False)
            harness.expel(0)
            harness.run()
            assert results(harness) == spent(20)
            assert any("worker-0 rejoined" in event for event in harness.events)

    @pytest.mark.parametrize("applied", [True, False])
    @pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
    def test_a_commit_that_is_not_answered(self, applied: bool, guarantee: Any) -> None:
        with JobHarness(spending, guarantee=guarantee) as harness:
            feed(harness, 0, 20)
            harness.run()
            feed(harness, 20, 30)
            harness.fail_commit(applied=applied)
            harness.run()
            assert "0 worker-0 rejoined" in harness.events
            if guarantee == "exactly-once":
                assert results(harness) == spent(30)

    def test_restart(self) -> None:
        with JobHarness(spending, workers=2) as harness:
            feed(harness, 0, 20)
            harness.run()
            harness.restart()
            assert self.tasks(harness) == [[], []]
            feed(harness, 20, 30)
            harness.run()
            assert results(harness) == spent(30)
            assert harness.crashes == 0

    def test_restart_with_another_version(self) -> None:
        def renamed(env: Any) -> None:
            stream = env.from_source(orders(), WatermarkStrategy.no_watermarks(), "orders").uid("orders")
            big = stream.filter(lambda value: value["amount"] % 2 == 0)
            big.key_by(lambda value: value["customer"]).process(Spending()).uid("spending").sink_to(sink("spending"))

        with JobHarness(spending) as harness:
            feed(harness, 0, 10)
            harness.run()
            harness.restart(renamed)
            feed(harness, 10, 12)
            harness.run()
            assert [len(found) for found in results(harness).values()] == [
                len(f) + (k == "c0") for k, f in spent(10).items()
            ]
            assert results(harness)["c0"][-1] == {"customer": "c0", "orders": 3, "amount": 15}

    def test_restart_that_loses_state_is_refused(self) -> None:
        def other(env: Any) -> None:
            env.from_collection([1]).key_by(lambda n: n).sum().uid("other").print()

        with JobHarness(spending) as harness:
            feed(harness, 0, 10)
            harness.run()
            harness.restart(other)
            with pytest.raises(JobError, match="no operator of this job owns"):
                harness.run()


class TestSeed:
    def trace(self, seed: int, change: Callable[[JobHarness], None] = lambda harness: None) -> Any:
        """All that is in the log in the end, and what happened."""
        with JobHarness(spending, workers=2, partitions=2, seed=seed) as harness:
            change(harness)
            feed(harness, 0, 30)
            harness.crash_at("produce")
            harness.run()
            harness.rebalance()
            feed(harness, 30, 50)
            harness.crash_at("commit", worker=1, side="after")
            harness.advance_time(500)
            harness.run()
            log = [
                (m.topic(), m.partition(), m.offset(), m.key(), m.value(), m.timestamp(), m.headers())
                for topic in harness._simulation.cluster.topics.values()
                for part in topic.logs
                for m in part.everything()
            ]
            offsets = {name: dict(group.offsets) for name, group in harness._simulation.cluster.groups.items()}
            assert results(harness) == spent(50)
            return log, offsets, harness.events

    @pytest.mark.parametrize("seed", range(4))
    def test_one_seed_is_one_run(self, seed: int) -> None:
        assert self.trace(seed) == self.trace(seed)

    def test_seeds_are_different_runs(self) -> None:
        assert len({repr(self.trace(seed)[0]) for seed in range(4)}) > 1

    def test_the_time_of_day_and_speed_do_not_matter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        steady = self.trace(3)
        times = itertools.count(0, 7)
        for name in ("time", "monotonic", "perf_counter"):
            monkeypatch.setattr(f"time.{name}", lambda: float(next(times)))
        monkeypatch.setattr("time.time_ns", lambda: next(times) * 10**9)
        assert self.trace(3) == steady
