"""PyFlink's functions, with their parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kstreampy.datastream import functions
from kstreampy.errors import JobError
from tests.unit.api.row import Row, check, rows

ROWS = rows(
    "datastream.functions",
    """
KeyedStateStore
    get_state(state_descriptor)
    get_list_state(state_descriptor)
    get_map_state(state_descriptor)
    get_reducing_state(state_descriptor)
    get_aggregating_state(state_descriptor)
RuntimeContext  (KeyedStateStore)
    get_task_name()
    get_number_of_parallel_subtasks()
    get_max_number_of_parallel_subtasks()
    get_index_of_this_subtask()
    get_attempt_number()
    get_task_name_with_subtasks()
    get_job_parameter(key, default_value)
    get_metrics_group()
Function
    open(runtime_context)
    close()
MapFunction  (Function)
    map(value)
CoMapFunction  (Function)
    map1(value)
    map2(value)
FlatMapFunction  (Function)
    flat_map(value)
CoFlatMapFunction  (Function)
    flat_map1(value)
    flat_map2(value)
ReduceFunction  (Function)
    reduce(value1, value2)
AggregateFunction  (Function)
    create_accumulator()
    add(value, accumulator)
    get_result(accumulator)
    merge(acc_a, acc_b)
KeySelector  (Function)
    get_key(value)
NullByteKeySelector  (KeySelector)
    get_key(value)
FilterFunction  (Function)
    filter(value)
Partitioner  (Function)
    partition(key, num_partitions)
SinkFunction  (Function)
ProcessFunction  (Function)
    process_element(value, ctx)
ProcessFunction.Context
    timer_service()
    timestamp()
KeyedProcessFunction  (Function)
    process_element(value, ctx)
    on_timer(timestamp, ctx)
KeyedProcessFunction.Context
    get_current_key()
    timer_service()
    timestamp()
KeyedProcessFunction.OnTimerContext  (Context)
    time_domain()
CoProcessFunction  (Function)
    process_element1(value, ctx)
    process_element2(value, ctx)
CoProcessFunction.Context
    timer_service()
    timestamp()
KeyedCoProcessFunction  (Function)
    process_element1(value, ctx)
    process_element2(value, ctx)
    on_timer(timestamp, ctx)
KeyedCoProcessFunction.Context
    get_current_key()
    timer_service()
    timestamp()
KeyedCoProcessFunction.OnTimerContext  (Context)
    time_domain()
AsyncRetryPredicate
    result_predicate()
    exception_predicate()
AsyncRetryStrategy
    can_retry(current_attempts)
    get_backoff_time_millis(current_attempts)
    get_retry_predicate()
    static no_restart()
    static fixed_delay(max_attempts, backoff_time_millis, result_predicate, exception_predicate)
    static exponential_backoff(max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate)
AsyncFunction  (Function)
    async_invoke(value)
    timeout(value)
AsyncFunctionDescriptor
    __init__(async_function, timeout, capacity, async_retry_strategy, output_mode)
AsyncFunctionDescriptor.OutputMode  (Enum)
    ORDERED
    UNORDERED
WindowFunction  (Function)
    apply(key, window, inputs)
AllWindowFunction  (Function)
    apply(window, inputs)
ProcessWindowFunction  (Function)
    process(key, context, elements)
    clear(context)
ProcessWindowFunction.Context
    window()
    current_processing_time()
    current_watermark()
    window_state()
    global_state()
ProcessAllWindowFunction  (Function)
    process(context, elements)
    clear(context)
ProcessAllWindowFunction.Context
    window()
    window_state()
    global_state()
PassThroughWindowFunction  (WindowFunction)
    apply(key, window, inputs)
PassThroughAllWindowFunction  (AllWindowFunction)
    apply(window, inputs)
BaseBroadcastProcessFunction  (Function)
BaseBroadcastProcessFunction.BaseContext
    timestamp()
    current_processing_time()
    current_watermark()
