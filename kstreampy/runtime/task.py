"""A stage on one key group: the unit of ownership, of state, of restore.

In here: `Task`, which hands batches to its chain and keeps its progress. Not in here: where messages come from
(`driver.py`), how progress becomes durable (`checkpoint.py`), how state comes back (`restore.py`).

    CREATED ──► RESTORING ──► RUNNING ──► FINISHED
       │            │            │            │
       └────────────┴────► CLOSED ◄───────────┘        (CREATED ──► RUNNING when there is nothing to restore)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from enum import Enum

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.runtime.arrival import Arrival, CaughtUp
from kstreampy.runtime.intake import Intake, make_intake
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.state.keyed import KeyedState


class Status(Enum):
    CREATED = "created"
    RESTORING = "restoring"
    RUNNING = "running"
    FINISHED = "finished"
    CLOSED = "closed"


_LEGAL = {
    Status.CREATED: {Status.RESTORING, Status.RUNNING, Status.CLOSED},
    Status.RESTORING: {Status.RUNNING, Status.CLOSED},
    Status.RUNNING: {Status.FINISHED, Status.CLOSED},
    Status.FINISHED: {Status.CLOSED},
    Status.CLOSED: set(),
}


class Task:
    """Owned by its stage's assignment, from assigned to revoked. Used by the driver's thread only, except that its state
    belongs to the restorer while RESTORING."""

    intake: Intake
    chain: Operator
    heads: tuple[Operator, ...]
    """Where the batches of each input go in: one, or two for a step with two inputs."""

    def __init__(
        self, layout: StageLayout, number: int, context: TaskContext, partitions: Sequence[TopicPartition]
    ) -> None:
        self.layout = layout
        self.number = number
        self.context = context
        self.partitions = tuple(partitions)
        self.progress = Progress()
        self.status = Status.CREATED
        self.changed = False
        self.committed: dict[TopicPartition, int] = {}
        """Positions that are durable."""
        self.records_in = 0
        self.idle = False
        """No part of its input has anything for now."""
        self.is_urgent = False
        """Others wait for what it says at its next checkpoint."""
        self.caught_up: CaughtUp = lambda tp: True
        """Whether all that a partition has for now was read; the assignment knows."""
        self._operators: list[Operator] = []

    @property
    def name(self) -> str:
        return f"{self.layout.stage.uid}/{self.number}"

    @property
    def state(self) -> KeyedState | None:
        return self.context.state

    def to(self, status: Status) -> None:
        if status not in _LEGAL[self.status]:
            raise AssertionError(f"task {self.name} cannot go from {self.status.value} to {status.value}")
        self.status = status

    def start(self, progress: Progress) -> None:
        """Opens the chain at this progress; the task runs from here on."""
        self.progress = progress
        context = self.context
        context.watermark = progress.watermark
        context.step_watermarks = dict(progress.step_watermarks)
        context.positions = {
            uid: position for uid, position in progress.connector_positions.items() if uid in self._step_uids()
        }
        self.chain, self._operators = self.layout.stage.make_chain()
        self.heads = self.chain.inputs()
        for operator in self._operators:
            self._open(operator)
        self.intake = make_intake(self.layout.stage.input, context, self.partitions, self.layout.upstream, progress)
        self.to(Status.RUNNING)
        if progress.finished:
            self.to(Status.FINISHED)

    def _open(self, operator: Operator) -> None:
        """An exception of the user's own `open` is told with the step's name."""
        try:
            operator.open(self.context)
        except KStreamError:
            raise
        except Exception as error:
            error.add_note(f"while {operator.step} was opened, in task {self.name}")
            raise

    def _step_uids(self) -> set[str]:
        """Of those that may keep a position: routes do not, and a source's has the source's uid, which may also be a split's."""
        return {step.uid for step in self.layout.stage.steps() if step.topic is None}

    def process(self, chunk: Chunk) -> None:
        """Everything of a chunk goes through the chain, then the watermark that came with it: from other stages, or from a
        generator that emits for single records."""
        if self.status is Status.RUNNING:
            for arrival in self.intake.take(chunk):
                self._hand_on(arrival)
            self.changed = True
            self.advance()

    def read(self) -> bool:
        """Asks an input that is not polled; True if there was something."""
        if self.status is not Status.RUNNING:
            return False
        records, positions = self.records_in, dict(self.progress.connector_positions)
        for arrival in self.intake.read():
            self._hand_on(arrival)
        if self.records_in > records or self.progress.connector_positions != positions:
            self.changed = True
            self.advance()
        return self.records_in > records

    def _hand_on(self, arrival: Arrival) -> None:
        if self.idle:
            self._set_idle(False)
        self.context.origin = arrival
        try:
            self.heads[arrival.side].process(arrival.batch)
        except RecordError as error:
            if not error.located:
                error.add_note(f"at {arrival.coordinate(error.index)}")
            error.add_note(f"in task {self.name}; nothing of this record was committed")
            raise
        except Exception as error:
            error.add_note(f"in task {self.name}, in the batch that begins at {arrival.coordinate(0)}")
            raise
        self.context.origin = None
        self.records_in += len(arrival.batch.values)

    def look(self) -> None:
        """Once a second: a source that grows is asked for more."""
        if self.status is Status.RUNNING:
            self.intake.look_again()

    def probe(self) -> None:
        """The watermark interval: generators of the source are asked, and what is silent for long is found idle."""
        if self.status is Status.RUNNING:
            self.intake.probe(self.caught_up)
            self.advance()

    def advance(self) -> None:
        """Moves the watermark to where the input is, never back; then, if all of the input is idle, so is the task."""
        if self.status is not Status.RUNNING:
            return
        watermark = self.intake.watermark()
        if watermark > self.context.watermark:
            self._move_time(watermark)
        idle = self.intake.is_idle()
        if idle is not self.idle:
            self._set_idle(idle)
        if self.intake.round > self.context.round:
            self.context.round = self.intake.round
            self.changed = self.is_urgent = True

    def _set_idle(self, idle: bool) -> None:
        self.idle = idle
        self.changed = True
        self.chain.set_idle(idle)

    def _move_time(self, watermark: int) -> None:
        self.context.watermark = self.progress.watermark = watermark
        self.changed = True
        try:
            self.chain.advance(watermark)
        except Exception as error:
            error.add_note(f"in task {self.name}, when its watermark came to {watermark}")
            raise

    def wake(self, now_ms: int) -> None:
        """The clock has come to `TaskContext.wake_at_ms`, to `now_ms`: processing-time timers fire."""
        if self.status is not Status.RUNNING:
            return
        self.context.wake_at_ms = MAX_WATERMARK
        self.changed = True
        try:
            self.chain.wake(now_ms)
        except Exception as error:
            error.add_note(f"in task {self.name}, when its clock came to {now_ms}")
            raise

    def tick(self) -> None:
        """The watermark interval, for the chain: behind `probe`."""
        if self.status is Status.RUNNING:
            self.chain.tick()
            self.changed = self.changed or self.context.moved
            self.context.moved = False

    def finish_if_done(self) -> bool:
        """At the end of the input: the last watermark, then the end itself, go down the chain. True if it was the end."""
        if self.status is not Status.RUNNING or not self.intake.at_end():
            return False
        if self.context.watermark < MAX_WATERMARK:
            self._move_time(MAX_WATERMARK)
        self.chain.finish()
        self.progress.finished = True
        self.changed = True
        self.to(Status.FINISHED)
        return True

    def flush(self) -> None:
        """A checkpoint begins."""
        self.is_urgent = False
        try:
            self.chain.flush()
        except Exception as error:
            error.add_note(f"in task {self.name}, as a checkpoint began; nothing of it was committed")
            raise
        self.progress.step_watermarks = dict(self.context.step_watermarks)
        if self.context.positions:
            self.progress.connector_positions.update(self.context.positions)

    def sweep(self) -> None:
        """A checkpoint begins: what expires is removed also while nothing comes in."""
        if not self.changed and self.status is Status.RUNNING and self.state is not None:
            self.changed = self.state.sweep()

    def has_work(self) -> bool:
        """True if a checkpoint would have something to write."""
        return self.changed

    def has_begun(self) -> bool:
        """True while its state is its own: restored, and not closed."""
        return self.status in (Status.RUNNING, Status.FINISHED)

    def close(self) -> None:
        """Closes the chain, the input and the store; what was not committed is gone. Safe to call twice."""
        if self.status is Status.CLOSED:
            return
        started = self.status in (Status.RUNNING, Status.FINISHED)
        self.to(Status.CLOSED)
        with contextlib.ExitStack() as all_of_them:
            if self.context.state is not None:
                all_of_them.callback(self.context.state.close)
            if started:
                all_of_them.callback(self.intake.close)
            if self._operators:  # also where opening one of them failed: those that were opened close
                all_of_them.callback(self.chain.close)


def now_ms() -> int:
    """Wall clock, int milliseconds."""
    return time.time_ns() // 1_000_000
