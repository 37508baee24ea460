"""What a worker does when partitions come and go: in one piece, piece by piece, revoked, lost."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.broker.memory.group import Member
from kstreampy.errors import JobError, TaskMigrated
from kstreampy.runtime.assignment import Assignment
from kstreampy.runtime.task import Status
from tests.unit.runtime.jobs import source, totals
from tests.unit.runtime.scene import Scene, Worker

IN, MORE = TopicPartition("in", 0), TopicPartition("more", 0)


def the(worker: Worker) -> Assignment:
    """Its only stage's."""
    assert worker.driver is not None
    (assignment,) = worker.driver.assignments
    return assignment


def feed(scene: Scene, *records: str, topic: str = "in") -> None:
    scene.feed([(None, record, 0) for record in records], topic)


def test_a_task_is_told_of_as_soon_as_it_runs(tmp_path: Path) -> None:
    """Not at the next look, which comes once a second; its lag is not known before that."""
    with Scene(totals(in_place=True), tmp_path, partitions=2) as scene:
        worker = scene.start()
        scene.turns(1)
        assert [(task["stage"], task["partition"], task["lag"]) for task in worker.health.tasks()] == [
            ("total", 0, None), ("total", 1, None),
        ]  # fmt: skip


class TestPieceByPiece:
    """The newer group protocol gives a member what is free, and the rest when others have let go of it."""

    @pytest.fixture
    def scene(self, tmp_path: Path) -> Scene:
        scene = Scene(totals(in_place=True, built=source("in", "more")), tmp_path, partitions=1)
        scene.create("more", 1)
        return scene

    def given(self, scene: Scene, *topics: str) -> set[str]:
        """Makes the group give away partitions of these topics only; more can be added."""
        allowed = set(topics)
        group = scene.cluster.group("app-total")

        def take(member: Member) -> list[TopicPartition]:
            new = sorted(tp for tp in member.target if tp.topic in allowed and group._owners.get(tp) is not member)
            group._owners.update(dict.fromkeys(new, member))
            return new

        group.take = take  # type: ignore[method-assign]
        return allowed

    def test_the_task_starts_when_it_has_all(self, scene: Scene) -> None:
        with scene:
            allowed = self.given(scene, "in")
            worker = scene.start()
            feed(scene, "u:1")
            feed(scene, "u:10", topic="more")
            scene.turns(3)
            assert worker.tasks == {}
            assert scene.by_key() == {}
            allowed.add("more")
            scene.turns(4)
            assert worker.tasks["total/0"].status is Status.RUNNING
            assert sorted(scene.by_key()["u"]) in (["1", "11"], ["10", "11"])

    def test_with_state_to_restore(self, scene: Scene) -> None:
        with scene:
            allowed = self.given(scene, "in", "more")
            worker = scene.start()
            feed(scene, "u:1")
            scene.turns(3)
            worker.crash()
            worker.wipe()
            allowed.discard("more")
            scene.start()
            scene.turns(2)
            allowed.add("more")
            feed(scene, "u:2")
            scene.turns(6)
            assert worker.restored == [("total/0", 1)]
            assert scene.by_key() == {"u": ["1", "3"]}

    def test_one_part_taken_away_and_given_back(self, scene: Scene) -> None:
        """The part that stays is not read meanwhile, and nothing of it is skipped."""
        with scene:
            allowed = self.given(scene, "in", "more")
            worker = scene.start()
            feed(scene, "u:1")
            scene.turns(3)
            member = the(worker).consumer._member  # type: ignore[attr-defined]
            member.target.discard(MORE)
            feed(scene, "u:2")
            scene.turns(3)
            assert worker.tasks == {}
            assert scene.by_key() == {"u": ["1"]}
            member.target.add(MORE)
            assert "more" in allowed
            scene.turns(4)
            assert scene.by_key() == {"u": ["1", "3"]}

    def test_taken_away_before_it_was_complete(self, scene: Scene) -> None:
        with scene:
            self.given(scene, "in")
            worker = scene.start()
            scene.turns(2)
            assert the(worker).waiting == {0: {IN}}
            the(worker).consumer._member.target.clear()  # type: ignore[attr-defined]
            scene.turns(2)
            assert the(worker).waiting == {}

    def test_what_never_comes_together_is_told(self, scene: Scene) -> None:
        """Another member uses another assignor: it has the rest, and keeps it."""
        with scene:
            self.given(scene, "in")
            worker = scene.start()
            scene.turns(2)
            assert worker.driver is not None
            the(worker).look()
            the(worker).waiting_since -= 1000
            worker.driver.last_look = -1e9
            with pytest.raises(
                JobError, match=r"task 0 was given in 0 without its other inputs \(in 0; more 0\).*range assignment"
            ):
                scene.turns(1)


