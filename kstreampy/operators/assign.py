"""`assign_timestamps_and_watermarks` in mid-stream: a step that gives records their event time anew and makes watermarks.

In here: `AssignOperator`, one strategy at work on the whole of a task. Not in here: strategies directly behind a source, which
the plan moves into the source, where every partition has a watermark of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.errors import KStreamError
from kstreampy.eventtime.source_watermark import SourceWatermark
from kstreampy.operators.decode import assigned
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch

_TASK = ""


class AssignOperator(Operator):
    """Discards the watermarks and the idleness that come from before it, except the last watermark of an ended input.

    What follows sees this step's watermark as the task's (`TaskContext.watermark`), also when it is called for a batch, a
    timer or a checkpoint: the operators of a task share their context, so it is set for the time of each call. The watermark
    is part of the checkpoint; the generator's own memory is not, as in Flink.
    """

    context: TaskContext
    source: SourceWatermark[str]

    def __init__(self, step: str, uid: str, strategy: WatermarkStrategy) -> None:
        super().__init__(step)
        self.uid = uid
        self.strategy = strategy
        self.watermark = NO_TIMESTAMP
        self.idle = False

    def open(self, context: TaskContext) -> None:
        self.context = context
        self.source = SourceWatermark(self.step, self.strategy, context.time, context.clock, (_TASK,))
        self.watermark = context.step_watermarks.get(self.uid, NO_TIMESTAMP)

    @contextmanager
    def _own_time(self) -> Iterator[None]:
        """For a call of what follows. After an error nothing is set back: the task is over then."""
        context = self.context
        before, context.watermark = context.watermark, self.watermark
        yield
        context.watermark = before

    def process(self, batch: Batch) -> None:
        assign = self.strategy.timestamp_assigner
        if assign is not None:
            timestamps = assigned(self.step, assign, batch.values, batch.timestamps)
            batch = Batch(batch.values, timestamps, batch.keys, batch.headers)
        try:
            batch = self.source.observe(_TASK, batch)
        except KStreamError:
            raise
        except Exception as error:
            error.add_note(f"in the watermark strategy of {self.step}")
            raise
        if self.idle:
            self._set_idle(False)
        with self._own_time():
            self.out.process(batch)
        self._emit()

    def _emit(self) -> None:
        """What the generator has come to goes on, if that is further than before."""
        watermark = self.source.current()
        if watermark > self.watermark:
            self.watermark = self.context.step_watermarks[self.uid] = watermark
            self.context.moved = True
            with self._own_time():
                self.out.advance(watermark)
        idle = self.source.is_idle()
        if idle is not self.idle:
            self._set_idle(idle)

    def _set_idle(self, idle: bool) -> None:
        self.idle = idle
        self.context.moved = True
        self.out.set_idle(idle)

    def advance(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self.source.end(_TASK)
            self._emit()

    def set_idle(self, idle: bool) -> None: ...

    def wake(self, now_ms: int) -> None:
        with self._own_time():
            self.out.wake(now_ms)

    def tick(self) -> None:
        self.source.probe(lambda _: True)
        self._emit()
        with self._own_time():
            self.out.tick()

    def flush(self) -> None:
        with self._own_time():
            self.out.flush()

    def finish(self) -> None:
        self.source.emit_last()
        self._emit()
        with self._own_time():
            self.out.finish()