BaseBroadcastProcessFunction.Context  (BaseContext)
    get_broadcast_state(state_descriptor)
BaseBroadcastProcessFunction.ReadOnlyContext  (BaseContext)
    get_broadcast_state(state_descriptor)
BroadcastProcessFunction  (BaseBroadcastProcessFunction)
    process_element(value, ctx)
    process_broadcast_element(value, ctx)
BroadcastProcessFunction.Context  (Context)
BroadcastProcessFunction.ReadOnlyContext  (ReadOnlyContext)
KeyedBroadcastProcessFunction  (BaseBroadcastProcessFunction)
    process_element(value, ctx)
    process_broadcast_element(value, ctx)
    on_timer(timestamp, ctx)
KeyedBroadcastProcessFunction.Context  (Context)
KeyedBroadcastProcessFunction.ReadOnlyContext  (ReadOnlyContext)
    timer_service()
    get_current_key()
KeyedBroadcastProcessFunction.OnTimerContext  (ReadOnlyContext)
    time_domain()
    get_current_key()
""",
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)


NEEDED = [
    (functions.MapFunction, "map"),
    (functions.CoMapFunction, "map1"),
    (functions.CoMapFunction, "map2"),
    (functions.FlatMapFunction, "flat_map"),
    (functions.CoFlatMapFunction, "flat_map1"),
    (functions.CoFlatMapFunction, "flat_map2"),
    (functions.ReduceFunction, "reduce"),
    (functions.AggregateFunction, "create_accumulator"),
    (functions.AggregateFunction, "add"),
    (functions.AggregateFunction, "get_result"),
    (functions.KeySelector, "get_key"),
    (functions.FilterFunction, "filter"),
    (functions.Partitioner, "partition"),
    (functions.SinkFunction, "invoke"),
    (functions.ProcessFunction, "process_element"),
    (functions.KeyedProcessFunction, "process_element"),
    (functions.CoProcessFunction, "process_element1"),
    (functions.CoProcessFunction, "process_element2"),
    (functions.KeyedCoProcessFunction, "process_element1"),
    (functions.KeyedCoProcessFunction, "process_element2"),
    (functions.AsyncFunction, "async_invoke"),
    (functions.WindowFunction, "apply"),
    (functions.AllWindowFunction, "apply"),
    (functions.ProcessWindowFunction, "process"),
    (functions.ProcessAllWindowFunction, "process"),
    (functions.BroadcastProcessFunction, "process_element"),
    (functions.BroadcastProcessFunction, "process_broadcast_element"),
    (functions.KeyedBroadcastProcessFunction, "process_element"),
    (functions.KeyedBroadcastProcessFunction, "process_broadcast_element"),
    (functions.JoinFunction, "join"),
    (functions.FlatJoinFunction, "join"),
    (functions.CoGroupFunction, "co_group"),
    (functions.ProcessJoinFunction, "process_element"),
    (functions.MapPartitionFunction, "map_partition"),
]


@pytest.mark.parametrize(("kind", "needed"), NEEDED)
def test_a_function_without_its_method_is_refused_when_it_is_made(kind: Any, needed: str) -> None:
    """So that a misspelt method is not taken for one that gives nothing."""
    methods = {name: lambda *_: None for owner, name in NEEDED if owner is kind}
    assert isinstance(type("Whole", (kind,), methods)(), kind)
    del methods[needed]
    with pytest.raises(TypeError, match=f"abstract method '?{needed}"):
        type("Lacking", (kind,), methods)()


def test_merge_may_be_left_out() -> None:
    """Asked for by windows that merge only."""

    class Count(functions.AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def add(self, value: Any, accumulator: int) -> int:
            return accumulator + 1

        def get_result(self, accumulator: int) -> int:
            return accumulator

    with pytest.raises(JobError, match=r"Count has no merge\(\)"):
        Count().merge(0, 0)


def test_async_invoke_is_a_coroutine() -> None:
    assert inspect.iscoroutinefunction(functions.AsyncFunction.async_invoke)
