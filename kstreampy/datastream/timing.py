"""When records happened: timestamps and watermarks given anew, `assign_timestamps_and_watermarks`.

In here: `Timing`, the part of `DataStream` that has this method. Not in here: strategies (`common/watermark_strategy.py`), and
what is done by them (`operators/assign.py`; behind a source `eventtime/source_watermark.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.datastream.timestamp_assigner import (
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    strategy_of,
)
from kstreampy.graph.node import Node, StepNode
from kstreampy.operators.assign import AssignOperator

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream


class Timing:
    """What `DataStream` is made of, beside its own methods."""

    _node: Node
    _step: Callable[..., DataStream]

    def assign_timestamps_and_watermarks(
        self,
        watermark_strategy: WatermarkStrategy | AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks,
    ) -> DataStream:
        """Gives records their event time anew, and makes watermarks from it. Values pass unchanged. TypeError for anything but
        a `WatermarkStrategy`.

        Directly behind a source that has no strategy of its own (`no_watermarks()`), and with nothing else behind that
        source, it is the source's: a watermark per partition, as if it were given to `from_source`. (In Flink one per task,
        which makes records late that are only read after those of another partition.)

        In mid-stream each task makes one watermark from all records that reach it: it suits streams whose order is that of a
        single partition, or a bound that covers what is read side by side. Watermarks and idleness from before are dropped,
        except the end. Watermarks are emitted at the watermark interval, or at once where the generator emits in `on_event`:
        behind that batch of records. They never go back, over a restart too; the generator itself begins anew then.
        `with_watermark_alignment` needs a source. Behind a stream by key the result is not keyed any more.

        Deprecated: an `AssignerWithPeriodicWatermarks` or an `AssignerWithPunctuatedWatermarks`.
        """
        strategy = watermark_strategy
        if isinstance(strategy, AssignerWithPeriodicWatermarks | AssignerWithPunctuatedWatermarks):
            warnings.warn(
                "assign_timestamps_and_watermarks with an assigner is deprecated: give a WatermarkStrategy, for example "
                "WatermarkStrategy.for_generator(...).with_timestamp_assigner(...)",
                DeprecationWarning,
                stacklevel=2,
            )
            strategy = strategy_of(strategy)
        if not isinstance(strategy, WatermarkStrategy):
            raise TypeError(f"assign_timestamps_and_watermarks takes a WatermarkStrategy, not {strategy!r}")

        def build(step: str, uid: str) -> AssignOperator:
            return AssignOperator(step, uid, strategy)

        stream = self._step("timestamps_and_watermarks", build, self._node.type_info, coerce=False)
        assert isinstance(stream._node, StepNode), "a step"
        stream._node.strategy = strategy
        return stream
