"""Flink's old way of giving a stream time, deprecated since 1.11: one object that assigns timestamps and makes watermarks.

In here: its two classes, which users subclass, and the `WatermarkStrategy` that one of them stands for. (Not in PyFlink.)
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from functools import partial
from typing import Any

from kstreampy.common.watermark_generator import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from kstreampy.common.watermark_strategy import WatermarkStrategy


class AssignerWithPeriodicWatermarks(TimestampAssigner):
    """Deprecated: `WatermarkStrategy.for_generator(...).with_timestamp_assigner(...)`.

    Watermarks are made by a copy of the object, one for each partition (or task in mid-stream), whose `extract_timestamp` is
    called for each of its elements, too. So the timestamp must follow from the element and its record timestamp alone."""

    @abstractmethod
    def get_current_watermark(self) -> int | None:
        """In ms; None for none as yet. Asked for at the watermark interval."""


class AssignerWithPunctuatedWatermarks(TimestampAssigner):
    """Deprecated, as `AssignerWithPeriodicWatermarks`, which tells how it is used."""

    @abstractmethod
    def check_and_get_next_watermark(self, last_element: Any, extracted_timestamp: int) -> int | None:
        """In ms; None for none. Asked for after each element."""


class _Generator(WatermarkGenerator):
    def __init__(self, assigner: AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks) -> None:
        self._assigner = copy.deepcopy(assigner)

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        assigner = self._assigner
        assigner.extract_timestamp(event, timestamp)
        if isinstance(assigner, AssignerWithPunctuatedWatermarks):
            _emit(assigner.check_and_get_next_watermark(event, timestamp), output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if isinstance(self._assigner, AssignerWithPeriodicWatermarks):
            _emit(self._assigner.get_current_watermark(), output)


def _emit(watermark: int | None, output: WatermarkOutput) -> None:
    if watermark is not None:
        output.emit_watermark(watermark)


def strategy_of(assigner: AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks) -> WatermarkStrategy:
    """What the assigner stands for."""
    return WatermarkStrategy.for_generator(partial(_Generator, assigner)).with_timestamp_assigner(assigner)