class TestGoing:
    def test_revoked_is_committed_first(self, tmp_path: Path) -> None:
        """P06: the new owner goes on exactly where the old one was."""
        with Scene(totals(in_place=True), tmp_path) as scene:
            first = scene.start("w0")
            scene.turns(2)
            scene.feed([("v", "v:1", 1)])
            first.turn(commit=False)
            second = scene.start("w1")
            first.turn(commit=False)
            assert scene.by_key() == {"v": ["1"]}
            scene.feed([("v", "v:2", 1)])
            scene.turns(4)
            assert set(first.tasks), set(second.tasks) == ({"total/0"}, {"total/1"})
            assert scene.by_key() == {"v": ["1", "3"]}

    def test_a_commit_that_fails_in_a_revocation(self, tmp_path: Path) -> None:
        with Scene(totals(in_place=True), tmp_path) as scene:
            first = scene.start("w0")
            scene.turns(2)
            scene.feed([("v", "v:1", 1)])
            first.turn(commit=False)
            scene.start("w1")
            scene.cluster.fail_next_commit(applied=False)
            first.turn(commit=False)
            assert first.rejoins == 1
            scene.turns(6)
            assert scene.by_key() == {"v": ["1"]}

    def test_lost_exactly_once_drops_the_whole_transaction(self, tmp_path: Path) -> None:
        """What the lost task wrote lies in one transaction with what the others wrote."""
        with Scene(totals(in_place=True), tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            scene.feed([("v", "v:1", 1)])
            worker.turn(commit=False)
            worker.expel()
            assert worker.driver is not None
            with pytest.raises(TaskMigrated, match=r"stage total: lost in 0-1; what was not committed is redone"):
                worker.driver.turn()
            worker.driver.abandon()
            assert scene.by_key() == {}
            worker.start()
            scene.turns(4)
            assert scene.by_key() == {"v": ["1"]}

    def test_lost_at_least_once_goes_on(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with Scene(totals(in_place=True), tmp_path, guarantee="at_least_once") as scene:
            worker = scene.start()
            scene.turns(2)
            scene.feed([("v", "v:1", 1)])
            worker.turn(commit=False)
            worker.expel()
            scene.turns(4)
            assert worker.rejoins == 0
            assert "lost in 0-1; what was not committed is redone by the new owner" in caplog.text
            assert set(scene.by_key()["v"]) == {"1"}

    def test_chunks_of_what_is_not_ours_are_dropped(self, tmp_path: Path) -> None:
        """Buffered before a revocation, polled after it."""
        with Scene(totals(in_place=True), tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            scene.feed([("v", "v:1", 1)])
            assignment = the(worker)
            (chunk,) = assignment.consumer.poll(10, 0.0)
            assignment.revoked([TopicPartition("in", 1)])
            assert assignment.process(chunk) == 0

    def test_the_log_names_partitions_in_ranges(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO), Scene(totals(in_place=True), tmp_path, partitions=5) as scene:
            scene.start()
            scene.turns(1)
            assert "stage total: took in 0-4" in caplog.text


class TestContiguous:
    def test_no_gap_over_rebalances(self, tmp_path: Path) -> None:
        """P02: while members come and go, every key's totals follow without gap or repeat."""
        with Scene(totals(in_place=True), tmp_path, partitions=4) as scene:
            scene.start("w0")
            for step in range(24):
                scene.feed([(f"u{number}", f"u{number}:1", number) for number in range(4)])
                if step == 4:
                    scene.start("w1")
                if step == 8:
                    scene.start("w2")
                if step == 14:
                    scene.workers["w1"].stop()
                    scene.time_out_dead()
                scene.turns(1)
            scene.turns(10)
            assert scene.by_key() == {f"u{n}": [str(total) for total in range(1, 25)] for n in range(4)}
