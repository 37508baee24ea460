"""How a task takes its input: chunks of messages become batches with a watermark, and the end is noticed.

In here: what every intake does, and those of topics: a user's, and batches from other stages. `make_intake` chooses when the
task is made. Not in here: sources that are not Kafka (`connector_intake.py`), and several that are read side by side
(`sources_intake.py`). An intake changes its task's `Progress` and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.errors import JobError, RecordError
from kstreampy.eventtime.source_watermark import SourceWatermark
from kstreampy.eventtime.watermark import WatermarkMerge
from kstreampy.graph.source import ConnectorInput, Input, PackedInput, SourcesInput, TopicInput, sender_name, side_of
from kstreampy.operators.decode import PackedDecoder, TopicDecoder, without_left_out
from kstreampy.operators.operator import TaskContext
from kstreampy.runtime.arrival import Arrival, CaughtUp
from kstreampy.runtime.connector_intake import ConnectorIntake
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.packed import Mark


class Intake(Protocol):
    round: int
    """How far the task is in the rounds of the loop that it is part of (`loop.py`)."""
    held: frozenset[Any]
    """Partitions (or splits) that are not read for now, since others of their watermark group are too far behind."""

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        """The batches of a chunk, in order. What the chunk says of positions and senders is in `Progress` afterwards."""
        ...

    def read(self) -> Iterator[Arrival]:
        """For inputs that are asked rather than polled."""
        ...

    def look_again(self) -> None:
        """Once a second: there may be more to read than before."""
        ...

    def probe(self, caught_up: CaughtUp) -> None:
        """The watermark interval: watermark generators are asked, and what is silent for long is found idle."""
        ...

    def watermark(self) -> int:
        """Of the whole input, as of now."""
        ...

    def is_idle(self) -> bool:
        """Nothing comes from any part of the input for now, so nobody should wait for its watermark."""
        ...

    def active(self) -> Mapping[Any, int]:
        """The watermarks of the partitions (or splits) that are neither idle nor at their end."""
        ...

    def at_end(self) -> bool:
        """Nothing more will ever come."""
        ...

    def close(self) -> None: ...


class TopicIntake:
    """A user's topics, with a watermark generator per partition. Partitions that the source leaves out
    (`set_partitions`) have no part in its watermark."""

    round = 0

    def __init__(
        self, source: Input, context: TaskContext, partitions: Iterable[TopicPartition], progress: Progress
    ) -> None:
        origin = source.topics
        strategy = source.strategy
        assign = None if strategy is None else strategy.timestamp_assigner
        self.name = source.name
        self.is_table = source.is_table
        self.leaves_out = origin.leaves_out
        self.held: frozenset[TopicPartition] = frozenset()
        self.decoder = TopicDecoder(source.name, origin.decode_value, origin.decode_message, assign)
        self.progress = progress
        self.partitions = tuple(partitions)
        read = [tp for tp in self.partitions if origin.partitions is None or tp in origin.partitions]
        self.time: SourceWatermark[TopicPartition] = SourceWatermark(
            self.name, strategy, context.time, context.clock, read
        )

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        tp = TopicPartition(chunk.topic, chunk.partition)
        messages = chunk.messages
        position = self.progress.positions.get(tp, 0)
        if messages[0].offset() < position:
            messages = [message for message in messages if message.offset() >= position]
        stop = self.progress.stopping.get(tp)
        if stop is not None and messages and messages[-1].offset() >= stop:
            messages = [message for message in messages if message.offset() < stop]
        if not messages:
            return

        def coordinate(index: int) -> str:
            return f"topic {tp.topic!r}, partition {tp.partition}, offset {messages[index].offset()}"

        behind = messages[-1].offset() + 1
        batch: Batch | None = None
        try:
            values = self.decoder.values(messages)
            if self.leaves_out:
                messages, values = without_left_out(messages, values)
            if messages:
                batch = self.time.observe(tp, self.decoder.batch(messages, values))
        except RecordError as error:
            error.add_note(f"at {coordinate(error.index)}")
            raise
        except Exception as error:
            error.add_note(f"in the watermark strategy of {self.name}, in the batch that begins at {coordinate(0)}")
            raise
        if batch is not None:
            yield Arrival(batch, coordinate)
        self.progress.positions[tp] = behind

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def probe(self, caught_up: CaughtUp) -> None:
        for tp in self.partitions:
            if self._has_ended(tp) or (self.is_table and caught_up(tp)):
                self.time.end(tp)
        self.time.probe(lambda tp: tp not in self.held and caught_up(tp))

    def watermark(self) -> int:
        return self.time.current()

    def is_idle(self) -> bool:
        return self.time.is_idle()

    def active(self) -> Mapping[TopicPartition, int]:
        return self.time.active()

    def _has_ended(self, tp: TopicPartition) -> bool:
        stop = self.progress.stopping.get(tp)
        return stop is not None and self.progress.positions.get(tp, 0) >= stop

    def at_end(self) -> bool:
        return all(map(self._has_ended, self.partitions))

    def close(self) -> None: ...


class PackedIntake:
    """Batches that other stages sent. The watermark is the minimum over all tasks that send here."""

    round = 0

    def __init__(
        self, source: Input, partitions: Sequence[TopicPartition], upstream: Sequence[str], progress: Progress
    ) -> None:
        assert isinstance(source.origin, PackedInput), "made for packed batches"
        sides = source.origin.sides()
        self.senders = {
            tp: [name for name in upstream if side_of(name) == number]
            for number, side in enumerate(sides if len(sides) > 1 else ())
            for tp in partitions
            if tp.topic == side.topic
        }
        """Partition of each side of a pair → who sends there."""
        self.max_drift_ms = source.origin.max_drift_ms
        self.is_table = source.origin.is_table
        self.sides = {side.topic: number for number, side in enumerate(sides)}
        self.decoders = [PackedDecoder(source.name, side.type_info) for side in sides]
        self.progress = progress
        self.upstream = frozenset(upstream)
        ended = dict.fromkeys(progress.ended_senders, MAX_WATERMARK)
        self.merge = WatermarkMerge(upstream, {**progress.sender_watermarks, **ended}, progress.idle_senders)
        self.held: frozenset[Any] = self.ahead() if self.is_table else frozenset()

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        """Stops behind the message with which its side of a pair is too far ahead: it is in `held` then."""
        tp = TopicPartition(chunk.topic, chunk.partition)
        if tp in self.held:
            return
        progress = self.progress
        side = self.sides[chunk.topic]
        decode = self.decoders[side].decode
        for message in chunk.messages:
            offset = message.offset()
            if offset < progress.positions.get(tp, 0):
                continue
            where = f"topic {tp.topic!r}, partition {tp.partition}, offset {offset}"
            try:
                marks, batch = decode(message)
            except RecordError as error:
                error.add_note(f"at {where}")
                raise
            if batch.values:
                yield Arrival(batch, lambda index, where=where: f"{where}, record {index}", side)  # type: ignore[misc]
            for mark in marks:
                self._heard(sender_name(side, mark.stage, mark.task), mark)
            progress.positions[tp] = offset + 1
            if self.max_drift_ms is not None and tp in self.ahead():
                self.held |= {tp}
                return

    def ahead(self) -> frozenset[TopicPartition]:
        """The side that is further ahead of the other than it may be, if one is; before a table is there, its other side."""
        if self.is_table:
            first, table = self.senders
            return frozenset((first,)) if self.merge.least(self.senders[table]) == NO_TIMESTAMP else frozenset()
        marks = self.active()
        slowest = min(marks.values(), default=NO_TIMESTAMP)
        return frozenset(tp for tp, mark in marks.items() if mark > slowest + (self.max_drift_ms or 0))

    def _heard(self, sender: str, mark: Mark) -> None:
        if sender not in self.upstream:
            return
        progress = self.progress
        watermark = MAX_WATERMARK if mark.final else mark.watermark
        self.merge.advance(sender, watermark, idle=mark.idle)
        progress.sender_watermarks[sender] = max(watermark, progress.sender_watermarks.get(sender, NO_TIMESTAMP))
        if mark.idle and not mark.final:
            progress.idle_senders.add(sender)
        else:
            progress.idle_senders.discard(sender)
        if mark.final:
            progress.ended_senders.add(sender)

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def probe(self, caught_up: CaughtUp) -> None: ...

    def watermark(self) -> int:
        return self.merge.current()

    def is_idle(self) -> bool:
        return self.merge.is_idle()

    def active(self) -> Mapping[TopicPartition, int]:
        """Of each side of a pair, the least of those that send to it."""
        marks = {tp: self.merge.least(senders) for tp, senders in self.senders.items()}
        return {tp: mark for tp, mark in marks.items() if mark is not None}

    def at_end(self) -> bool:
        return self.progress.ended_senders >= self.upstream

    def close(self) -> None: ...


def make_intake(
    source: Input,
    context: TaskContext,
    partitions: Sequence[TopicPartition],
    upstream: Sequence[str],
    progress: Progress,
) -> Intake:
    """The intake for what a stage reads."""
    from kstreampy.runtime.loop import loop_intake  # which are made of this module's
    from kstreampy.runtime.sources_intake import SourcesIntake

    if isinstance(source.origin, SourcesInput):
        return SourcesIntake(source.origin, context, partitions, progress)
    if isinstance(source.origin, TopicInput):
        return TopicIntake(source, context, partitions, progress)
    if isinstance(source.origin, PackedInput):
        if context.loop is not None:
            return loop_intake(source, context, partitions, upstream, progress)
        return PackedIntake(source, partitions, upstream, progress)
    if isinstance(source.origin, ConnectorInput):
        return ConnectorIntake(source, context, progress)
    raise JobError(f"{source.name}: unknown kind of input {type(source.origin).__name__}")
