"""The watermark of one source partition: what its generator says, whether it is idle, whether it has ended.

Pure: time is handed in. Not in here: how partitions are combined (`source_watermark.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch


class PartitionWatermark(WatermarkOutput):
    """Made by the strategy for one partition; is where the strategy's generator puts its watermarks.

    Idle is a partition without a record for the idle timeout that was read to where it ends now, also one that never had
    a record; or one whose generator says so. A record, and a watermark above the last one, make it active again; so does it,
    after a timeout, when there is something to read that did not arrive yet.
    """

    def __init__(self, strategy: WatermarkStrategy | None, now_ms: int, idle_timeout_ms: int | None = None) -> None:
        """`idle_timeout_ms` is for strategies that say nothing of idleness; None: never idle."""
        self._generator: WatermarkGenerator | None = None if strategy is None else strategy.create_generator()
        self._on_timestamps = getattr(self._generator, "on_timestamps", None)
        timeout_ms = None if strategy is None else strategy.idle_timeout_ms
        self._timeout_ms = idle_timeout_ms if timeout_ms is None else timeout_ms
        self._since_ms = now_ms
        self._heard = False
        self._timed_out = False
        self._said_idle = False
        self._watermark = NO_TIMESTAMP
        self._ended = False

    @property
    def watermark(self) -> int:
        """What was last emitted; `MAX_WATERMARK` at the end."""
        return MAX_WATERMARK if self._ended else self._watermark

    @property
    def idle(self) -> bool:
        return self._timed_out or self._said_idle

    @property
    def generates(self) -> bool:
        """False for a strategy without watermarks."""
        return self._generator is not None

    def emit_watermark(self, watermark: int) -> None:
        if watermark > self._watermark:
            if not isinstance(watermark, int):
                raise TypeError(f"emit_watermark takes int milliseconds, not {watermark!r}")
            self._watermark = min(watermark, MAX_WATERMARK)
            self._said_idle = False

    def mark_idle(self) -> None:
        self._said_idle = True

    def mark_active(self) -> None:
        self._said_idle = False

    def hear(self) -> None:
        """A record has come: it is active."""
        self._heard = True
        self._timed_out = self._said_idle = False

    def observe(self, batch: Batch) -> None:
        """The generator sees every record, in order, and may emit."""
        if self._generator is None or not batch.values:
            return
        if self._on_timestamps is not None:
            self._on_timestamps(batch.timestamps)
            return
        on_event = self._generator.on_event
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
            on_event(value, timestamp, self)

    def probe(self, now_ms: int, caught_up: Callable[[], bool], *, periodic: bool = True) -> None:
        """The periodic look. `caught_up` tells whether all that can be read was read: it is asked only when the timeout is
        over, which begins anew when there is more. `periodic` False: the generator is not asked."""
        if self._ended:
            return
        if self._timeout_ms is not None:
            self._timed_out = self._is_silent(now_ms, self._timeout_ms, caught_up)
        if periodic and not self._timed_out:
            self.ask()

    def ask(self) -> None:
        """Has the generator emit."""
        if self._generator is not None:
            self._generator.on_periodic_emit(self)

    def _is_silent(self, now_ms: int, timeout_ms: int, caught_up: Callable[[], bool]) -> bool:
        if self._heard or now_ms < self._since_ms:
            self._heard = False
            self._since_ms = now_ms
        if now_ms - self._since_ms < timeout_ms:
            return False
        if caught_up():
            return True
        self._since_ms = now_ms
        return False

    def end(self) -> None:
        """The partition was read to its end."""
        self._ended = True
