"""The log a job runs on: the protocols that Kafka (`broker/kafka/`) and the in-memory log (`broker/memory/`) both obey.

In here: what the runtime may ask of a broker, in Kafka's words, as protocols and plain data. Not in here: anything
about state, operators or checkpoints. One suite of laws (`tests/laws/`) runs over every implementation.

All implementations raise only `BrokerUnavailable`, `BrokerRefused`, `TaskMigrated` and `JobError` (a topic that is
missing), and the built-in `BufferError` from `Producer.produce` when its queue is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class Position(NamedTuple):
    """The next offset a task reads, and a note (at most a few hundred bytes) kept beside it in the group's offset."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True)
class TopicSpec:
    """A topic to be. `replication` -1 is the broker's default; `config` uses Kafka's names and string values."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    replication: int = -1


@dataclass(frozen=True)
class TopicInfo:
    """A topic that is. `topic_id` changes when a topic of the same name is made anew."""

    name: str
    partitions: int
    topic_id: str
    replication: int


@dataclass(frozen=True)
class GroupMember:
    """A member of a consumer group, as the group's coordinator knows it. `host`: the address its connection comes from, ""
    where that is not known."""

    client_id: str
    host: str
    instance_id: str | None
    partitions: frozenset[TopicPartition]


class Message(Protocol):
    """One message as the client gives it (confluent-kafka's own object satisfies this)."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]:
        """`(type, milliseconds)`; type 0 means that there is no timestamp."""
        ...

    def headers(self) -> list[tuple[str, bytes | None]] | None: ...


class Chunk(NamedTuple):
    """Messages of one partition in offset order, never empty, never an error or a control record among them."""

    topic: str
    partition: int
    messages: list[Message]


class Start(NamedTuple):
    """Where to begin on a partition just assigned; `paused` until `GroupConsumer.resume`."""

    offset: int
    paused: bool = False


class RebalanceListener(Protocol):
    """Called from inside `GroupConsumer.poll` (and `close`, for `revoked`). An exception raised here does not reach the
    client's C code: it is kept and raised again by the poll that was running."""

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        """Partitions newly owned (only the new ones, whichever protocol the group speaks). Returns a start for each."""
        ...

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """About to be given away: commit now, then let go. Fetching has stopped when this returns."""
        ...

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Already owned by somebody else: drop everything, commit nothing."""
        ...


class Receipt(Protocol):
    """The offset a message got: known after `Producer.flush` or `commit`, None before."""

    @property
    def offset(self) -> int | None: ...


class GroupConsumer(Protocol):
    """A member of one consumer group (a stage). Reads committed records only. Owned by the driver thread."""

    group: str

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        """What is buffered, at once; when nothing is, waits up to `timeout_s` for a first message. Chunks of one partition
        are in order; a partition may have several chunks."""
        ...

    def assignment(self) -> set[TopicPartition]: ...
    def pause(self, partitions: Iterable[TopicPartition]) -> None: ...
    def resume(self, partitions: Iterable[TopicPartition]) -> None: ...
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Reads on at `offset`; messages buffered from before are dropped. Works on paused partitions."""
        ...

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset after everything polled so far, stepping over transaction markers and compacted gaps: it reaches
        `Broker.end_offsets` once all of a partition was read. Partitions whose position is not known yet are left out."""
        ...

    def lag(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Records behind the end, from what the client has cached (no round trip); left out while unknown."""
        ...

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commits synchronously, outside any transaction (at-least-once)."""
        ...

    def close(self) -> None:
        """Leaves the group after a last `revoked`. Safe to call twice."""
        ...


class Producer(Protocol):
    """Idempotent; transactional when made with an id. Owned by the driver thread. `produce` never blocks."""

    produce: Callable[..., None]
    """`produce(topic, value, key, partition, callback, on_delivery, timestamp, headers)`, by position: the client's own
    method, for hot loops. partition -1 lets the partitioner choose (murmur2 of the key, random without one);
    `callback` and `on_delivery` are always None; timestamp 0 is the present; headers a list of pairs or None.
    Raises BufferError when the queue is full: call `wait_for_room` and try again."""

    send: Callable[..., None]
    """As `produce`, the client's very own method, for the hottest loops: an error other than BufferError is the client's,
    to be translated by `refused`."""

    def refused(self, error: Exception, topic: str) -> Exception:
        """What an error from `send` means; raise it."""
        ...

    def produce_tracked(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp: int = 0
    ) -> Receipt:
        """As `produce`, and the receipt will know the offset. For a few messages per checkpoint, not for records."""
        ...

    def wait_for_room(self) -> None:
        """Serves deliveries until the queue has room: back-pressure."""
        ...

    def serve(self) -> None:
        """Serves delivery reports; once per turn. Raises the first delivery error, mapped."""
        ...

    def flush(self) -> None:
        """Returns when everything produced is acknowledged; raises the first delivery error, mapped."""
        ...

    def begin(self) -> None:
        """Begins a transaction (local, costs nothing)."""
        ...

    def commit(self, positions: Sequence[tuple[GroupConsumer, Mapping[TopicPartition, Position]]]) -> None:
        """Sends the groups' offsets into the transaction and commits it. TaskMigrated when fenced; whenever the outcome is
        in doubt the error raised is TaskMigrated or BrokerUnavailable and the producer must be discarded."""
        ...

    def abort(self) -> None:
        """Aborts the open transaction, if any; what cannot be aborted (fenced) is only logged."""
        ...

    def close(self) -> None:
        """Lets go within a few seconds; what is not committed is aborted by the broker or by the successor."""
        ...


class Reader(Protocol):
    """Reads partitions chosen by hand, outside any group: restore, collected results, tools. Reads committed records."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Replaces what is read."""
        ...

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]: ...
    def positions(self) -> dict[TopicPartition, int]:
        """As `GroupConsumer.positions`, for all partitions assigned."""
        ...

    def close(self) -> None: ...


