"""The in-memory log: topics and compaction, producing, and polls that wait for other threads."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from kstreampy.broker.broker import Start, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.broker.memory.partitioner import murmur2
from kstreampy.errors import BrokerRefused, JobError
from tests.laws.scene import Member, Scene, values

NOW_MS = 1_700_000_000_000


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
    def test_impossible_topics_are_refused_and_nothing_is_created(self, scene: Scene, spec: TopicSpec) -> None:
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
        assert [message.timestamp() for message in scene.read(topic)] == [(1, NOW_MS)]

    def test_log_append_time(self, scene: Scene) -> None:
        topic = scene.topic(config={"message.timestamp.type": "LogAppendTime"})
        producer = scene.producer()
        producer.produce(topic, b"v", None, 0, None, None, 5, None)
        producer.flush()
        assert [message.timestamp() for message in scene.read(topic)] == [(2, NOW_MS)]

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
