"""One worker's view of the in-memory log: administration, and making consumers, producers and readers.

In here: `MemoryBroker`. Not in here: the state, which belongs to the `MemoryCluster`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kstreampy.broker.broker import GroupMember, Position, RebalanceListener, TopicInfo, TopicPartition, TopicSpec
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.consumer import MemoryConsumer
from kstreampy.broker.memory.log import Topic
from kstreampy.broker.memory.producer import MemoryProducer
from kstreampy.broker.memory.reader import MemoryReader
from kstreampy.errors import BrokerRefused, JobError

QUEUE_MESSAGES = 100_000
"""As many as the Kafka client's queue holds by default."""

DEFAULT_CONFIGS = {
    "cleanup.policy": "delete",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
}
"""Kafka's defaults, for `topic_configs`. Of all of them only `cleanup.policy` and `message.timestamp.type`
have an effect."""

_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_POLICIES = ({"delete"}, {"compact"}, {"compact", "delete"})


class MemoryBroker:
    """A `Broker` on the in-memory log. `queue_messages` bounds the queue of each of its producers."""

    def __init__(self, cluster: MemoryCluster, *, queue_messages: int = QUEUE_MESSAGES) -> None:
        self.transactional = True
        self._cluster = cluster
        self._queue_messages = queue_messages

    def size(self) -> int:
        return 1

    def topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        with self._cluster.lock:
            topics = self._cluster.topics
            return {name: _info(topics[name]) for name in names if name in topics}

    def topics_matching(self, pattern: str) -> dict[str, TopicInfo]:
        try:
            expression = re.compile(pattern)
        except re.error as error:
            raise JobError(f"topic pattern {pattern!r} is not a regular expression: {error}") from error
        with self._cluster.lock:
            names = [name for name in sorted(self._cluster.topics) if not name.startswith("__")]
            return self.topics(name for name in names if expression.fullmatch(name))

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        with self._cluster.lock:
            topics = self._cluster.topics
            return {name: dict(topics[name].configs) for name in names if name in topics}

    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """BrokerRefused for a name, a number of partitions or a cleanup policy that Kafka would not take;
        nothing is created then."""
        new = [(spec, {**DEFAULT_CONFIGS, **spec.config}) for spec in specs]
        for spec, configs in new:
            _check_spec(spec, configs["cleanup.policy"])
        with self._cluster.lock:
            for spec, configs in new:
                if spec.name not in self._cluster.topics:
                    replication = 1 if spec.replication == -1 else spec.replication
                    self._cluster.topics[spec.name] = Topic(
                        spec.name, self._cluster.new_topic_id(), spec.partitions, replication, configs
                    )
            self._cluster.topics_changed()

    def delete_topics(self, names: Iterable[str]) -> None:
        """Topics that do not exist are fine. The offsets that groups have on a deleted topic go with it."""
        with self._cluster.lock:
            gone = {name for name in names if self._cluster.topics.pop(name, None) is not None}
            for group in self._cluster.groups.values():
                group.offsets = {tp: position for tp, position in group.offsets.items() if tp.topic not in gone}
            self._cluster.topics_changed()

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """BrokerRefused when the offset is beyond the end, or the topic is compacted only (as on Kafka)."""
        with self._cluster.lock:
            for partition, offset in before.items():
                log = self._cluster.log(partition)
                name = f"{partition.topic}[{partition.partition}]"
                if not self._cluster.topic(partition.topic).deleting:
                    raise BrokerRefused(f"cannot delete records of {name}: its topic's cleanup.policy is compact only")
                if not 0 <= offset <= log.end:
                    raise BrokerRefused(f"cannot delete records of {name} before {offset}: it ends at {log.end}")
                log.delete_before(offset)
            self._cluster.touch()

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            return {partition: self._cluster.log(partition).begin for partition in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition], *, committed: bool = True) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            logs = {partition: self._cluster.log(partition) for partition in partitions}
            return {partition: log.stable_end if committed else log.end for partition, log in logs.items()}

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            return {
                partition: self._cluster.log(partition).first_at(timestamp)
                for partition, timestamp in timestamps_ms.items()
            }

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        with self._cluster.lock:
            known = self._cluster.groups.get(group)
            offsets = {} if known is None else known.offsets
            return {partition: offsets[partition] for partition in partitions if partition in offsets}

    def members(self, group: str) -> list[GroupMember]:
        """They have no addresses: whoever can see them is in the same process."""
        with self._cluster.lock:
            known = self._cluster.groups.get(group)
            if known is None:
                return []
            return [GroupMember("", "", member.instance_id, frozenset(known.owned(member))) for member in known.members]

    def delete_group(self, group: str) -> None:
        with self._cluster.lock:
            known = self._cluster.groups.get(group)
            if known is not None and known.members:
                names = ", ".join(member.name for member in known.members)
                raise BrokerRefused(f"group {group} cannot be deleted while it has members ({names}); stop them first")
            self._cluster.groups.pop(group, None)

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
    ) -> MemoryConsumer:
        return MemoryConsumer(self._cluster, group, topics, listener, instance_id)

    def producer(self, transactional_id: str | None = None) -> MemoryProducer:
        return MemoryProducer(self._cluster, transactional_id, self._queue_messages)

    def reader(self) -> MemoryReader:
        return MemoryReader(self._cluster)

    def unavailable_since(self) -> float | None:
        """None: it is in this process."""
        return None

    def close(self) -> None:
        """Nothing is held open here: consumers and producers are closed by their owners, the log is the
        cluster's."""


def _info(topic: Topic) -> TopicInfo:
    return TopicInfo(topic.name, len(topic.logs), topic.topic_id, topic.replication)


def _check_spec(spec: TopicSpec, policy: str) -> None:
    if not _TOPIC_NAME.fullmatch(spec.name) or spec.name in (".", ".."):
        raise BrokerRefused(
            f"{spec.name!r} is no name for a topic: 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'"
        )
    if spec.partitions < 1:
        raise BrokerRefused(f"topic {spec.name} cannot have {spec.partitions} partitions; give at least 1")
    if {part.strip() for part in policy.split(",")} not in _POLICIES:
        raise BrokerRefused(f"topic {spec.name}: cleanup.policy {policy!r} is not known; use delete and/or compact")
