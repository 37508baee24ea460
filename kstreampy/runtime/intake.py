"""How a task takes its input: chunks of messages become batches with a watermark, and the end is noticed.

In here: one intake per kind of input, chosen when the task is made: a user's topics, batches from other stages, a source
that is not Kafka. An intake changes its task's `Progress` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.errors import JobError, RecordError
from kstreampy.eventtime.source_watermark import SourceWatermark
from kstreampy.eventtime.watermark import WatermarkMerge
from kstreampy.graph.source import ConnectorInput, Input, PackedInput, TopicInput, sender_name
from kstreampy.operators.connector import Records, SplitReader
from kstreampy.operators.decode import PackedDecoder, TopicDecoder, assigned
from kstreampy.operators.operator import TaskContext
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.murmur2 import partition_of_bytes
from kstreampy.serde.packed import Mark

MAX_READ = 500


class Arrival(NamedTuple):
    """A batch, and where its records came from: `coordinate(i)` names the source of record i in messages."""

    batch: Batch
    coordinate: Callable[[int], str]
    side: int = 0
    """Which input of a stage that has two."""


CaughtUp = Callable[[TopicPartition], bool]
"""Whether all that a partition has for now was read."""


class Intake(Protocol):
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
        """The watermarks of the source's own partitions (or splits) that are neither idle nor at their end."""
        ...

    def at_end(self) -> bool:
        """Nothing more will ever come."""
        ...

    def close(self) -> None: ...


class TopicIntake:
    """A user's topics, with a watermark generator per partition. Partitions that the source leaves out
    (`set_partitions`) have no part in its watermark."""

    def __init__(
        self, source: Input, context: TaskContext, partitions: Iterable[TopicPartition], progress: Progress
    ) -> None:
        origin = source.origin
        assert isinstance(origin, TopicInput), "made for topics"
        strategy = source.strategy
        assign = None if strategy is None else strategy.timestamp_assigner
        self.name = source.name
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

        try:
            batch = self.decoder.decode(messages)
            batch = self.time.observe(tp, batch)
        except RecordError as error:
            error.add_note(f"at {coordinate(error.index)}")
            raise
        except Exception as error:
            error.add_note(f"in the watermark strategy of {self.name}, in the batch that begins at {coordinate(0)}")
            raise
        yield Arrival(batch, coordinate)
        self.progress.positions[tp] = messages[-1].offset() + 1

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def probe(self, caught_up: CaughtUp) -> None:
        for tp in self.partitions:
            if self._has_ended(tp):
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

    def __init__(self, source: Input, upstream: Sequence[str], progress: Progress) -> None:
        assert isinstance(source.origin, PackedInput), "made for packed batches"
        sides = source.origin.sides()
        self.sides = {side.topic: number for number, side in enumerate(sides)}
        self.decoders = [PackedDecoder(source.name, side.type_info) for side in sides]
        self.progress = progress
        self.held: frozenset[Any] = frozenset()
        self.upstream = frozenset(upstream)
        ended = dict.fromkeys(progress.ended_senders, MAX_WATERMARK)
        self.merge = WatermarkMerge(upstream, {**progress.sender_watermarks, **ended}, progress.idle_senders)

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        tp = TopicPartition(chunk.topic, chunk.partition)
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

    def active(self) -> Mapping[str, int]:
        return {}

    def at_end(self) -> bool:
        return self.progress.ended_senders >= self.upstream

    def close(self) -> None: ...


class ConnectorIntake:
    """The splits of a source that is not Kafka which fall to this task."""

    def __init__(self, source: Input, context: TaskContext, progress: Progress) -> None:
        assert isinstance(source.origin, ConnectorInput), "made for connectors"
        self.name = source.name
        self.connector = source.origin.source
        self.strategy = source.strategy
        self.number = context.partition
        self.tasks = context.partitions
        self.progress = progress
        self.readers: dict[str, SplitReader] = {}
        self.silent: set[str] = set()
        """Splits that had nothing when they were last asked."""
        self.held: frozenset[str] = frozenset()
        self.time: SourceWatermark[str] = SourceWatermark(self.name, self.strategy, context.time, context.clock)
        self._open_new()

    def _open_new(self) -> None:
        """Opens the splits that are this task's and not open yet. Whose a split is depends on its name only, so that it
        stays when others come and go."""
        for split in self.connector.splits():
            if split not in self.readers and self._is_mine(split):
                position = self.progress.connector_positions.get(split)
                self.readers[split] = self.connector.open_split(split, position)
                self.time.add(split)

    def _is_mine(self, split: str) -> bool:
        return partition_of_bytes(split.encode("utf-8", "surrogatepass"), self.tasks) == self.number

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        return iter(())

    def read(self) -> Iterator[Arrival]:
        for split, reader in self.readers.items():
            if reader.finished() or split in self.held:
                continue
            before = reader.position()
            try:
                records = reader.read(MAX_READ)
            except ValueError as error:
                failed = RecordError(f"{self.name} (decode): {error}", step=self.name, index=0)
                failed.add_note(f"at split {split!r}, position {before}")
                raise failed from error
            if records.values:
                self.silent.discard(split)
                yield self._arrival(split, before, records)
            else:
                self.silent.add(split)
            self.progress.connector_positions[split] = reader.position()

    def _arrival(self, split: str, before: object, records: Records) -> Arrival:
        def coordinate(index: int) -> str:
            return f"split {split!r}, record {index} after position {before}"

        timestamps = records.timestamps or [NO_TIMESTAMP] * len(records.values)
        try:
            if self.strategy is not None and self.strategy.timestamp_assigner is not None:
                timestamps = assigned(self.name, self.strategy.timestamp_assigner, records.values, timestamps)
            batch = self.time.observe(split, Batch(records.values, timestamps))
        except RecordError as error:
            error.add_note(f"at {coordinate(error.index)}")
            raise
        except Exception as error:
            error.add_note(f"in the watermark strategy of {self.name}, in the batch that begins at {coordinate(0)}")
            raise
        return Arrival(batch, coordinate)

    def look_again(self) -> None:
        """New splits may have appeared in a source that is not bounded."""
        if not self.connector.bounded:
            self._open_new()

    def probe(self, caught_up: CaughtUp) -> None:
        for split, reader in self.readers.items():
            if reader.finished():
                self.time.end(split)
        self.time.probe(lambda split: split in self.silent and split not in self.held)

    def watermark(self) -> int:
        return self.time.current()

    def is_idle(self) -> bool:
        return self.time.is_idle()

    def active(self) -> Mapping[str, int]:
        return self.time.active()

    def at_end(self) -> bool:
        return self.connector.bounded and all(reader.finished() for reader in self.readers.values())

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        self.readers = {}


def make_intake(
    source: Input,
    context: TaskContext,
    partitions: Sequence[TopicPartition],
    upstream: Sequence[str],
    progress: Progress,
) -> Intake:
    """The intake for what a stage reads."""
    if isinstance(source.origin, TopicInput):
        return TopicIntake(source, context, partitions, progress)
    if isinstance(source.origin, PackedInput):
        return PackedIntake(source, upstream, progress)
    if isinstance(source.origin, ConnectorInput):
        return ConnectorIntake(source, context, progress)
    raise JobError(f"{source.name}: unknown kind of input {type(source.origin).__name__}")
