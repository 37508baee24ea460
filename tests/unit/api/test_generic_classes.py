"""Classes that take type parameters in PyFlink take as many here, where a program subclasses or annotates with them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_args

import pytest

from kstreampy.common import Time, Types
from kstreampy.datastream import AsyncDataStream, AsyncFunction, BroadcastProcessFunction
from kstreampy.datastream.functions import AsyncRetryPredicate, AsyncRetryStrategy
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.datastream.window import EventTimeTrigger, TimeWindow, Trigger, TumblingEventTimeWindows
from tests.unit.datastream.running import environment, results, stream_of

GENERIC = {
    "common.config_options": {"ConfigOption": 1, "ConfigOptions.TypedConfigOptionBuilder": 1},
    "datastream.functions": {
        "AllWindowFunction": 3,
        "AsyncFunction": 2,
        "AsyncRetryPredicate": 1,
        "AsyncRetryStrategy": 1,
        "BroadcastProcessFunction": 3,
        "KeyedBroadcastProcessFunction": 4,
        "ProcessAllWindowFunction": 3,
        "ProcessAllWindowFunction.Context": 1,
        "ProcessWindowFunction": 4,
        "ProcessWindowFunction.Context": 1,
        "WindowFunction": 4,
    },
    "datastream.async_retry_strategies": {
        "ExponentialBackoffDelayRetryStrategy": 1,
        "FixedDelayRetryStrategy": 1,
        "NoRetryStrategy": 1,
        "RetryPredicate": 1,
    },
    "datastream.state": {
        "AggregatingState": 2,
        "AppendingState": 2,
        "BroadcastState": 2,
        "ListState": 1,
        "MapState": 2,
        "MergingState": 2,
        "ReadOnlyBroadcastState": 2,
        "ReducingState": 1,
        "ValueState": 1,
    },
    "datastream.window": {
        "MergingWindowAssigner": 2,
        "MergingWindowAssigner.MergeCallback": 1,
        "Trigger": 2,
        "WindowAssigner": 2,
    },
}
WINDOWS = (
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindows",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
)


def found(module: str, name: str) -> Any:
    value: Any = import_module(f"kstreampy.{module}")
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize(
    ("module", "name", "number"),
    [(module, name, number) for module, names in GENERIC.items() for name, number in names.items()],
)
def test_a_generic_class_takes_its_parameters(module: str, name: str, number: int) -> None:
    types = (int, str, bytes, float)
    cls = found(module, name)
    assert get_args(cls[types[:number]]) == types[:number]
    with pytest.raises(TypeError, match="Too many"):
        cls[(*types[:number], bool)]


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_triggers_may_name_their_elements_type(name: str) -> None:
    """In PyFlink one parameter of each is left open. Here it is the same class, which has none."""
    cls = found("datastream.window", name)
    assert cls[int] is cls


def test_a_trigger_of_ones_own_keeps_its_parameters() -> None:
    assert get_args(Trigger[int, TimeWindow]) == (int, TimeWindow)
    with pytest.raises(TypeError, match="Too few"):
        Trigger[int]
    assert isinstance(TumblingEventTimeWindows[int].of(5).get_default_trigger(), EventTimeTrigger)


class Doubled(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value * 2]


class Never(AsyncRetryPredicate[int]):
    def result_predicate(self) -> None:
        return None

    def exception_predicate(self) -> None:
        return None


class Once(AsyncRetryStrategy[int]):
    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 1

    def get_retry_predicate(self) -> AsyncRetryPredicate[int]:
        return Never()


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Both(BroadcastProcessFunction[int, str, int]):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> list[int]:
        return [value]

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> list[int]:
        ctx.get_broadcast_state(RULES).put(value, 1)
        return [-len(value)]


def test_jobs_of_subscripted_functions_run() -> None:
    numbers, time = stream_of([1, 2]), Time.seconds(5)
    doubled = AsyncDataStream.ordered_wait_with_retry(numbers, Doubled(), time, Once(), 10)
    assert results(doubled) == [2, 4]
    env = environment()
    rules = env.from_collection(["abc"]).broadcast(RULES)
    found = results(env.from_collection([1, 2]).connect(rules).process(Both()))
    assert {1, 2} < set(found)
    assert -3 in found
