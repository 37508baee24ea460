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
from kstreampy.errors import RecordError
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.runtime.intake import Arrival, Intake, make_intake
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
        context.positions = {
            uid: position for uid, position in progress.connector_positions.items() if uid in self._step_uids()
        }
        self.chain, self._operators = self.layout.stage.make_chain()
        for operator in self._operators:
            operator.open(context)
        self.intake = make_intake(
            self.layout.stage.input, self.number, self.layout.tasks, self.partitions, self.layout.upstream, progress
        )
        self.to(Status.RUNNING)
        if progress.finished:
            self.to(Status.FINISHED)

    def _step_uids(self) -> set[str]:
        return {step.uid for step in self.layout.stage.steps()}

    def process(self, chunk: Chunk) -> None:
        """Everything of a chunk goes through the chain, then the watermark."""
        if self.status is Status.RUNNING:
            for arrival in self.intake.take(chunk):
                self._hand_on(arrival)
            self.changed = True

    def read(self) -> bool:
        """Asks an input that is not polled; True if there was something."""
        if self.status is not Status.RUNNING:
            return False
        records, positions = self.records_in, dict(self.progress.connector_positions)
        for arrival in self.intake.read():
            self._hand_on(arrival)
        if self.records_in > records or self.progress.connector_positions != positions:
            self.changed = True
        return self.records_in > records

    def _hand_on(self, arrival: Arrival) -> None:
        try:
            self.chain.process(arrival.batch)
        except RecordError as error:
            error.add_note(f"at {arrival.coordinate(error.index)}")
            error.add_note(f"in task {self.name}; nothing of this record was committed")
            raise
        except Exception as error:
            error.add_note(f"in task {self.name}, in the batch that begins at {arrival.coordinate(0)}")
            raise
        self.records_in += len(arrival.batch.values)

    def look(self) -> None:
        """Once a second: a source that grows is asked for more."""
        if self.status is Status.RUNNING:
            self.intake.look_again()

    def advance(self) -> None:
        """Moves the watermark to where the input is; never back."""
        if self.status is not Status.RUNNING:
            return
        watermark = self.intake.watermark()
        if watermark > self.context.watermark:
            self._move_time(watermark)

    def _move_time(self, watermark: int) -> None:
        self.context.watermark = self.progress.watermark = watermark
        self.changed = True
        try:
            self.chain.advance(watermark)
        except Exception as error:
            error.add_note(f"in task {self.name}, when its watermark came to {watermark}")
            raise

    def tick(self) -> None:
        if self.status is Status.RUNNING:
            self.chain.tick()

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
        self.chain.flush()
        if self.context.positions:
            self.progress.connector_positions.update(self.context.positions)

    def has_work(self) -> bool:
        """True if a checkpoint would have something to write."""
        return self.changed

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
