"""How a task takes several sources of topics side by side: each as if it were alone, and one time over all of them.

In here: `SourcesIntake`. Not in here: one source (`intake.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.eventtime.watermark import WatermarkMerge
from kstreampy.graph.source import SourcesInput
from kstreampy.operators.operator import TaskContext
from kstreampy.runtime.arrival import Arrival, CaughtUp
from kstreampy.runtime.intake import TopicIntake
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import NO_TIMESTAMP


class SourcesIntake:
    """The watermark is the minimum over the sources that are neither idle nor at their end; batches bear the number of their
    source."""

    round = 0

    def __init__(
        self, origin: SourcesInput, context: TaskContext, partitions: Sequence[TopicPartition], progress: Progress
    ) -> None:
        self.sides = [
            TopicIntake(side, context, [tp for tp in partitions if tp.topic in side.topics.topics], progress)
            for side in origin.sides
        ]
        self.side_of = {tp: number for number, side in enumerate(self.sides) for tp in side.partitions}
        self.max_drift_ms = origin.max_drift_ms
        self.merge = WatermarkMerge(range(len(self.sides)))
        self._held: frozenset[TopicPartition] = frozenset()

    @property
    def held(self) -> frozenset[TopicPartition]:
        return self._held

    @held.setter
    def held(self, partitions: frozenset[TopicPartition]) -> None:
        self._held = partitions
        for side in self.sides:
            side.held = partitions

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        """Nothing of a side that is too far ahead: it is read again from there."""
        tp = TopicPartition(chunk.topic, chunk.partition)
        if tp in self._held:
            return
        number = self.side_of[tp]
        for batch, coordinate, _ in self.sides[number].take(chunk):
            yield Arrival(batch, coordinate, number)
        if self.max_drift_ms is not None:
            self.sides[number].time.ask(tp)  # so that the drift is seen now, not at the watermark interval
        self._hear(number)
        if tp in self.ahead():
            self.held |= {tp}

    def _hear(self, number: int) -> None:
        side = self.sides[number]
        self.merge.advance(number, side.watermark(), idle=side.is_idle())

    def ahead(self) -> frozenset[TopicPartition]:
        """The partitions of the sides that are further ahead of the slowest than they may be."""
        if self.max_drift_ms is None:
            return frozenset()
        marks = {number: mark for number in range(len(self.sides)) if (mark := self.merge.least([number])) is not None}
        limit = min(marks.values(), default=NO_TIMESTAMP) + self.max_drift_ms
        return frozenset(tp for tp, number in self.side_of.items() if marks.get(number, NO_TIMESTAMP) > limit)

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def probe(self, caught_up: CaughtUp) -> None:
        for number, side in enumerate(self.sides):
            side.probe(caught_up)
            self._hear(number)

    def watermark(self) -> int:
        return self.merge.current()

    def is_idle(self) -> bool:
        return self.merge.is_idle()

    def active(self) -> Mapping[TopicPartition, int]:
        return {tp: mark for side in self.sides for tp, mark in side.active().items()}

    def at_end(self) -> bool:
        return all(side.at_end() for side in self.sides)

    def close(self) -> None: ...