class Broker(Protocol):
    """A cluster, seen from one worker. Admin calls retry within `timeout` and then raise `BrokerUnavailable`."""

    transactional: bool

    def size(self) -> int:
        """Brokers in the cluster."""
        ...

    def topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        """Describes; topics that do not exist are left out."""
        ...

    def topics_matching(self, pattern: str) -> dict[str, TopicInfo]:
        """Topics whose whole name matches the regular expression, internal ones (`__…`) left out."""
        ...

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]: ...
    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        """Creates and waits until they can be used. One that exists already is fine (somebody was faster)."""
        ...

    def delete_topics(self, names: Iterable[str]) -> None: ...
    def delete_records(self, before: Mapping[TopicPartition, int]) -> None: ...
    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...
    def end_offsets(self, partitions: Iterable[TopicPartition], *, committed: bool = True) -> dict[TopicPartition, int]:
        """The end for readers of committed records (last stable offset), or with `committed=False` the high watermark, which
        is further while a transaction is open."""
        ...

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The first offset whose timestamp is at or after the given one; the end where there is none."""
        ...

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """The group's offsets; partitions without one are left out. Waits for transactions that are about to end."""
        ...

    def members(self, group: str) -> list[GroupMember]:
        """Who is in the group now, with what each one has; none for a group that is not there."""
        ...

    def delete_group(self, group: str) -> None:
        """Forgets the group's offsets. A group that is not there is fine; one with members is `BrokerRefused`."""
        ...

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
    ) -> GroupConsumer:
        """Joins the group. Partition i of every topic goes to the same member (range assignment) when all topics have the
        same number of partitions. With `instance_id` the membership is static."""
        ...

    def producer(self, transactional_id: str | None = None) -> Producer:
        """With an id: transactional; returns once the predecessor of that id is fenced and its transaction is ended."""
        ...

    def reader(self) -> Reader: ...
    def unavailable_since(self) -> float | None:
        """`time.monotonic()` since when no broker of the cluster answers; None while one does. Any thread may call."""
        ...

    def close(self) -> None: ...


BrokerFactory = Callable[[], Broker]
ClientSettings = Mapping[str, Any]
