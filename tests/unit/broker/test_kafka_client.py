"""Settings of each client, and the shared knowledge whether the cluster answers."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kstreampy.broker.kafka.client import Health, Link, within
from kstreampy.errors import BrokerRefused, BrokerUnavailable

USER = {"linger.ms": "3", "fetch.min.bytes": "10", "socket.timeout.ms": "9000", "session.timeout.ms": "7000"}


def make_link(user: dict[str, str] | None = None, session_timeout_ms: int | None = None) -> Link:
    return Link(
        "127.0.0.1:1",
        user or {},
        client_id="job",
        timeout_s=1.0,
        session_timeout_ms=session_timeout_ms,
        transaction_timeout_ms=30_000,
    )


def test_the_client_accepts_every_combination(caplog: pytest.LogCaptureFixture) -> None:
    link = make_link(USER, session_timeout_ms=8_000)
    for consumer in (
        Consumer(link.consumer("g", "i", "consumer")),
        Consumer(link.consumer("g", None, "classic")),
        Consumer(link.reader()),
    ):
        consumer.consume(1, 0.01)
        consumer.close()
    for producer in (Producer(link.producer(None)), Producer(link.producer("id"))):
        producer.poll(0.01)
    AdminClient(link.admin()).poll(0.01)
    assert "CONFWARN" not in caplog.text


def test_user_settings_go_to_the_clients_that_have_them() -> None:
    link = make_link(USER)
    for conf in (link.consumer("g", None, "classic"), link.producer(None), link.admin(), link.reader()):
        assert conf["socket.timeout.ms"] == "9000"
    assert link.producer(None)["linger.ms"] == "3"
    assert "linger.ms" not in link.consumer("g", None, "classic")
    assert link.consumer("g", None, "consumer")["fetch.min.bytes"] == "10"
    assert "fetch.min.bytes" not in link.producer(None)
    assert "session.timeout.ms" not in link.consumer("g", None, "consumer")
    assert link.consumer("g", None, "classic")["session.timeout.ms"] == "7000"


def test_what_the_guarantees_need() -> None:
    link = make_link(session_timeout_ms=8_000)
    for conf in (link.consumer("g", "i", "consumer"), link.consumer("g", "i", "classic"), link.reader()):
        assert conf["isolation.level"] == "read_committed"
        assert conf["auto.offset.reset"] == "error"
        assert conf["enable.auto.commit"] is False
        assert conf["enable.auto.offset.store"] is False
    assert link.consumer("g", "i", "classic")["group.instance.id"] == "i"
    assert link.consumer("g", None, "classic")["partition.assignment.strategy"] == "range"
    assert link.consumer("g", None, "consumer")["group.remote.assignor"] == "range"
    producer = link.producer("id")
    assert producer["partitioner"] == "murmur2_random"
    assert producer["acks"] == "all"
    assert producer["enable.idempotence"] is True
    assert producer["message.timeout.ms"] <= producer["transaction.timeout.ms"] == 30_000
    assert "transactional.id" not in link.producer(None)


def test_health_goes_down_and_up() -> None:
    health = Health("h")
    health.heard(KafkaError(KafkaError._TRANSPORT))
    assert health.since is None
    health.heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    since = health.since
    assert since is not None
    health.heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert health.since == since
    health.up()
    assert health.since is None


def test_rejected_login_is_the_reason_of_every_silence() -> None:
    link = make_link()
    silence = KafkaError(KafkaError._TIMED_OUT)
    assert isinstance(link.mapped(silence, "read"), BrokerUnavailable)
    link.health.heard(KafkaError(KafkaError._AUTHENTICATION, "bad password"))
    said = link.mapped(silence, "read")
    assert isinstance(said, BrokerRefused)
    assert "bad password" in str(said)


def test_broken_handshake_is_no_refusal_unless_a_certificate_is_named() -> None:
    health = Health("h")
    health.heard(KafkaError(KafkaError._SSL, "SSL handshake failed: Disconnected"))
    health.heard(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no right"))
    assert health.refusal is None
    health.heard(KafkaError(KafkaError._SSL, "SSL handshake failed: certificate verify failed"))
    assert health.refusal is not None


def _fails(*errors: KafkaError) -> tuple[list[float], Callable[[float], None]]:
    left = list(errors)
    called: list[float] = []

    def attempt(seconds: float) -> None:
        called.append(seconds)
        if left:
            raise KafkaException(left.pop(0))

    return called, attempt


def test_within_retries_what_may_pass() -> None:
    passing = KafkaError(KafkaError.CONCURRENT_TRANSACTIONS, "busy", False, True)
    called, attempt = _fails(passing, passing)
    within(float("inf"), attempt, make_link(), "commit")
    assert called == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._FENCED, "fenced", True, True),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no", False, False),
        KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "stale", False, True, True),
    ],
)
def test_within_raises_what_does_not_pass_as_it_is(error: KafkaError) -> None:
    called, attempt = _fails(error)
    with pytest.raises(KafkaException):
        within(float("inf"), attempt, make_link(), "commit")
    assert len(called) == 1


def test_within_gives_up_at_the_deadline() -> None:
    link = make_link()
    _, attempt = _fails(*[KafkaError(KafkaError._TIMED_OUT, "no answer", False, True)] * 3)
    with pytest.raises(BrokerUnavailable, match="could not commit: no answer"):
        within(0.0, attempt, link, "commit")
    assert link.health.since is not None


def test_equal_lines_of_the_client_library_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    make_link()
    logger = logging.getLogger("kstreampy.broker.kafka.client.librdkafka")
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            logger.error("FAIL [once#consumer-1] [thrd:x]: refused")
        logger.error("FAIL [once#producer-2] [thrd:x]: refused")
    assert len(caplog.records) == 2


def test_what_the_client_library_says_is_thinned_out(caplog: pytest.LogCaptureFixture) -> None:
    say = make_link().admin()["logger"].error
    for _ in range(3):
        say("FAIL [job#producer-1] [thrd:a]: Connection refused")
    say("FAIL [job#producer-2] [thrd:a]: Connection refused")
    held = KafkaError(KafkaError.UNRELEASED_INSTANCE_ID).str()
    say(f"FATAL [job#consumer-3] [thrd:main]: Fatal error: {held}: ConsumerGroupHeartbeat fatal error: {held}")
    assert [line.split("]")[0] for line in caplog.messages] == ["FAIL [job#producer-1", "FAIL [job#producer-2"]
