"""Where a Kafka source starts and stops, as data. Users reach it through `kafka.py`; offsets are looked up by
the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from kstreampy.errors import JobError


class KafkaTopicPartition(NamedTuple):
    topic: str
    partition: int


class KafkaOffsetResetStrategy(Enum):
    """Where to start when an offset is missing or out of range: the end, the beginning, or not at all."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class OffsetsKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Where to start reading each partition, or where to stop. Made by the static methods.

    `kind`; `reset` where it can be needed; `timestamp_ms` of a TIMESTAMP; `partition_offsets` of OFFSETS.
    """

    kind: OffsetsKind
    reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    timestamp_ms: int | None = None
    partition_offsets: Mapping[KafkaTopicPartition, int] = field(default_factory=dict, hash=False)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        return KafkaOffsetsInitializer(OffsetsKind.EARLIEST, KafkaOffsetResetStrategy.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The end as it is when the job starts."""
        return KafkaOffsetsInitializer(OffsetsKind.LATEST, KafkaOffsetResetStrategy.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """The consumer group's offsets; for a partition without one, what `offset_reset_strategy` says: NONE
        fails."""
        return KafkaOffsetsInitializer(OffsetsKind.COMMITTED, _reset("committed_offsets", offset_reset_strategy))

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record at or after `timestamp` ms; the end where there is none. `JobError` when it is
        negative."""
        if type(timestamp) is not int or timestamp < 0:
            raise JobError(
                f"KafkaOffsetsInitializer.timestamp: expected milliseconds since 1970 as int, not {timestamp!r}"
            )
        return KafkaOffsetsInitializer(OffsetsKind.TIMESTAMP, KafkaOffsetResetStrategy.LATEST, timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; for a partition that is not listed, what `offset_reset_strategy` says."""
        if not offsets:
            raise JobError("KafkaOffsetsInitializer.offsets: give an offset for at least one KafkaTopicPartition")
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition) or type(offset) is not int or offset < 0:
                raise JobError(
                    "KafkaOffsetsInitializer.offsets: expected KafkaTopicPartition to offset (an int of at "
                    f"least 0), not {partition!r}: {offset!r}"
                )
        return KafkaOffsetsInitializer(
            OffsetsKind.OFFSETS,
            _reset("offsets", offset_reset_strategy),
            None,
            dict(offsets),
        )


def _reset(call: str, strategy: Any) -> KafkaOffsetResetStrategy:
    if not isinstance(strategy, KafkaOffsetResetStrategy):
        raise JobError(f"KafkaOffsetsInitializer.{call}: expected a KafkaOffsetResetStrategy, not {strategy!r}")
    return strategy
