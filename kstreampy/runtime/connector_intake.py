"""How a task takes the splits of a source that is not Kafka: it asks for records, and they become batches with a watermark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kstreampy.broker.broker import Chunk
from kstreampy.errors import RecordError
from kstreampy.eventtime.source_watermark import SourceWatermark
from kstreampy.graph.source import ConnectorInput, Input
from kstreampy.operators.connector import Records, SplitReader
from kstreampy.operators.decode import assigned
from kstreampy.operators.operator import TaskContext
from kstreampy.runtime.arrival import Arrival, CaughtUp
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import NO_TIMESTAMP, Batch
from kstreampy.serde.murmur2 import partition_of_bytes

MAX_READ = 500


class ConnectorIntake:
    """The splits of a source that is not Kafka which fall to this task."""

    round = 0

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
        self.is_table = source.is_table
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
            if reader.finished() or (self.is_table and split in self.silent):
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
