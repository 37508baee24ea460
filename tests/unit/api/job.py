"""A small job on the harness: one source in, one stream (or several, by name) out, all of a key in one task."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStream
from kstreampy.testing import JobHarness
from kstreampy.testing.source import HarnessSource


def first(value: Any) -> Any:
    return value[0]


class Job:
    """`draw` gets the source's stream. Timestamps and watermarks are what the test says, unless there is a `strategy`."""

    def __init__(
        self,
        draw: Callable[..., DataStream | dict[str, DataStream]],
        *,
        strategy: WatermarkStrategy | None = None,
        sources: int = 1,
        **settings: Any,
    ) -> None:
        self.harness = JobHarness(**{"key_groups": 1, **settings})
        self.sources = [self.harness.source(f"in-{number}") for number in range(sources)]
        streams = [self._stream(source, strategy) for source in self.sources]
        drawn = draw(*streams)
        named = drawn if isinstance(drawn, dict) else {"": drawn}
        self.outputs = {name: self.harness.collect(stream, name or "main") for name, stream in named.items()}
        self.seen = dict.fromkeys(named, 0)

    def _stream(self, source: HarnessSource, strategy: WatermarkStrategy | None) -> DataStream:
        return self.harness.env.from_source(source, strategy or source.watermarks(), source.name).uid(source.name)

    def send(self, value: Any, timestamp: int | None = None, source: int = 0) -> list[Any]:
        """What it makes the job give."""
        self.sources[source].send(value, timestamp)
        return self.given()

    def watermark(self, watermark: int, source: int = 0) -> list[Any]:
        self.sources[source].watermark(watermark)
        return self.given()

    def idle(self, source: int = 0) -> list[Any]:
        self.sources[source].idle()
        return self.given()

    def end(self) -> list[Any]:
        for source in self.sources:
            source.end()
        return self.given()

    def advance_time(self, millis: int) -> list[Any]:
        self.harness.advance_time(millis)
        return self.given()

    def records(self, output: str = "") -> list[tuple[Any, int | None]]:
        """New results with their timestamps, once the job is at rest."""
        self.harness.run()
        records = self.outputs[output].records()[self.seen[output] :]
        self.seen[output] += len(records)
        return [(record.value, record.timestamp) for record in records]

    def given(self, output: str = "") -> list[Any]:
        """New results, once the job is at rest; of the first stream unless another is named."""
        name = output if output in self.outputs else next(iter(self.outputs))
        return [value for value, _ in self.records(name)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.harness.close()
