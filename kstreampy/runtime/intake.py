"""How a task takes its input: chunks of messages become batches with a watermark, and the end is noticed.

In here: one intake per kind of input, chosen when the task is made: a user's topics, batches from other stages, a source
that is not Kafka. An intake changes its task's `Progress` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.errors import JobError, RecordError
from kstreampy.eventtime.watermark import PartitionWatermark, WatermarkMerge
from kstreampy.graph.source import ConnectorInput, Input, PackedInput, TopicInput
from kstreampy.operators.connector import Records, SplitReader
from kstreampy.operators.decode import PackedDecoder, TopicDecoder, assigned
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.murmur2 import partition_of_bytes

MAX_READ = 500


class Arrival(NamedTuple):
    """A batch, and where its records came from: `coordinate(i)` names the source of record i in messages."""

    batch: Batch
    coordinate: Callable[[int], str]


class Intake(Protocol):
    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        """The batches of a chunk, in order. What the chunk says of positions and senders is in `Progress` afterwards."""
        ...

    def read(self) -> Iterator[Arrival]:
        """For inputs that are asked rather than polled."""
        ...

    def look_again(self) -> None:
        """Once a second: there may be more to read than before."""
        ...

    def watermark(self) -> int:
        """Of the whole input, as of now."""
        ...

    def at_end(self) -> bool:
        """Nothing more will ever come."""
        ...

    def close(self) -> None: ...


class TopicIntake:
    """A user's topics, with a watermark generator per partition."""

    def __init__(self, source: Input, partitions: Iterable[TopicPartition], progress: Progress) -> None:
        origin = source.origin
        assert isinstance(origin, TopicInput), "made for topics"
        strategy = source.strategy
        assign = None if strategy is None else strategy.timestamp_assigner
        self.name = source.name
        self.decoder = TopicDecoder(source.name, origin.decode_value, origin.decode_message, assign)
        self.progress = progress
        self.partitions = tuple(partitions)
        self.clocks = {tp: PartitionWatermark(strategy) for tp in self.partitions}
        names = [_name(tp) for tp in self.partitions]
        self.merge = WatermarkMerge(names)

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
        except RecordError as error:
            error.add_note(f"at {coordinate(error.index)}")
            raise
        try:
            self.clocks[tp].observe(batch)
        except Exception as error:
            error.add_note(f"in the watermark strategy of {self.name}, in the batch that begins at {coordinate(0)}")
            raise
        yield Arrival(batch, coordinate)
        self.progress.positions[tp] = messages[-1].offset() + 1

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def watermark(self) -> int:
        for tp, clock in self.clocks.items():
            stop = self.progress.stopping.get(tp)
            if stop is not None and self.progress.positions.get(tp, 0) >= stop:
                clock.end()
            self.merge.advance(_name(tp), clock.probe())
        return self.merge.current()

    def at_end(self) -> bool:
        stopping = self.progress.stopping
        return all(tp in stopping and self.progress.positions.get(tp, 0) >= stopping[tp] for tp in self.partitions)

    def close(self) -> None: ...


class PackedIntake:
    """Batches that other stages sent. The watermark is the minimum over all tasks that send here."""

    def __init__(self, source: Input, upstream: Sequence[str], progress: Progress) -> None:
        assert isinstance(source.origin, PackedInput), "made for packed batches"
        self.decoder = PackedDecoder(source.name, source.origin.type_info)
        self.progress = progress
        self.upstream = frozenset(upstream)
        self.merge = WatermarkMerge(upstream, progress.sender_watermarks)
        for name in progress.ended_senders:
            self.merge.advance(name, MAX_WATERMARK)

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        tp = TopicPartition(chunk.topic, chunk.partition)
        progress = self.progress
        for message in chunk.messages:
            offset = message.offset()
            if offset < progress.positions.get(tp, 0):
                continue
            where = f"topic {tp.topic!r}, partition {tp.partition}, offset {offset}"
            try:
                marks, batch = self.decoder.decode(message)
            except RecordError as error:
                error.add_note(f"at {where}")
                raise
            if batch.values:
                yield Arrival(batch, lambda index, where=where: f"{where}, record {index}")  # type: ignore[misc]
            for mark in marks:
                self._heard(f"{mark.stage}/{mark.task}", MAX_WATERMARK if mark.final else mark.watermark, mark.final)
            progress.positions[tp] = offset + 1

    def _heard(self, sender: str, watermark: int, ended: bool) -> None:
        if sender in self.upstream:
            self.merge.advance(sender, watermark)
            self.progress.sender_watermarks[sender] = max(
                watermark, self.progress.sender_watermarks.get(sender, NO_TIMESTAMP)
            )
            if ended:
                self.progress.ended_senders.add(sender)

    def read(self) -> Iterator[Arrival]:
        return iter(())

    def look_again(self) -> None: ...

    def watermark(self) -> int:
        return self.merge.current()

    def at_end(self) -> bool:
        return self.progress.ended_senders >= self.upstream

    def close(self) -> None: ...


