"""Settings of the Kafka client that a user may hand through, and those that are refused, with the reason.

In here: the `[kafka]` table, `KSTREAMPY_KAFKA_…` names and `--kafka key=value`. Not in here: what kstreampy
itself sets on the client (`broker/kafka/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kstreampy.errors import JobError

_OFFSETS = "offsets are committed by kstreampy's checkpoints only; anything else loses or repeats records"
_EXACT = "the guarantee rests on it; choose between exactly_once and at_least_once with the setting guarantee"
_GROUP = "each stage is a consumer group of its own, named after application_id and the stage"
_PLACING = "co-partitioned inputs need kstreampy's choice of assignor"
_INTERNAL = "kstreampy's own loop depends on it"

REFUSED: Final[Mapping[str, str]] = {
    "acks": _EXACT,
    "allow.auto.create.topics": "topics are made with the partitions that state needs, never by accident",
    "auto.commit.enable": _OFFSETS,
    "auto.commit.interval.ms": _OFFSETS,
    "auto.offset.reset": "the source says where it begins: KafkaSource.builder().set_starting_offsets(...)",
    "bootstrap.servers": "use the setting bootstrap_servers",
    "delivery.report.only.error": _INTERNAL,
    "enable.auto.commit": _OFFSETS,
    "enable.auto.offset.store": _OFFSETS,
    "enable.gapless.guarantee": _EXACT,
    "enable.idempotence": _EXACT,
    "enable.partition.eof": _INTERNAL,
    "group.id": _GROUP,
    "group.instance.id": "static membership is named by the setting worker_id",
    "group.protocol": "use the setting group_protocol",
    "group.remote.assignor": _PLACING,
    "isolation.level": _EXACT,
    "max.in.flight": _EXACT,
    "max.in.flight.requests.per.connection": _EXACT,
    "message.send.max.retries": _EXACT,
    "metadata.broker.list": "use the setting bootstrap_servers",
    "offset.store.method": _OFFSETS,
    "partition.assignment.strategy": _PLACING,
    "partitioner": "keys must meet their state: kstreampy places them as Java's clients do (murmur2)",
    "request.required.acks": _EXACT,
    "retries": _EXACT,
    "session.timeout.ms": "use the setting session_timeout_ms",
    "transaction.timeout.ms": "use the setting transaction_timeout_ms",
    "transactional.id": "derived from application_id and worker_id, so that a restart fences its predecessor",
}


def check_kafka_keys(keys: Iterable[str], origin: str) -> None:
    """JobError for the first key that a guarantee needs."""
    for key in keys:
        reason = REFUSED.get(key)
        if reason is not None:
            raise JobError(
                f"the Kafka client's setting {key!r} (from {origin}) cannot be set: {reason}. "
                f"Take kafka.{key} out of there."
            )


def flatten_kafka(table: object, origin: str) -> dict[str, str]:
    """`{"sasl": {"password": "x"}}` (TOML's dotted keys) and `{"sasl.password": "x"}` as client settings.

    Values may be str, bool or numbers. JobError for anything else; the value itself is never in the message.
    """
    flat: dict[str, str] = {}
    if not isinstance(table, Mapping):
        raise JobError(f"setting 'kafka' (from {origin}) must be a table of client settings such as sasl.username")
    _flatten(table, "", flat, origin)
    return flat


def _flatten(table: Mapping[object, object], prefix: str, flat: dict[str, str], origin: str) -> None:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            _flatten(value, f"{key}.", flat, origin)
        elif isinstance(value, bool):
            flat[key] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            flat[key] = str(value)
        else:
            raise JobError(
                f"kafka.{key} (from {origin}) must be text, number or true/false, not {type(value).__name__}"
            )


def kafka_key_of_environment(rest: str) -> str:
    """`SASL_PASSWORD` (what follows `KSTREAMPY_KAFKA_`) is `sasl.password`."""
    return rest.lower().replace("_", ".")


def parse_kafka_option(text: str) -> tuple[str, str]:
    """`key=value` of the command line; JobError when there is no `=`."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise JobError(f"--kafka {text!r} must be key=value, such as --kafka security.protocol=SASL_SSL")
    return key.strip(), value
