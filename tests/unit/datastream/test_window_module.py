"""PyFlink's paths for windows have all of PyFlink's names."""

from __future__ import annotations

import pytest

import kstreampy.datastream as datastream
from kstreampy.common.serializer import TypeSerializer
from kstreampy.datastream import window
from kstreampy.datastream.functions import ReduceFunction

_PYFLINK = """
    long_to_int_with_bit_mixing mod_inverse Window TimeWindow CountWindow GlobalWindow TimeWindowSerializer CountWindowSerializer
    GlobalWindowSerializer TriggerResult Trigger WindowAssigner MergingWindowAssigner SessionWindowTimeGapExtractor
    EventTimeTrigger ContinuousEventTimeTrigger Min ProcessingTimeTrigger ContinuousProcessingTimeTrigger PurgingTrigger
    CountTrigger NeverTrigger CountTumblingWindowAssigner CountSlidingWindowAssigner TumblingProcessingTimeWindows
    TumblingEventTimeWindows SlidingProcessingTimeWindows SlidingEventTimeWindows ProcessingTimeSessionWindows
    EventTimeSessionWindows DynamicProcessingTimeSessionWindows DynamicEventTimeSessionWindows GlobalWindows
"""
_JAVA = """
    Evictor CountEvictor TimeEvictor DeltaEvictor TimestampedValue DeltaFunction DeltaTrigger ProcessingTimeoutTrigger
    EndOfStreamTrigger WindowStagger
"""
_TOP = "Window TimeWindow CountWindow GlobalWindow WindowAssigner MergingWindowAssigner TriggerResult Trigger"


@pytest.mark.parametrize(
    "name", [*_PYFLINK.split(), *_JAVA.split(), "CalendarEventTimeWindows", "CalendarProcessingTimeWindows"]
)
def test_the_module_has_the_name(name: str) -> None:
    assert hasattr(window, name)
    assert name in window.__all__


@pytest.mark.parametrize("name", _TOP.split())
def test_the_package_has_the_name(name: str) -> None:
    assert getattr(datastream, name) is getattr(window, name)
    assert name in datastream.__all__


def test_nested_classes() -> None:
    assert issubclass(window.Trigger.OnMergeContext, window.Trigger.TriggerContext)
    assert window.WindowAssigner.WindowAssignerContext
    assert window.MergingWindowAssigner.MergeCallback
    assert window.Evictor.EvictorContext
    assert issubclass(window.TimeWindowSerializer, TypeSerializer)


def test_min_is_a_reduce_function() -> None:
    assert isinstance(window.Min(), ReduceFunction)
    assert window.Min().reduce(3, 2) == window.Min().reduce(2, 3) == 2
