"""What can be asked of and told to a Kafka cluster: topics, offsets, groups.

In here: `KafkaAdmin`, the part of `Broker` that needs no client of its own. Not in here: reading and
writing.

Every call goes through `_each`: one future per name, errors that a retry may mend are retried until the
deadline. A future is lost when its AdminClient is collected: the clients live as long as this object."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import admin as admin_client
from confluent_kafka.admin import AdminClient

from kstreampy.broker.broker import GroupMember, Position, TopicInfo, TopicPartition, TopicSpec
from kstreampy.broker.kafka.client import Link
from kstreampy.broker.kafka.errors import raised
from kstreampy.errors import BrokerUnavailable, JobError

K = TypeVar("K")

# The client does not export these for type checkers, nor annotate them.
_ConfigResource: Final[Any] = getattr(admin_client, "ConfigResource")  # noqa: B009
_NewTopic: Final[Any] = getattr(admin_client, "NewTopic")  # noqa: B009
_OffsetSpec: Final[Any] = getattr(admin_client, "OffsetSpec")  # noqa: B009

_MISSING_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_ANSWER: Final = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
)
_OUTDATED: Final = frozenset(
    {KafkaError._TIMED_OUT, KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION}
)
"""What comes of a client that goes by what it knew before a broker's restart."""
_REQUEST_S: Final = 5.0
_LOOK_S: Final = 1.0
_REPLACED: Final = 4
"""Clients that are kept after they were replaced: by the time so many more were, nobody waits for one."""
_POLL_S: Final = 0.1


