"""Laws about messages: what was produced comes back, where it belongs and in order; readers; queues."""

from __future__ import annotations

import pytest

from kstreampy.broker.broker import Broker, Message, TopicPartition
from kstreampy.errors import JobError
from tests.laws.scene import MISSING_S, POLL_S, Scene, poll_until, values

TWELVE = {
    b"21": 0,
    b"foobar": 6,
    b"a-little-bit-long-string": 8,
    b"a-little-bit-longer-string": 11,
    b"abc": 3,
    b"": 9,
}
"""The partition of keys among 12, as Java's producer places them."""


class LogLaws:
    """Mixed into `BrokerLaws`."""

    def test_order_within_each_partition(self, scene: Scene) -> None:
        topic = scene.topic(partitions=3)
        producer = scene.producer()
        for number in range(300):
            producer.produce(topic, b"%d" % number, None, number % 3, None, None, 0, None)
        producer.flush()
        found = scene.read(topic, 3)
        for partition in range(3):
            mine = [message for message in found if message.partition() == partition]
            assert values(mine) == [b"%d" % number for number in range(partition, 300, 3)]
            assert [message.offset() for message in mine] == list(range(100))

    def test_keys_and_values_may_be_none_or_empty(self, scene: Scene) -> None:
        topic = scene.topic()
        producer = scene.producer()
        pairs = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"\x00\xff", b"\xff\x00")]
        for key, value in pairs:
            producer.produce(topic, value, key, 0, None, None, 0, None)
        producer.flush()
        assert [(message.key(), message.value()) for message in scene.read(topic)] == pairs

    def test_headers_come_through(self, scene: Scene) -> None:
        topic = scene.topic()
        producer = scene.producer()
        many = [("a", b"1"), ("a", b"2"), ("none", None), ("empty", b""), ("umlaut-ä", b"\xff")]
        for headers in (many, [], None):
            producer.produce(topic, b"v", None, 0, None, None, 0, headers)
        producer.flush()
        assert [message.headers() for message in scene.read(topic)] == [many, None, None]

    def test_timestamps_come_through_and_zero_is_the_present(self, scene: Scene) -> None:
        topic = scene.topic()
        producer = scene.producer()
        for timestamp in (1_000, 5, 0):
            producer.produce(topic, b"v", None, 0, None, None, timestamp, None)
        producer.produce_tracked(topic, b"v", None, 0, 77)
        producer.flush()
        first, second, present, tracked = [message.timestamp() for message in scene.read(topic)]
        assert (first, second, tracked) == ((1, 1_000), (1, 5), (1, 77))
        assert present[0] == 1
        assert present[1] > 1_000

    def test_message_knows_where_it_lies(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        scene.send(topic, b"v", b"w", partition=1)
        assert [(m.topic(), m.partition(), m.offset()) for m in scene.read(topic, 2)] == [
            (topic, 1, 0),
            (topic, 1, 1),
        ]

    def test_keys_go_where_java_sends_them(self, scene: Scene) -> None:
        topic = scene.topic(partitions=12)
        producer = scene.producer()
        for key in TWELVE:
            producer.produce(topic, b"v", key, -1, None, None, 0, None)
        producer.flush()
        assert {message.key(): message.partition() for message in scene.read(topic, 12)} == TWELVE

    def test_tracked_receipts_give_true_offsets(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        scene.send(topic, b"before", partition=1)
        producer = scene.producer()
        receipts = [producer.produce_tracked(topic, b"%d" % number, b"k", 1) for number in range(3)]
        producer.flush()
        found = {message.value(): message.offset() for message in scene.read(topic, 2)}
        assert [receipt.offset for receipt in receipts] == [found[b"%d" % number] for number in range(3)]

    def test_poll_gives_at_most_what_was_asked_and_loses_nothing(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, *(b"%d" % number for number in range(20)))
        reader = scene.broker.reader()
        reader.assign({partition: 0})
        polled: list[list[Message]] = []

        def poll() -> None:
            chunks = reader.poll(7, POLL_S)
            assert all(chunk.messages for chunk in chunks)
            polled.append([message for chunk in chunks for message in chunk.messages])

        poll_until(lambda: reader.positions() == {partition: 20}, poll, waits_for="20 messages")
        reader.close()
        assert max(map(len, polled)) <= 7
        assert values([message for messages in polled for message in messages]) == [b"%d" % n for n in range(20)]

    def test_reader_begins_at_the_offsets_given_and_can_be_assigned_anew(self, scene: Scene) -> None:
        topic = scene.topic(partitions=2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        scene.send(topic, b"a0", b"a1", b"a2")
        scene.send(topic, b"b0", b"b1", partition=1)
        reader = scene.broker.reader()
        found: list[Message] = []

        def poll() -> None:
            found.extend(message for chunk in reader.poll(10, POLL_S) for message in chunk.messages)

        reader.assign({first: 2, second: 1})
        poll_until(lambda: reader.positions() == {first: 3, second: 2}, poll, waits_for="both ends")
        assert sorted(message.value() or b"" for message in found) == [b"a2", b"b1"]
        found.clear()
        reader.assign({second: 0})
        poll_until(lambda: reader.positions() == {second: 2}, poll, waits_for="the end again")
        reader.close()
        assert values(found) == [b"b0", b"b1"]

    def test_reader_at_the_end_sees_what_comes_later(self, scene: Scene) -> None:
        partition = TopicPartition(scene.topic(), 0)
        scene.send(partition.topic, b"old")
        reader = scene.broker.reader()
        reader.assign({partition: 1})
        assert reader.poll(10, POLL_S) == []
        scene.send(partition.topic, b"new")
        found: list[Message] = []
        poll_until(
            lambda: reader.positions() == {partition: 2},
            lambda: found.extend(message for chunk in reader.poll(10, POLL_S) for message in chunk.messages),
            waits_for="the new message",
        )
        reader.close()
        assert values(found) == [b"new"]

    def test_producing_to_a_missing_topic_is_an_error_that_names_it(self, scene: Scene) -> None:
        missing = scene.name("missing")
        producer = scene.producer()
        producer.produce(missing, b"v", None, -1, None, None, 0, None)
        with pytest.raises(JobError, match=missing):
            producer.flush()

    def test_reading_a_missing_topic_is_an_error_that_names_it(self, scene: Scene) -> None:
        missing = TopicPartition(scene.name("missing"), 0)
        reader = scene.broker.reader()

        def read() -> None:
            reader.assign({missing: 0})
            poll_until(lambda: False, lambda: reader.poll(10, POLL_S), waits_for="the error", wait_s=MISSING_S)

        with pytest.raises(JobError, match=missing.topic):
            read()
        reader.close()

    def test_full_queue_is_back_pressure_and_loses_nothing(self, scene: Scene, tight_broker: Broker) -> None:
        topic = scene.topic()
        producer = tight_broker.producer()
        full = 0
        for number in range(200):
            while True:
                try:
                    producer.produce(topic, b"%d" % number, None, 0, None, None, 0, None)
                    break
                except BufferError:
                    full += 1
                    producer.wait_for_room()
        producer.flush()
        producer.close()
        assert full > 0
        assert values(scene.read(topic)) == [b"%d" % number for number in range(200)]
