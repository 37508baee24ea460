"""One step of a chain: takes a batch, hands batches on. Everything an operator may touch is in its `TaskContext`.

In here: `Operator`, how a failed record is named (`failure`), and the structural operators: `Tee` (a stream used more than
once), `Split` (a step with side outputs), `Heads` (several sources) and `End` (nothing follows). The steps themselves are the
other modules of this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import length_hint
from typing import Any, Protocol

from kstreampy.common.copying import copy_value
from kstreampy.common.metric import MetricGroup
from kstreampy.errors import JobError, RecordError
from kstreampy.eventtime.future import TimeRules
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState


class Outlet(Protocol):
    """The part of a producer that operators use; see `broker.Producer` for the contract."""

    produce: Callable[..., None]
    send: Callable[..., None]

    def refused(self, error: Exception, topic: str) -> Exception: ...
    def wait_for_room(self) -> None: ...


class Origin(Protocol):
    """A batch as the task was given it, and where its records came from."""

    @property
    def batch(self) -> Batch: ...
    @property
    def coordinate(self) -> Callable[[int], str]: ...


class Calls(Protocol):
    """The calls of an asynchronous step, for the metrics."""

    @property
    def under_way(self) -> int:
        """Records that are not done."""
        ...

    def take_counts(self) -> tuple[int, int, int]:
        """Since this was last asked: records done, calls made again, records that took too long."""
        ...


def _no_metrics(step: str) -> MetricGroup:
    raise JobError(f"{step} asks for metrics, but its task was opened without any")


@dataclass
class TaskContext:
    """What a task hands to its operators. Lives as long as the task; owned by it."""

    application_id: str
    stage: str
    partition: int
    partitions: int
    outlet: Outlet
    clock: Callable[[], int]
    scope: KeyScope = field(default_factory=KeyScope)
    state: KeyedState | None = None
    watermark: int = NO_TIMESTAMP
    """The current one, as the operator at work sees it: behind a step that makes its own it is that step's."""
    step_watermarks: dict[str, int] = field(default_factory=dict)
    """Of steps that make their own, by uid: part of the checkpoint, so that they never go back."""
    origin: Origin | None = None
    """Of the batch that is going through the chain; None while what goes through it comes of no batch (timers)."""
    loop: str | None = None
    """The head of the iteration that the stage is part of."""
    round: int = 0
    """How far the task is in the rounds of that loop (`runtime/loop.py`): routes pass it on at a checkpoint."""
    moved: bool = False
    """Set by an operator that has something for the next checkpoint although neither records nor the watermark came."""
    time: TimeRules = field(default_factory=TimeRules)
    exactly_once: bool = False
    """What is held back for packing then goes out with the checkpoint only: nobody could read it before."""
    attempt: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    """Partitions of each topic that this stage writes to by explicit partition."""
    partitions_of: Callable[[str], int] = lambda topic: 0
    """How many partitions a topic of the user's has; asked once per topic, then remembered."""
    positions: dict[str, Any] = field(default_factory=dict)
    """Last committed position of each connector sink of this task, by the step's uid."""
    metric_group: Callable[[str], MetricGroup] = _no_metrics
    """The metrics of the functions of a step, by its name."""
    calls: list[tuple[str, Calls]] = field(default_factory=list)
    """Of the asynchronous steps, each with the step's name."""
    records_out: int = 0
    """Records that left the stage since the driver last looked."""
    late_dropped: int = 0
    """Records that were dropped for being late, since the driver last looked."""
    wake_at_ms: int = MAX_WATERMARK
    """Processing time at which the driver calls `wake` on the chain next; set by `wake_at`, reset before the call."""

    def wake_at(self, time_ms: int) -> None:
        """Asks for a call of `Operator.wake` once the clock has come to `time_ms`."""
        if time_ms < self.wake_at_ms:
            self.wake_at_ms = time_ms


