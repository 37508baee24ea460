"""What turns timestamps into watermarks: the abstract classes users subclass, and the built-in generators.

Pure: no clock, no I/O. When `on_periodic_emit` is called, how the watermarks of several inputs are combined,
and that they never go back, is the caller's business (`eventtime/`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from kstreampy.common.time import Amount, to_millis

__all__ = [
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarksGenerator",
    "TimestampAssigner",
    "WatermarkGenerator",
    "WatermarkOutput",
]

_MIN = -(2**63)

AssignerFunction = Callable[[Any, int], int]


class TimestampAssigner(ABC):
    """Gives elements their event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Milliseconds since the epoch. `record_timestamp` is the one the record has, -2^63 when it has
        none."""


class WatermarkOutput(ABC):
    """Where a generator puts its watermarks."""

    @abstractmethod
    def emit_watermark(self, watermark: int) -> None:
        """Says that no element with a timestamp of `watermark` ms or less will follow. A value that is not
        above the last one is swallowed. Makes an idle output active again."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Stops holding back those who wait for this output's watermark, until it is active again."""

    @abstractmethod
    def mark_active(self) -> None: ...


class WatermarkGenerator(ABC):
    """One per input partition. Keeps what it needs between calls."""

    @abstractmethod
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        """For every element, after its timestamp (ms) was assigned. May emit at once (punctuated
        watermarks)."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """At the watermark interval (200 ms), and once at the end of the input."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Elements are at most `max_out_of_orderness` later than the latest one: emits `max timestamp - bound -
    1`, and -2^63 before the first element. `ValueError` for a negative bound."""

    def __init__(self, max_out_of_orderness: Amount) -> None:
        self.bound_ms = to_millis(max_out_of_orderness)
        if self.bound_ms < 0:
            raise ValueError(f"the bound on out-of-orderness must not be negative: {self.bound_ms} ms")
        self.max_timestamp = _MIN + self.bound_ms + 1

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def on_timestamps(self, timestamps: Sequence[int]) -> None:
        """As `on_event` for every element of a batch, which must not be empty, in one step."""
        latest = max(timestamps)
        if latest > self.max_timestamp:
            self.max_timestamp = latest

    @property
    def current_watermark(self) -> int:
        """What `on_periodic_emit` emits."""
        return self.max_timestamp - self.bound_ms - 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(self.max_timestamp - self.bound_ms - 1)


class AscendingTimestampsWatermarks(BoundedOutOfOrdernessWatermarks):
    """Elements are in order: emits `max timestamp - 1`."""

    def __init__(self) -> None:
        super().__init__(0)


class NoWatermarksGenerator(WatermarkGenerator):
    """Emits nothing."""

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        pass

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass
