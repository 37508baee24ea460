"""Reads Kafka partitions chosen by hand, outside any group.

In here: `KafkaReader`. Not in here: how messages are taken and positions kept (`intake.py`), group
membership (`consumer.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.kafka.client import Link
from kstreampy.broker.kafka.consumer import out_of_range
from kstreampy.broker.kafka.errors import cause
from kstreampy.broker.kafka.intake import ConsumeError, Intake, MissingTopics, TopicWatch


class KafkaReader:
    """See `Reader`. Owned by one thread."""

    def __init__(self, link: Link, missing_topics: MissingTopics) -> None:
        self._link = link
        self._missing_topics = missing_topics
        self._watch = TopicWatch(missing_topics, [], "The reader")
        self._closed = False
        try:
            self._client = Consumer(link.reader())
        except KafkaException as failure:
            raise link.mapped(failure, "open a reader") from failure
        self._intake = Intake(self._client, link)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self._intake.forget(self._intake.partitions())
        self._intake.begin(starts)
        self._watch = TopicWatch(self._missing_topics, sorted({p.topic for p in starts}), "The reader")
        try:
            self._client.assign([ClientPartition(p.topic, p.partition, offset) for p, offset in starts.items()])
        except KafkaException as failure:
            raise self._link.mapped(failure, f"read {sorted({p.topic for p in starts})}") from failure

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        if self._link.health.refusal is not None:
            raise self._link.health.refusal
        try:
            chunks = self._intake.take(max_messages, timeout_s)
        except ConsumeError as trouble:
            if cause(trouble.error) in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise out_of_range(self._client, trouble, "The reader") from trouble
            if cause(trouble.error) == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return []  # the client looks up the coordinator of a group that the reader does not use
            raise self._link.mapped(trouble.error, f"read topic {trouble.topic}") from trouble
        except KafkaException as failure:
            raise self._link.mapped(failure, "read") from failure
        if not chunks:
            self._watch.look(self._intake.silent())
        return chunks

    def positions(self) -> dict[TopicPartition, int]:
        return self._intake.positions(self._intake.partitions())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._client.close()
