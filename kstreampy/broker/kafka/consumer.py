"""A member of a consumer group on Kafka.

In here: `KafkaGroupConsumer`: joining, the rebalance contract, commits, and what to do when the client can
go no further. Not in here: how messages are taken and positions kept (`intake.py`).

Two protocols, one contract for the listener:

- "consumer" (KIP-848): the broker assigns (`group.remote.assignor=range`) and moves only what must move.
- "classic", range assignor: eager, each rebalance revokes everything and assigns anew.

What a client does when its instance id is in use (facts, Kafka 4.1): under "classic" the newcomer takes
over at once and the old member is fenced; under "consumer" the *newcomer* gets a fatal error until the old
member left or its session timed out on the broker. A worker that was killed and restarted is in that
position, so the consumer waits: the client is closed and opened again, with back-off, from inside `poll`,
which meanwhile returns nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import Chunk, Position, RebalanceListener, TopicPartition
from kstreampy.broker.kafka.client import Link
from kstreampy.broker.kafka.errors import cause
from kstreampy.broker.kafka.intake import ConsumeError, Intake, MissingTopics, TopicWatch
from kstreampy.errors import BrokerUnavailable, JobError, KStreamError

log: Final = logging.getLogger(__name__)

_UNSUPPORTED: Final = (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE)
_MISSING: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0
_SETTLE_MESSAGES: Final = 1_000


def _places(partitions: list[Any]) -> list[TopicPartition]:
    return [TopicPartition(str(place.topic), int(place.partition)) for place in partitions]


def out_of_range(client: Consumer, trouble: ConsumeError, reader: str) -> JobError:
    """The error for an offset that is not there: which one was wanted, and which are."""
    place = f"topic {trouble.topic}, partition {trouble.partition}"
    try:
        first, end = client.get_watermark_offsets(
            ClientPartition(trouble.topic or "", trouble.partition or 0), timeout=5.0
        )
        available = f"it begins at {first} and ends at {end}"
        missing = first - trouble.offset if trouble.offset is not None else 0
        gap = f" ({missing} offsets are gone)" if missing > 0 else ""
    except KafkaException:
        available, gap = "where it begins and ends could not be found out", ""
    return JobError(
        f"{reader} wants offset {trouble.offset} of {place}, which is not there: {available}{gap}. Retention "
        "may have removed it, or the topic was made anew. Nothing is skipped silently: if the gap may be lost, move "
        "the offset of the stage's group; a stage with state keeps its own, and begins anew under another application id."
    )


class KafkaGroupConsumer:
    """See `GroupConsumer`. `missing_topics` asks the cluster; `protocol` is the one to begin with, and
    `on_classic` is told when the broker turned out not to serve "consumer" (None: that is an error). Owned
    by the driver thread."""

    def __init__(
        self,
        link: Link,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None,
        protocol: str,
        on_classic: Callable[[], None] | None,
        missing_topics: MissingTopics,
        unavailable_since: Callable[[], float | None],
    ) -> None:
        self.group = group
        self._link = link
        self._topics = list(topics)
        self._listener = listener
        self._instance_id = instance_id
        self._protocol = protocol
        self._on_classic = on_classic
        self._missing_topics = missing_topics
        self._unavailable_since = unavailable_since
        self._watch = TopicWatch(missing_topics, self._topics, f"Group {group}")
        self._kept: BaseException | None = None
        self._closed = False
        self._reopen_at: float | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._open()

    # --- the client's life ---------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._client = Consumer(self._link.consumer(self.group, self._instance_id, self._protocol))
            self._client.subscribe(
                self._topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        except KafkaException as failure:
            raise self._link.mapped(failure, f"join group {self.group}") from failure
        self._intake = Intake(self._client, self._link)
        self._paused: set[TopicPartition] = set()
        self._reopen_at = None

    def _reopen_when_due(self, timeout_s: float) -> bool:
        """Whether there is a client. While waiting for the next attempt, waits up to the timeout."""
        if self._reopen_at is None:
            return True
        left = self._reopen_at - time.monotonic()
        if left > timeout_s:
            time.sleep(timeout_s)
            return False
        time.sleep(max(0.0, left))
        self._open()
        return True

    def _recover(self, trouble: ConsumeError) -> None:
        """Goes on after an error if the contract lets it, raises it mapped if not."""
        error, code = trouble.error, cause(trouble.error)
        if code in _MISSING and trouble.topic is not None and not self._missing_topics([trouble.topic]):
            return  # somebody made it a moment ago; the client's view of the cluster follows by itself
        if code in _OUT_OF_RANGE and trouble.topic is not None:
            raise out_of_range(self._client, trouble, f"Group {self.group}")
        if code == KafkaError._MAX_POLL_EXCEEDED:
            log.warning(
                "Group %s: this worker did not poll for longer than max.poll.interval.ms and lost its partitions; raise "
                "kafka.max.poll.interval.ms or make the slow step faster.",
                self.group,
            )
            return  # `lost` was called or will be, then the client joins again by itself
        if code == KafkaError.UNRELEASED_INSTANCE_ID and self._protocol == "consumer":
            self._wait_for_predecessor()
            return
        if code in _UNSUPPORTED and self._protocol == "consumer" and self._on_classic is not None:
            log.info(
                "Group %s: the broker does not serve KIP-848's group protocol; using the classic one.",
                self.group,
            )
            self._on_classic()
            self._protocol = "classic"
            self._drop_client()
            self._open()
            return
        if error.fatal() or error.code() == KafkaError._FATAL:
            self._lose_all()
        topic = f" (topic {trouble.topic})" if trouble.topic else ""
        raise self._link.mapped(error, f"read as a member of group {self.group}{topic}")

    def _wait_for_predecessor(self) -> None:
        if self._pause_s == _FIRST_PAUSE_S:
            log.warning(
                "Group %s: instance id %s is still held by a member that did not leave, probably this worker before it was "
                "killed. Waiting until the broker's session timeout (group.consumer.session.timeout.ms) ends it.",
                self.group,
                self._instance_id,
            )
        self._lose_all()
        self._drop_client()
        self._reopen_at = time.monotonic() + self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 1.5)

    def _lose_all(self) -> None:
        owned = sorted(self._intake.partitions())
        self._intake.forget(owned)
        if owned:
            self._listener.lost(owned)

    def _drop_client(self) -> None:
        try:
            self._client.close()
        except KafkaException as failure:
            log.debug("Closing a consumer of group %s that is of no use any more: %s", self.group, failure)

    # --- rebalance callbacks: run inside consume() and close(), on the driver's thread ----------------------------

    def _on_assign(self, client: Consumer, partitions: list[Any]) -> None:
        new = _places(partitions)
        starts: list[Any] = []
        try:
            if new and not self._closed:
                given = self._listener.assigned(new)
                starts = [ClientPartition(p.topic, p.partition, given[p].offset) for p in new]
                self._intake.begin({p: given[p].offset for p in new})
            if self._protocol == "consumer":
                client.incremental_assign(starts)
            else:
                client.assign(starts)
            self.pause([p for p in new if starts and given[p].paused])
            self._pause_s = _FIRST_PAUSE_S
        except BaseException as failure:
            self._keep(failure)
            if self._protocol == "consumer":
                client.incremental_assign([])
            else:
                client.assign([])

    def _on_revoke(self, client: Consumer, partitions: list[Any]) -> None:
        self._give_up(client, _places(partitions), self._listener.revoked)

    def _on_lost(self, client: Consumer, partitions: list[Any]) -> None:
        self._give_up(client, _places(partitions), self._listener.lost)

    def _give_up(
        self,
        client: Consumer,
        partitions: list[TopicPartition],
        tell: Callable[[Sequence[TopicPartition]], None],
    ) -> None:
        owned = [p for p in partitions if p in self._intake.partitions()]
        try:
            if owned:
                tell(owned)
        except BaseException as failure:
            self._keep(failure)
        self._intake.forget(partitions)
        for step in (self.resume, self._unassign):  # what stays paused would be so when it comes back
            try:
                step(partitions)
            except KafkaException as failure:
                self._keep(self._link.mapped(failure, f"give partitions of group {self.group} away"))

    def _unassign(self, partitions: Iterable[TopicPartition]) -> None:
        if self._protocol == "consumer":
            self._client.incremental_unassign([ClientPartition(*p) for p in partitions])
        else:
            self._client.unassign()

    def _keep(self, failure: BaseException) -> None:
        if self._kept is None:
            self._kept = failure

    def _raise_kept(self) -> None:
        if self._kept is not None:
            kept, self._kept = self._kept, None
            if isinstance(kept, KafkaException):
                raise self._link.mapped(kept, f"take over partitions of group {self.group}") from kept
            raise kept

    # --- the contract --------------------------------------------------------------------------------------------

    def poll(self, max_messages: int, timeout_s: float) -> list[Chunk]:
        if self._link.health.refusal is not None:
            raise self._link.health.refusal
        if not self._reopen_when_due(timeout_s):
            return []
        try:
            chunks = self._intake.take(max_messages, timeout_s)
        except ConsumeError as trouble:
            self._raise_kept()
            chunks = []
            self._recover(trouble)
        except KafkaException as failure:
            raise self._link.mapped(failure, f"read as a member of group {self.group}") from failure
        if self._kept is not None:
            self._raise_kept()
        if not chunks:
            self._watch.look(not self._intake.partitions())
        return chunks

    def assignment(self) -> set[TopicPartition]:
        return self._intake.partitions()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        paused = list(partitions)
        if paused:
            self._paused.update(paused)
            self._client.pause([ClientPartition(*p) for p in paused])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Of those that are paused: the client is told nothing of others."""
        paused = self._paused.intersection(partitions)
        if paused:
            self._paused -= paused
            self._client.resume([ClientPartition(*p) for p in paused])

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._intake.seek(partition, offset)

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._intake.positions(partitions)

    def lag(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._intake.lag(partitions)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """A fact of the client: its synchronous commit has no timeout of its own and waits up to the
        session timeout for a broker that is away. So nothing is sent while the cluster is known not to
        answer."""
        if not positions:
            return
        doing = f"commit offsets of group {self.group}"
        offsets = [ClientPartition(p.topic, p.partition, at.offset, at.metadata) for p, at in positions.items()]
        deadline = time.monotonic() + self._link.timeout_s
        while True:
            if self._unavailable_since() is None:
                failure = self._commit_once(offsets)
                if failure is None:
                    self._link.health.up()
                    return
            else:
                failure = KafkaError(KafkaError._ALL_BROKERS_DOWN)
            said = self._link.mapped(failure, doing)
            if not isinstance(said, BrokerUnavailable) or time.monotonic() > deadline:
                raise said
            time.sleep(0.05)

    def _commit_once(self, offsets: list[Any]) -> KafkaError | None:
        try:
            done = self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return error
        return next((partition.error for partition in done if partition.error is not None), None)

    def group_metadata(self) -> Any:
        """The client's own token of this membership, for the producer of the same worker: it fences the
        offsets."""
        return self._client.consumer_group_metadata()

    def _settle(self) -> None:
        """A fact of the client: under the classic protocol, `assign` of partitions that were given a moment before `close` may
        never return, and it holds the interpreter's lock. So what was given is answered before, and a member that has
        nothing asks for nothing more. Others must not: a static member that unsubscribes loses its place in the group."""
        if self._protocol == "classic":
            self._answer_all()
            if not self._intake.partitions():
                self._client.unsubscribe()
                self._answer_all()

    def _answer_all(self) -> None:
        """Nothing is read meanwhile, so this ends."""
        self.pause(self._intake.partitions())
        while self._client.consume(_SETTLE_MESSAGES, 0):
            pass

    def close(self) -> None:
        """Milliseconds as a rule; up to 5 s under the classic protocol when a rebalance waits for another member."""
        if self._closed:
            return
        self._closed = True
        if self._reopen_at is not None:
            return
        for step in (self._settle, self._client.close):
            try:
                step()
            except KafkaException as failure:
                log.warning("Group %s was not left in order: %s", self.group, failure)
        remaining = sorted(self._intake.partitions())
        if remaining:  # the client gave up without telling (a fatal error): nothing of this may be committed
            self._intake.forget(remaining)
            self._listener.lost(remaining)
        kept, self._kept = self._kept, None
        if kept is not None:
            raise (
                kept
                if isinstance(kept, KStreamError) or not isinstance(kept, KafkaException)
                else self._link.mapped(kept, f"leave group {self.group}")
            )
