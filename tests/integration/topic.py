"""Topics as tests fill and read them, with the plain client."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create(bootstrap: str, *names: str, partitions: int = 4, config: dict[str, str] | None = None) -> None:
    """Topics that keep what is written: brokers delete by the records' own times, and tests write old ones."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(config or {})}) for name in names]
    for future in admin.create_topics(topics).values():
        future.result(30)


def producer(bootstrap: str, **settings: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,  # without it, a batch that is sent again may come behind later ones
            "partitioner": "murmur2_random",
            "message.max.bytes": 4_000_000,
            **settings,
        }
    )


def fill(bootstrap: str, topic: str, records: Iterable[tuple[bytes | str | None, Any, int]]) -> int:
    """Writes (key, JSON value or bytes or None, partition) and waits until all is there. Partition -1: by the key."""
    out = producer(bootstrap)
    count = 0
    for key, value, partition in records:
        data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        while True:
            try:
                out.produce(topic, data, key, partition)
                break
            except BufferError:
                out.poll(0.1)
        count += 1
    out.flush()
    return count


class Follower:
    """Reads a topic's committed records from the beginning, in offset order per partition, as far as it is asked."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"follower-{topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 10,
            }
        )
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        self.messages: list[Message] = []

    def read(self, wait_s: float = 0.2) -> int:
        """Takes what is there; the number of records read so far."""
        while messages := self._consumer.consume(1000, wait_s):
            for message in messages:
                assert message.error() is None, str(message.error())
            self.messages += messages
        return len(self.messages)

    def read_until(self, count: int, timeout_s: float) -> list[Message]:
        """Until `count` records are there, and a little longer, to see ones too many."""
        deadline = time.monotonic() + timeout_s
        while self.read() < count and time.monotonic() < deadline:
            pass
        self.read(1.0)
        return self.messages

    def close(self) -> None:
        self._consumer.close()


def by_key(messages: Sequence[Message]) -> dict[bytes | None, list[Any]]:
    """JSON values per key, in order."""
    found: dict[bytes | None, list[Any]] = {}
    for message in messages:
        value = message.value()
        found.setdefault(message.key(), []).append(None if value is None else json.loads(value))
    return found
