"""What client errors are mapped to (P29: one table of error → reaction)."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from kstreampy.broker.kafka.errors import TABLE, cause, mapped, raised
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, KStreamError, TaskMigrated


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnavailable),
        (KafkaError._TRANSPORT, BrokerUnavailable),
        (KafkaError._TIMED_OUT, BrokerUnavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, BrokerUnavailable),
        (KafkaError.FENCED_LEADER_EPOCH, BrokerUnavailable),
        (KafkaError.UNKNOWN_LEADER_EPOCH, BrokerUnavailable),
        (KafkaError.OFFSET_NOT_AVAILABLE, BrokerUnavailable),
        (KafkaError.UNKNOWN_TOPIC_ID, BrokerUnavailable),
        (KafkaError._INCONSISTENT, BrokerUnavailable),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, BrokerUnavailable),
        (KafkaError.UNSTABLE_OFFSET_COMMIT, BrokerUnavailable),
        (KafkaError.CONCURRENT_TRANSACTIONS, BrokerUnavailable),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerRefused),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, BrokerRefused),
        (KafkaError.SASL_AUTHENTICATION_FAILED, BrokerRefused),
        (KafkaError._AUTHENTICATION, BrokerRefused),
        (KafkaError._SSL, BrokerRefused),
        (KafkaError.MSG_SIZE_TOO_LARGE, BrokerRefused),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, BrokerRefused),
        (KafkaError.NON_EMPTY_GROUP, BrokerRefused),
        (KafkaError._FENCED, TaskMigrated),
        (KafkaError.FENCED_INSTANCE_ID, TaskMigrated),
        (KafkaError.INVALID_PRODUCER_EPOCH, TaskMigrated),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, TaskMigrated),
        (KafkaError.UNKNOWN_MEMBER_ID, TaskMigrated),
        (KafkaError.STALE_MEMBER_EPOCH, TaskMigrated),
        (KafkaError.ILLEGAL_GENERATION, TaskMigrated),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, JobError),
        (KafkaError.OFFSET_OUT_OF_RANGE, JobError),
        (KafkaError._AUTO_OFFSET_RESET, JobError),
        (KafkaError._INVALID_ARG, JobError),
    ],
)
def test_each_code_has_its_reaction(code: int, kind: type[KStreamError]) -> None:
    error = mapped(KafkaError(code), "do it", "host:9092")
    assert type(error) is kind


def test_code_in_no_row() -> None:
    unknown = KafkaError.NO_REASSIGNMENT_IN_PROGRESS
    assert unknown not in TABLE
    assert type(mapped(KafkaError(unknown, "?", False, True), "do it", "h")) is BrokerUnavailable
    assert type(mapped(KafkaError(unknown, "?", True), "do it", "h")) is TaskMigrated
    assert type(mapped(KafkaError(unknown, "?"), "do it", "h")) is BrokerRefused


@pytest.mark.parametrize("code", sorted(TABLE))
def test_message_says_where_what_and_what_to_do(code: int) -> None:
    kind, advice = TABLE[code]
    error = mapped(KafkaError(code, "the words of the broker"), "write to orders-3", "host:9092")
    assert type(error) is kind
    assert str(error) == (
        f"Kafka at host:9092: could not write to orders-3: the words of the broker ({KafkaError(code).name()}); {advice}"
        + ("" if advice.endswith("?") else ".")
    )
    assert len(advice) > 10


def test_fatal_error_is_what_its_text_names() -> None:
    text = (
        "Fatal error: Broker: The instance ID is still used by another member in the consumer group: "
        "ConsumerGroupHeartbeat fatal error: Broker: The instance ID is still used by another member in the consumer group"
    )
    assert cause(KafkaError(KafkaError._FATAL, text)) == KafkaError.UNRELEASED_INSTANCE_ID
    fenced = "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id: Broker: x"
    assert cause(KafkaError(KafkaError._FATAL, fenced)) == KafkaError.FENCED_INSTANCE_ID
    assert cause(KafkaError(KafkaError._FATAL, "something else")) == KafkaError._FATAL
    assert type(mapped(KafkaError(KafkaError._FATAL, "something else"), "read", "h")) is TaskMigrated


def test_exception_is_the_cause_and_plain_texts_are_understood() -> None:
    failure = KafkaException(KafkaError(KafkaError._TRANSPORT))
    error = mapped(failure, "read", "h")
    assert error.__cause__ is failure
    assert raised(KafkaException("plain")).str() == "plain"