class Operator:
    """A step at work in one task. `process` loops over the columns once and calls `self.out.process`."""

    out: Operator
    may_change_values = True
    """Whether values handed to this operator reach code that may change them in place (the user's functions); what only
    encodes or prints them does not, so that nothing needs to be copied for it."""
    keeps_values = False
    """Whether it holds values beyond `process` (routes do, until they are packed), so that nobody may change them."""
    sides: Mapping[str, Operator] = {}
    """Tag id → what follows that side output of this step; tags that nobody asked for are not in it, and what is sent to
    them is dropped. Side outputs carry values and timestamps, neither keys nor headers."""
    is_shared = False
    """Whether other stages have this step too, so that its uid and the task's number do not tell all of its tasks apart."""

    def __init__(self, step: str) -> None:
        self.step = step

    def inputs(self) -> tuple[Operator, ...]:
        """What takes the batches of each input of the step."""
        return (self,)

    def open(self, context: TaskContext) -> None:
        """Called once, before the first batch, from the last operator of the chain to the first."""

    def process(self, batch: Batch) -> None:
        raise RecordError(f"{self.step} takes no records", step=self.step, index=0)

    def advance(self, watermark: int) -> None:
        """The task's watermark has moved to `watermark`."""
        self.out.advance(watermark)

    def set_idle(self, idle: bool) -> None:
        """The task has become idle (no input has anything for now, so nobody should wait for its watermark), or active."""
        self.out.set_idle(idle)

    def wake(self, now_ms: int) -> None:
        """The clock has come to a time that some operator of the task asked for (`TaskContext.wake_at`): processing-time
        timers that are due fire; whoever has more to come asks again."""
        self.out.wake(now_ms)

    def finish(self) -> None:
        """The input has ended for good (after the last watermark)."""
        self.out.finish()

    def tick(self) -> None:
        """Called every watermark interval: steps that make watermarks emit, and what is held back for packing goes out."""
        self.out.tick()

    def flush(self) -> None:
        """A checkpoint begins: everything held back goes out."""
        self.out.flush()

    def close(self) -> None:
        """Called once at the end of the task, also after an error."""
        self.out.close()


class End(Operator):
    """Nothing follows: results without a sink are dropped."""

    may_change_values = False

    def __init__(self) -> None:
        super().__init__("end")

    def process(self, batch: Batch) -> None: ...
    def advance(self, watermark: int) -> None: ...
    def set_idle(self, idle: bool) -> None: ...
    def wake(self, now_ms: int) -> None: ...
    def finish(self) -> None: ...
    def tick(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Tee(Operator):
    """A stream used by several steps: each gets every batch. Mutable values are copied for all but the last, and but those
    that only encode them on the spot, so that a step which changes its records in place is not seen by its neighbours."""

    def __init__(self, outs: list[Operator]) -> None:
        super().__init__("tee")
        self.outs = outs
        self.may_change_values = any(out.may_change_values for out in outs)
        self.keeps_values = any(out.keeps_values for out in outs)

    def process(self, batch: Batch) -> None:
        for out in self.outs[:-1]:
            if out.may_change_values or out.keeps_values:
                values = [copy_value(value) for value in batch.values]
                out.process(Batch(values, batch.timestamps, batch.keys, batch.headers))
            else:
                out.process(batch)
        self.outs[-1].process(batch)

    def advance(self, watermark: int) -> None:
        for out in self.outs:
            out.advance(watermark)

    def set_idle(self, idle: bool) -> None:
        for out in self.outs:
            out.set_idle(idle)

    def wake(self, now_ms: int) -> None:
        for out in self.outs:
            out.wake(now_ms)

    def finish(self) -> None:
        for out in self.outs:
            out.finish()

    def tick(self) -> None:
        for out in self.outs:
            out.tick()

    def flush(self) -> None:
        for out in self.outs:
            out.flush()

    def close(self) -> None:
        """Closes every branch, whatever the others do; the first error is raised then, with a note of the others."""
        errors: list[Exception] = []
        for out in self.outs:
            try:
                out.close()
            except Exception as error:
                errors.append(error)
        for other in errors[1:]:
            errors[0].add_note(f"closing another branch failed too: {type(other).__name__}: {other}")
        if errors:
            raise errors[0]


class Split(Tee):
    """What follows a step that has side outputs: batches go down the main branch only, time and checkpoints down all. The
    step itself hands its side outputs to `Operator.sides`."""

    def __init__(self, main: Operator, sides: Mapping[str, Operator]) -> None:
        super().__init__([main, *sides.values()])
        self.step = "split"
        self.main = main
        self.may_change_values = main.may_change_values
        self.keeps_values = main.keeps_values

    def process(self, batch: Batch) -> None:
        self.main.process(batch)


class Heads(Tee):
    """What a stage begins with that reads several sources side by side: batches of each go in at its own head, time and
    checkpoints at all."""

    def inputs(self) -> tuple[Operator, ...]:
        return tuple(self.outs)

    def process(self, batch: Batch) -> None:
        raise RecordError("a batch of several sources is one source's", step=self.step, index=0)


def failure(step: str, error: Exception, index: int, value: object, function: str = "") -> RecordError:
    """The `RecordError` for record `index` of the batch in hand."""
    at = f" in {function}" if function else ""
    return RecordError(
        f"{step}: {type(error).__name__}: {error}{at}, on the value {shown(value)}", step=step, index=index
    )


def shown(value: object) -> str:
    """A value for a message: its repr, cut at 200 characters."""
    try:
        text = repr(value)
    except Exception as error:
        return f"<a {type(value).__name__} whose repr() raises {type(error).__name__}>"
    return text if len(text) <= 200 else text[:200] + "…"


def failed_at(iterator: Iterator[Any], length: int) -> int:
    """The index of the record a comprehension over `iterator` (of a list of `length`) was at when it raised."""
    return length - length_hint(iterator) - 1
