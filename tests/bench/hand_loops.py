"""The jobs as good hand-written loops over confluent-kafka: what kstreampy is measured against.

    python -m tests.bench.hand_loops sum alo --bootstrap 127.0.0.1:9092 --input bench-1m --output out --count 1000000

Prints one JSON line (`meter.py`). State is a plain dict that no crash survives: nothing here restores anything. The
client's settings are tuned as in `kstreampy/broker/kafka/client.py`, but for larger queues and fetches, which cost memory.
JSON is the standard library's, as in most loops that are
written by hand; with `--tuned` it is msgspec's, which is what kstreampy's JSON schemas use. Results carry the time of
the record that they come from, as they do in every stream processor.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer

from tests.bench import hand_joins, hand_nexmark, hand_windows
from tests.bench.data import ensure_topic, item_of
from tests.bench.meter import COMMIT_INTERVAL_S, Meter, arguments

_CONSUMER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 4 * 1024 * 1024,
    "queued.max.messages.kbytes": 64 * 1024,
}
_PRODUCER: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 10,
    "batch.size": 1_000_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    "retry.backoff.ms": 10,
    "delivery.report.only.error": True,
}


class Loop:
    """The clients of one run, and when it commits. Messages are counted by the first consumer made."""

    def __init__(self, bootstrap: str, guarantee: str, count: int, *, tuned: bool) -> None:
        self.decode: Callable[[Any], Any] = msgspec.json.Decoder().decode if tuned else json.loads
        self.encode: Callable[[Any], Any] = msgspec.json.Encoder().encode if tuned else json.dumps
        self.bootstrap = bootstrap
        self.count = count
        self.meter = Meter()
        self.name = f"bench-hand-{uuid.uuid4().hex[:8]}"
        self.exactly_once = guarantee == "eo"
        self.interval_s = COMMIT_INTERVAL_S[guarantee]
        self.consumers: list[Any] = []
        settings = {"bootstrap.servers": bootstrap, **_PRODUCER, "on_delivery": _delivered}
        if self.exactly_once:
            settings["transactional.id"] = self.name
        self.producer = Producer(settings)
        if self.exactly_once:
            self.producer.init_transactions()
            self.producer.begin_transaction()
        self.due = time.monotonic() + self.interval_s

    def consumer(self, topics: str) -> Any:
        """Of one topic, or of several with commas between them."""
        group = f"{self.name}-{len(self.consumers)}"
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, **_CONSUMER})
        consumer.subscribe(topics.split(","))
        self.consumers.append(consumer)
        return consumer

    def take(self, consumer: Any, wanted: int, wait_s: float = 0.05) -> list[Any]:
        """What is buffered, up to 500 messages, at once; when nothing is, waits for a first one."""
        messages: list[Any] = consumer.consume(500, 0) or consumer.consume(1, wait_s)
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        if messages:
            self.meter.start()
        return messages[:wanted]

    def turn(self) -> None:
        """Between chunks: delivery errors, and the commit when it is due."""
        self.producer.poll(0)
        if time.monotonic() >= self.due:
            self.commit()
            if self.exactly_once:
                self.producer.begin_transaction()

    def commit(self) -> None:
        positions = [consumer.position(consumer.assignment()) for consumer in self.consumers]
        done = [[place for place in places if place.offset >= 0] for places in positions]
        if self.exactly_once:
            for consumer, places in zip(self.consumers, done, strict=True):
                if places:
                    metadata = consumer.consumer_group_metadata()
                    self.producer.send_offsets_to_transaction(places, metadata)
            self.producer.commit_transaction()
        else:
            if self.producer.flush(60):
                raise RuntimeError("not everything was acknowledged within 60 s")
            for consumer, places in zip(self.consumers, done, strict=True):
                if places:
                    consumer.commit(offsets=places, asynchronous=False)
        self.due = time.monotonic() + self.interval_s

    def produce_when_room(self, topic: str, value: bytes, key: bytes | str | None) -> None:
        """After a BufferError."""
        while True:
            self.producer.poll(0.05)
            try:
                self.producer.produce(topic, value, key)
                return
            except BufferError:
                continue

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()


def filter_map(loop: Loop, source: str, target: str) -> None:
    consumer, produce = loop.consumer(source), loop.producer.produce
    decode, encode = loop.decode, loop.encode
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            if record["kind"] == "view":
                cents = int(record["amount"] * 100)
                value = encode({"id": record["id"], "user": record["user"], "cents": cents})
                try:
                    produce(target, value, None, -1, None, None, message.timestamp()[1])
                except BufferError:
                    loop.produce_when_room(target, value, None)
        loop.turn()
    loop.commit()


def keyed_sum(loop: Loop, source: str, target: str) -> None:
    consumer, produce = loop.consumer(source), loop.producer.produce
    decode, encode = loop.decode, loop.encode
    sums: dict[str, dict[str, Any]] = {}
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            user = record["user"]
            so_far = sums.get(user)
            if so_far is None:
                so_far = sums[user] = record
            else:
                so_far["amount"] += record["amount"]
            value = encode(so_far)
            try:
                produce(target, value, user, -1, None, None, message.timestamp()[1])
            except BufferError:
                loop.produce_when_room(target, value, user)
        loop.turn()
    loop.commit()


def rekey_count(loop: Loop, source: str, target: str) -> None:
    """Two loops in one process, by turns, over an intermediate topic with a message per record."""
    between = f"{target}-{loop.name}"
    ensure_topic(loop.bootstrap, between)
    first, second = loop.consumer(source), loop.consumer(between)
    produce = loop.producer.produce
    decode, encode = loop.decode, loop.encode
    counts: dict[str, int] = {}
    left = left_between = loop.count
    while left_between:
        messages = loop.take(first, left, 0) if left else []
        left -= len(messages)
        for message in messages:
            data = message.value()
            record = decode(data)
            item = item_of(record["kind"], record["id"])
            try:
                produce(between, data, item, -1, None, None, message.timestamp()[1])
            except BufferError:
                loop.produce_when_room(between, data, item)
        messages = loop.take(second, left_between, 0 if messages else 0.05)
        left_between -= len(messages)
        for message in messages:
            item = message.key().decode()
            count = counts[item] = counts.get(item, 0) + 1
            value = encode({"item": item, "count": count})
            try:
                produce(target, value, item, -1, None, None, message.timestamp()[1])
            except BufferError:
                loop.produce_when_room(target, value, item)
        loop.turn()
    loop.commit()


LOOPS: dict[str, Callable[[Loop, str, str], None]] = {
    "filter": filter_map,
    "sum": keyed_sum,
    "recount": rekey_count,
    **hand_windows.LOOPS,
    **hand_joins.LOOPS,
    **hand_nexmark.LOOPS,
}


def _delivered(error: Any, message: Any) -> None:
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    options = arguments(__doc__ or "")
    ensure_topic(options.bootstrap, options.output)
    loop = Loop(options.bootstrap, options.guarantee, options.count, tuned=options.tuned)
    LOOPS[options.job](loop, options.input, options.output)
    print(loop.meter.report(options.count), flush=True)
    loop.close()


if __name__ == "__main__":
    main()
