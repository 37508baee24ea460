"""Inputs as data: what a stage reads, before anything is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kstreampy.broker.broker import TopicPartition
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.operators.connector import ConnectorSource


class OffsetKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed"
    GIVEN = "given"


@dataclass(frozen=True)
class Offsets:
    """Where to start or to stop, for partitions that the job has not read yet."""

    kind: OffsetKind
    timestamp_ms: int = 0
    given: Mapping[TopicPartition, int] = field(default_factory=dict)
    reset: OffsetKind | None = None
    """For COMMITTED and GIVEN: what to do where there is no offset; None refuses to start."""


@dataclass(frozen=True)
class TopicInput:
    """Topics of the user's, read record by record."""

    topics: tuple[str, ...]
    pattern: str | None
    partitions: frozenset[TopicPartition] | None
    starting: Offsets
    stopping: Offsets | None
    bounded: bool
    decode_value: Callable[[bytes], Any] | None
    decode_message: Callable[[Any], Any] | None
    leaves_out: bool = False
    """A message for which `decode_value` gives None is left out, unless it is a null message."""
    group_id: str | None = None
    bootstrap_servers: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PackedInput:
    """What other stages sent: one internal topic, or a pair of them."""

    topic: str
    type_info: TypeInformation | None
    senders: tuple[str, ...]
    """The uids of the stages that send here."""
    second: PackedInput | None = None
    """The other topic of a co-partitioned pair: the second input of a step that has two."""
    max_drift_ms: int | None = None
    """How far the event time of one side of a pair may be read ahead of the other's."""
    is_table: bool = False
    """The second topic of a pair is a global table's: the first one is not read before all who send there have a watermark,
    by which they say that the table was read to its end."""
    feeds_back: bool = False
    """The second input of an iteration's head: its senders lie behind that head. They have no part in its time and its end."""
    max_wait_ms: int = 0
    """Of what feeds back: once the input has ended, for so long nothing must have come."""

    def sides(self) -> tuple[PackedInput, ...]:
        """This topic, and the second of a pair."""
        return (self,) if self.second is None else (self, self.second)

    def all_senders(self) -> tuple[str, ...]:
        """Of all sides but what feeds back."""
        return tuple(dict.fromkeys(sender for side in self.sides() if not side.feeds_back for sender in side.senders))


def sender_name(side: int, stage: str, task: int) -> str:
    """How a task that sends to side 0 or 1 of an input is known there: one stage may send to both."""
    return f"{stage}/{task}" if side == 0 else f"{side + 1}:{stage}/{task}"


def side_of(sender: str) -> int:
    """The side that a task of this name sends to. (A stage's name has no colon.)"""
    number, colon, _ = sender.partition(":")
    return int(number) - 1 if colon else 0


def round_sender(sender: str, loop: str) -> str:
    """As what the rounds that a task tells are known: those of the loop whose head is the stage `loop`."""
    stage, _, task = sender.rpartition("/")
    return f"{stage}~{loop}/{task}"


@dataclass(frozen=True)
class ConnectorInput:
    """A source that is not Kafka. The stage's own changelog topic holds its positions and places its tasks."""

    source: ConnectorSource


@dataclass(frozen=True)
class SourcesInput:
    """Sources of topics that one stage reads side by side, the same partition of each: what is keyed where it lies needs no
    topics of the job's own to meet."""

    sides: tuple[Input, ...]
    max_drift_ms: int | None = None
    """How far the event time of one side may be read ahead of the other's."""


@dataclass(frozen=True)
class Input:
    """A stage's input and how time is told on it."""

    origin: TopicInput | PackedInput | ConnectorInput | SourcesInput
    name: str
    strategy: WatermarkStrategy | None = None
    is_table: bool = False
    """Of a global table: each part of it holds no watermark back once it was read to its end."""

    def sources(self) -> tuple[Input, ...]:
        """Its inputs that are topics of the user's: itself, or those that it reads side by side."""
        if isinstance(self.origin, SourcesInput):
            return self.origin.sides
        return (self,) if isinstance(self.origin, TopicInput) else ()

    @property
    def topics(self) -> TopicInput:
        """What is read, of one of `sources()`."""
        assert isinstance(self.origin, TopicInput), f"{self.name} does not read topics of the user's"
        return self.origin