class ConnectorIntake:
    """The splits of a source that is not Kafka which fall to this task."""

    def __init__(self, source: Input, number: int, tasks: int, progress: Progress) -> None:
        assert isinstance(source.origin, ConnectorInput), "made for connectors"
        self.name = source.name
        self.connector = source.origin.source
        self.strategy = source.strategy
        self.number = number
        self.tasks = tasks
        self.progress = progress
        self.readers: dict[str, SplitReader] = {}
        self.clocks: dict[str, PartitionWatermark] = {}
        self._open_new()

    def _open_new(self) -> None:
        """Opens the splits that are this task's and not open yet. Whose a split is depends on its name only, so that it
        stays when others come and go."""
        for split in self.connector.splits():
            if split not in self.readers and self._is_mine(split):
                position = self.progress.connector_positions.get(split)
                self.readers[split] = self.connector.open_split(split, position)
                self.clocks[split] = PartitionWatermark(self.strategy)

    def _is_mine(self, split: str) -> bool:
        return partition_of_bytes(split.encode("utf-8", "surrogatepass"), self.tasks) == self.number

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        return iter(())

    def read(self) -> Iterator[Arrival]:
        for split, reader in self.readers.items():
            if reader.finished():
                continue
            before = reader.position()
            try:
                records = reader.read(MAX_READ)
            except ValueError as error:
                failed = RecordError(f"{self.name} (decode): {error}", step=self.name, index=0)
                failed.add_note(f"at split {split!r}, position {before}")
                raise failed from error
            if records.values:
                yield self._arrival(split, before, records)
            self.progress.connector_positions[split] = reader.position()

    def _arrival(self, split: str, before: object, records: Records) -> Arrival:
        def coordinate(index: int) -> str:
            return f"split {split!r}, record {index} after position {before}"

        timestamps = records.timestamps or [NO_TIMESTAMP] * len(records.values)
        try:
            if self.strategy is not None and self.strategy.timestamp_assigner is not None:
                timestamps = assigned(self.name, self.strategy.timestamp_assigner, records.values, timestamps)
            batch = Batch(records.values, timestamps)
            self.clocks[split].observe(batch)
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

    def watermark(self) -> int:
        marks = []
        for split, reader in self.readers.items():
            if reader.finished():
                self.clocks[split].end()
            marks.append(self.clocks[split].probe())
        return min(marks, default=MAX_WATERMARK)  # no split is here: nothing to hold anybody back

    def at_end(self) -> bool:
        return self.connector.bounded and all(reader.finished() for reader in self.readers.values())

    def close(self) -> None:
        for reader in self.readers.values():
            reader.close()
        self.readers = {}


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}/{tp.partition}"


def make_intake(
    source: Input,
    number: int,
    tasks: int,
    partitions: Sequence[TopicPartition],
    upstream: Sequence[str],
    progress: Progress,
) -> Intake:
    """The intake for what a stage reads."""
    if isinstance(source.origin, TopicInput):
        return TopicIntake(source, partitions, progress)
    if isinstance(source.origin, PackedInput):
        return PackedIntake(source, upstream, progress)
    if isinstance(source.origin, ConnectorInput):
        return ConnectorIntake(source, number, tasks, progress)
    raise JobError(f"{source.name}: unknown kind of input {type(source.origin).__name__}")
