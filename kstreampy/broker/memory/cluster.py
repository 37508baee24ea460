"""The state that all workers of one in-memory log share, and what a test may do to it from outside.

In here: topics, groups, transactions, the lock that guards them, and the hooks for tests: compaction, session
timeout, transaction timeout, failing commits and deliveries. Not in here: the protocols (`broker.py` and its
neighbours).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kstreampy.broker.broker import GroupConsumer, TopicPartition
from kstreampy.broker.memory.group import Group
from kstreampy.broker.memory.log import PartitionLog, Topic
from kstreampy.broker.memory.transaction import TransactionCoordinator
from kstreampy.errors import JobError


def present_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class MemoryCluster:
    """What the brokers of one job share: `MemoryBroker(cluster)` is one worker's view. Lives as long as the
    log should.

    `clock` gives the timestamp (ms) of messages that were produced without one. With `blocking` a poll that
    finds nothing waits up to its timeout for other threads; without, it returns at once, so that one thread
    may run many workers deterministically. Safe to use from several threads.
    """

    def __init__(self, *, clock: Callable[[], int] = present_ms, blocking: bool = True) -> None:
        self.clock = clock
        self.blocking = blocking
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.version = 0
        """Counts changes, so that a poll can tell whether it missed one before it began to wait."""
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.transactions = TransactionCoordinator()
        self._topics_made = 0
        self._commit_faults: list[tuple[str | None, bool]] = []
        self._offset_commit_faults: list[tuple[str | None, bool]] = []
        self._delivery_faults: list[str] = []

    # What brokers, consumers and producers use; callers hold the lock.

    def touch(self) -> None:
        """Tells waiting polls that something changed."""
        self.version += 1
        self.changed.notify_all()

    def topics_changed(self) -> None:
        """After topics came or went: groups that read them get new targets."""
        for group in self.groups.values():
            group.balance()
        self.touch()

    def new_topic_id(self) -> str:
        self._topics_made += 1
        return f"memory-topic-{self._topics_made}"

    def topic(self, name: str) -> Topic:
        """The topic of that name; JobError when there is none."""
        topic = self.topics.get(name)
        if topic is None:
            raise JobError(f"topic {name} does not exist in the in-memory log; create it first or correct its name")
        return topic

    def log(self, partition: TopicPartition) -> PartitionLog:
        """The partition; JobError when its topic is missing or has fewer partitions."""
        logs = self.topic(partition.topic).logs
        if not 0 <= partition.partition < len(logs):
            raise JobError(
                f"topic {partition.topic} has partitions 0 to {len(logs) - 1}, there is no partition "
                f"{partition.partition}; make the topic with more partitions or correct the number"
            )
        return logs[partition.partition]

    def group(self, name: str) -> Group:
        """The group of that name, made when it is not there."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group(name, self._partitions)
        return group

    def _partitions(self, topic: str) -> int:
        return len(self.topics[topic].logs) if topic in self.topics else 0

    def take_commit_fault(self, transactional_id: str) -> bool | None:
        """Whether this commit fails: None for no, False before, True after it is applied. A fault strikes
        once."""
        return _take(self._commit_faults, transactional_id)

    def take_offset_commit_fault(self, group: str) -> bool | None:
        """As `take_commit_fault`, for commits of offsets outside transactions."""
        return _take(self._offset_commit_faults, group)

    def take_delivery_fault(self, topic: str) -> bool:
        """Whether the delivery of this message fails. A fault strikes once."""
        if topic in self._delivery_faults:
            self._delivery_faults.remove(topic)
            return True
        return False

    # What tests use.

    def compact(self, topic: str, *, drop_tombstones: bool = False) -> None:
        """Compacts a topic whose cleanup policy is compact: the last committed message of each key stays, and
        with `drop_tombstones` (Kafka: older than `delete.retention.ms`) keys whose last value is None go
        too."""
        with self.lock:
            target = self.topic(topic)
            if not target.compacted:
                raise JobError(
                    f"topic {topic} has cleanup.policy={target.configs['cleanup.policy']} and cannot be "
                    "compacted; create it with cleanup.policy=compact"
                )
            for log in target.logs:
                log.compact(drop_tombstones=drop_tombstones)
            self.touch()

    def expel(self, member: GroupConsumer) -> None:
        """The member's session times out: others may take its partitions at once, its own commits are
        refused, and its next poll calls `lost` and joins anew. Also for a static member that was closed."""
        with self.lock:
            group = self.group(member.group)
            for known in [known for known in group.members if known.consumer is member]:
                group.expel(known)
            self.touch()

    def revoke_all(self) -> None:
        """A rebalance of every group begins, in the way of the eager protocol: members let go of all they have in their
        next poll, and get nothing before `rebalance`."""
        with self.lock:
            for group in self.groups.values():
                group.revoke_all()
            self.touch()

    def rebalance(self) -> None:
        """Every group gives its partitions anew: what one member had is the next one's now."""
        with self.lock:
            for group in self.groups.values():
                group.turn()
            self.touch()

    def expire_transaction(self, transactional_id: str) -> None:
        """The id's transaction times out: what is open is aborted, and its producer is fenced."""
        with self.lock:
            self.transactions.expire(transactional_id)
            self.touch()

    def fail_next_commit(self, *, applied: bool, transactional_id: str | None = None) -> None:
        """The next `Producer.commit` (of that id, if given) raises BrokerUnavailable: with `applied` after
        the transaction was committed, so that its outcome is in doubt for the client, otherwise after it was
        aborted."""
        with self.lock:
            self._commit_faults.append((transactional_id, applied))

    def fail_next_offset_commit(self, *, applied: bool, group: str | None = None) -> None:
        """The next `GroupConsumer.commit` (of that group, if given) raises BrokerUnavailable, after the
        offsets were stored or without storing them."""
        with self.lock:
            self._offset_commit_faults.append((group, applied))

    def fail_next_delivery(self, topic: str) -> None:
        """The next message to `topic` is not delivered: its producer gets BrokerUnavailable from serve, flush
        or commit."""
        with self.lock:
            self._delivery_faults.append(topic)


def _take(faults: list[tuple[str | None, bool]], owner: str) -> bool | None:
    for fault in faults:
        if fault[0] is None or fault[0] == owner:
            faults.remove(fault)
            return fault[1]
    return None
