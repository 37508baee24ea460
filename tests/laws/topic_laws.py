"""Laws about topics and administration: creating, describing, deleting, offsets by time, groups' offsets."""

from __future__ import annotations

import re

import pytest

from kstreampy.broker.broker import Position, TopicInfo, TopicPartition, TopicSpec
from kstreampy.errors import BrokerRefused, JobError
from tests.laws.scene import POLL_S, Scene, names_gap, poll_until, values


class TopicLaws:
    """Mixed into `BrokerLaws`."""

    def test_created_topic_is_described(self, scene: Scene) -> None:
        name = scene.topic(partitions=3)
        found = scene.broker.topics([name, scene.name("missing")])
        assert set(found) == {name}
        info = found[name]
        assert info == TopicInfo(name, 3, info.topic_id, info.replication)
        assert info.topic_id
        assert info.replication >= 1

    def test_a_cluster_has_brokers(self, scene: Scene) -> None:
        assert scene.broker.size() >= 1

    def test_creating_what_exists_changes_nothing(self, scene: Scene) -> None:
        name = scene.topic(partitions=2)
        before = scene.broker.topics([name])
        scene.send(name, b"kept")
        fresh = scene.name("topic")
        scene.will_delete(fresh)
        scene.broker.create_topics([TopicSpec(name, 2), TopicSpec(fresh, 1)])
        assert scene.broker.topics([name]) == before
        assert values(scene.read(name, 2)) == [b"kept"]
        assert scene.broker.topics([fresh])[fresh].partitions == 1

    def test_topic_made_anew_has_another_id_and_no_messages(self, scene: Scene) -> None:
        name = scene.topic()
        scene.send(name, b"old")
        before = scene.broker.topics([name])[name].topic_id
        scene.broker.delete_topics([name])
        poll_until(lambda: scene.broker.topics([name]) == {}, waits_for="the topic to go")
        scene.broker.create_topics([TopicSpec(name, 1)])
        assert scene.broker.topics([name])[name].topic_id != before
        assert scene.read(name) == []

    def test_configs_come_back_with_defaults(self, scene: Scene) -> None:
        plain = scene.topic()
        compacted = scene.topic(config={"cleanup.policy": "compact", "segment.ms": "60000"})
        configs = scene.broker.topic_configs([plain, compacted])
        assert configs[plain]["cleanup.policy"] == "delete"
        assert configs[compacted]["cleanup.policy"] == "compact"
        assert configs[compacted]["segment.ms"] == "60000"

    def test_matching_takes_the_whole_name(self, scene: Scene) -> None:
        first, second = scene.topic(), scene.topic(partitions=2)
        found = scene.broker.topics_matching(f"{re.escape(first)}|{re.escape(second)}")
        assert {name: info.partitions for name, info in found.items()} == {first: 1, second: 2}
        assert scene.broker.topics_matching(re.escape(first[:-1])) == {}

    def test_impossible_topic_is_refused(self, scene: Scene) -> None:
        with pytest.raises(BrokerRefused):
            scene.broker.create_topics([TopicSpec("no such/name", 1)])

    def test_begin_and_end_of_an_empty_topic(self, scene: Scene) -> None:
        partitions = [TopicPartition(scene.topic(partitions=2), number) for number in range(2)]
        assert scene.broker.begin_offsets(partitions) == dict.fromkeys(partitions, 0)
        assert scene.broker.end_offsets(partitions) == dict.fromkeys(partitions, 0)
        assert scene.broker.end_offsets(partitions, committed=False) == dict.fromkeys(partitions, 0)

    def test_offsets_at_timestamps(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        producer = scene.producer()
        for timestamp in (100, 200, 300):
            producer.produce(partition.topic, b"v", None, 0, None, None, timestamp, None)
            producer.flush()
        found = {ts: scene.broker.offsets_at({partition: ts})[partition] for ts in (1, 100, 101, 200, 300, 301)}
        assert found == {1: 0, 100: 0, 101: 1, 200: 1, 300: 2, 301: 3}

    def test_deleted_records_move_the_begin(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        scene.send(topic, b"0", b"1", b"2", b"3")
        scene.send(topic, b"other", partition=1)
        scene.broker.delete_records({first: 3})
        assert scene.broker.begin_offsets([first, second]) == {first: 3, second: 0}
        assert scene.broker.end_offsets([first, second]) == {first: 4, second: 1}
        assert sorted(m.value() or b"" for m in scene.read(topic, 2)) == [b"3", b"other"]

    def test_reading_deleted_records_is_an_error_that_names_the_gap(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, *(b"%d" % number for number in range(30)))
        scene.broker.delete_records({partition: 27})
        reader = scene.broker.reader()
        reader.assign({partition: 13})
        with pytest.raises(JobError) as caught:
            poll_until(lambda: False, lambda: reader.poll(10, POLL_S), waits_for="the gap to be noticed")
        reader.close()
        assert names_gap(caught.value, partition.topic, 13, 27)

    def test_group_offsets_are_forgotten_with_the_group(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        group = scene.name("group")
        member = scene.member(group, [partition.topic])
        member.poll_until_assigned({partition})
        member.consumer.commit({partition: Position(5, "note")})
        with pytest.raises(BrokerRefused, match=group):
            scene.broker.delete_group(group)
        member.consumer.close()
        assert scene.broker.committed(group, [partition]) == {partition: Position(5, "note")}
        scene.broker.delete_group(group)
        assert scene.broker.committed(group, [partition]) == {}

    def test_group_that_is_not_there(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        group = scene.name("group")
        assert scene.broker.committed(group, [partition]) == {}
        scene.broker.delete_group(group)
        assert scene.broker.committed(group, [partition]) == {}

    def test_offsets_of_a_missing_topic_are_an_error_that_names_it(self, scene: Scene) -> None:
        missing = TopicPartition(scene.name("missing"), 0)
        with pytest.raises(JobError, match=missing.topic):
            scene.broker.end_offsets([missing])
        with pytest.raises(JobError, match=missing.topic):
            scene.broker.begin_offsets([missing])
