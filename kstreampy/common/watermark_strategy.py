"""`WatermarkStrategy`: how a stream gets timestamps and watermarks, as data. The generators are
`watermark_generator.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kstreampy.common.time import Amount, to_millis
from kstreampy.common.watermark_generator import (
    AscendingTimestampsWatermarks,
    AssignerFunction,
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
)

__all__ = [
    "AscendingTimestampsWatermarks",
    "BoundedOutOfOrdernessWatermarks",
    "NoWatermarksGenerator",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]


@dataclass(frozen=True, slots=True)
class WatermarkAlignment:
    """Sources of one `group` read no further than `max_drift_ms` ahead of the slowest, looked at every
    `update_interval_ms`."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


@dataclass(frozen=True, slots=True)
class _Bounded:
    """Makes bounded generators; a class so that strategies compare and pickle."""

    bound_ms: int

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.bound_ms)


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """Immutable: every `with_…` returns a new strategy that keeps all other settings (PyFlink's loses some).

    For the runtime: `create_generator()`, `timestamp_assigner`, `idle_timeout_ms`, `alignment`.
    """

    generator_factory: Callable[[], WatermarkGenerator] | None = None
    timestamp_assigner: AssignerFunction | None = None
    """`(value, record timestamp in ms or -2^63) -> timestamp in ms`; None keeps the records' own
    timestamps."""
    idle_timeout_ms: int | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that never decrease within a partition: the watermark is the latest - 1 ms."""
        return WatermarkStrategy(AscendingTimestampsWatermarks)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Amount) -> WatermarkStrategy:
        """For elements at most so much later than the latest one. `ValueError` for a negative bound."""
        bound_ms = BoundedOutOfOrdernessWatermarks(max_out_of_orderness).bound_ms
        return WatermarkStrategy(_Bounded(bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks at all: event-time timers fire at the end of a bounded input only."""
        return WatermarkStrategy(None)

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """For a generator of your own: a subclass of `WatermarkGenerator`, or a function that makes one."""
        if isinstance(factory, WatermarkGenerator) or not callable(factory):
            raise TypeError(
                "for_generator takes a class or a function that makes a new WatermarkGenerator for each "
                f"partition, not {factory!r}"
            )
        return WatermarkStrategy(factory)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner | AssignerFunction) -> WatermarkStrategy:
        """Takes a `TimestampAssigner` or any function `(value, record_timestamp) -> int ms`."""
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, timestamp_assigner=timestamp_assigner.extract_timestamp)
        if isinstance(timestamp_assigner, type) or not callable(timestamp_assigner):
            raise TypeError(
                "with_timestamp_assigner takes a TimestampAssigner or a function "
                f"(value, record_timestamp) -> int, not {timestamp_assigner!r}"
            )
        return replace(self, timestamp_assigner=timestamp_assigner)

    def with_idleness(self, idle_timeout: Amount) -> WatermarkStrategy:
        """A partition without a record for so long does not hold the watermark back. `ValueError` unless
        above zero."""
        idle_timeout_ms = to_millis(idle_timeout)
        if idle_timeout_ms <= 0:
            raise ValueError(f"with_idleness: the timeout must be at least 1 ms, not {idle_timeout_ms} ms")
        return replace(self, idle_timeout_ms=idle_timeout_ms)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: Amount, update_interval: Amount | None = None
    ) -> WatermarkStrategy:
        """Sources of the same group wait for each other; `update_interval` is 1 s by default."""
        drift_ms = to_millis(max_allowed_watermark_drift)
        interval_ms = 1000 if update_interval is None else to_millis(update_interval)
        if not watermark_group or drift_ms < 0 or interval_ms <= 0:
            raise ValueError(
                "with_watermark_alignment: needs a group's name, a drift of at least 0 ms and an interval of "
                f"at least 1 ms, not {watermark_group!r}, {drift_ms} ms, {interval_ms} ms"
            )
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift_ms, interval_ms))

    def create_generator(self) -> WatermarkGenerator | None:
        """A new generator, for one partition; None for no watermarks."""
        if self.generator_factory is None:
            return None
        generator = self.generator_factory()
        if not isinstance(generator, WatermarkGenerator):
            raise TypeError(f"the factory given to for_generator made {generator!r}, which is no WatermarkGenerator")
        return generator
