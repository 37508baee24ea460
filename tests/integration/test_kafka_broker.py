"""Kafka when something goes wrong: no broker, a broker that goes and comes, processes killed in the middle
of things."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from kstreampy.broker.broker import Position, Start, TopicPartition, TopicSpec
from kstreampy.broker.embedded import free_port
from kstreampy.broker.kafka import KafkaBroker
from kstreampy.broker.kafka.broker import GroupProtocol
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, TaskMigrated
from tests.brokers.find import own_kafka
from tests.brokers.kafka import KafkaProcess
from tests.laws.scene import poll_until

pytestmark = pytest.mark.kafka

Unique = Callable[[str], str]

_DIES_IN_MID_TRANSACTION = """
import sys, time
from kstreampy.broker.kafka import KafkaBroker
bootstrap, topic, transactional_id = sys.argv[1:]
producer = KafkaBroker(bootstrap, timeout_s=20).producer(transactional_id)
producer.begin()
for number in range(100):
    producer.produce(topic, b"from the dead", None, 0, None, None, 0, None)
producer.flush()
print("open", flush=True)
time.sleep(60)
"""

_STATIC_MEMBER = """
import sys, time
from kstreampy.broker.broker import Start
from kstreampy.broker.kafka import KafkaBroker
bootstrap, topic, group, protocol = sys.argv[1:]
class Listener:
    def assigned(self, partitions):
        print("assigned", flush=True)
        return {p: Start(0) for p in partitions}
    def revoked(self, partitions): pass
    lost = revoked
broker = KafkaBroker(bootstrap, group_protocol=protocol, session_timeout_ms=6000, timeout_s=20)
consumer = broker.consumer(group, [topic], Listener(), instance_id="worker-0")
while True:
    consumer.poll(100, 0.1)
"""

_LEAVES_EARLY = """
import random, sys, time
from kstreampy.broker.broker import Start
from kstreampy.broker.kafka import KafkaBroker
bootstrap, topic, group, protocol = sys.argv[1:]
class Listener:
    def assigned(self, partitions):
        return {p: Start(0) for p in partitions}
    def revoked(self, partitions): pass
    lost = revoked
broker = KafkaBroker(bootstrap, group_protocol=protocol, session_timeout_ms=6000, timeout_s=20)
chance = random.Random(1)
for number in range(80):
    consumer = broker.consumer(f"{group}-{number}", [topic], Listener(), instance_id="worker-0")
    time.sleep(chance.choice([0.1, 0.15, 0.2, 0.3]) * chance.uniform(0.8, 1.2))
    consumer.close()
"""


class Listener:
    """Starts at 0 and notes what happened."""

    def __init__(self) -> None:
        self.journal: list[str] = []

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        self.journal.append("assigned")
        return {partition: Start(0) for partition in partitions}

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.journal.append("revoked")

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.journal.append("lost")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """A broker of this module's own, to be stopped and killed."""
    directory: Path = tmp_path_factory.mktemp("own-kafka")
    with own_kafka(directory) as process:
        yield process


