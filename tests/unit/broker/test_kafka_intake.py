"""Messages into chunks, and positions without a broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import TopicPartition
from kstreampy.broker.kafka.intake import ConsumeError, Intake, TopicWatch, chunks_of
from kstreampy.errors import JobError
from tests.unit.broker.test_kafka_client import make_link

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def message(place: TopicPartition, offset: int, code: int | None = None) -> Message:
    error = None if code is None else KafkaError(code)
    return Message(topic=place.topic, partition=place.partition, offset=offset, value=b"v", error=error)


class FakeClient:
    """Gives out what the test prepared; the position is that of the last message given, as the real client's."""

    def __init__(self, *batches: list[Message]) -> None:
        self._batches = list(batches)
        self._positions: dict[tuple[str, int], int] = {}

    def consume(self, count: int, timeout: float) -> list[Message]:
        batch = self._batches.pop(0) if self._batches else []
        for one in batch:
            if one.error() is None:
                self._positions[str(one.topic()), int(one.partition() or 0)] = int(one.offset() or 0) + 1
        return batch

    def position(self, partitions: list[ClientPartition]) -> list[ClientPartition]:
        return [
            ClientPartition(p.topic, p.partition, self._positions.get((p.topic, p.partition), -1001))
            for p in partitions
        ]

    def seek(self, partition: ClientPartition) -> None:
        self.sought = (partition.topic, partition.partition, partition.offset)


def make(*batches: list[Message]) -> Intake:
    client: Any = FakeClient(*batches)
    intake = Intake(client, make_link())
    intake.begin({A0: 0, A1: 0, B0: 5})
    return intake


def shape(chunks: list[Any]) -> list[tuple[str, int, list[int]]]:
    return [(chunk.topic, chunk.partition, [m.offset() for m in chunk.messages]) for chunk in chunks]


def test_one_partition_is_one_chunk_and_the_same_list() -> None:
    messages: list[Any] = [message(A0, n) for n in range(3)]
    (chunk,) = chunks_of(messages, "a")
    assert chunk.messages is messages
    assert shape(chunks_of(messages)) == [("a", 0, [0, 1, 2])]


@pytest.mark.parametrize("topic", ["a", None])
def test_runs_are_put_together_by_partition(topic: str | None) -> None:
    messages = [message(A0, 0), message(A0, 1), message(A1, 7), message(A0, 2), message(A1, 8)]
    assert shape(chunks_of(messages, topic)) == [("a", 0, [0, 1, 2]), ("a", 1, [7, 8])]


def test_same_partition_of_two_topics_is_two_chunks() -> None:
    assert shape(chunks_of([message(A0, 0), message(B0, 5)])) == [("a", 0, [0]), ("b", 0, [5])]


def test_position_is_the_start_until_something_came() -> None:
    intake = make([message(A0, 0), message(A0, 1)])
    assert intake.positions([A0, B0]) == {A0: 0, B0: 5}
    intake.take(10, 0)
    assert intake.positions([A0, B0, TopicPartition("x", 0)]) == {A0: 2, B0: 5}


def test_end_of_partition_moves_the_position_over_what_holds_no_record() -> None:
    intake = make([message(A0, 0), message(A0, 9, KafkaError._PARTITION_EOF)], [message(A0, 9)])
    assert shape(intake.take(10, 0)) == [("a", 0, [0])]
    assert intake.positions([A0]) == {A0: 9}
    intake.take(10, 0)
    assert intake.positions([A0]) == {A0: 10}


def test_seek_back_forgets_the_position_before() -> None:
    intake = make([message(A0, 0), message(A0, 1), message(A0, 2, KafkaError._PARTITION_EOF)])
    intake.take(10, 0)
    intake.seek(A0, 1)
    assert intake.positions([A0]) == {A0: 1}


def test_forgotten_partition_has_no_position() -> None:
    intake = make()
    intake.forget([A0])
    assert intake.positions([A0]) == {}
    assert intake.partitions() == {A1, B0}


def test_messages_before_an_error_are_not_lost() -> None:
    intake = make([message(A0, 0), message(B0, 5, KafkaError._AUTO_OFFSET_RESET), message(A1, 3)])
    assert shape(intake.take(10, 0)) == [("a", 0, [0]), ("a", 1, [3])]
    with pytest.raises(ConsumeError) as caught:
        intake.take(10, 0)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("b", 0, 5)
    assert intake.take(10, 0) == []


def test_passing_error_marks_the_cluster_as_away_and_a_message_as_back() -> None:
    link = make_link()
    client: Any = FakeClient([message(A0, 0, KafkaError._TRANSPORT)], [message(A0, 0)])
    intake = Intake(client, link)
    intake.begin({A0: 0})
    assert intake.take(10, 0) == []
    assert link.health.since is not None
    assert len(intake.take(10, 0)) == 1
    assert link.health.since is None


def test_watch_asks_only_while_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    asked: list[list[str]] = []

    def missing(gone: list[str]) -> Callable[[Any], list[str]]:
        def ask(topics: Any) -> list[str]:
            asked.append(list(topics))
            return gone

        return ask

    calm = TopicWatch(missing([]), ["a", "b"], "Group g")
    calm.look(True)
    assert asked == []
    now[0] += 3
    calm.look(False)
    assert asked == []
    calm.look(True)
    calm.look(True)
    assert asked == [["a", "b"]]
    alarmed = TopicWatch(missing(["b"]), ["a", "b"], "Group g")
    now[0] += 3
    with pytest.raises(JobError, match="Group g cannot read topics that do not exist: b"):
        alarmed.look(True)
