"""What hurts users of other tools when members come and go (P01, P04, P05, P07, P09, P10): and what happens here instead."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.errors import TaskMigrated
from kstreampy.runtime import restore as restoring
from kstreampy.runtime.restore import Restore, Restorer
from tests.unit.runtime.jobs import passing, totals, user_and_amount
from tests.unit.runtime.scene import Scene, Worker

PARTITIONS = 64


def test_a_release_of_many_stores_is_one_commit_and_leaves_no_lock(tmp_path: Path) -> None:
    """P01: 64 stores on RocksDB. What is given away is committed and closed when the rebalance callback returns, by one
    transaction for all of it; whoever opens the stores next finds no lock, and all of the state."""
    with Scene(totals(in_place=True), tmp_path, disk="rocks", partitions=PARTITIONS) as scene:
        scene.feed([("", f"u{number}:1", number) for number in range(PARTITIONS)])
        first = scene.start("w0")
        scene.turns(3, first)
        stores = {name: task.state.store for name, task in first.tasks.items() if task.state is not None}
        assert len(stores) == PARTITIONS
        scene.feed([("", f"u{number}:1", number) for number in range(PARTITIONS)])
        first.turn(commit=False)
        assert first.driver is not None
        commits: list[int] = []
        commit = first.driver.producer.commit

        def counted(positions: object) -> None:
            commits.append(1)
            commit(positions)  # type: ignore[arg-type]

        first.driver.producer.commit = counted  # type: ignore[method-assign]
        second = scene.start("w1")
        first.turn(commit=False)
        assert commits == [1]
        gone = set(stores) - set(first.tasks)
        assert len(gone) == PARTITIONS // 2
        for name in gone:
            stage, _, number = name.rpartition("/")
            first.stores.open(stage, int(number)).close()
        scene.feed([("", f"u{number}:1", number) for number in range(PARTITIONS)])
        scene.turns(6)
        assert len(second.tasks) == PARTITIONS // 2
        assert scene.by_key() == {f"u{number}": ["1", "2", "3"] for number in range(PARTITIONS)}


def test_a_member_that_does_not_know_yet_that_it_lost_its_tasks_commits_nothing(tmp_path: Path) -> None:
    """P04: it was silent for too long, another has its partitions, and it comes to its commit before it polls again."""
    with Scene(totals(in_place=True), tmp_path) as scene:
        zombie = scene.start("w0")
        scene.turns(2)
        scene.feed([("u", "u:1", 0), ("v", "v:1", 1)])
        zombie.turn(commit=False)
        zombie.expel()
        assert zombie.driver is not None
        changelog = scene.messages(scene.changelog())
        with pytest.raises(TaskMigrated):
            zombie.driver._commit()
        assert scene.by_key() == {}
        assert scene.messages(scene.changelog()) == changelog
        zombie.crash()
        other = scene.start("w1")
        scene.time_out_dead()
        scene.turns(4, other)
        assert scene.by_key() == {"u": ["1"], "v": ["1"]}
        zombie.start()
        scene.turns(6)
        scene.feed([("u", "u:1", 0), ("v", "v:1", 1)])
        scene.turns(4)
        assert scene.by_key() == {"u": ["1", "2"], "v": ["1", "2"]}


def test_each_change_of_an_assignment_is_counted_with_its_reason(tmp_path: Path) -> None:
    """P05: a storm shows in a metric."""
    with Scene(totals(in_place=True), tmp_path) as scene:
        first = scene.start("w0")
        scene.turns(2)
        scene.start("w1")
        scene.turns(4)
        first.expel()
        scene.turns(4)
        counted = first.metrics.values()
        told = {reason: counted[_rebalances(reason)] for reason in ("assigned", "revoked", "lost")}
        assert told["revoked"] == 1
        assert told["lost"] == 1
        assert told["assigned"] >= 2


def _rebalances(reason: str) -> str:
    return f'kstreampy_rebalances_total{{reason="{reason}",stage="total"}}'


@pytest.mark.parametrize(("partitions", "workers"), [(100, 40), (1, 3), (7, 3)])
def test_all_have_as_much_and_a_bounced_member_gets_its_own_back(tmp_path: Path, partitions: int, workers: int) -> None:
    """P07: shares differ by one at most. The worker that is started again works again, also with more workers than
    partitions, and nobody else's partitions move."""
    with Scene(passing(), tmp_path, partitions=partitions) as scene:
        fleet = [scene.start(f"w{number:02}") for number in range(workers)]
        scene.turns(4)
        before = _shares(fleet)
        shares = Counter(len(share) for share in before.values())
        assert max(shares) - min(shares) <= 1
        assert sum(map(len, before.values())) == partitions
        fleet[0].crash()
        fleet[0].start()
        scene.turns(6)
        assert _shares(fleet) == before
        scene.feed([("", f"u{number}:1", number) for number in range(partitions)])
        scene.turns(4)
        assert set(scene.by_key()) == {f"u{number}" for number in range(partitions)}


