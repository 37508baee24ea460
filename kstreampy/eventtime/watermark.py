"""How far event time has come: per source partition, and the minimum over a task's inputs.

Pure: no clock, no I/O. A watermark `t` says that no record with a timestamp `<= t` follows. Semantics: Flink's; the
combined watermark is the minimum over all inputs and never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch


class WatermarkMerge:
    """The minimum over a fixed set of inputs; `NO_TIMESTAMP` until every one of them has spoken."""

    def __init__(self, inputs: Iterable[str], known: Mapping[str, int] | None = None) -> None:
        self._marks = dict.fromkeys(inputs, NO_TIMESTAMP)
        if known:
            self._marks.update({name: mark for name, mark in known.items() if name in self._marks})

    def advance(self, name: str, watermark: int) -> None:
        """Input `name` has come to `watermark`; going back is ignored, and so is a name that is not one of the inputs."""
        if watermark > self._marks.get(name, MAX_WATERMARK):
            self._marks[name] = watermark

    def current(self) -> int:
        return min(self._marks.values(), default=NO_TIMESTAMP)

    def marks(self) -> dict[str, int]:
        """Of each input, the furthest it has said."""
        return dict(self._marks)


class _Latest(WatermarkOutput):
    """Keeps the furthest watermark that a generator emitted."""

    def __init__(self) -> None:
        self.watermark = NO_TIMESTAMP

    def emit_watermark(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)

    def mark_idle(self) -> None: ...
    def mark_active(self) -> None: ...


class PartitionWatermark:
    """The watermark of one source partition, made by the strategy's generator."""

    def __init__(self, strategy: WatermarkStrategy | None) -> None:
        self._generator: WatermarkGenerator | None = None if strategy is None else strategy.create_generator()
        self._output = _Latest()
        self._ended = False

    def observe(self, batch: Batch) -> None:
        """The generator sees every record, in order."""
        generator = self._generator
        if generator is None:
            return
        observe_all = getattr(generator, "on_timestamps", None)
        if observe_all is not None:
            observe_all(batch.timestamps)
            return
        output = self._output
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
            generator.on_event(value, timestamp, output)

    def probe(self) -> int:
        """The periodic look: what the generator says now."""
        if self._ended:
            return MAX_WATERMARK
        if self._generator is not None:
            self._generator.on_periodic_emit(self._output)
        return self._output.watermark

    def end(self) -> None:
        """The partition was read to its end."""
        self._ended = True
