"""The in-memory log against naive models: a list for the log, and a set of handled records for a group that
crashes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kstreampy.broker.broker import Position, Start, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster, MemoryConsumer, MemoryProducer
from kstreampy.errors import BrokerUnavailable, TaskMigrated

LOG = TopicPartition("log", 0)
IDS = ("one", "two", "three")


class Entry:
    """One offset of the model: a message of a transaction or of none, or (`value` None) a marker."""

    def __init__(self, value: bytes | None, owner: str | None) -> None:
        self.value = value
        self.owner = owner
        self.aborted = False


class LogModel(RuleBasedStateMachine):
    """Producers write, commit, abort and fence each other; a reader polls; records are deleted. `entries` has
    an entry per offset, `owner` of an entry is the id whose transaction is still open."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = MemoryCluster(clock=lambda: 0, blocking=False)
        self.broker = MemoryBroker(self.cluster)
        self.broker.create_topics([TopicSpec(LOG.topic, 1)])
        self.entries: list[Entry] = []
        self.begin = 0
        self.sent = 0
        self.plain = self.broker.producer()
        self.producers: dict[str, MemoryProducer] = {name: self.broker.producer(name) for name in IDS}
        self.open: set[str] = set()
        self.reader = self.broker.reader()
        self.reader.assign({LOG: 0})
        self.read: list[tuple[int, bytes | None]] = []
        self.read_from = 0

    def _stable(self) -> int:
        held = [offset for offset, entry in enumerate(self.entries) if entry.owner is not None]
        return max(self.begin, min(held, default=len(self.entries)))

    def _visible(self, start: int, stop: int) -> list[tuple[int, bytes | None]]:
        return [
            (offset, self.entries[offset].value)
            for offset in range(start, stop)
            if self.entries[offset].value is not None and not self.entries[offset].aborted
        ]

    def _end(self, name: str, *, aborted: bool) -> None:
        mine = [entry for entry in self.entries if entry.owner == name]
        for entry in mine:
            entry.owner, entry.aborted = None, aborted
        if mine:
            self.entries.append(Entry(None, None))
        self.open.discard(name)

    def _write(self, producer: MemoryProducer, count: int, owner: str | None) -> None:
        for _ in range(count):
            self.sent += 1
            value = b"%d" % self.sent
            producer.produce(LOG.topic, value, None, 0, None, None, self.sent, None)
            self.entries.append(Entry(value, owner))
        producer.flush()

    @rule(count=st.integers(1, 3))
    def send(self, count: int) -> None:
        self._write(self.plain, count, None)

    @rule(name=st.sampled_from(IDS), count=st.integers(1, 3))
    def write_in_transaction(self, name: str, count: int) -> None:
        if name not in self.open:
            self.producers[name].begin()
            self.open.add(name)
        self._write(self.producers[name], count, name)

    @precondition(lambda self: self.open)
    @rule(name=st.sampled_from(IDS), commits=st.booleans())
    def end_transaction(self, name: str, commits: bool) -> None:
        if name in self.open:
            if commits:
                self.producers[name].commit([])
            else:
                self.producers[name].abort()
            self._end(name, aborted=not commits)

    @rule(name=st.sampled_from(IDS))
    def succeed(self, name: str) -> None:
        old, self.producers[name] = self.producers[name], self.broker.producer(name)
        self._end(name, aborted=True)
        with pytest.raises(TaskMigrated):
            old.begin()

    @rule(name=st.sampled_from(IDS), applied=st.booleans())
    def commit_in_doubt(self, name: str, applied: bool) -> None:
        if name in self.open:
            self.cluster.fail_next_commit(applied=applied)
            with pytest.raises(BrokerUnavailable):
                self.producers[name].commit([])
            self._end(name, aborted=not applied)
            self.producers[name] = self.broker.producer(name)

    @rule(limit=st.integers(1, 4))
    def poll(self, limit: int) -> None:
        before = self.reader.positions()[LOG]
        found = [(m.offset(), m.value()) for chunk in self.reader.poll(limit, 0) for m in chunk.messages]
        expected = self._visible(before, max(before, self._stable()))
        assert found == expected[:limit]
        position = self.reader.positions()[LOG]
        if len(expected) <= limit:
            assert position == max(before, self._stable())
        else:
            assert position == found[-1][0] + 1

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        """Only what was read, as a job purges only behind its committed offsets."""
        before = int(self.reader.positions()[LOG] * share)
        self.broker.delete_records({LOG: before})
        self.begin = max(self.begin, before)

    @rule(timestamp=st.integers(0, 60))
    def look_up_timestamp(self, timestamp: int) -> None:
        visible = self._visible(self.begin, self._stable())
        expected = next((offset for offset, value in visible if int(value or b"0") >= timestamp), self._stable())
        assert self.broker.offsets_at({LOG: timestamp}) == {LOG: expected}

    @invariant()
    def offsets_agree(self) -> None:
        assert self.broker.begin_offsets([LOG]) == {LOG: self.begin}
        assert self.broker.end_offsets([LOG]) == {LOG: self._stable()}
        assert self.broker.end_offsets([LOG], committed=False) == {LOG: len(self.entries)}

    @invariant()
    def everything_visible_can_be_read(self) -> None:
        reader = self.broker.reader()
        reader.assign({LOG: self.begin})
        found = [(m.offset(), m.value()) for chunk in reader.poll(10_000, 0) for m in chunk.messages]
        assert found == self._visible(self.begin, self._stable())
        assert reader.positions() == {LOG: self._stable()}


LogModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
TestLogModel = LogModel.TestCase


class Worker:
    """An exactly-once worker as small as can be: copies `in` to `out`, offsets in the transaction."""

    def __init__(self, cluster: MemoryCluster, number: int) -> None:
        self.broker = MemoryBroker(cluster)
        self.slot = f"slot-{number}"
        self.producer = self.broker.producer(self.slot)
        self.producer.begin()
        self.dirty: set[TopicPartition] = set()
        self.consumer: MemoryConsumer = self.broker.consumer("copy", ["in"], self)

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        committed = self.broker.committed("copy", partitions)
        return {p: Start(committed[p].offset if p in committed else 0) for p in partitions}

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.checkpoint()

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.start_over()

    def turn(self) -> None:
        for chunk in self.consumer.poll(3, 0):
            self.dirty.add(TopicPartition(chunk.topic, chunk.partition))
            for message in chunk.messages:
                self.producer.produce("out", message.value(), None, chunk.partition, None, None, 0, None)

    def checkpoint(self) -> None:
        positions = self.consumer.positions(self.dirty)
        self.producer.commit([(self.consumer, {p: Position(offset) for p, offset in positions.items()})])
        self.dirty.clear()
        self.producer.begin()

    def start_over(self) -> None:
        """Back to what is committed: a new producer, and every partition from its committed offset."""
        self.producer = self.broker.producer(self.slot)
        self.producer.begin()
        self.dirty.clear()
        for partition, start in self.assigned(sorted(self.consumer.assignment())).items():
            self.consumer.seek(partition, start.offset)


@pytest.mark.parametrize("seed", range(40))
def test_group_under_crashes_and_faults_copies_every_record_exactly_once(seed: int) -> None:
    chance = random.Random(seed)
    cluster = MemoryCluster(clock=lambda: 0, blocking=False)
    broker = MemoryBroker(cluster)
    broker.create_topics([TopicSpec("in", 5), TopicSpec("out", 5)])
    source = broker.producer()
    workers: dict[int, Worker] = {}
    sent = 0
    for _ in range(300):
        event = chance.random()
        number = chance.randrange(3)
        if event < 0.3:
            sent += 1
            source.produce("in", b"%d" % sent, None, chance.randrange(5), None, None, 0, None)
            source.serve()
        elif event < 0.35:
            _crash(cluster, workers.pop(number, None))
        elif event < 0.38 and number in workers:
            cluster.expel(workers[number].consumer)
        elif event < 0.42:
            cluster.fail_next_commit(applied=chance.random() < 0.5)
        elif event < 0.45 and number in workers:
            _guarded(workers[number], "close")
            del workers[number]
        elif number not in workers:
            workers[number] = Worker(cluster, number)
        else:
            _guarded(workers[number], "checkpoint" if event > 0.85 else "turn")
    for worker in workers.values():
        _crash(cluster, worker)
    last = Worker(cluster, 0)
    for _ in range(sent + 50):
        _guarded(last, "turn")
        _guarded(last, "checkpoint")
    for number in (1, 2):
        broker.producer(f"slot-{number}")
    assert sent > 50
    assert _all_of(broker, "out") == Counter(b"%d" % number for number in range(1, sent + 1))


def _crash(cluster: MemoryCluster, worker: Worker | None) -> None:
    """Gone without a word: its session times out, its transaction stays open until a successor comes."""
    if worker is not None:
        cluster.expel(worker.consumer)


def _guarded(worker: Worker, step: str) -> None:
    """What a driver does about errors: in doubt, go back to what is committed."""
    try:
        if step == "close":
            worker.consumer.close()
        else:
            getattr(worker, step)()
    except (TaskMigrated, BrokerUnavailable):
        worker.start_over()


def _all_of(broker: MemoryBroker, topic: str) -> Counter[bytes | None]:
    partitions = [TopicPartition(topic, number) for number in range(5)]
    reader = broker.reader()
    reader.assign(dict.fromkeys(partitions, 0))
    found: Counter[bytes | None] = Counter()
    while reader.positions() != broker.end_offsets(partitions, committed=False):
        found.update(message.value() for chunk in reader.poll(1000, 0) for message in chunk.messages)
    return found
