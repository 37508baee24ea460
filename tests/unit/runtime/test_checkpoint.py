"""The commit: what becomes durable together, in which order, and what a failure leaves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.errors import BrokerRefused, BrokerUnavailable, RecordError
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import TaskMeta
from tests.unit.runtime.in_place import feed
from tests.unit.runtime.jobs import passing, totals, user_and_amount
from tests.unit.runtime.scene import Scene, state_of


def one_stage(root: Path, **keywords: Any) -> Scene:
    return Scene(totals(in_place=True), root, partitions=1, **keywords)


class TestTogether:
    def test_nothing_is_seen_before_the_commit(self, tmp_path: Path) -> None:
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            feed(scene, "u:1")
            worker.turn(commit=False)
            assert (scene.by_key(), state_of(worker, "total/0"), scene.offsets("total")) == ({}, {}, {("in", 0): 0})
            worker.turn()
            assert scene.by_key() == {"u": ["1"]}
            assert len(state_of(worker, "total/0")) == 1
            assert scene.offsets("total") == {("in", 0): 1}

    def test_the_meta_record_is_last_and_says_where_the_task_is(self, tmp_path: Path) -> None:
        with one_stage(tmp_path) as scene:
            scene.start()
            scene.turns(2)
            feed(scene, "u:1", "v:2")
            scene.turns(2)
            *entries, last = scene.messages(scene.changelog())
            assert last.key() == META_KEY
            assert len([entry for entry in entries if entry.key() != META_KEY]) == 2
            meta = TaskMeta.decode(last.value() or b"")
            assert meta.positions == {("in", 0): 2}
            assert meta.application_id == "app"

    def test_checkpoint_ids_rise_over_restarts(self, tmp_path: Path) -> None:
        with one_stage(tmp_path) as scene:
            for amount in range(4):
                worker = scene.start()
                feed(scene, f"u:{amount}")
                scene.turns(3)
                worker.crash()
            metas = [m for m in scene.messages(scene.changelog()) if m.key() == META_KEY]
            ids = [TaskMeta.decode(m.value() or b"").checkpoint_id for m in metas]
            assert ids == sorted(set(ids))
            assert len(ids) >= 4

    def test_an_idle_job_writes_nothing(self, tmp_path: Path) -> None:
        """P31: and its transaction stays untouched, however long."""
        with Scene(totals(), tmp_path) as scene:
            scene.start()
            feed(scene, "u:1")
            scene.turns(8)
            ends = [scene.end(topic, part) for topic in scene.cluster.topics for part in (0, 1)]
            scene.turns(8)
            assert [scene.end(topic, part) for topic in scene.cluster.topics for part in (0, 1)] == ends

    def test_a_key_set_often_is_written_once(self, tmp_path: Path) -> None:
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            for amount in range(5):
                feed(scene, f"u:{amount}")
                worker.turn(commit=False)
            worker.turn()
            assert len([m for m in scene.messages(scene.changelog()) if m.key() != META_KEY]) == 1

    def test_more_than_the_queue_holds(self, tmp_path: Path) -> None:
        """The scene's producers hold 64 messages: the produce loops wait for room."""
        with one_stage(tmp_path) as scene:
            scene.start()
            scene.turns(2)
            feed(scene, *[f"u{number}:{number}" for number in range(300)])
            scene.turns(12)
            assert len(scene.by_key()) == 300
            assert len([m for m in scene.messages(scene.changelog()) if m.key() != META_KEY]) == 300

    def test_dirty_state_brings_the_next_one_forward(self, tmp_path: Path) -> None:
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            assert worker.driver is not None
            worker.driver.checkpoint.dirty_bytes = 1
            feed(scene, "u:1")
            time.sleep(0.02)  # how much is dirty is not looked at in every turn
            worker.turn(commit=False)
            assert scene.by_key() == {"u": ["1"]}