def _run(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


def _kill_when(process: subprocess.Popen[str], said: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == said
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def _topic(broker: KafkaBroker, name: str, partitions: int = 1) -> TopicPartition:
    broker.create_topics([TopicSpec(name, partitions)])
    return TopicPartition(name, 0)


def _read(broker: KafkaBroker, partition: TopicPartition) -> list[bytes | None]:
    end = broker.end_offsets([partition])
    reader = broker.reader()
    reader.assign({partition: 0})
    found: list[bytes | None] = []
    poll_until(
        lambda: reader.positions() == end,
        lambda: found.extend(m.value() for chunk in reader.poll(500, 0.1) for m in chunk.messages),
        waits_for=f"the end {end}",
    )
    reader.close()
    return found


def test_wrong_bootstrap_is_told_within_the_timeout() -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = KafkaBroker(address, timeout_s=2.0)
    for call in (
        lambda: broker.topics(["t"]),
        lambda: broker.end_offsets([TopicPartition("t", 0)]),
        lambda: broker.committed("g", [TopicPartition("t", 0)]),
        lambda: broker.producer("id"),
        lambda: broker.group_protocol(),
        lambda: broker.topics_matching("t.*"),
    ):
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable) as caught:
            call()
        assert time.monotonic() - began < 9.0
        assert address in str(caught.value)
        assert "is a broker running there" in str(caught.value)
    assert broker.unavailable_since() is not None


def test_closing_without_a_broker_takes_seconds_at_most() -> None:
    broker = KafkaBroker(f"127.0.0.1:{free_port()}", group_protocol="classic", timeout_s=1.0)
    producer = broker.producer()
    producer.produce("t", b"v", None, 0, None, None, 0, None)
    with pytest.raises(BrokerUnavailable):
        producer.flush()
    consumer, reader = broker.consumer("g", ["t"], Listener()), broker.reader()
    assert consumer.poll(10, 0.1) == []
    began = time.monotonic()
    for owned in (producer, consumer, reader, broker):
        owned.close()
    assert time.monotonic() - began < 8.0


def test_setting_the_client_does_not_know_is_told() -> None:
    with pytest.raises(JobError, match=r"no\.such\.setting"):
        KafkaBroker("127.0.0.1:1", {"no.such.setting": "1"})


def test_killed_in_mid_transaction(kafka_bootstrap: str, unique: Unique) -> None:
    broker = KafkaBroker(kafka_bootstrap, timeout_s=20.0)
    partition, transactional_id = _topic(broker, unique("topic")), unique("id")
    dead = _run(_DIES_IN_MID_TRANSACTION, kafka_bootstrap, partition.topic, transactional_id)
    _kill_when(dead, "open")
    assert broker.end_offsets([partition]) == {partition: 0}
    assert broker.end_offsets([partition], committed=False) == {partition: 100}
    began = time.monotonic()
    successor = broker.producer(transactional_id)
    successor.begin()
    successor.produce(partition.topic, b"from the living", None, 0, None, None, 0, None)
    successor.commit([])
    assert time.monotonic() - began < 5.0
    poll_until(
        lambda: broker.end_offsets([partition]) == {partition: 103},
        lambda: time.sleep(0.05),
        waits_for="the abort marker, the record and the commit marker",
    )
    assert _read(broker, partition) == [b"from the living"]
    successor.close()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_killed_static_member_comes_back(kafka: KafkaProcess, unique: Unique, protocol: GroupProtocol) -> None:
    broker = KafkaBroker(kafka.bootstrap_servers, group_protocol=protocol, session_timeout_ms=6_000, timeout_s=20.0)
    partition, group = _topic(broker, unique("topic")), unique("group")
    dead = _run(_STATIC_MEMBER, kafka.bootstrap_servers, partition.topic, group, protocol)
    _kill_when(dead, "assigned")
    listener = Listener()
    consumer = broker.consumer(group, [partition.topic], listener, instance_id="worker-0")
    poll_until(
        lambda: consumer.assignment() == {partition},
        lambda: consumer.poll(100, 0.1),
        waits_for="the restarted member to get its partition back",
    )
    consumer.close()
    assert listener.journal == ["assigned", "revoked"]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_leaving_while_partitions_are_on_their_way(
    kafka: KafkaProcess, unique: Unique, protocol: GroupProtocol
) -> None:
    """In a process of its own: one that hangs in the client cannot be interrupted from within."""
    broker = KafkaBroker(kafka.bootstrap_servers, timeout_s=20.0)
    partition = _topic(broker, unique("topic"))
    leaving = _run(_LEAVES_EARLY, kafka.bootstrap_servers, partition.topic, unique("group"), protocol)
    try:
        assert leaving.wait(90) == 0
    finally:
        leaving.kill()
        leaving.communicate()


def test_static_member_with_a_twin_is_fenced(kafka: KafkaProcess, unique: Unique) -> None:
    broker = KafkaBroker(kafka.bootstrap_servers, group_protocol="classic", session_timeout_ms=6_000, timeout_s=20.0)
    partition, group = _topic(broker, unique("topic")), unique("group")
    listener = Listener()
    first = broker.consumer(group, [partition.topic], listener, instance_id="worker-0")
    poll_until(lambda: bool(first.assignment()), lambda: first.poll(10, 0.1), waits_for="an assignment")
    twin = broker.consumer(group, [partition.topic], Listener(), instance_id="worker-0")
    with pytest.raises(TaskMigrated, match=group):
        poll_until(lambda: False, lambda: twin.poll(10, 0.1), lambda: first.poll(10, 0.1), waits_for="the fencing")
    first.close()
    twin.close()
    assert listener.journal == ["assigned", "lost"]


def test_group_protocol_is_found_out(kafka: KafkaProcess) -> None:
    assert KafkaBroker(kafka.bootstrap_servers).group_protocol() == "consumer"


def test_group_protocol_of_the_embedded_broker(started_brokers: Callable[[str], str]) -> None:
    assert KafkaBroker(started_brokers("embedded")).group_protocol() == "classic"


@pytest.mark.slow
def test_broker_that_lacks_the_protocol_after_all(tmp_path: Path, unique: Unique) -> None:
    """It lists the request but has the feature switched off: the consumer goes on with the classic
    protocol."""
    with own_kafka(tmp_path, {"group.coordinator.rebalance.protocols": "classic"}) as process:
        broker = KafkaBroker(process.bootstrap_servers, timeout_s=20.0)
        partition = _topic(broker, unique("topic"))
        assert broker.group_protocol() == "consumer"
        consumer = broker.consumer(unique("group"), [partition.topic], Listener())
        poll_until(
            lambda: consumer.assignment() == {partition},
            lambda: consumer.poll(10, 0.1),
            waits_for="an assignment by the classic protocol",
        )
        assert broker.group_protocol() == "classic"
        consumer.close()


def test_too_large_for_the_topic_is_refused_and_named(kafka: KafkaProcess, unique: Unique) -> None:
    broker = KafkaBroker(kafka.bootstrap_servers, timeout_s=20.0)
    name = unique("topic")
    broker.create_topics([TopicSpec(name, 1, {"max.message.bytes": "1000"})])
    producer = broker.producer(unique("id"))
    producer.begin()
    producer.produce(name, os.urandom(10_000), None, 0, None, None, 0, None)
    for call in (
        producer.flush,
        lambda: producer.produce(name, b"innocent", None, 0, None, None, 0, None),
        lambda: producer.produce_tracked(name, b"innocent", None, 0),
        lambda: producer.commit([]),
    ):
        with pytest.raises(BrokerRefused, match=rf"(?s){name}.*max\.message\.bytes"):
            call()
    producer.abort()
    producer.close()
    plain = broker.producer()
    plain.produce(name, os.urandom(10_000), None, 0, None, None, 0, None)
    with pytest.raises(BrokerRefused, match=rf"(?s){name}.*max\.message\.bytes"):
        plain.flush()
    plain.close()


@pytest.mark.slow
def test_broker_goes_and_comes_back(kafka: KafkaProcess, unique: Unique) -> None:
    broker = KafkaBroker(kafka.bootstrap_servers, timeout_s=3.0)
    partition, group = _topic(broker, unique("topic")), unique("group")
    consumer = broker.consumer(group, [partition.topic], Listener())
    producer = broker.producer()
    producer.produce(partition.topic, b"before", None, 0, None, None, 0, None)
    producer.flush()
    values: list[bytes | None] = []

    def poll() -> None:
        values.extend(m.value() for chunk in consumer.poll(10, 0.1) for m in chunk.messages)

    poll_until(lambda: values == [b"before"], poll, waits_for="the message")
    assert broker.unavailable_since() is None
    kafka.kill()
    poll_until(lambda: broker.unavailable_since() is not None, poll, waits_for="the loss to be noticed")
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        consumer.commit({partition: Position(1)})
    assert time.monotonic() - began < 10.0
    producer.produce(partition.topic, b"meanwhile", None, 0, None, None, 0, None)
    with pytest.raises(BrokerUnavailable):
        producer.flush()
    kafka.start()
    poll_until(lambda: broker.unavailable_since() is None, poll, waits_for="the return to be noticed")
    poll_until(lambda: b"meanwhile" in values, poll, waits_for="the message sent meanwhile")
    consumer.commit({partition: Position(2)})
    assert broker.committed(group, [partition]) == {partition: Position(2)}
    consumer.close()
    producer.close()


@pytest.mark.slow
def test_groups_are_asked_after_over_a_restart(kafka: KafkaProcess, unique: Unique) -> None:
    """The broker is asked all the while, so that the client learns of a cluster without brokers, and again of one with them."""
    broker = KafkaBroker(kafka.bootstrap_servers, timeout_s=15.0)
    partition, group = _topic(broker, unique("topic")), unique("group")
    assert broker.committed(group, [partition]) == {}
    kafka.kill()
    starting = threading.Thread(target=kafka.start)
    starting.start()
    while starting.is_alive():
        with contextlib.suppress(BrokerUnavailable):
            broker.end_offsets([partition])
            broker.committed(group, [partition])
    starting.join()
    assert broker.committed(group, [partition]) == {}
    assert broker.members(group) == []


@pytest.mark.slow
def test_commit_without_an_answer_is_in_doubt(kafka: KafkaProcess, unique: Unique) -> None:
    """P29: the connection is cut for longer than the call may take. The producer is of no use then, the
    successor is."""
    broker = KafkaBroker(kafka.bootstrap_servers, timeout_s=3.0, transaction_timeout_ms=5_000)
    partition, transactional_id = _topic(broker, unique("topic")), unique("id")
    producer = broker.producer(transactional_id)
    producer.begin()
    producer.produce(partition.topic, b"in doubt", None, 0, None, None, 0, None)
    producer.flush()
    kafka.suspend()
    try:
        with pytest.raises((BrokerUnavailable, TaskMigrated)):
            producer.commit([])
        producer.abort()
        with pytest.raises(TaskMigrated):
            producer.begin()
        began = time.monotonic()
        producer.close()
        assert time.monotonic() - began < 5.0
    finally:
        kafka.carry_on()
    calm = KafkaBroker(kafka.bootstrap_servers, timeout_s=30.0)
    successor = calm.producer(transactional_id)
    successor.begin()
    successor.produce(partition.topic, b"after", None, 0, None, None, 0, None)
    successor.commit([])
    poll_until(
        lambda: calm.end_offsets([partition]) == calm.end_offsets([partition], committed=False),
        waits_for="the markers",
    )
    assert _read(calm, partition) in ([b"after"], [b"in doubt", b"after"])
    successor.close()
