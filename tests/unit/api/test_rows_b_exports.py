"""What PyFlink's packages export of the modules in these row tests."""

from __future__ import annotations

from importlib import import_module

import pytest

EXPORTS = {
    "datastream": """
        AsyncDataStream TimerService CheckpointingMode CheckpointConfig ExternalizedCheckpointRetention RuntimeExecutionMode
        Window TimeWindow CountWindow GlobalWindow WindowAssigner MergingWindowAssigner TriggerResult Trigger TimeDomain
        SlotSharingGroup MemorySize OutputTag AsyncRetryPredicate AsyncRetryStrategy
    """,
    "datastream.window": """
        Window TimeWindow CountWindow GlobalWindow WindowAssigner TumblingProcessingTimeWindows TumblingEventTimeWindows
        SlidingProcessingTimeWindows SlidingEventTimeWindows ProcessingTimeSessionWindows EventTimeSessionWindows
        DynamicProcessingTimeSessionWindows DynamicEventTimeSessionWindows GlobalWindows MergingWindowAssigner
        CountTumblingWindowAssigner CountSlidingWindowAssigner TriggerResult Trigger EventTimeTrigger ProcessingTimeTrigger
        ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger NeverTrigger PurgingTrigger CountTrigger
        TimeWindowSerializer CountWindowSerializer GlobalWindowSerializer SessionWindowTimeGapExtractor
    """,
}


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package, names in EXPORTS.items() for name in names.split()]
)
def test_the_name_is_exported(package: str, name: str) -> None:
    module = import_module(f"kstreampy.{package}")
    assert hasattr(module, name)
    assert name in module.__all__
