"""What is asked of a cluster of which a broker has just been restarted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import TopicPartition
from kstreampy.broker.kafka import admin
from kstreampy.broker.kafka.admin import KafkaAdmin
from kstreampy.broker.kafka.client import Link
from kstreampy.errors import BrokerUnavailable, JobError

PARTITION = TopicPartition("orders", 0)
GROUP = "billing"


def done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


class Cluster:
    """What a client of it answers: each look-up of offsets the next of `answers`, the last of them again and again."""

    def __init__(self, answers: list[int | Future[Any]], *, exists: bool = True, is_there: bool = True) -> None:
        self.answers = answers
        self.exists = exists
        self.is_there = is_there

    def _next(self) -> Future[Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Future) else failed(answer)

    def list_offsets(self, places: dict[ClientPartition, Any], **_: Any) -> dict[ClientPartition, Future[Any]]:
        return dict.fromkeys(places, self._next())

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        return dict.fromkeys(groups, self._next())

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        missing = KafkaError.UNKNOWN_TOPIC_OR_PART if self.is_there else KafkaError._TIMED_OUT
        return {PARTITION.topic: done(SimpleNamespace()) if self.exists and self.is_there else failed(missing)}

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return done(SimpleNamespace()) if self.is_there else failed(KafkaError._TIMED_OUT)

    def poll(self, timeout: float) -> int:
        return 0


class Clients:
    """Clients as they are made, one after another; the last for all that follow."""

    def __init__(self, *clients: Cluster) -> None:
        self.clients = list(clients)
        self.made = 0

    def __call__(self, conf: dict[str, Any]) -> Cluster:
        self.made += 1
        return self.clients.pop(0) if len(self.clients) > 1 else self.clients[0]


@pytest.fixture
def link() -> Link:
    return Link(
        "127.0.0.1:1", {}, client_id="job", timeout_s=0.3, session_timeout_ms=None, transaction_timeout_ms=30_000
    )


Make = Callable[..., KafkaAdmin]


@pytest.fixture
def make(link: Link, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(*clients: Cluster) -> KafkaAdmin:
        monkeypatch.setattr(admin, "AdminClient", Clients(*clients))
        return KafkaAdmin(link)

    return make


@pytest.mark.parametrize("is_there", [True, False])
def test_a_topic_without_a_leader_is_waited_for(is_there: bool, make: Make) -> None:
    """The client says that it does not exist. No reason to end a job for good, also while no broker can tell."""
    with pytest.raises(BrokerUnavailable, match="offsets of orders"):
        make(Cluster([KafkaError._NOENT], is_there=is_there)).end_offsets([PARTITION])


def test_a_topic_that_is_missing_is_told(make: Make) -> None:
    with pytest.raises(JobError, match="offsets of orders"):
        make(Cluster([KafkaError._NOENT], exists=False)).end_offsets([PARTITION])


@pytest.mark.parametrize("code", [KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_a_client_that_goes_by_leaders_of_before_a_restart_is_made_anew(code: int, make: Make) -> None:
    found = done(SimpleNamespace(offset=7))
    assert make(Cluster([code]), Cluster([found])).end_offsets([PARTITION]) == {PARTITION: 7}


def test_a_client_that_waits_for_a_coordinator_of_before_a_restart_is_made_anew(make: Make) -> None:
    found = done(SimpleNamespace(members=[]))
    assert make(Cluster([KafkaError._TIMED_OUT]), Cluster([found])).members(GROUP) == []
    assert admin.AdminClient.made == 2  # type: ignore[attr-defined]


def test_a_client_is_kept_while_no_broker_answers(make: Make) -> None:
    with pytest.raises(BrokerUnavailable):
        make(Cluster([KafkaError._TIMED_OUT], is_there=False)).members(GROUP)
    assert admin.AdminClient.made == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("code", "is_away"), [(KafkaError.LEADER_NOT_AVAILABLE, False), (KafkaError._TIMED_OUT, True)])
def test_only_a_cluster_that_does_not_answer_is_away(code: int, is_away: bool, link: Link, make: Make) -> None:
    with pytest.raises(BrokerUnavailable):
        make(Cluster([code])).end_offsets([PARTITION])
    assert (link.health.since is not None) is is_away