class TestFailure:
    @pytest.mark.parametrize("applied", [False, True])
    def test_a_commit_in_doubt(self, tmp_path: Path, applied: bool) -> None:
        """P29: whatever became of it, the producer is given up and the task goes on from what is committed."""
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            feed(scene, "u:1")
            worker.turn(commit=False)
            scene.cluster.fail_next_commit(applied=applied)
            worker.turn()
            assert worker.rejoins == 1
            feed(scene, "u:2")
            scene.turns(5)
            assert scene.by_key() == {"u": ["1", "3"]}
            assert worker.restored == [("total/0", int(applied))]

    @pytest.mark.parametrize("topic", ["out", "app-total-changelog"])
    @pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
    def test_a_message_that_is_not_delivered(self, tmp_path: Path, topic: str, guarantee: str) -> None:
        """At-least-once, no meta record may say that a record is done whose result, or whose state, is not there."""
        with one_stage(tmp_path, guarantee=guarantee) as scene:
            worker = scene.start()
            scene.turns(2)
            feed(scene, "u:1")
            scene.cluster.fail_next_delivery(topic)
            worker.turn()
            assert worker.rejoins == 1
            worker.crash()
            worker.wipe()
            scene.start()
            feed(scene, "u:2")
            scene.turns(6)
            assert scene.by_key()["u"][-2:] == ["1", "3"]

    def test_the_transaction_timed_out(self, tmp_path: Path) -> None:
        """P29, P31: as fenced; a new producer, and on from what is committed."""
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            feed(scene, "u:1")
            worker.turn(commit=False)
            scene.cluster.expire_transaction("app-worker/w0")
            worker.turn()
            assert worker.rejoins == 1
            scene.turns(4)
            assert scene.by_key() == {"u": ["1"]}

    def test_a_restart_ends_its_predecessors_transaction_at_once(self, tmp_path: Path) -> None:
        """P30: the transactional id is the worker's own, so nobody waits for a timeout."""
        with one_stage(tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            feed(scene, "u:1")
            worker.turn(commit=False)
            assert worker.driver is not None
            worker.driver.producer.flush()
            worker.crash()
            assert scene.cluster.log(TopicPartition("out", 0)).stable_end == 0
            scene.start()
            assert scene.cluster.log(TopicPartition("out", 0)).stable_end == scene.end("out")
            scene.turns(3)
            assert scene.by_key() == {"u": ["1"]}

    def test_ids_of_two_applications_never_meet(self, tmp_path: Path) -> None:
        """P32: `app` with worker `a-b` and `app-a` with worker `b`."""
        with one_stage(tmp_path) as scene:
            scene.start("a-b")
            scene.plan = totals(in_place=True, application_id="app-a")
            scene.start("b")
            feed(scene, "u:1")
            scene.turns(4)
            assert [worker.rejoins for worker in scene.workers.values()] == [0, 0]
            assert scene.by_key() == {"u": ["1", "1"]}

    @pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
    def test_an_exception_of_the_job_commits_nothing(self, tmp_path: Path, guarantee: str) -> None:
        """P54: record 5 of 10 fails; what was committed before stays, and record 5 comes again."""
        failing = True

        def parse(text: str) -> tuple[str, int]:
            if failing and text == "u:5":
                raise ValueError("five")
            return user_and_amount(text)

        with Scene(totals(in_place=True, parse=parse), tmp_path, partitions=1, guarantee=guarantee) as scene:
            worker = scene.start()
            feed(scene, *[f"u:{number}" for number in range(1, 4)])
            scene.turns(3)
            assert scene.offsets("total") == {("in", 0): 3}
            feed(scene, *[f"u:{number}" for number in range(4, 11)])
            with pytest.raises(RecordError, match="ValueError: five") as caught:
                scene.turns(3)
            assert caught.value.__notes__ == [
                "at topic 'in', partition 0, offset 4",
                "in task total/0; nothing of this record was committed",
            ]
            assert worker.driver is not None
            worker.driver.abandon()
            assert scene.offsets("total") == {("in", 0): 3}
            assert scene.by_key()["u"][-1] == "6"
            failing = False
            worker.start()
            scene.turns(4)
            assert scene.by_key()["u"][-7:] == ["10", "15", "21", "28", "36", "45", "55"]


class TestPurge:
    def purge(self, scene: Scene) -> None:
        for worker in scene.workers.values():
            assert worker.driver is not None
            worker.driver.checkpoint.last_purge = -1e9

    def test_what_all_have_read_is_deleted(self, tmp_path: Path) -> None:
        """P49."""
        with Scene(totals(), tmp_path) as scene:
            scene.start()
            feed(scene, *[f"u:{number}" for number in range(9)])
            scene.turns(6)
            self.purge(scene)
            feed(scene, "u:1")
            scene.turns(6)
            committed = {tp: offset for tp, offset in scene.offsets("total").items() if offset > 0}
            assert committed
            assert all(0 < scene.cluster.log(tp).begin <= offset for tp, offset in committed.items())

    def test_never_beyond_what_is_committed(self, tmp_path: Path) -> None:
        """An idle task's position steps over markers without a commit: the log must not begin behind the offset that its
        next owner starts from."""
        with Scene(totals(), tmp_path) as scene:
            worker = scene.start()
            feed(scene, "u:1")
            scene.turns(6)
            for user in "abcdefgh":
                self.purge(scene)
                feed(scene, f"{user}:1")
                scene.turns(4)
            begins = {tp: scene.cluster.log(tp).begin for tp in scene.offsets("total")}
            metas = [
                TaskMeta.decode(m.value() or b"") for m in scene.messages(scene.changelog()) if m.key() == META_KEY
            ]
            durable: dict[TopicPartition, int] = {}
            for meta in metas:
                durable.update({TopicPartition(*key): offset for key, offset in meta.positions.items()})
            assert all(begin <= durable[tp] for tp, begin in begins.items())
            assert any(begins.values())
            worker.crash()
            worker.start()
            feed(scene, "u:1")
            scene.turns(6)
            assert scene.by_key()["u"][-1] == "2"

    @pytest.mark.parametrize(("error", "tries"), [(BrokerRefused("no right"), 1), (BrokerUnavailable("away"), 2)])
    def test_is_not_worth_failing_for(
        self,
        tmp_path: Path,
        error: Exception,
        tries: int,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Without the right it is told once and left; a broker that is away is tried again."""
        calls: list[object] = []

        def refuse(before: object) -> None:
            calls.append(before)
            raise error

        with Scene(totals(), tmp_path) as scene:
            worker = scene.start()
            feed(scene, "u:1")
            scene.turns(6)
            monkeypatch.setattr(worker.resources.broker, "delete_records", refuse)
            for _ in range(2):
                self.purge(scene)
                feed(scene, "u:1")
                scene.turns(4)
            assert len(calls) == tries
            assert scene.by_key() == {"u": ["1", "2", "3"]}
            assert caplog.text.count("Allow Delete on the topics of this application") == (tries == 1)


def test_a_stage_without_state_keeps_its_time_beside_its_offset(tmp_path: Path) -> None:
    with Scene(passing(), tmp_path, partitions=1) as scene:
        scene.start()
        feed(scene, "u:1")
        scene.turns(3)
        position = scene.cluster.group("app-numbers").offsets["in", 0]  # type: ignore[index]
        assert (position.offset, position.metadata) == (1, "{}")
