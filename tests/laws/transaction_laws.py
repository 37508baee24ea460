"""Laws about transactions: what is seen when, offsets in them, fencing."""

from __future__ import annotations

import pytest

from kstreampy.broker.broker import Message, Position, TopicPartition
from kstreampy.errors import TaskMigrated
from tests.laws.scene import POLL_S, Scene, poll_until, values


class TransactionLaws:
    """Mixed into `BrokerLaws`."""

    def test_open_transaction_is_hidden_until_it_commits(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, b"before")
        producer = scene.producer(scene.name("id"))
        producer.begin()
        producer.produce(partition.topic, b"inside", None, 0, None, None, 0, None)
        producer.flush()
        scene.send(partition.topic, b"after")
        assert values(scene.read(partition.topic)) == [b"before"]
        assert scene.broker.end_offsets([partition]) == {partition: 1}
        assert scene.broker.end_offsets([partition], committed=False) == {partition: 3}
        producer.commit([])
        scene.settled_ends([partition])
        assert values(scene.read(partition.topic)) == [b"before", b"inside", b"after"]

    def test_aborted_transaction_is_never_seen(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer(scene.name("id"))
        producer.begin()
        producer.produce(partition.topic, b"aborted", None, 0, None, None, 0, None)
        producer.flush()
        scene.send(partition.topic, b"outside")
        producer.abort()
        producer.begin()
        producer.produce(partition.topic, b"committed", None, 0, None, None, 0, None)
        producer.commit([])
        scene.settled_ends([partition])
        assert values(scene.read(partition.topic)) == [b"outside", b"committed"]

    def test_transaction_spans_topics_and_partitions(self, scene: Scene) -> None:
        first, second = scene.topic(partitions=2), scene.topic()
        partitions = [TopicPartition(first, 0), TopicPartition(first, 1), TopicPartition(second, 0)]
        producer = scene.producer(scene.name("id"))
        producer.begin()
        for topic, partition in partitions:
            producer.produce(topic, b"v", None, partition, None, None, 0, None)
        producer.flush()
        assert scene.broker.end_offsets(partitions) == dict.fromkeys(partitions, 0)
        producer.commit([])
        assert scene.settled_ends(partitions) == dict.fromkeys(partitions, 2)

    def test_each_transaction_leaves_a_marker_and_positions_step_over_it(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer(scene.name("id"))
        for commits in (True, False, True, False):
            producer.begin()
            producer.produce(partition.topic, b"v", None, 0, None, None, 0, None)
            producer.flush()
            if commits:
                producer.commit([])
            else:
                producer.abort()
        ends = scene.settled_ends([partition])
        assert ends == {partition: 8}
        member = scene.member(scene.name("group"), [partition.topic])
        poll_until(
            lambda: member.consumer.positions([partition]) == ends,
            member.poll,
            waits_for="the end of markers",
        )
        assert [message.offset() for message in member.messages] == [0, 4]
        reader = scene.broker.reader()
        reader.assign({partition: 5})
        polled: list[Message] = []
        poll_until(
            lambda: reader.positions() == ends,
            lambda: polled.extend(m for chunk in reader.poll(10, POLL_S) for m in chunk.messages),
            waits_for="a reader to step over what only has markers",
        )
        reader.close()
        assert polled == []

    def test_empty_transactions_are_fine(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer(scene.name("id"))
        producer.begin()
        producer.commit([])
        producer.begin()
        producer.abort()
        producer.abort()
        producer.begin()
        producer.produce(partition.topic, b"v", None, 0, None, None, 0, None)
        producer.commit([])
        assert scene.settled_ends([partition]) == {partition: 2}
        assert values(scene.read(partition.topic)) == [b"v"]

    def test_receipts_in_a_transaction(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer(scene.name("id"))
        offsets = []
        for _ in range(2):
            producer.begin()
            receipts = [producer.produce_tracked(partition.topic, b"v", None, 0) for _ in range(2)]
            producer.commit([])
            offsets += [receipt.offset for receipt in receipts]
        assert offsets == [0, 1, 3, 4]
        scene.settled_ends([partition])
        assert [message.offset() for message in scene.read(partition.topic)] == offsets

    def test_offsets_of_several_groups_commit_with_the_transaction(self, scene: Scene) -> None:
        first, second = TopicPartition(scene.topic(), 0), TopicPartition(scene.topic(), 0)
        out = TopicPartition(scene.topic(), 0)
        members = [scene.member(scene.name("group"), [partition.topic]) for partition in (first, second)]
        members[0].poll_until_assigned({first})
        members[1].poll_until_assigned({second})
        producer = scene.producer(scene.name("id"))

        def committed() -> list[dict[TopicPartition, Position]]:
            return [scene.broker.committed(member.group, [first, second]) for member in members]

        def transact(first_offset: int, second_offset: int, *, commits: bool) -> None:
            producer.begin()
            producer.produce(out.topic, b"v", None, 0, None, None, 0, None)
            producer.flush()
            if commits:
                offsets = [{first: Position(first_offset, "note ä")}, {second: Position(second_offset)}]
                producer.commit([(members[0].consumer, offsets[0]), (members[1].consumer, offsets[1])])
            else:
                producer.abort()

        transact(3, 4, commits=False)
        assert committed() == [{}, {}]
        transact(5, 6, commits=True)
        assert committed() == [{first: Position(5, "note ä")}, {second: Position(6)}]
        transact(7, 8, commits=False)
        assert committed() == [{first: Position(5, "note ä")}, {second: Position(6)}]
        scene.settled_ends([out])
        assert len(scene.read(out.topic)) == 1

    def test_successor_aborts_what_its_predecessor_left_open(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        transactional_id = scene.name("id")
        old = scene.producer(transactional_id)
        old.begin()
        old.produce(partition.topic, b"old", None, 0, None, None, 0, None)
        old.flush()
        scene.send(partition.topic, b"other")
        new = scene.producer(transactional_id)
        assert scene.settled_ends([partition]) == {partition: 3}
        assert values(scene.read(partition.topic)) == [b"other"]
        new.begin()
        new.produce(partition.topic, b"new", None, 0, None, None, 0, None)
        new.commit([])
        scene.settled_ends([partition])
        assert values(scene.read(partition.topic)) == [b"other", b"new"]

    def test_fenced_producer_cannot_commit(self, scene: Scene) -> None:
        source, out = TopicPartition(scene.topic(), 0), TopicPartition(scene.topic(), 0)
        member = scene.member(scene.name("group"), [source.topic])
        member.poll_until_assigned({source})
        transactional_id = scene.name("id")
        old = scene.producer(transactional_id)
        old.begin()
        old.produce(out.topic, b"old", None, 0, None, None, 0, None)
        old.flush()
        scene.producer(transactional_id)
        with pytest.raises(TaskMigrated):
            old.commit([(member.consumer, {source: Position(9)})])
        old.abort()
        old.close()
        scene.settled_ends([out])
        assert scene.read(out.topic) == []
        assert scene.broker.committed(member.group, [source]) == {}

    def test_what_is_not_committed_at_close_is_never_seen(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        transactional_id = scene.name("id")
        producer = scene.producer(transactional_id)
        producer.begin()
        producer.produce(partition.topic, b"v", None, 0, None, None, 0, None)
        producer.flush()
        producer.close()
        scene.producer(transactional_id)
        assert scene.settled_ends([partition]) == {partition: 2}
        assert scene.read(partition.topic) == []
