"""PyFlink's path for windows, assigners, triggers, and for the evictors of Flink's Java API; they live in
`kstreampy/eventtime/`."""

from __future__ import annotations

from typing import Any

from kstreampy.eventtime.assigner import MergingWindowAssigner, WindowAssigner
from kstreampy.eventtime.calendar_window import CalendarEventTimeWindows, CalendarProcessingTimeWindows
from kstreampy.eventtime.continuous_trigger import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from kstreampy.eventtime.count_assigner import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from kstreampy.eventtime.count_trigger import CountTrigger, DeltaTrigger
from kstreampy.eventtime.delta import DeltaFunction
from kstreampy.eventtime.evictor import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from kstreampy.eventtime.global_window import EndOfStreamTrigger, GlobalWindows, NeverTrigger
from kstreampy.eventtime.nesting_trigger import ProcessingTimeoutTrigger, PurgingTrigger
from kstreampy.eventtime.session_assigner import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from kstreampy.eventtime.time_assigner import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
    long_to_int_with_bit_mixing,
    mod_inverse,
)
from kstreampy.eventtime.window_serializer import CountWindowSerializer, GlobalWindowSerializer, TimeWindowSerializer
from kstreampy.operators.function import ReduceFunction

__all__ = [
    "CalendarEventTimeWindows",
    "CalendarProcessingTimeWindows",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DeltaFunction",
    "DeltaTrigger",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EndOfStreamTrigger",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "ProcessingTimeoutTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowStagger",
    "long_to_int_with_bit_mixing",
    "mod_inverse",
]


class Min(ReduceFunction):
    """The smaller of two values."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return min(value1, value2)
