"""The watermark of a source within one task: that of its partitions (or splits) together.

Pure: the clock is handed in. In here: `SourceWatermark`, which also stands behind `assign_timestamps_and_watermarks`, there
with a single partition: the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic

from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.eventtime.future import TimeRules
from kstreampy.eventtime.partition_watermark import PartitionWatermark
from kstreampy.eventtime.watermark import K, WatermarkMerge
from kstreampy.serde.batch import Batch


class SourceWatermark(Generic[K]):
    """A `PartitionWatermark` per partition, and their merge. `name` is the source's, for errors."""

    def __init__(
        self,
        name: str,
        strategy: WatermarkStrategy | None,
        rules: TimeRules,
        clock: Callable[[], int],
        partitions: Iterable[K] = (),
    ) -> None:
        self._name = name
        self._strategy = strategy
        self._rules = rules
        self._clock = clock
        self._partitions: dict[K, PartitionWatermark] = {}
        self._merge: WatermarkMerge[K] = WatermarkMerge(())
        for partition in partitions:
            self.add(partition)

    def add(self, partition: K) -> None:
        made = PartitionWatermark(self._strategy, self._clock(), self._rules.idle_timeout_ms)
        self._partitions[partition] = made
        self._merge.add(partition)

    def observe(self, partition: K, batch: Batch) -> Batch:
        """The batch as it goes on: the generator has seen it, and what it emitted counts. A `RecordError` for a timestamp in
        the future, where that is an error; other errors are the generator's."""
        watermark = self._partitions[partition]
        watermark.hear()
        seen = batch
        if self._rules.future is not None and batch.values:
            batch, seen = self._rules.future.check(self._name, batch)
        watermark.observe(seen)
        self._merge.advance(partition, watermark.watermark, idle=watermark.idle)
        return batch

    def probe(self, caught_up: Callable[[K], bool]) -> None:
        """The watermark interval: generators are asked, and partitions without a record for long are found idle."""
        now_ms = self._clock()
        for partition, watermark in self._partitions.items():
            watermark.probe(now_ms, lambda partition=partition: caught_up(partition), periodic=self._rules.periodic)  # type: ignore[misc]
            self._merge.advance(partition, watermark.watermark, idle=watermark.idle)

    def ask(self, partition: K) -> None:
        """The generator of one partition is asked now; nothing where watermarks are not periodic."""
        if self._rules.periodic:
            watermark = self._partitions[partition]
            watermark.ask()
            self._merge.advance(partition, watermark.watermark, idle=watermark.idle)

    def emit_last(self) -> None:
        """The input has ended: generators are asked once more, whatever the settings. (Nothing comes of it behind the last
        watermark, which is sent before.)"""
        for partition, watermark in self._partitions.items():
            watermark.ask()
            self._merge.advance(partition, watermark.watermark)

    def end(self, partition: K) -> None:
        """The partition was read to its end, and holds nothing back."""
        watermark = self._partitions.get(partition)
        if watermark is not None:
            watermark.end()
            self._merge.advance(partition, watermark.watermark)

    def current(self) -> int:
        return self._merge.current()

    def is_idle(self) -> bool:
        """All partitions that have not ended are idle, or there are none."""
        return self._merge.is_idle()

    def active(self) -> dict[K, int]:
        """The watermarks of those partitions that are neither idle nor at their end, for strategies that make any."""
        return {
            partition: mark.watermark
            for partition, mark in self._partitions.items()
            if mark.generates and not mark.idle and not self._merge.has_ended(partition)
        }
