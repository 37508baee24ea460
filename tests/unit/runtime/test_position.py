"""Where tasks begin and where bounded ones end: initializers, stored positions, groups that were changed from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreampy.broker.broker import Position, TopicPartition
from kstreampy.common import SimpleStringSchema
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.driver import Driver
from kstreampy.runtime.pace import Pace
from tests.unit.runtime.jobs import passing, source, totals
from tests.unit.runtime.scene import Scene, Worker

Begin = KafkaOffsetsInitializer
FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def feed(scene: Scene, *amounts: int, partition: int = 0, topic: str = "in") -> None:
    scene.feed([(None, f"u{partition}:{amount}", partition) for amount in amounts], topic)


def amounts(scene: Scene, user: str = "u0") -> list[int]:
    return [int(text) for text in scene.by_key().get(user, [])]


def run_to_end(scene: Scene, *workers: Worker) -> None:
    workers = workers or (scene.start(),)
    scene.until(lambda: all(worker.ended for worker in workers), *workers)


def begun_at(scene: Scene, starting: Begin, topic: str = "in") -> list[int]:
    """What a job with these starting offsets reads of what is there."""
    scene.plan = passing(built=source(topic).set_starting_offsets(starting))
    worker = scene.start()
    scene.turns(4, worker)
    return amounts(scene)


class TestStart:
    def test_earliest_and_latest(self, tmp_path: Path) -> None:
        for starting, expected in ((Begin.earliest(), [1, 2]), (Begin.latest(), [])):
            with Scene(passing(), tmp_path, partitions=1) as scene:
                feed(scene, 1, 2)
                assert begun_at(scene, starting) == expected

    def test_latest_is_pinned_by_the_first_commit(self, tmp_path: Path) -> None:
        """What comes after the job's first start is read, also when the worker dies before it has seen a record."""
        with Scene(passing(built=source().set_starting_offsets(Begin.latest())), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            worker = scene.start()
            scene.turns(2, worker)
            assert scene.offsets("numbers") == {FIRST: 1}
            worker.crash()
            feed(scene, 2)
            scene.start()
            scene.turns(3)
            assert amounts(scene) == [2]

    def test_timestamp(self, tmp_path: Path) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            scene.now_ms += 1000
            feed(scene, 2)
            assert begun_at(scene, Begin.timestamp(scene.now_ms - 500)) == [2]

    def test_timestamp_beyond_the_end(self, tmp_path: Path) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            assert begun_at(scene, Begin.timestamp(scene.now_ms + 500)) == []
            feed(scene, 2)
            scene.turns(2)
            assert amounts(scene) == [2]

    def test_given(self, tmp_path: Path) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2, 3)
            assert begun_at(scene, Begin.offsets({KafkaTopicPartition("in", 0): 2})) == [3]

    @pytest.mark.parametrize(
        ("reset", "expected"), [(KafkaOffsetResetStrategy.EARLIEST, [1, 2]), (KafkaOffsetResetStrategy.LATEST, [])]
    )
    def test_given_for_another_partition(
        self, tmp_path: Path, reset: KafkaOffsetResetStrategy, expected: list[int]
    ) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            assert begun_at(scene, Begin.offsets({KafkaTopicPartition("in", 7): 1}, reset)) == expected

    @pytest.mark.parametrize(
        ("reset", "expected"), [(KafkaOffsetResetStrategy.EARLIEST, [1, 2]), (KafkaOffsetResetStrategy.LATEST, [])]
    )
    def test_committed_by_nobody(self, tmp_path: Path, reset: KafkaOffsetResetStrategy, expected: list[int]) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            assert begun_at(scene, Begin.committed_offsets(reset)) == expected

    def test_committed_by_nobody_without_a_reset_is_refused(self, tmp_path: Path) -> None:
        built = source().set_group_id("theirs").set_starting_offsets(Begin.committed_offsets())
        with Scene(passing(built=built), tmp_path, partitions=1) as scene:
            scene.start()
            with pytest.raises(
                JobError, match=r"source 'numbers': group 'theirs' has no offset for in-0.*EARLIEST or LATEST"
            ):
                scene.turns(2)

    def test_committed_by_another_group(self, tmp_path: Path) -> None:
        """A job that takes over from a plain consumer."""
        built = source().set_group_id("theirs").set_starting_offsets(Begin.committed_offsets())
        with Scene(passing(built=built), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2, 3)
            scene.cluster.group("theirs").offsets[FIRST] = Position(1)
            scene.start()
            scene.turns(3)
            assert amounts(scene) == [2, 3]

    def test_initializers_do_not_count_again(self, tmp_path: Path) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            scene.start()
            scene.turns(3)
            scene.workers["w0"].crash()
            feed(scene, 2)
            scene.plan = passing(built=source().set_starting_offsets(Begin.latest()))
            scene.start()
            scene.turns(3)
            assert amounts(scene) == [1, 2]


def of_partitions(*numbers: int) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema())
    return builder.set_partitions({KafkaTopicPartition("in", number) for number in numbers}).set_starting_offsets(
        Begin.earliest()
    )


