"""From a `KafkaSource`, as the author built it, to the input that a stage reads.

Not in here: other sources, which are `ConnectorSource`s themselves.
"""

from __future__ import annotations

from kstreampy.broker.broker import TopicPartition
from kstreampy.common.kafka_deserialization import ValueOnlyDeserializationSchema
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, OffsetsKind
from kstreampy.graph.source import OffsetKind, Offsets, TopicInput

_KINDS = {
    OffsetsKind.EARLIEST: OffsetKind.EARLIEST,
    OffsetsKind.LATEST: OffsetKind.LATEST,
    OffsetsKind.TIMESTAMP: OffsetKind.TIMESTAMP,
    OffsetsKind.COMMITTED: OffsetKind.COMMITTED,
    OffsetsKind.OFFSETS: OffsetKind.GIVEN,
}


def topic_input(source: KafkaSource) -> TopicInput:
    """The same for the runtime."""
    deserializer = source.deserializer
    value_only = isinstance(deserializer, ValueOnlyDeserializationSchema)
    return TopicInput(
        topics=source.topics,
        pattern=source.topic_pattern,
        partitions=frozenset(TopicPartition(*tp) for tp in source.partitions) if source.partitions else None,
        starting=_offsets(source.starting),
        stopping=None if source.stopping is None else _offsets(source.stopping),
        bounded=source.bounded,
        decode_value=deserializer.value_schema.decoder() if value_only else None,  # type: ignore[attr-defined]
        decode_message=None if value_only else deserializer.message_decoder(),
        leaves_out=value_only and deserializer.value_schema.leaves_out(),  # type: ignore[attr-defined]
        group_id=source.group_id,
        bootstrap_servers=source.bootstrap_servers,
        properties=dict(source.properties),
    )


def _offsets(initializer: KafkaOffsetsInitializer) -> Offsets:
    reset = {"earliest": OffsetKind.EARLIEST, "latest": OffsetKind.LATEST}.get(initializer.reset.value)
    return Offsets(
        _KINDS[initializer.kind],
        initializer.timestamp_ms or 0,
        {TopicPartition(*tp): offset for tp, offset in initializer.partition_offsets.items()},
        reset,
    )
