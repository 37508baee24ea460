"""The in-memory log: the laws of all brokers, faults on order, and membership of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kstreampy.broker.broker import Broker, BrokerFactory, Position, Start, TopicPartition
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, TaskMigrated
from tests.laws.broker_laws import BrokerLaws
from tests.laws.scene import Member, Scene, values


class TestLaws(BrokerLaws):
    @pytest.fixture
    def broker_factory(self, cluster: MemoryCluster) -> BrokerFactory:
        return lambda: MemoryBroker(cluster)

    @pytest.fixture
    def tight_broker(self, cluster: MemoryCluster) -> Broker:
        return MemoryBroker(cluster, queue_messages=5)


class TestFaults:
    def test_commit_that_fails_before_it_is_applied(self, scene: Scene, cluster: MemoryCluster) -> None:
        source, out = TopicPartition(scene.topic(), 0), TopicPartition(scene.topic(), 0)
        member = scene.member("group", [source.topic])
        member.poll()
        producer = scene.producer("id")
        producer.begin()
        producer.produce(out.topic, b"v", None, 0, None, None, 0, None)
        cluster.fail_next_commit(applied=False)
        with pytest.raises(BrokerUnavailable, match="in doubt"):
            producer.commit([(member.consumer, {source: Position(1)})])
        assert scene.broker.end_offsets([out]) == {out: 2}
        assert scene.read(out.topic) == []
        assert scene.broker.committed("group", [source]) == {}

    def test_commit_that_is_applied_though_the_client_gets_an_error(self, scene: Scene, cluster: MemoryCluster) -> None:
        source, out = TopicPartition(scene.topic(), 0), TopicPartition(scene.topic(), 0)
        member = scene.member("group", [source.topic])
        member.poll()
        producer = scene.producer("id")
        producer.begin()
        producer.produce(out.topic, b"v", None, 0, None, None, 0, None)
        cluster.fail_next_commit(applied=True)
        with pytest.raises(BrokerUnavailable, match="in doubt"):
            producer.commit([(member.consumer, {source: Position(1)})])
        assert values(scene.read(out.topic)) == [b"v"]
        assert scene.broker.committed("group", [source]) == {source: Position(1)}

    @pytest.mark.parametrize("applied", [False, True])
    def test_producer_in_doubt_must_be_discarded(self, scene: Scene, cluster: MemoryCluster, applied: bool) -> None:
        topic = scene.topic()
        producer = scene.producer("id")
        producer.begin()
        cluster.fail_next_commit(applied=applied)
        with pytest.raises(BrokerUnavailable):
            producer.commit([])
        producer.abort()
        with pytest.raises(BrokerUnavailable, match="discarded"):
            producer.begin()
        successor = scene.producer("id")
        successor.begin()
        successor.produce(topic, b"v", None, 0, None, None, 0, None)
        successor.commit([])
        assert values(scene.read(topic)) == [b"v"]

    def test_commit_fault_waits_for_its_own_producer(self, scene: Scene, cluster: MemoryCluster) -> None:
        cluster.fail_next_commit(applied=False, transactional_id="second")
        first, second = scene.producer("first"), scene.producer("second")
        first.begin()
        first.commit([])
        second.begin()
        with pytest.raises(BrokerUnavailable):
            second.commit([])

    @pytest.mark.parametrize("applied", [False, True])
    def test_commit_of_offsets_that_fails(self, scene: Scene, cluster: MemoryCluster, applied: bool) -> None:
        partition = TopicPartition(scene.topic(), 0)
        member = scene.member("group", [partition.topic])
        member.poll()
        cluster.fail_next_offset_commit(applied=applied, group="group")
        with pytest.raises(BrokerUnavailable):
            member.consumer.commit({partition: Position(4)})
        stored = {partition: Position(4)} if applied else {}
        assert scene.broker.committed("group", [partition]) == stored
        member.consumer.commit({partition: Position(5)})
        assert scene.broker.committed("group", [partition]) == {partition: Position(5)}

    def test_delivery_that_fails_spoils_the_transaction_until_abort(self, scene: Scene, cluster: MemoryCluster) -> None:
        topic = scene.topic()
        producer = scene.producer("id")
        producer.begin()
        cluster.fail_next_delivery(topic)
        for value in (b"lost", b"arrives"):
            producer.produce(topic, value, None, 0, None, None, 0, None)
        with pytest.raises(BrokerUnavailable, match=topic):
            producer.serve()
        with pytest.raises(BrokerUnavailable, match=topic):
            producer.commit([])
        producer.abort()
        producer.begin()
        producer.produce(topic, b"again", None, 0, None, None, 0, None)
        producer.commit([])
        assert values(scene.read(topic)) == [b"again"]

    def test_delivery_error_outside_a_transaction_is_raised_once(self, scene: Scene, cluster: MemoryCluster) -> None:
        topic = scene.topic()
        producer = scene.producer()
        cluster.fail_next_delivery(topic)
        receipt = producer.produce_tracked(topic, b"lost", None, 0)
        producer.produce(topic, b"arrives", None, 0, None, None, 0, None)
        producer.wait_for_room()
        with pytest.raises(BrokerUnavailable):
            producer.flush()
        producer.flush()
        assert receipt.offset is None
        assert values(scene.read(topic)) == [b"arrives"]

    def test_transaction_that_times_out_is_aborted_and_fenced(self, scene: Scene, cluster: MemoryCluster) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer("id")
        producer.begin()
        producer.produce(partition.topic, b"v", None, 0, None, None, 0, None)
        producer.flush()
        cluster.expire_transaction("id")
        assert scene.broker.end_offsets([partition]) == {partition: 2}
        producer.produce(partition.topic, b"late", None, 0, None, None, 0, None)
        with pytest.raises(TaskMigrated, match="id"):
            producer.serve()
        with pytest.raises(TaskMigrated):
            producer.commit([])
        producer.abort()
        with pytest.raises(TaskMigrated):
            producer.begin()
        assert scene.read(partition.topic) == []


class TestMembership:
    def test_expelled_member_loses_its_partitions_and_joins_anew(self, scene: Scene, cluster: MemoryCluster) -> None:
        partition = TopicPartition(scene.topic(), 0)
        first = scene.member("group", [partition.topic], name="first")
        first.poll()
        second = scene.member("group", [partition.topic], name="second")
        second.poll()
        assert second.consumer.assignment() == set()
        cluster.expel(first.consumer)
        second.poll()
        assert second.consumer.assignment() == {partition}
        with pytest.raises(TaskMigrated, match="expelled"):
            first.consumer.commit({partition: Position(1)})
        first.poll()
        assert first.journal == [("first", "assigned", [partition]), ("first", "lost", [partition])]
        assert first.consumer.assignment() == set()
        second.consumer.close()
        first.poll()
        assert first.consumer.assignment() == {partition}

    def test_offsets_of_lost_partitions_are_refused_also_after_joining_anew(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
        partition = TopicPartition(scene.topic(), 0)
        first = scene.member("group", [partition.topic], name="first")
        first.poll()
        scene.member("group", [partition.topic], name="second")
        cluster.expel(first.consumer)
        first.poll()
        with pytest.raises(TaskMigrated, match="does not own"):
            first.consumer.commit({partition: Position(1)})

    def test_transaction_with_offsets_of_an_expelled_member_changes_nothing(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
        source, out = TopicPartition(scene.topic(), 0), TopicPartition(scene.topic(), 0)
        good, gone = scene.member("good", [source.topic]), scene.member("gone", [source.topic])
        good.poll()
        gone.poll()
        producer = scene.producer("id")
        producer.begin()
        producer.produce(out.topic, b"v", None, 0, None, None, 0, None)
        cluster.expel(gone.consumer)
        offsets = {source: Position(1)}
        with pytest.raises(TaskMigrated, match="gone"):
            producer.commit([(good.consumer, offsets), (gone.consumer, offsets)])
        producer.abort()
        assert scene.broker.committed("good", [source]) == {}
        assert scene.read(out.topic) == []

    def test_successor_of_a_static_member_takes_over_at_once(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
        old = scene.member("group", [topic], name="old", instance_id="w0")
        other = scene.member("group", [topic], name="other", instance_id="w1")
        old.poll()
        other.poll()
        new = scene.member("group", [topic], name="new", instance_id="w0")
        new.poll()
        other.poll()
        assert (new.consumer.assignment(), other.consumer.assignment()) == ({zero}, {one})
        with pytest.raises(TaskMigrated, match="fenced"):
            old.consumer.commit({zero: Position(1)})
        for _ in range(2):
            with pytest.raises(TaskMigrated, match="w0"):
                old.poll()
        assert old.journal[-1] == ("old", "lost", [zero])
        old.consumer.close()
        assert new.consumer.assignment() == {zero}

    def test_static_member_that_stays_away_is_missed_only_after_its_session(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
        topic = scene.topic(partitions=2)
        members = [scene.member("group", [topic], name=name, instance_id=name) for name in ("w0", "w1")]
        for member in members:
            member.poll()
        members[0].consumer.close()
        members[1].poll()
        assert members[1].consumer.assignment() == {TopicPartition(topic, 1)}
        with pytest.raises(BrokerRefused, match="w0"):
            scene.broker.delete_group("group")
        cluster.expel(members[0].consumer)
        members[1].poll()
        assert members[1].consumer.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}

    def test_new_owner_waits_until_all_have_let_go(self, scene: Scene) -> None:
        topic = scene.topic(partitions=6)
        members = [scene.member("group", [topic], name=name) for name in "ab"]
        for member in members:
            member.poll()
        newcomer = scene.member("group", [topic], name="c")
        newcomer.poll()
        members[1].poll()
        newcomer.poll()
        assert newcomer.consumer.assignment() == {TopicPartition(topic, 4), TopicPartition(topic, 5)}
        assert members[1].consumer.assignment() == {TopicPartition(topic, 3)}
        members[0].poll()
        members[1].poll()
        assert members[1].consumer.assignment() == {TopicPartition(topic, 2), TopicPartition(topic, 3)}

    def test_partitions_are_let_go_also_when_revoking_fails(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)

        class Failing(Member):
            def revoked(self, partitions: Sequence[TopicPartition]) -> None:
                raise ValueError("the disk is full")

        first = Failing(scene.broker, "group", [topic])
        first.poll()
        second = scene.member("group", [topic])
        with pytest.raises(ValueError, match="the disk is full"):
            first.poll()
        second.poll()
        assert second.consumer.assignment() == {TopicPartition(topic, 1)}
        assert first.consumer.assignment() == {TopicPartition(topic, 0)}

    def test_start_left_out_is_an_error(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)

        class Forgetful(Member):
            def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
                return {partitions[0]: Start(0)}

        with pytest.raises(JobError, match=topic):
            Forgetful(scene.broker, "group", [topic]).poll()

    def test_seek_on_what_is_not_assigned(self, scene: Scene) -> None:
        topic = scene.topic()
        member = scene.member("group", [topic])
        with pytest.raises(TaskMigrated, match=topic):
            member.consumer.seek(TopicPartition(topic, 0), 0)

    def test_long_notes_are_refused(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        member = scene.member("group", [partition.topic])
        member.poll()
        with pytest.raises(BrokerRefused, match="4096"):
            member.consumer.commit({partition: Position(0, "x" * 4097)})

    def test_partitions_take_turns(self, scene: Scene) -> None:
        topic = scene.topic(partitions=3)
        for number in range(3):
            scene.send(topic, *[b"v"] * 9, partition=number)
        member = scene.member("group", [topic])
        firsts = [member.poll(3)[0].partition for _ in range(6)]
        assert sorted(firsts[:3]) == [0, 1, 2]
        assert firsts[3:] == firsts[:3]