class TestSetPartitions:
    @pytest.mark.parametrize("plan", [passing, totals], ids=["one stage", "two stages"])
    def test_others_are_left_out(self, tmp_path: Path, plan: type) -> None:
        with Scene(plan(built=of_partitions(1)), tmp_path) as scene:
            feed(scene, 1)
            feed(scene, 2, partition=1)
            scene.start()
            scene.turns(5)
            assert scene.by_key() == {"u1": ["2"]}

    def test_bounded(self, tmp_path: Path) -> None:
        with Scene(totals(built=of_partitions(1), bounded=True), tmp_path) as scene:
            feed(scene, 1)
            feed(scene, 2, partition=1)
            run_to_end(scene)
            assert scene.by_key() == {"u1": ["2"]}

    def test_read_after_all(self, tmp_path: Path) -> None:
        """A partition left out at first is begun by the initializer when it is read for the first time."""
        with Scene(passing(built=of_partitions(1)), tmp_path) as scene:
            feed(scene, 1)
            scene.start()
            scene.turns(3)
            scene.workers["w0"].crash()
            scene.plan = passing()
            scene.start()
            scene.turns(4)
            assert scene.by_key() == {"u0": ["1"]}

    def test_a_partition_that_is_not_there(self, tmp_path: Path) -> None:
        with (
            Scene(passing(built=of_partitions(5)), tmp_path) as scene,
            pytest.raises(JobError, match=r"source 'numbers': partition 5 of 'in' does not exist: the topic has 2"),
        ):
            scene.start()


