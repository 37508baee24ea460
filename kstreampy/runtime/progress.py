"""How far a task has come: the part of a checkpoint that every task has, with state or without.

In here: `Progress` as data, and its two resting places: the meta record in the changelog (tasks that keep something) and
the note beside the group's offset (tasks that do not).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kstreampy.broker.broker import Position, TopicPartition
from kstreampy.serde.batch import NO_TIMESTAMP
from kstreampy.state.task_meta import TaskMeta


class _Note(msgspec.Struct, omit_defaults=True):
    """What stands beside an offset: short names, since a broker keeps at most 4 KiB."""

    w: int = NO_TIMESTAMP
    f: bool = False
    s: int | None = None
    e: str = ""


@dataclass
class Progress:
    """Positions are the next offsets to read. Owned by the task."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    stopping: dict[TopicPartition, int] = field(default_factory=dict)
    watermark: int = NO_TIMESTAMP
    sender_watermarks: dict[str, int] = field(default_factory=dict)
    ended_senders: set[str] = field(default_factory=set)
    finished: bool = False
    connector_positions: dict[str, Any] = field(default_factory=dict)
    checkpoint_id: int = 0

    def to_meta(self, application_id: str, states: Mapping[str, str]) -> TaskMeta:
        return TaskMeta(
            checkpoint_id=self.checkpoint_id,
            application_id=application_id,
            positions={(tp.topic, tp.partition): offset for tp, offset in self.positions.items()},
            watermark=self.watermark,
            finished=self.finished,
            sender_watermarks=dict(self.sender_watermarks),
            ended_senders=frozenset(self.ended_senders),
            connector_positions=dict(self.connector_positions),
            states=dict(states),
            stopping={(tp.topic, tp.partition): offset for tp, offset in self.stopping.items()},
        )

    @classmethod
    def from_meta(cls, meta: TaskMeta) -> Progress:
        return cls(
            positions={TopicPartition(*key): offset for key, offset in meta.positions.items()},
            stopping={TopicPartition(*key): offset for key, offset in meta.stopping.items()},
            watermark=meta.watermark,
            sender_watermarks=dict(meta.sender_watermarks),
            ended_senders=set(meta.ended_senders),
            finished=meta.finished,
            connector_positions=dict(meta.connector_positions),
            checkpoint_id=meta.checkpoint_id,
        )

    def to_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """What is committed for the group, of those partitions that have a position."""
        return {
            tp: Position(
                self.positions[tp],
                msgspec.json.encode(
                    _Note(self.watermark, self.finished, self.stopping.get(tp), _packed(self.ended_senders))
                ).decode(),
            )
            for tp in partitions
            if tp in self.positions
        }

    @classmethod
    def from_offsets(cls, offsets: Mapping[TopicPartition, Position]) -> Progress:
        """What the group's offsets tell. An offset without our note (set by a tool) counts as a plain position."""
        progress = cls()
        notes: list[_Note] = []
        for tp, position in offsets.items():
            note = _read_note(position.metadata)
            notes.append(note)
            progress.positions[tp] = position.offset
            if note.s is not None:
                progress.stopping[tp] = note.s
            progress.ended_senders.update(_unpacked(note.e))
        if notes:
            progress.watermark = min(note.w for note in notes)
            progress.finished = all(note.f for note in notes)
        return progress


def _packed(senders: Iterable[str]) -> str:
    """`a/0-3,7 b/1` for the tasks a/0, a/1, a/2, a/3, a/7 and b/1."""
    numbers: dict[str, list[int]] = {}
    for sender in senders:
        stage, _, number = sender.rpartition("/")
        numbers.setdefault(stage, []).append(int(number))
    return " ".join(f"{stage}/{ranges(found)}" for stage, found in sorted(numbers.items()))


def _unpacked(text: str) -> Iterator[str]:
    for part in text.split():
        stage, _, runs = part.rpartition("/")
        for run in runs.split(","):
            first, _, last = run.partition("-")
            for number in range(int(first), int(last or first) + 1):
                yield f"{stage}/{number}"


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7 in any order."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def is_finished(position: Position) -> bool:
    """True if the task that committed this offset had come to its end."""
    return _read_note(position.metadata).f


def has_note(position: Position) -> bool:
    """True if one of our checkpoints made this offset, and no tool."""
    try:
        msgspec.json.decode(position.metadata, type=_Note)
    except msgspec.DecodeError:
        return False
    return True


def _read_note(text: str) -> _Note:
    try:
        return msgspec.json.decode(text, type=_Note)
    except msgspec.DecodeError:
        return _Note()
