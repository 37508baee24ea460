"""What a law about brokers plays with: topics, members and producers of its own, all gone when it is over.

In here: `Scene`, `Member`, `poll_until`. Works on any `Broker`; names are unique, since the cluster may be
shared.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from kstreampy.broker.broker import (
    Broker,
    BrokerFactory,
    Chunk,
    GroupConsumer,
    Message,
    Position,
    Producer,
    Start,
    TopicPartition,
    TopicSpec,
)
from kstreampy.errors import KStreamError

WAIT_S = 30.0
"""The longest a law waits for something that must come: a rebalance on a real broker may take that long."""
MISSING_S = 75.0
"""As long as a client may go on hoping that a missing topic appears."""
POLL_S = 0.1


def poll_until(done: Callable[[], bool], *polls: Callable[[], object], waits_for: str, wait_s: float = WAIT_S) -> None:
    """Calls `polls` in turn until `done`; fails with `waits_for` after `wait_s`."""
    deadline = time.monotonic() + wait_s
    while not done():
        assert time.monotonic() < deadline, f"waited {wait_s} s in vain for {waits_for}"
        for poll in polls:
            poll()


def names_gap(error: BaseException, topic: str, *numbers: int) -> bool:
    """Whether the error's text has the topic's name and these offsets as words."""
    text = str(error)
    words = set(re.findall(r"\d+", text.replace(topic, "")))
    return topic in text and {str(number) for number in numbers} <= words


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


class Member:
    """A member of a group and its own listener. It starts where the group's offsets say, or at `starts`, or
    at the begin; what it got lies in `messages`, what happened to it in `journal` (shared, if given) as
    `(name, event, partitions)`."""

    def __init__(
        self,
        broker: Broker,
        group: str,
        topics: Sequence[str],
        *,
        name: str = "member",
        instance_id: str | None = None,
        starts: Mapping[TopicPartition, Start] | None = None,
        journal: list[tuple[str, str, list[TopicPartition]]] | None = None,
        commit_on_revoke: bool = False,
    ) -> None:
        self.name = name
        self.group = group
        self.messages: list[Message] = []
        self.journal = [] if journal is None else journal
        self._broker = broker
        self._starts = {} if starts is None else starts
        self._commit_on_revoke = commit_on_revoke
        self.consumer: GroupConsumer = broker.consumer(group, topics, self, instance_id=instance_id)

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        self._note("assigned", partitions)
        committed = self._broker.committed(self.group, partitions)
        begins = self._broker.begin_offsets(partitions)
        return {
            partition: self._starts[partition]
            if partition in self._starts
            else Start(committed[partition].offset if partition in committed else begins[partition])
            for partition in partitions
        }

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("revoked", partitions)
        if self._commit_on_revoke:
            self.commit(partitions)

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, event: str, partitions: Sequence[TopicPartition]) -> None:
        self.journal.append((self.name, event, sorted(partitions)))

    def commit(self, partitions: Sequence[TopicPartition]) -> None:
        """Commits the positions of these partitions."""
        positions = self.consumer.positions(partitions)
        self.consumer.commit({partition: Position(offset) for partition, offset in positions.items()})

    def poll(self, max_messages: int = 500) -> list[Chunk]:
        chunks = self.consumer.poll(max_messages, POLL_S)
        for chunk in chunks:
            self.messages.extend(chunk.messages)
        return chunks

    def poll_for(self, count: int) -> None:
        """Polls until `count` messages have come in all."""
        poll_until(lambda: len(self.messages) >= count, self.poll, waits_for=f"{count} messages of {self.name}")

    def poll_until_assigned(self, partitions: set[TopicPartition]) -> None:
        poll_until(
            lambda: self.consumer.assignment() == partitions,
            self.poll,
            waits_for=f"{self.name} to own {sorted(partitions)}",
        )

    def got(self, partition: TopicPartition) -> list[bytes | None]:
        """The values that came from one partition, in the order they came."""
        return [m.value() for m in self.messages if (m.topic(), m.partition()) == partition]


class Scene:
    """Makes what a law needs, and `close` clears it away."""

    def __init__(self, factory: BrokerFactory) -> None:
        self._factory = factory
        self._cleanup = contextlib.ExitStack()
        self._topics: list[str] = []
        self._cleanup.callback(self._delete_topics)
        self.broker = self.new_broker()

    def close(self) -> None:
        self._cleanup.close()

    def _delete_topics(self) -> None:
        admin = self._factory()
        admin.delete_topics(self._topics)
        admin.close()

    def new_broker(self) -> Broker:
        """Another view of the same cluster."""
        broker = self._factory()
        self._cleanup.callback(broker.close)
        return broker

    def name(self, purpose: str) -> str:
        """A name that nobody else uses."""
        return f"law-{purpose}-{uuid.uuid4().hex[:12]}"

    def topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic, kept for ever unless `config` says otherwise: laws use timestamps of long ago."""
        name = self.name("topic")
        self._topics.append(name)
        self.broker.create_topics([TopicSpec(name, partitions, {"retention.ms": "-1", **(config or {})})])
        return name

    def will_delete(self, topic: str) -> None:
        """For a topic that the law itself creates."""
        self._topics.append(topic)

    def member(
        self,
        group: str,
        topics: Sequence[str],
        *,
        name: str = "member",
        instance_id: str | None = None,
        starts: Mapping[TopicPartition, Start] | None = None,
        journal: list[tuple[str, str, list[TopicPartition]]] | None = None,
        commit_on_revoke: bool = False,
    ) -> Member:
        """A member on a broker view of its own, as if in another worker."""
        member = Member(
            self.new_broker(),
            group,
            topics,
            name=name,
            instance_id=instance_id,
            starts=starts,
            journal=journal,
            commit_on_revoke=commit_on_revoke,
        )
        self._cleanup.callback(self._quietly, member.consumer.close)
        return member

    def producer(self, transactional_id: str | None = None) -> Producer:
        producer = self.broker.producer(transactional_id)
        self._cleanup.callback(self._quietly, producer.close)
        return producer

    @staticmethod
    def _quietly(close: Callable[[], None]) -> None:
        """A law may leave fenced members behind; that closing them is refused is none of its business."""
        with contextlib.suppress(KStreamError):
            close()

    def send(self, topic: str, *sent: bytes, partition: int = 0) -> None:
        """Produces values outside any transaction; returns when they are acknowledged."""
        producer = self.producer()
        for value in sent:
            producer.produce(topic, value, None, partition, None, None, 0, None)
        producer.flush()
        producer.close()

    def settled_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of partitions without an open transaction. Markers follow a commit or abort by a
        moment."""
        poll_until(
            lambda: self.broker.end_offsets(partitions) == self.broker.end_offsets(partitions, committed=False),
            waits_for=f"the markers of transactions in {partitions}",
        )
        return self.broker.end_offsets(partitions)

    def read(self, topic: str, partitions: int = 1) -> list[Message]:
        """All committed messages of a topic, partition by partition in the order read."""
        names = [TopicPartition(topic, partition) for partition in range(partitions)]
        ends = self.broker.end_offsets(names)
        reader = self.broker.reader()
        reader.assign(self.broker.begin_offsets(names))
        found: list[Message] = []
        poll_until(
            lambda: all(reader.positions().get(name, -1) >= ends[name] for name in names),
            lambda: found.extend(m for chunk in reader.poll(500, POLL_S) for m in chunk.messages),
            waits_for=f"a reader to reach {ends}",
        )
        reader.close()
        return found