class TestGroupChanged:
    def test_group_deleted(self, tmp_path: Path) -> None:
        """P20: the state's own positions are used, not the source's initializer."""
        with Scene(totals(in_place=True), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            worker = scene.start()
            scene.turns(4)
            worker.stop()
            scene.time_out_dead()
            scene.broker.delete_group("app-total")
            feed(scene, 4)
            scene.start()
            scene.turns(4)
            assert amounts(scene) == [1, 3, 7]
            assert scene.offsets("total") == {FIRST: 3}

    @pytest.mark.parametrize("offset", [0, 3])
    @pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
    def test_group_moved(self, tmp_path: Path, offset: int, guarantee: str, caplog: pytest.LogCaptureFixture) -> None:
        """Back or forward, by a tool: reported, and without effect on a task with state."""
        with Scene(totals(in_place=True), tmp_path, partitions=1, guarantee=guarantee) as scene:
            feed(scene, 1, 2)
            worker = scene.start()
            scene.turns(4)
            worker.stop()
            scene.cluster.group("app-total").offsets[FIRST] = Position(offset)
            feed(scene, 4)
            scene.start()
            scene.turns(4)
            assert amounts(scene) == [1, 3, 7]
            assert f"group app-total on in-0 was set to {offset} behind the job's back" in caplog.text

    def test_a_crash_at_least_once_is_not_taken_for_a_tool(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The meta record is there, the group's offset is not: that is our own doing."""
        with Scene(totals(in_place=True), tmp_path, partitions=1, guarantee="at_least_once") as scene:
            scene.start()
            scene.turns(2)
            feed(scene, 1)
            scene.cluster.fail_next_offset_commit(applied=False)
            scene.turns(5)
            assert scene.workers["w0"].rejoins == 1
            assert amounts(scene) == [1]
            assert "behind the job's back" not in caplog.text

    def test_a_stage_without_state_follows_the_group(self, tmp_path: Path) -> None:
        with Scene(passing(), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            worker = scene.start()
            scene.turns(3)
            worker.stop()
            scene.cluster.group("app-numbers").offsets[FIRST] = Position(1)
            scene.start()
            scene.turns(3)
            assert amounts(scene) == [1, 2, 2]

    def test_the_gap_is_named(self, tmp_path: Path) -> None:
        """P20: what is gone before it was read stops the job with the exact gap."""
        with Scene(totals(in_place=True), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            worker = scene.start()
            scene.turns(4)
            worker.stop()
            feed(scene, 3, 4, 5)
            scene.broker.delete_records({FIRST: 4})
            scene.start()
            with pytest.raises(JobError, match=r"offsets 2 to 3 \(2\) were deleted before they were read"):
                scene.turns(4)


def bounded_totals(*topics: str) -> Plan:
    return totals(built=source(*topics), bounded=True)


class TestEnd:
    def test_ends_and_says_so_when_started_again(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with Scene(bounded_totals(), tmp_path) as scene:
            feed(scene, 1, 2)
            feed(scene, 5, partition=1)
            worker = scene.start()
            assert worker.driver is not None
            worker.driver.run()
            assert scene.by_key() == {"u0": ["1", "3"], "u1": ["5"]}
            assert "had already ended" not in caplog.text
            ends = [scene.end(topic, number) for topic in ("out", scene.changelog()) for number in (0, 1)]
            worker.driver = Driver(worker.resources, worker.stages, worker.stop_signal, in_memory=True)
            worker.driver.run()
            worker.driver = None
            assert "the job of application app had already ended" in caplog.text
            assert "another --application-id" in caplog.text
            assert [scene.end(topic, number) for topic in ("out", scene.changelog()) for number in (0, 1)] == ends

    def test_ends_where_it_began_to_end(self, tmp_path: Path) -> None:
        """The end is the one of the first start, also over crashes with and without state."""
        for plan in (totals(bounded=True), totals(in_place=True, bounded=True), passing(bounded=True)):
            with Scene(plan, tmp_path) as scene:
                feed(scene, 1, 2)
                worker = scene.start()
                scene.turns(1)
                worker.crash()
                feed(scene, 4)
                run_to_end(scene)
                assert amounts(scene)[-1] in (2, 3)
                assert len(amounts(scene)) == 2

    def test_crash_at_every_point(self, tmp_path: Path) -> None:
        for number in range(1, 120, 3):
            with Scene(bounded_totals(), tmp_path) as scene:
                feed(scene, 1, 2)
                worker = scene.start()
                worker.fuse.left = number
                for _ in range(30):
                    worker.turn()
                if worker.driver is None:
                    worker.start()
                worker.fuse.left = None
                run_to_end(scene, worker)
                assert amounts(scene) == [1, 3]

    def test_several_topics_with_different_partition_counts(self, tmp_path: Path) -> None:
        with Scene(bounded_totals("in", "wide"), tmp_path) as scene:
            scene.create("wide", 5)
            feed(scene, 1, 2)
            feed(scene, 4, partition=4, topic="wide")
            run_to_end(scene)
            assert scene.by_key() == {"u0": ["1", "3"], "u4": ["4"]}

    def test_nothing_at_all(self, tmp_path: Path) -> None:
        with Scene(bounded_totals(), tmp_path) as scene:
            run_to_end(scene)
            assert scene.by_key() == {}

    @pytest.mark.parametrize("committed", [False, True])
    def test_a_marker_is_the_last_thing(self, tmp_path: Path, committed: bool) -> None:
        """The last offset before the end is one that no record has."""
        with Scene(bounded_totals(), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            writer = scene.broker.producer("writer")
            writer.begin()
            writer.produce("in", b"u0:2", None, 0, None, None, 0)
            writer.flush()
            writer.commit([]) if committed else writer.abort()
            run_to_end(scene)
            assert amounts(scene) == ([1, 3] if committed else [1])

    def test_group_deleted_after_the_end(self, tmp_path: Path) -> None:
        """The state knows that all has ended; the groups learn it again, so that no worker waits for ever."""
        with Scene(totals(in_place=True, bounded=True), tmp_path) as scene:
            feed(scene, 1)
            worker = scene.start()
            run_to_end(scene, worker)
            worker.stop()
            scene.time_out_dead()
            scene.broker.delete_group("app-total")
            run_to_end(scene)
            assert amounts(scene) == [1]

    def test_a_worker_without_tasks_ends_too(self, tmp_path: Path) -> None:
        """P07: more workers than partitions; the idle ones are ready, and end with the others."""
        with Scene(totals(in_place=True, bounded=True), tmp_path, partitions=1) as scene:
            feed(scene, 1)
            busy, idle = scene.start("w0"), scene.start("w1")
            scene.turns(1, idle)
            assert not idle.ended
            assert idle.health.ready() == [{"reason": "joining", "stage": "total"}]
            assert idle.driver is not None
            idle.driver.assignments[0].idle_after_s = 0.0
            idle.driver.last_look = -1e9
            scene.turns(1, idle)
            assert idle.health.ready() == []
            run_to_end(scene, idle, busy)
            assert idle.tasks == {}
            assert amounts(scene) == [1]

    def test_unbounded_under_the_id_of_an_ended_job(self, tmp_path: Path) -> None:
        with Scene(bounded_totals(), tmp_path) as scene:
            feed(scene, 1)
            worker = scene.start()
            run_to_end(scene, worker)
            worker.stop()
            scene.plan = totals()
            scene.start()
            with pytest.raises(JobError, match=r"has ended as part of a bounded job.*another --application-id"):
                scene.turns(3)

    def test_unbounded_before_the_end_was_reached(self, tmp_path: Path) -> None:
        """The pinned end does not cut off an unbounded run."""
        with Scene(passing(bounded=True), tmp_path, partitions=1) as scene:
            feed(scene, 1, 2)
            worker = scene.start()
            assert worker.driver is not None
            worker.resources.paces["numbers"] = pace = Pace()
            pace.messages = 1
            scene.turns(1)
            worker.crash()
            assert amounts(scene) == [1]
            feed(scene, 3)
            scene.plan = passing()
            scene.start()
            scene.turns(4)
            assert amounts(scene) == [1, 2, 3]

    def test_stopping_before_the_start(self, tmp_path: Path) -> None:
        built = source().set_bounded(Begin.offsets({KafkaTopicPartition("in", 0): 0, KafkaTopicPartition("in", 1): 1}))
        with Scene(passing(built=built), tmp_path) as scene:
            feed(scene, 1, 2)
            feed(scene, 3, 4, partition=1)
            run_to_end(scene)
            assert scene.by_key() == {"u1": ["3"]}
