"""What a task knows beside its entries: where it is in its inputs and in time.

In here: `TaskMeta`, the record that each checkpoint writes into the changelog, and `LocalMeta`, which lives
only in the task's own store beside the entries and says how far the store is behind that changelog. Not in
here: when they are written (the checkpoint) and read (the restore).

Both are JSON with a version. Fields that this version does not know are ignored; a higher version is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import NO_TIMESTAMP

_VERSION = 1
_W = TypeVar("_W", bound="_Wire")


class _Wire(msgspec.Struct):
    version: int


class _TaskWire(_Wire):
    checkpoint_id: int
    application_id: str = ""
    positions: list[tuple[str, int, int]] = []
    watermark: int = NO_TIMESTAMP
    finished: bool = False
    sender_watermarks: dict[str, int] = {}
    ended_senders: list[str] = []
    idle_senders: list[str] = []
    step_watermarks: dict[str, int] = {}
    connector_positions: dict[str, Any] = {}
    states: dict[str, str] = {}
    stopping: list[tuple[str, int, int]] = []
    timers_written: int = 0


class _LocalWire(_Wire):
    topic_id: str
    next_offset: int
    synced_at_ms: int
    complete: bool
    task_meta: msgspec.Raw


@dataclass(frozen=True)
class TaskMeta:
    """A task at one checkpoint: with the entries written up to it, all that is needed to go on."""

    checkpoint_id: int
    application_id: str = ""
    """Whose changelog this is: names alone do not tell `a` + `b-c` from `a-b` + `c`."""
    positions: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) → the next offset to read."""
    watermark: int = NO_TIMESTAMP
    """Int milliseconds; never goes back, also over a restart."""
    finished: bool = False
    """The task had the end of all its inputs and has nothing more to do."""
    sender_watermarks: Mapping[str, int] = field(default_factory=dict)
    """"stage/task" of a sender → its watermark, int milliseconds."""
    ended_senders: frozenset[str] = frozenset()
    """Senders that said they will send no more."""
    idle_senders: frozenset[str] = frozenset()
    """Senders that have nothing to send for now, whose watermarks hold nothing back."""
    step_watermarks: Mapping[str, int] = field(default_factory=dict)
    """Uid of a step that makes its own watermarks → its watermark, int milliseconds."""
    connector_positions: Mapping[str, Any] = field(default_factory=dict)
    """Split of a source that is not Kafka → its position, any value of JSON's types."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Name of each state → description of its type, to refuse a change that its bytes do not survive."""
    stopping: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(topic, partition) → the offset at which a bounded read ends."""
    timers_written: int = 0
    """How many checkpoints of this task have written timers. The last of them ended its part of the timers topic with a meta
    record that bears the same number: what lies up to there belongs to this checkpoint, what lies behind does not."""

    def encode(self) -> bytes:
        return msgspec.json.encode(
            _TaskWire(
                version=_VERSION,
                checkpoint_id=self.checkpoint_id,
                application_id=self.application_id,
                positions=_rows(self.positions),
                watermark=self.watermark,
                finished=self.finished,
                sender_watermarks=dict(self.sender_watermarks),
                ended_senders=sorted(self.ended_senders),
                idle_senders=sorted(self.idle_senders),
                step_watermarks=dict(self.step_watermarks),
                connector_positions=dict(self.connector_positions),
                states=dict(self.states),
                stopping=_rows(self.stopping),
                timers_written=self.timers_written,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> TaskMeta:
        """StateCorrupted when it is not one; JobError when a later kstreampy wrote it."""
        wire = _decode(data, _TaskWire, "a task's meta record")
        return cls(
            checkpoint_id=wire.checkpoint_id,
            application_id=wire.application_id,
            positions=_positions(wire.positions),
            watermark=wire.watermark,
            finished=wire.finished,
            sender_watermarks=wire.sender_watermarks,
            ended_senders=frozenset(wire.ended_senders),
            idle_senders=frozenset(wire.idle_senders),
            step_watermarks=wire.step_watermarks,
            connector_positions=wire.connector_positions,
            states=wire.states,
            stopping=_positions(wire.stopping),
            timers_written=wire.timers_written,
        )


@dataclass(frozen=True)
class LocalMeta:
    """How far a local store has followed its changelog, or the timers topic."""

    topic_id: str
    """Of the changelog, not only its name: a topic made anew has another."""
    next_offset: int
    """Where in the changelog to go on."""
    synced_at_ms: int
    """Wall clock when this was true."""
    complete: bool = True
    """False while a restore is writing: the entries are then of no checkpoint in particular."""
    task_meta: bytes | None = None
    """The `TaskMeta` that the entries belong to, encoded; None when none was read yet. That of a timers topic says only
    which checkpoint wrote it."""

    def task(self) -> TaskMeta | None:
        return None if self.task_meta is None else TaskMeta.decode(self.task_meta)

    def encode(self) -> bytes:
        return msgspec.json.encode(
            _LocalWire(
                version=_VERSION,
                topic_id=self.topic_id,
                next_offset=self.next_offset,
                synced_at_ms=self.synced_at_ms,
                complete=self.complete,
                task_meta=msgspec.Raw(b"null" if self.task_meta is None else self.task_meta),
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> LocalMeta:
        """StateCorrupted when it is not one; JobError when a later kstreampy wrote it."""
        wire = _decode(data, _LocalWire, "a store's meta record")
        task_meta = bytes(wire.task_meta)
        return cls(
            topic_id=wire.topic_id,
            next_offset=wire.next_offset,
            synced_at_ms=wire.synced_at_ms,
            complete=wire.complete,
            task_meta=None if task_meta == b"null" else task_meta,
        )


def _decode(data: bytes, kind: type[_W], what: str) -> _W:
    try:
        version = msgspec.json.decode(data, type=_Wire).version
        if version > _VERSION:
            raise JobError(
                f"{what} is of version {version}, and this kstreampy reads up to {_VERSION}: "
                "run the version that wrote it, or a later one"
            )
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateCorrupted(f"{what} cannot be read: {error} in {data[:80]!r}") from error


def _rows(positions: Mapping[tuple[str, int], int]) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for (topic, partition), offset in sorted(positions.items())]


def _positions(rows: list[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
    return {(topic, partition): offset for topic, partition, offset in rows}
