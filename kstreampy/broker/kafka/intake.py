"""What comes out of one consumer client: messages in chunks, errors set apart, positions kept.

In here: `Intake`, shared by the group consumer and the reader. Not in here: groups, rebalances, what an
error means.

Facts of the client that this rests on (confluent-kafka 2.16.1):

- `consume(n, t)` waits for n messages *or the whole t*, so: `consume(n, 0)` and, when that is empty,
  `consume(1, t)`.
- One `consume` that gave messages per poll, never two: a rebalance runs inside `consume`, and the client
  takes messages of partitions that were given away out of the same call's result, but knows nothing of what
  an earlier call returned.
- `position()` is the offset after the last message handed over, and steps over transaction markers and
  aborted records. It is unset until the first message, and it does not step over a tail without markers
  (records that compaction removed).
- The end of a partition is told by a `_PARTITION_EOF` event with the offset the client would read next:
  under read_committed at the last stable offset. It comes in order, after the messages before it. So the
  position is the greater of both; after a seek neither counts until something new came, and the offset
  sought is the position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ne
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as ClientMessage
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.kafka.client import Link
from kstreampy.errors import BrokerUnavailable, JobError

_ERROR: Final = ClientMessage.error
_PARTITION: Final = ClientMessage.partition
_TOPIC: Final = ClientMessage.topic
_SEEK_PATIENCE_S: Final = 5.0
_FIRST_LOOK_S: Final = 2.0
_LONGEST_LOOK_S: Final = 60.0


class ConsumeError(Exception):
    """An error that the client delivered in place of a message."""

    def __init__(self, error: KafkaError, topic: str | None, partition: int | None, offset: int | None) -> None:
        super().__init__(error.str())
        self.error = error
        self.topic = topic
        self.partition = partition
        self.offset = offset


def chunks_of(messages: list[Any], topic: str | None = None) -> list[Chunk]:
    """Messages (none of them an error, at least one) by partition, each partition's in order; `topic` when all are of
    one. They come in runs of one partition, so the work per message is two calls in C."""
    partitions: list[Any] = list(map(_PARTITION, messages))
    if topic is not None and partitions.count(partitions[0]) == len(messages):
        return [Chunk(topic, partitions[0], messages)]
    topics = [topic] * len(messages) if topic is not None else list(map(_TOPIC, messages))
    places: list[Any] = list(zip(topics, partitions, strict=True))
    ends = [end for end, changed in enumerate(map(ne, places, places[1:]), 1) if changed]
    groups: dict[tuple[str, int], list[Any]] = {}
    begin = 0
    for end in (*ends, len(messages)):
        groups.setdefault(places[begin], []).extend(messages[begin:end])
        begin = end
    return [Chunk(name, partition, group) for (name, partition), group in groups.items()]


MissingTopics = Callable[[Sequence[str]], list[str]]
"""Which of these topics are surely not there; none when the cluster does not answer."""


class TopicWatch:
    """Notices that topics are missing where the client says nothing: in KIP-848's protocol (they are just
    not assigned), and for partitions assigned by hand. Asks only while nothing is read, at first after two
    seconds."""

    def __init__(self, missing: MissingTopics, topics: Sequence[str], reader: str) -> None:
        self._missing = missing
        self._topics = topics
        self._reader = reader
        self._pause_s = _FIRST_LOOK_S
        self._next = time.monotonic() + _FIRST_LOOK_S

    def look(self, reads_nothing: bool) -> None:
        """JobError when a topic is missing. Cheap to call after every empty poll."""
        if not reads_nothing or time.monotonic() < self._next:
            return
        gone = self._missing(self._topics)
        if gone:
            names = ", ".join(gone)
            raise JobError(
                f"{self._reader} cannot read topics that do not exist: {names}. Create them or correct the names."
            )
        self._pause_s = min(_LONGEST_LOOK_S, self._pause_s * 2)
        self._next = time.monotonic() + self._pause_s


class Intake:
    """Lifetime: that of the client it reads from."""

    def __init__(self, client: Consumer, link: Link) -> None:
        self._client = client
        self._link = link
        self._known: dict[TopicPartition, int] = {}
        self._untouched: set[TopicPartition] = set()
        self._trouble: ConsumeError | None = None
        self._topic: str | None = None
        """The topic of all partitions, when there is only one."""

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """These partitions are read from these offsets (the caller tells the client)."""
        self._known.update(starts)
        self._untouched.update(starts)
        self._note_topic()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._known.pop(partition, None)
            self._untouched.discard(partition)
        self._note_topic()

    def _note_topic(self) -> None:
        topics = {partition.topic for partition in self._known}
        self._topic = topics.pop() if len(topics) == 1 else None

    def partitions(self) -> set[TopicPartition]:
        return set(self._known)

    def silent(self) -> bool:
        """Whether nothing was heard of some partition since it was assigned or sought."""
        return bool(self._untouched)

    def take(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        """As `GroupConsumer.poll`. Raises ConsumeError for an error that came instead of a message, after
        the messages that came before it were returned; errors that pass by themselves only mark the cluster
        as not answering."""
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        messages = self._client.consume(max_messages, 0)
        if not messages and timeout_s > 0:
            messages = self._client.consume(1, timeout_s)
        if not messages:
            return []
        if any(map(_ERROR, messages)):
            messages = self._without_errors(messages)
            if not messages:
                if self._trouble is not None:
                    trouble, self._trouble = self._trouble, None
                    raise trouble
                return []
        if self._link.health.since is not None:
            self._link.health.up()
        chunks = chunks_of(messages, self._topic)
        if self._untouched:
            self._untouched.difference_update([TopicPartition(chunk.topic, chunk.partition) for chunk in chunks])
        return chunks

    def _without_errors(self, messages: list[Any]) -> list[Any]:
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                partition = TopicPartition(message.topic(), message.partition())
                if partition in self._known:
                    self._known[partition] = message.offset()
                    self._untouched.discard(partition)
                self._link.health.up()
            elif isinstance(self._link.mapped(error, "read"), BrokerUnavailable):
                self._link.health.down()
            elif self._trouble is None:
                self._trouble = ConsumeError(error, message.topic(), message.partition(), message.offset())
        return [message for message in messages if message.error() is None]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """A partition that was assigned a moment ago cannot be sought yet: tried again for a few
        seconds."""
        deadline = time.monotonic() + _SEEK_PATIENCE_S
        while True:
            try:
                self._client.seek(ClientPartition(partition.topic, partition.partition, offset))
                break
            except KafkaException as failure:
                passing = failure.args[0].code() in (
                    KafkaError._STATE,
                    KafkaError._IN_PROGRESS,
                    KafkaError._TIMED_OUT,
                )
                if not passing or time.monotonic() > deadline:
                    doing = f"seek to offset {offset} of {partition.topic}-{partition.partition}"
                    raise self._link.mapped(failure, doing) from failure
            time.sleep(0.01)
        self._known[partition] = offset
        self._untouched.add(partition)

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        result = {p: self._known[p] for p in partitions if p in self._known}
        touched = [ClientPartition(*p) for p in result if p not in self._untouched]
        if touched:
            for at in self._client.position(touched):
                place = TopicPartition(at.topic, at.partition)
                result[place] = max(at.offset, result[place])
        return result

    def lag(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        result: dict[TopicPartition, int] = {}
        for partition, position in self.positions(partitions).items():
            _, end = self._client.get_watermark_offsets(ClientPartition(*partition), cached=True)
            if end >= 0:
                result[partition] = max(0, end - position)
        return result
