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

_LONGEST_NOTE = 3_800


class _Note(msgspec.Struct, omit_defaults=True):
    """What stands beside an offset: short names, since a broker keeps at most 4 KiB. Senders as `_packed`."""

    w: int = NO_TIMESTAMP
    f: bool = False
    s: int | None = None
    e: str = ""
    i: str = ""
    """Idle senders."""
    m: dict[str, dict[str, int]] = {}
    """Stage → task → its watermark; left out where that would be too long."""
    a: dict[str, int] = {}
    """Watermarks of steps that make their own."""


@dataclass
class Progress:
    """Positions are the next offsets to read. Owned by the task."""

    positions: dict[TopicPartition, int] = field(default_factory=dict)
    stopping: dict[TopicPartition, int] = field(default_factory=dict)
    watermark: int = NO_TIMESTAMP
    sender_watermarks: dict[str, int] = field(default_factory=dict)
    ended_senders: set[str] = field(default_factory=set)
    idle_senders: set[str] = field(default_factory=set)
    step_watermarks: dict[str, int] = field(default_factory=dict)
    """Of steps that make their own, by uid."""
    finished: bool = False
    connector_positions: dict[str, Any] = field(default_factory=dict)
    checkpoint_id: int = 0
    timers_written: int = 0
    """As in `TaskMeta`."""

    def to_meta(self, application_id: str, states: Mapping[str, str]) -> TaskMeta:
        return TaskMeta(
            checkpoint_id=self.checkpoint_id,
            application_id=application_id,
            positions={(tp.topic, tp.partition): offset for tp, offset in self.positions.items()},
            watermark=self.watermark,
            finished=self.finished,
            sender_watermarks=dict(self.sender_watermarks),
            ended_senders=frozenset(self.ended_senders),
            idle_senders=frozenset(self.idle_senders),
            step_watermarks=dict(self.step_watermarks),
            connector_positions=dict(self.connector_positions),
            states=dict(states),
            stopping={(tp.topic, tp.partition): offset for tp, offset in self.stopping.items()},
            timers_written=self.timers_written,
        )

    @classmethod
    def from_meta(cls, meta: TaskMeta) -> Progress:
        return cls(
            positions={TopicPartition(*key): offset for key, offset in meta.positions.items()},
            stopping={TopicPartition(*key): offset for key, offset in meta.stopping.items()},
            watermark=meta.watermark,
            sender_watermarks=dict(meta.sender_watermarks),
            ended_senders=set(meta.ended_senders),
            idle_senders=set(meta.idle_senders),
            step_watermarks=dict(meta.step_watermarks),
            finished=meta.finished,
            connector_positions=dict(meta.connector_positions),
            checkpoint_id=meta.checkpoint_id,
            timers_written=meta.timers_written,
        )

    def to_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Position]:
        """What is committed for the group, of those partitions that have a position."""
        return {tp: Position(self.positions[tp], self._note(tp)) for tp in partitions if tp in self.positions}

    def _note(self, tp: TopicPartition) -> str:
        note = _Note(
            self.watermark,
            self.finished,
            self.stopping.get(tp),
            _packed(self.ended_senders),
            _packed(self.idle_senders),
            self._marks(),
            self.step_watermarks,
        )
        text = msgspec.json.encode(note)
        if len(text) > _LONGEST_NOTE:
            note.m = {}
            text = msgspec.json.encode(note)
        return text.decode()

    def _marks(self) -> dict[str, dict[str, int]]:
        """Without it a restarted task would wait for each sender to speak again, and some may have nothing new to say."""
        found: dict[str, dict[str, int]] = {}
        for sender, mark in self.sender_watermarks.items():
            if sender not in self.ended_senders and mark != NO_TIMESTAMP:
                stage, _, number = sender.rpartition("/")
                found.setdefault(stage, {})[number] = mark
        return found

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
            progress.idle_senders.update(_unpacked(note.i))
            progress.step_watermarks.update(note.a)
            for stage, marks in note.m.items():
                progress.sender_watermarks.update({f"{stage}/{task}": mark for task, mark in marks.items()})
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
