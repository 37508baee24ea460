"""The in-memory log: the laws of all brokers, and what only it can do: faults, expelling, compaction, its
clock."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from kstreampy.broker.broker import Broker, BrokerFactory, Position, Start, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.broker.memory.partitioner import murmur2
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, TaskMigrated
from tests.laws.broker_laws import BrokerLaws
from tests.laws.scene import Member, Scene, values

NOW = 1_700_000_000_000


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=lambda: NOW, blocking=False)


@pytest.fixture
def scene(cluster: MemoryCluster) -> Iterator[Scene]:
    scene = Scene(lambda: MemoryBroker(cluster))
    yield scene
    scene.close()


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

    def test_commit_that_is_applied_though_the_client_gets_an_error(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
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
    def test_producer_in_doubt_must_be_discarded(
        self, scene: Scene, cluster: MemoryCluster, applied: bool
    ) -> None:
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

    def test_delivery_that_fails_spoils_the_transaction_until_abort(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
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

    def test_delivery_error_outside_a_transaction_is_raised_once(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
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

    def test_transaction_that_times_out_is_aborted_and_fenced(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
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
    def test_expelled_member_loses_its_partitions_and_joins_anew(
        self, scene: Scene, cluster: MemoryCluster
    ) -> None:
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


class TestTopics:
    def test_topic_made_anew_while_it_is_read_is_an_error(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, b"old", b"old")
        member = scene.member("group", [partition.topic])
        member.poll()
        member.commit([partition])
        scene.broker.delete_topics([partition.topic])
        scene.broker.create_topics([TopicSpec(partition.topic, 1)])
        with pytest.raises(JobError, match="made anew"):
            member.poll()
        assert scene.broker.committed("group", [partition]) == {}

    def test_topic_that_appears_later_is_assigned(self, scene: Scene) -> None:
        topic = scene.name("topic")
        member = scene.member("group", [topic])
        with pytest.raises(JobError, match=topic):
            member.poll()
        scene.broker.create_topics([TopicSpec(topic, 2)])
        member.poll()
        assert len(member.consumer.assignment()) == 2

    def test_start_beyond_the_end_is_an_error_that_names_the_gap(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, b"v")
        member = scene.member("group", [partition.topic], starts={partition: Start(5)})
        with pytest.raises(JobError, match="1 to 5"):
            member.poll()

    def test_compacted_topic_takes_no_message_without_a_key(self, scene: Scene) -> None:
        topic = scene.topic(config={"cleanup.policy": "compact"})
        producer = scene.producer()
        producer.produce(topic, b"v", None, 0, None, None, 0, None)
        with pytest.raises(BrokerRefused, match=topic):
            producer.flush()

    def test_records_of_a_compacted_topic_cannot_be_deleted(self, scene: Scene) -> None:
        topic = scene.topic(config={"cleanup.policy": "compact"})
        with pytest.raises(BrokerRefused, match=topic):
            scene.broker.delete_records({TopicPartition(topic, 0): 0})

    def test_records_beyond_the_end_cannot_be_deleted(self, scene: Scene) -> None:
        topic = scene.topic()
        with pytest.raises(BrokerRefused, match=topic):
            scene.broker.delete_records({TopicPartition(topic, 0): 1})

    @pytest.mark.parametrize(
        "spec",
        [
            TopicSpec("", 1),
            TopicSpec("..", 1),
            TopicSpec("x" * 250, 1),
            TopicSpec("fine", 0),
            TopicSpec("fine", 1, {"cleanup.policy": "compacted"}),
        ],
    )
    def test_impossible_topics_are_refused_and_nothing_is_created(
        self, scene: Scene, spec: TopicSpec
    ) -> None:
        with pytest.raises(BrokerRefused):
            scene.broker.create_topics([TopicSpec("good", 1), spec])
        assert scene.broker.topics(["good", "fine"]) == {}

    def test_bad_pattern_is_an_error(self, scene: Scene) -> None:
        with pytest.raises(JobError, match="regular expression"):
            scene.broker.topics_matching("(")

    def test_internal_topics_do_not_match(self, scene: Scene) -> None:
        scene.broker.create_topics([TopicSpec("__offsets", 1), TopicSpec("_mine", 1)])
        assert set(scene.broker.topics_matching(".*")) == {"_mine"}

    def test_compaction_keeps_the_last_of_each_key(self, scene: Scene, cluster: MemoryCluster) -> None:
        topic = scene.topic(config={"cleanup.policy": "compact"})
        partition = TopicPartition(topic, 0)
        producer = scene.producer()
        for key, value in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", None)]:
            producer.produce(topic, value, key, 0, None, None, 0, None)
        producer.flush()
        cluster.compact(topic)
        assert [(m.offset(), m.key(), m.value()) for m in scene.read(topic)] == [
            (2, b"a", b"2"),
            (3, b"c", b"1"),
            (4, b"b", None),
        ]
        cluster.compact(topic, drop_tombstones=True)
        assert scene.broker.begin_offsets([partition]) == {partition: 0}
        assert scene.broker.end_offsets([partition]) == {partition: 5}
        reader = scene.broker.reader()
        reader.assign({partition: 1})
        found = [chunk.messages for chunk in reader.poll(10, 0)]
        assert [[message.offset() for message in messages] for messages in found] == [[2, 3]]
        assert reader.positions() == {partition: 5}

    def test_compaction_leaves_open_transactions_alone(self, scene: Scene, cluster: MemoryCluster) -> None:
        topic = scene.topic(config={"cleanup.policy": "compact"})
        producer = scene.producer("id")
        plain = scene.producer()
        plain.produce(topic, b"1", b"a", 0, None, None, 0, None)
        plain.flush()
        producer.begin()
        producer.produce(topic, b"2", b"a", 0, None, None, 0, None)
        producer.flush()
        plain.produce(topic, b"3", b"a", 0, None, None, 0, None)
        plain.flush()
        cluster.compact(topic)
        producer.abort()
        assert values(scene.read(topic)) == [b"1", b"3"]

    def test_only_compacted_topics_can_be_compacted(self, scene: Scene, cluster: MemoryCluster) -> None:
        topic = scene.topic()
        with pytest.raises(JobError, match=topic):
            cluster.compact(topic)


class TestProducing:
    @pytest.mark.parametrize(
        ("key", "signed"),
        [
            (b"21", -973932308),
            (b"foobar", -790332482),
            (b"a-little-bit-long-string", -985981536),
            (b"a-little-bit-longer-string", -1486304829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
            (b"abc", 479470107),
        ],
    )
    def test_hashes_of_javas_own_test(self, key: bytes, signed: int) -> None:
        assert murmur2(key) == signed % 2**32

    def test_messages_without_a_key_are_dealt_out_in_turn(self, scene: Scene) -> None:
        topic = scene.topic(partitions=3)
        producer = scene.producer()
        for number in range(6):
            producer.produce(topic, b"%d" % number, None, -1, None, None, 0, None)
        producer.flush()
        placed = {message.value(): message.partition() for message in scene.read(topic, 3)}
        assert placed == {b"%d" % number: number % 3 for number in range(6)}

    def test_present_comes_from_the_clock(self, scene: Scene) -> None:
        topic = scene.topic()
        scene.send(topic, b"v")
        assert [message.timestamp() for message in scene.read(topic)] == [(1, NOW)]

    def test_log_append_time(self, scene: Scene) -> None:
        topic = scene.topic(config={"message.timestamp.type": "LogAppendTime"})
        producer = scene.producer()
        producer.produce(topic, b"v", None, 0, None, None, 5, None)
        producer.flush()
        assert [message.timestamp() for message in scene.read(topic)] == [(2, NOW)]

    @pytest.mark.parametrize("makes_room", ["wait_for_room", "serve", "flush"])
    def test_full_queue_is_emptied_by(self, cluster: MemoryCluster, scene: Scene, makes_room: str) -> None:
        topic = scene.topic()
        producer = MemoryBroker(cluster, queue_messages=2).producer()
        for _ in range(2):
            producer.produce(topic, b"v", None, 0, None, None, 0, None)
        with pytest.raises(BufferError, match="wait_for_room"):
            producer.produce(topic, b"w", None, 0, None, None, 0, None)
        with pytest.raises(BufferError, match="wait_for_room"):
            producer.produce_tracked(topic, b"w", None, 0)
        getattr(producer, makes_room)()
        producer.produce(topic, b"w", None, 0, None, None, 0, None)
        producer.close()
        assert values(scene.read(topic)) == [b"v", b"v", b"w"]

    def test_partition_that_is_not_there(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        producer = scene.producer()
        producer.produce(topic, b"v", None, 2, None, None, 0, None)
        with pytest.raises(JobError, match=f"{topic} has partitions 0 to 1"):
            producer.flush()

    def test_headers_of_a_message_belong_to_it(self, scene: Scene) -> None:
        topic = scene.topic()
        producer = scene.producer()
        headers: list[tuple[str, bytes | None]] = [("a", b"1")]
        producer.produce(topic, b"v", None, 0, None, None, 0, headers)
        producer.flush()
        headers.append(("b", b"2"))
        (message,) = scene.read(topic)
        (message.headers() or []).clear()
        assert message.headers() == [("a", b"1")]

    def test_misuse_is_told(self, scene: Scene) -> None:
        topic = scene.topic()
        plain, transactional = scene.producer(), scene.producer("id")
        with pytest.raises(TypeError, match="str"):
            plain.produce(topic, "text", None, 0, None, None, 0, None)
        with pytest.raises(RuntimeError, match="without a transactional id"):
            plain.begin()
        with pytest.raises(RuntimeError, match="begin"):
            transactional.produce(topic, b"v", None, 0, None, None, 0, None)
        with pytest.raises(RuntimeError, match="no open transaction"):
            transactional.commit([])
        transactional.begin()
        with pytest.raises(RuntimeError, match="end it first"):
            transactional.begin()
        plain.close()
        with pytest.raises(RuntimeError, match="closed"):
            plain.produce(topic, b"v", None, 0, None, None, 0, None)


class TestThreads:
    """A blocking cluster, as jobs use it."""

    @pytest.fixture
    def cluster(self) -> MemoryCluster:
        return MemoryCluster()

    def test_poll_wakes_up_when_something_comes(self, scene: Scene) -> None:
        topic = scene.topic()
        member = scene.member("group", [topic])
        member.poll()
        sender = threading.Timer(0.05, scene.send, [topic, b"v"])
        sender.start()
        began = time.monotonic()
        chunks = member.consumer.poll(10, 20)
        took = time.monotonic() - began
        sender.join()
        assert values([message for chunk in chunks for message in chunk.messages]) == [b"v"]
        assert took < 10

    def test_poll_waits_no_longer_than_asked(self, scene: Scene) -> None:
        topic = scene.topic()
        member = scene.member("group", [topic])
        reader = scene.broker.reader()
        reader.assign({TopicPartition(topic, 0): 0})
        for poll in (member.consumer.poll, reader.poll):
            began = time.monotonic()
            assert poll(10, 0.05) == []
            assert 0.04 < time.monotonic() - began < 5

    def test_listener_may_wait_for_a_thread_that_reads(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, b"state")
        restored: list[bytes | None] = []

        def restore() -> None:
            restored.extend(values(scene.read(partition.topic)))

        class Restoring(Member):
            def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
                thread = threading.Thread(target=restore)
                thread.start()
                thread.join(20)
                assert not thread.is_alive()
                return super().assigned(partitions)

        Restoring(scene.broker, "group", [partition.topic]).poll()
        assert restored == [b"state"]

    def test_workers_in_threads_share_the_work(self, scene: Scene) -> None:
        topic = scene.topic(partitions=4)
        members = [scene.member("group", [topic], commit_on_revoke=True) for _ in range(2)]
        total = 400
        stop = threading.Event()

        def work(member: Member) -> None:
            while not stop.is_set():
                member.poll()

        threads = [threading.Thread(target=work, args=[member]) for member in members]
        for thread in threads:
            thread.start()
        producer = scene.producer()
        for number in range(total):
            producer.produce(topic, b"%d" % number, None, number % 4, None, None, 0, None)
            producer.serve()
        deadline = time.monotonic() + 20
        while sum(len(member.messages) for member in members) < total and time.monotonic() < deadline:
            time.sleep(0.005)
        stop.set()
        for thread in threads:
            thread.join(20)
        handled = itertools.chain.from_iterable(values(member.messages) for member in members)
        assert sorted(int(value or b"-1") for value in handled) == list(range(total))