class KafkaAdmin:
    """Lifetime: the worker's. Calls may come from any thread."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._replaced: deque[AdminClient] = deque(maxlen=_REPLACED)
        self._observers: dict[str, Consumer] = {}
        """By group: clients that ask for its offsets, and are no members."""
        try:
            self._admin = AdminClient(link.admin())
        except KafkaException as failure:
            raise link.mapped(failure, "set up a client (check the kafka. settings)") from failure

    def _each(
        self,
        ask: Callable[[AdminClient, list[K], float], Mapping[K, Future[Any]]],
        keys: Iterable[K],
        doing: str,
        fine: Collection[int] = (),
    ) -> dict[K, Any]:
        """Results by key. Keys whose error code is in `fine` are left out."""
        results: dict[K, Any] = {}
        pending = list(keys)
        deadline = time.monotonic() + self._link.timeout_s
        while pending:
            seconds = max(0.5, min(_REQUEST_S, deadline - time.monotonic()))
            again: list[K] = []
            codes: set[int] = set()
            client = self._admin
            for key, future in ask(client, pending, seconds).items():
                try:
                    results[key] = self._outcome(client, future)
                except KafkaException as failure:
                    code = raised(failure).code()
                    if code in fine:
                        continue
                    codes.add(code)
                    said = self._link.mapped(failure, doing)
                    refused = self._link.health.refusal is not None
                    if not isinstance(said, BrokerUnavailable) or refused:
                        raise said from failure
                    if time.monotonic() > deadline:
                        if code in _NO_ANSWER:
                            self._link.health.down()
                        raise said from failure
                    again.append(key)
            pending = again
            if pending:
                time.sleep(0.1)
            if not codes.isdisjoint(_OUTDATED):
                self._renew(client)
        self._link.health.up()
        return results

    def _renew(self, client: AdminClient) -> None:
        """A client that lives over a broker's restart may send what is for the coordinator of a group to a connection that is
        gone, and wait in vain each time, while other requests are answered. A new one has nothing to go by. The old one is
        kept: another thread may wait for one of its futures."""
        try:
            client.describe_cluster(request_timeout=_LOOK_S).result()
        except KafkaException:
            return
        if client is self._admin:
            self._replaced.append(client)
            self._admin = AdminClient(self._link.admin())

    def _outcome(self, client: AdminClient, future: Future[Any]) -> Any:
        """What the future gives. Meanwhile the client is polled: that is how it tells that the brokers, or the server of
        OAuth tokens, refuse the login, since it goes on trying by itself for as long as it is asked to."""
        while True:
            client.poll(0)
            if not future.done() and self._link.health.refusal is not None:
                raise self._link.health.refusal
            if wait([future], _POLL_S).done:
                return future.result()

    def size(self) -> int:
        found = self._each(
            lambda client, some, s: dict.fromkeys(some, client.describe_cluster(request_timeout=s)),
            ["cluster"],
            "describe the cluster",
        )
        return len(found["cluster"].nodes)

    # --- topics --------------------------------------------------------------------------------------------------

    def _described(self, names: Iterable[str]) -> dict[str, Any]:
        return self._each(
            lambda client, some, s: client.describe_topics(TopicCollection(some), request_timeout=s),
            sorted(set(names)),
            "describe topics",
            _MISSING_TOPIC,
        )

    def topics(self, names: Iterable[str]) -> dict[str, TopicInfo]:
        return {
            name: TopicInfo(
                name,
                len(found.partitions),
                str(found.topic_id),
                len(found.partitions[0].replicas) if found.partitions else 0,
            )
            for name, found in self._described(names).items()
        }

    def topics_matching(self, pattern: str) -> dict[str, TopicInfo]:
        try:
            wanted = re.compile(pattern)
        except re.error as failure:
            raise JobError(f"The topic pattern {pattern!r} is not a regular expression: {failure}.") from failure
        try:
            listed = self._admin.list_topics(timeout=self._link.timeout_s).topics
        except KafkaException as failure:
            self._admin.poll(0)
            raise self._link.mapped(failure, f"list the topics matching {pattern!r}") from failure
        return self.topics(name for name in listed if wanted.fullmatch(name) and not name.startswith("__"))

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        resources = [_ConfigResource(_ConfigResource.Type.TOPIC, name) for name in sorted(set(names))]
        found = self._each(
            lambda client, some, s: client.describe_configs(some, request_timeout=s),
            resources,
            "read the configuration of topics",
            _MISSING_TOPIC,
        )
        return {
            resource.name: {entry.name: entry.value for entry in entries.values() if entry.value is not None}
            for resource, entries in found.items()
        }

    def create_topics(self, specs: Iterable[TopicSpec]) -> None:
        wanted = {spec.name: spec for spec in specs}

        def create(client: AdminClient, names: list[str], seconds: float) -> Mapping[str, Future[Any]]:
            new = [
                _NewTopic(name, wanted[name].partitions, wanted[name].replication, config=dict(wanted[name].config))
                for name in names
            ]
            futures: Mapping[str, Future[Any]] = client.create_topics(new, request_timeout=seconds)
            return futures

        doing = f"create topics {', '.join(sorted(wanted))}"
        self._each(create, wanted, doing, {KafkaError.TOPIC_ALREADY_EXISTS})
        self._wait_until(lambda: self._usable(wanted), f"{doing}: they have no leaders yet")

    def _usable(self, names: Collection[str]) -> bool:
        found = self._described(names)
        return len(found) == len(names) and all(
            partition.leader is not None and partition.leader.id >= 0
            for topic in found.values()
            for partition in topic.partitions
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        """Topics that are not there are fine. Returns when they are gone."""
        doomed = sorted(set(names))
        self._each(
            lambda client, some, s: client.delete_topics(some, request_timeout=s),
            doomed,
            f"delete topics {', '.join(doomed)}",
            _MISSING_TOPIC,
        )
        self._wait_until(
            lambda: not self._described(doomed), f"delete topics {', '.join(doomed)}: they are still there"
        )

    def missing_topics(self, names: Sequence[str]) -> list[str]:
        """Those that surely do not exist. One attempt of a few seconds; none when the cluster does not
        answer."""
        client = self._admin
        futures = client.describe_topics(TopicCollection(sorted(names)), request_timeout=_REQUEST_S)
        gone = []
        for name, future in futures.items():
            try:
                future.result()
            except KafkaException as failure:
                if raised(failure).code() in _MISSING_TOPIC:
                    gone.append(name)
        return gone

    def _wait_until(self, done: Callable[[], bool], doing: str) -> None:
        deadline = time.monotonic() + self._link.timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise self._link.mapped(KafkaError(KafkaError._TIMED_OUT), doing)
            time.sleep(0.05)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self._each(
            lambda client, some, s: client.delete_records(some, request_timeout=s),
            [ClientPartition(p.topic, p.partition, offset) for p, offset in before.items()],
            f"delete records of {', '.join(sorted({p.topic for p in before}))}",
        )

    # --- offsets -------------------------------------------------------------------------------------------------

    def _offsets(self, specs: Mapping[TopicPartition, Any], isolation: Any) -> dict[TopicPartition, int]:
        places = {ClientPartition(*p): spec for p, spec in specs.items()}
        names = sorted({p.topic for p in specs})
        deadline = time.monotonic() + self._link.timeout_s

        def ask(
            client: AdminClient, some: list[ClientPartition], seconds: float
        ) -> Mapping[ClientPartition, Future[Any]]:
            wanted = {place: places[place] for place in some}
            futures: Mapping[ClientPartition, Future[Any]] = client.list_offsets(
                wanted, isolation_level=isolation, request_timeout=seconds
            )
            return futures

        doing = f"look up offsets of {', '.join(names)}"
        while True:
            try:
                found = self._each(ask, places, doing)
            except JobError as error:  # the client says the same of a topic that is missing and of one without a leader
                if self.missing_topics(names):
                    raise
                if time.monotonic() > deadline:
                    raise self._link.mapped(KafkaError(KafkaError.LEADER_NOT_AVAILABLE), doing) from error
                time.sleep(0.1)
                continue
            return {TopicPartition(at.topic, at.partition): result.offset for at, result in found.items()}

    def begin_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, _OffsetSpec.earliest()), IsolationLevel.READ_COMMITTED)

    def end_offsets(self, partitions: Iterable[TopicPartition], *, committed: bool = True) -> dict[TopicPartition, int]:
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(dict.fromkeys(partitions, _OffsetSpec.latest()), isolation)

    def offsets_at(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        specs = {p: _OffsetSpec.for_timestamp(time_ms) for p, time_ms in timestamps_ms.items()}
        found = self._offsets(specs, IsolationLevel.READ_COMMITTED)
        beyond = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **self.end_offsets(beyond)}

    # --- groups --------------------------------------------------------------------------------------------------

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """A fact of the client: an AdminClient that asks for a group's offsets ends the process (a null pointer) where the
        coordinator of the group has just moved, as in every restart of a broker. So a consumer asks, which never joins the
        group; one that reads committed records waits for offsets of open transactions, too."""
        places = [ClientPartition(*p) for p in partitions]
        if not places:
            return {}
        doing = f"read the offsets of group {group}"
        deadline = time.monotonic() + self._link.timeout_s
        while True:
            rows, error = self._stored(group, places, max(0.5, min(_REQUEST_S, deadline - time.monotonic())))
            if error is None:
                break
            said = self._link.mapped(error, doing)
            if self._link.health.refusal is not None:
                raise self._link.health.refusal
            if not isinstance(said, BrokerUnavailable) or time.monotonic() > deadline:
                if error.code() in _NO_ANSWER:
                    self._link.health.down()
                raise said
            time.sleep(0.02)
        self._link.health.up()
        return {
            TopicPartition(row.topic, row.partition): Position(row.offset, row.metadata or "")
            for row in rows
            if row.offset >= 0
        }

    def _stored(self, group: str, places: list[ClientPartition], seconds: float) -> tuple[list[Any], KafkaError | None]:
        """What is stored of these partitions; the first error."""
        try:
            client = self._observers.get(group)
            if client is None:
                client = self._observers[group] = Consumer(self._link.observer(group))
            client.poll(0)  # serves what the client has to tell
            rows = client.committed(places, seconds)
        except KafkaException as failure:
            error = raised(failure)
            return [], None if error.code() == KafkaError.GROUP_ID_NOT_FOUND else error
        return rows, next((row.error for row in rows if row.error is not None), None)

    def members(self, group: str) -> list[GroupMember]:
        found = self._each(
            lambda client, some, s: client.describe_consumer_groups(some, request_timeout=s),
            [group],
            f"describe group {group}",
            {KafkaError.GROUP_ID_NOT_FOUND},
        )
        return [
            GroupMember(
                member.client_id,
                member.host.lstrip("/"),
                member.group_instance_id,
                frozenset(TopicPartition(tp.topic, tp.partition) for tp in member.assignment.topic_partitions),
            )
            for member in (found[group].members if group in found else ())
        ]

    def delete_group(self, group: str) -> None:
        self._each(
            lambda client, some, s: client.delete_consumer_groups(some, request_timeout=s),
            [group],
            f"delete group {group}",
            {KafkaError.GROUP_ID_NOT_FOUND},
        )
