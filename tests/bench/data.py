"""The benchmark's input topic, made quickly and the same each time, and whether a job's output is right.

    python -m tests.bench.data fill --bootstrap 127.0.0.1:9092 --topic bench-1m --count 1000000
    python -m tests.bench.data check sum --bootstrap 127.0.0.1:9092 --topic out --count 1000000

Not in here: the jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.bench.meter import JOBS

USERS = 10_000
PARTITIONS = 4
_KINDS = ("view", "view", "click", "buy")


def record_values(count: int, users: int = USERS) -> Iterator[tuple[int, str, float, str]]:
    """(id, user, amount, kind), the same for every run. Amounts are halves, so that sums of them are exact."""
    draw = random.Random(42).random
    for i in range(count):
        yield i, f"user-{int(draw() * users)}", int(draw() * 200) / 2, _KINDS[int(draw() * 4)]


def item_of(kind: str, record_id: int) -> str:
    """The new key of the `recount` job."""
    return f"{kind}-{record_id % 250}"


def ensure_topic(bootstrap: str, name: str, partitions: int = PARTITIONS, config: dict[str, str] | None = None) -> None:
    """Makes the topic unless it is there, and waits until it can be used."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1, config=config or {})]).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    topic_length(bootstrap, name)


def fill(bootstrap: str, topic: str, count: int, *, partitions: int = PARTITIONS, users: int = USERS) -> None:
    """Makes the topic and writes `count` records, about 65 bytes each, keyed by user."""
    records = (
        (user, f'{{"id": {record_id}, "user": "{user}", "amount": {amount}, "kind": "{kind}"}}', 0)
        for record_id, user, amount, kind in record_values(count, users)
    )
    write_topic(bootstrap, topic, count, records, partitions=partitions)


def write_topic(
    bootstrap: str,
    topic: str,
    count: int,
    records: Iterable[tuple[str, str, int]],
    *,
    partitions: int = PARTITIONS,
) -> None:
    """Makes the topic of `count` records: key, value, and time in ms (0: now), which the broker keeps however old it is. A
    topic that holds just as many already is left alone; one that holds another number is a ValueError."""
    ensure_topic(bootstrap, topic, partitions, {"retention.ms": "-1"})
    held = topic_length(bootstrap, topic)
    if held == count:
        return
    if held:
        raise ValueError(f"topic {topic} holds {held} records, not {count}: delete it or use another one")
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    produce = producer.produce
    for number, (key, value, time_ms) in enumerate(records):
        while True:
            try:
                produce(topic, value, key, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"topic {topic}: not everything was acknowledged within 120 s")


def check(bootstrap: str, topic: str, job: str, count: int, users: int = USERS) -> None:
    """Compares what a job wrote, of `count` input records, with what it should have. AssertionError when not the same."""
    outputs = [json.loads(message.value()) for message in read_committed(bootstrap, topic)]
    if job == "filter":
        kept = [(i, user, int(amount * 100)) for i, user, amount, kind in record_values(count, users) if kind == "view"]
        found = sorted((out["id"], out["user"], out["cents"]) for out in outputs)
        assert found == kept, f"{len(found)} records instead of {len(kept)}, or others"
        return
    expected: defaultdict[str, float] = defaultdict(int)
    for record_id, user, amount, kind in record_values(count, users):
        if job == "sum":
            expected[user] += amount
        else:
            expected[item_of(kind, record_id)] += 1
    key, value = ("user", "amount") if job == "sum" else ("item", "count")
    last = {out[key]: out[value] for out in outputs}
    assert len(outputs) == count, f"{len(outputs)} outputs instead of {count}"
    assert last == dict(expected), f"{len(last)} keys instead of {len(expected)}, or other results"


def read_committed(bootstrap: str, topic: str) -> Iterator[Any]:
    """The messages of all committed records of a topic, in order within each partition."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
        }
    )
    with contextlib.closing(consumer):
        places = _places(consumer, topic)
        consumer.assign([TopicPartition(topic, place.partition, OFFSET_BEGINNING) for place in places])
        ended: set[int] = set()
        while len(ended) < len(places):
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)


def topic_length(bootstrap: str, topic: str) -> int:
    """Records in the topic. Waits for one that was just made, which has no leader for a moment."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-length"})
    deadline = time.monotonic() + 20
    with contextlib.closing(consumer):
        while True:
            try:
                places = _places(consumer, topic)
                ends = [consumer.get_watermark_offsets(place, timeout=5) for place in places]
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            else:
                if places:
                    return sum(high - low for low, high in ends)
            time.sleep(0.1)


def _places(consumer: Any, topic: str) -> list[TopicPartition]:
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    return [TopicPartition(topic, partition) for partition in partitions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    filling, checking = commands.add_parser("fill"), commands.add_parser("check")
    checking.add_argument("job", choices=JOBS)
    for command in (filling, checking):
        command.add_argument("--bootstrap", default="127.0.0.1:9092")
        command.add_argument("--topic", required=True)
        command.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.command == "fill":
        fill(options.bootstrap, options.topic, options.count)
    else:
        check(options.bootstrap, options.topic, options.job, options.count)


if __name__ == "__main__":
    main()