def _shares(fleet: list[Worker]) -> dict[str, set[str]]:
    return {worker.name: set(worker.tasks) for worker in fleet}


def test_a_function_slower_than_the_deadline_is_given_less_and_the_work_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P09: each record takes 10 s, and 8 of them longer than the transaction may. It is fenced once, not for ever; the
    warning names what to look at."""
    with Scene(totals(in_place=True), tmp_path, partitions=1) as scene:
        seconds = 0.0
        began = 0.0

        def parse(text: str) -> tuple[str, int]:
            nonlocal seconds
            seconds += 10.0
            if seconds - began > 30.0:
                scene.cluster.expire_transaction("app-worker/w0")
            return user_and_amount(text)

        scene.plan = totals(in_place=True, parse=parse)
        worker = scene.start()
        scene.turns(2)
        scene.feed([(None, "u:1", 0)] * 20)
        monkeypatch.setattr(time, "perf_counter", lambda: seconds)
        with caplog.at_level(logging.WARNING):
            for _ in range(60):
                began = seconds
                worker.turn()
        assert worker.rejoins == 1
        assert scene.by_key() == {"u": [str(total) for total in range(1, 21)]}
        told = [r.getMessage() for r in caplog.records if "more than half of transaction_timeout_ms" in r.getMessage()]
        assert told[0].startswith("stage total took 80 s for one poll (from in-0, offset 0)")


def test_a_slow_restore_is_given_up_after_the_batch_in_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P10: the disk is slow, and the task is taken away in the middle. The poll thread waits for one batch at most, and the
    store may be opened by the next at once."""
    monkeypatch.setattr(restoring, "_BATCH", 2)
    with Scene(totals(in_place=True), tmp_path, disk="rocks", partitions=1) as scene:
        scene.cluster.blocking = True
        worker = scene.start()
        scene.turns(2)
        scene.feed([(None, f"u{number}:1", 0) for number in range(100)])
        scene.turns(8)
        worker.crash()
        worker.wipe()
        state = worker.stores.open("total", 0)
        began = threading.Event()
        written: list[object] = []
        apply = state.apply

        def slow(entries: object, local: object) -> None:
            written.append(local)
            began.set()
            time.sleep(0.3)
            apply(entries, local)  # type: ignore[arg-type]

        monkeypatch.setattr(state, "apply", slow)
        restorer = Restorer(scene.broker)
        tp = TopicPartition(scene.changelog(), 0)
        restorer.add(Restore("total/0", state, tp, "t", 0, 0, scene.end(tp.topic), scene.clock))
        assert began.wait(10)
        asked = time.monotonic()
        restorer.cancel("total/0")
        assert time.monotonic() - asked < 3
        state.close()
        before = len(written)
        worker.stores.open("total", 0).close()
        time.sleep(0.5)
        assert len(written) == before < 20
        restorer.close()
