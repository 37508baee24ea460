"""Which client settings a Kafka source or sink may be given, and why the others are refused.

The guarantees rest on the refused ones, so the framework sets them itself; a user who sets one to exactly the
value that the framework sets is told nothing and changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from kstreampy.errors import JobError


class Reserved(NamedTuple):
    """Why a setting is refused, and the values that agree with what the framework sets."""

    reason: str
    agreeing: frozenset[str] = frozenset()


_OFFSETS = (
    "offsets are committed with the checkpoint, by the framework alone: otherwise records are lost when a worker stops"
)
_PLACEMENT = (
    "the framework places partitions itself, so that partition i of every input of a stage is on the same worker"
)
_BYTES = "bytes become values in the schema; remove it"
_JAVA = "it is a setting of the Java client"

SOURCE: dict[str, Reserved] = {
    "enable.auto.commit": Reserved(_OFFSETS, frozenset({"false"})),
    "enable.auto.offset.store": Reserved(_OFFSETS, frozenset({"false"})),
    "auto.commit.interval.ms": Reserved(_OFFSETS),
    "commit.offsets.on.checkpoint": Reserved(_OFFSETS, frozenset({"true"})),
    "isolation.level": Reserved(
        "sources read committed records only: exactly-once rests on it", frozenset({"read_committed"})
    ),
    "auto.offset.reset": Reserved("call set_starting_offsets(KafkaOffsetsInitializer...) instead"),
    "group.instance.id": Reserved("each worker has its own, made from its worker id"),
    "partition.assignment.strategy": Reserved(_PLACEMENT),
    "group.protocol": Reserved("it is chosen once for the whole job, in its settings"),
    "group.remote.assignor": Reserved(_PLACEMENT),
    "client.id": Reserved("call set_client_id_prefix(...) instead"),
    "client.id.prefix": Reserved("call set_client_id_prefix(...) instead"),
    "enable.partition.eof": Reserved("the framework reads a partition's end from positions"),
    "key.deserializer": Reserved(_BYTES),
    "value.deserializer": Reserved(_BYTES),
    "partition.discovery.interval.ms": Reserved(
        "it is a setting of Flink's source: the client looks for new partitions by itself, as often as "
        "topic.metadata.refresh.interval.ms says"
    ),
    "max.poll.records": Reserved(f"{_JAVA}: how many records are taken at once follows the job's speed; remove it"),
    "fetch.max.wait.ms": Reserved(f"{_JAVA}: set fetch.wait.max.ms"),
    "register.consumer.metrics": Reserved("metrics are always served; remove it", frozenset({"true"})),
}
SINK: dict[str, Reserved] = {
    "transaction.timeout.ms": Reserved(
        "a worker has one transaction for all sinks: use the setting transaction_timeout_ms"
    ),
    "transactional.id": Reserved("each worker has its own, so that a restart fences its predecessor"),
    "enable.idempotence": Reserved("without it, retries write records twice and out of order", frozenset({"true"})),
    "acks": Reserved("a record counts as written only when all in-sync replicas have it", frozenset({"all", "-1"})),
    "request.required.acks": Reserved("as for acks", frozenset({"all", "-1"})),
    "max.in.flight.requests.per.connection": Reserved(
        "with more than 5, records can get out of order", frozenset("12345")
    ),
    "max.in.flight": Reserved("with more than 5, records can get out of order", frozenset("12345")),
    "delivery.report.only.error": Reserved("the framework needs it to learn of failures"),
    "max.request.size": Reserved(f"{_JAVA}: set message.max.bytes"),
    "buffer.memory": Reserved(f"{_JAVA}: set queue.buffering.max.kbytes"),
    "max.block.ms": Reserved(f"{_JAVA}: a full queue is waited for; remove it"),
    "key.serializer": Reserved(_BYTES),
    "value.serializer": Reserved(_BYTES),
}
_ANY: dict[str, Reserved] = {
    "sasl.jaas.config": Reserved(f"{_JAVA}: set sasl.username and sasl.password"),
    "ssl.truststore.location": Reserved(f"{_JAVA}: set ssl.ca.location to a PEM file"),
    "ssl.truststore.password": Reserved(f"{_JAVA}: ssl.ca.location needs none"),
}


def checked(call: str, key: str, value: str, reserved: dict[str, Reserved]) -> str | None:
    """The value as text, or None when the setting agrees with what the framework sets anyway. `JobError`
    naming `call` for one that is refused, and for what is no setting at all."""
    if not isinstance(key, str) or not key:
        raise JobError(f"{call}: a property's name must be text, not {key!r}")
    if value is None or isinstance(value, (dict, list, tuple)):
        raise JobError(f"{call}: property {key!r} must be text, a number or a boolean, not {value!r}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    rule = reserved.get(key) or _ANY.get(key)
    if rule is None:
        return text
    if text.strip().lower() in rule.agreeing:
        return None
    raise JobError(f"{call}: property {key!r} cannot be set to {text!r}: {rule.reason}")
