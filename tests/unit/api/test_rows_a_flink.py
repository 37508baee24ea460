"""What Flink has and PyFlink has not: the seed table's rows, and those of other classes, under the names they have here."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = [
    *rows(
        "datastream.data_stream",
        """
DataStream
    Collector
    assign_timestamps_and_watermarks(watermark_strategy)
    co_group(other_stream)
    collect_async(collector=None)
    count_window_all(size, slide=0)
    full_window_partition()
    get_id()
    get_min_resources()
    get_parallelism()
    get_preferred_resources()
    get_transformation()
    global_()
    iterate(max_wait_time_millis=0)
    join(other_stream)
    print_to_err(sink_identifier=None)
    time_window_all(size, slide=None)
    transform(operator_name, output_type, operator)
    write_as_csv(path, write_mode=None, row_delimiter="\\n", field_delimiter=",")
    write_as_text(path, write_mode=None)
    write_to_socket(host, port, schema)
    write_using_output_format(format)
KeyedStream  (DataStream)
    as_queryable_state(queryable_state_name, state_descriptor=None)
    full_window_partition()
    get_key_selector()
    get_key_type()
    interval_join(other_stream)
    max_by(position_to_max_by=0, first=True)
    min_by(position_to_min_by=0, first=True)
    time_window(size, slide=None)
KeyedStream.IntervalJoin
    between(lower_bound, upper_bound)
    in_event_time()
    in_processing_time()
KeyedStream.IntervalJoined
    lower_bound_exclusive()
    process(process_join_function, output_type=None)
    side_output_left_late_data(output_tag)
    side_output_right_late_data(output_tag)
    upper_bound_exclusive()
WindowedStream
    evictor(evictor)
    max(position_to_max=0)
    max_by(position_to_max_by=0, first=True)
    min(position_to_min=0)
    min_by(position_to_min_by=0, first=True)
    sum(position_to_sum=0)
AllWindowedStream
    evictor(evictor)
    max(position_to_max=0)
    max_by(position_to_max_by=0, first=True)
    min(position_to_min=0)
    min_by(position_to_min_by=0, first=True)
    sum(position_to_sum=0)
ConnectedStreams
    get_execution_environment()
    get_first_input()
    get_second_input()
    get_type1()
    get_type2()
    transform(function_name, output_type, operator)
BroadcastConnectedStream
    get_execution_environment()
    get_first_input()
    get_second_input()
""",
    ),
    *rows(
        "datastream.collect",
        """
Collector
    get_output()
""",
    ),
    *rows(
        "datastream.iterative_stream",
        """
IterativeStream  (DataStream)
    close_with(feedback_stream)
    with_feedback_type(feedback_type)
ConnectedIterativeStreams  (ConnectedStreams)
    close_with(feedback_stream)
""",
    ),
    *rows(
        "datastream.co_grouped_streams",
        """
CoGroupedStreams
    where(key_selector, key_type=None)
CoGroupedStreams.Where
    equal_to(key_selector, key_type=None)
CoGroupedStreams.EqualTo
    window(window_assigner)
CoGroupedStreams.WithWindow
    allowed_lateness(new_lateness)
    apply(function, output_type=None)
    evictor(new_evictor)
    trigger(new_trigger)
""",
    ),
    *rows(
        "datastream.joined_streams",
        """
JoinedStreams
    where(key_selector, key_type=None)
JoinedStreams.Where
    equal_to(key_selector, key_type=None)
JoinedStreams.EqualTo
    window(window_assigner)
JoinedStreams.WithWindow
    allowed_lateness(new_lateness)
    apply(function, output_type=None)
    evictor(new_evictor)
    trigger(new_trigger)
""",
    ),
    *rows(
        "datastream.partition_windowed_stream",
        """
PartitionWindowedStream
    aggregate(aggregate_function)
    map_partition(map_partition_function)
    reduce(reduce_function)
    sort_partition(field, order)
""",
    ),
    *rows(
        "datastream.queryable_state",
        """
QueryableStateStream
    get_key_serializer()
    get_queryable_state_name()
    get_state_descriptor()
""",
    ),
    *rows(
        "datastream.functions",
        """
AssignerWithPeriodicWatermarks
    extract_timestamp(value, record_timestamp)
    get_current_watermark()
AssignerWithPunctuatedWatermarks
    check_and_get_next_watermark(last_element, extracted_timestamp)
    extract_timestamp(value, record_timestamp)
CoGroupFunction  (Function)
    co_group(first, second)
FlatJoinFunction  (Function)
    join(first, second)
JoinFunction  (Function)
    join(first, second)
KeyedBroadcastProcessFunction.Context
    apply_to_keyed_state(state_descriptor, function)
MapPartitionFunction  (Function)
    map_partition(values)
ProcessFunction.Context
    output(output_tag, value)
KeyedProcessFunction.Context
    output(output_tag, value)
CoProcessFunction.Context
    output(output_tag, value)
KeyedCoProcessFunction.OnTimerContext
    output(output_tag, value)
ProcessWindowFunction.Context
    output(output_tag, value)
ProcessAllWindowFunction.Context
    current_processing_time()
    current_watermark()
    output(output_tag, value)
BroadcastProcessFunction.Context
    output(output_tag, value)
BroadcastProcessFunction.ReadOnlyContext
    output(output_tag, value)
ProcessJoinFunction  (Function)
    process_element(left, right, ctx)
ProcessJoinFunction.Context
    get_left_timestamp()
    get_right_timestamp()
    get_timestamp()
    output(output_tag, value)
SinkFunction  (Function)
    invoke(value, context)
SinkFunction.Context
    current_processing_time()
    current_watermark()
    timestamp()
""",
    ),
    *rows(
        "datastream.state",
        """
StateDescriptor
    get_ttl_config()
StateTtlConfig
    DISABLED
    get_time_to_live()
""",
    ),
    *rows(
        "datastream.stream_execution_environment",
        """
StreamExecutionEnvironment
    from_elements(*elements)
    from_sequence(start, end)
    get_configuration()
""",
    ),
    *rows(
        "datastream.window",
        """
Evictor
    evict_after(elements, size, window, evictor_context)
    evict_before(elements, size, window, evictor_context)
Evictor.EvictorContext
    get_current_processing_time()
    get_current_watermark()
    get_metric_group()
CountEvictor  (Evictor)
    static of(max_count, do_evict_after=False)
DeltaEvictor  (Evictor)
    static of(threshold, delta_function, do_evict_after=False)
TimeEvictor  (Evictor)
    static of(window_size, do_evict_after=False)
TimestampedValue
    get_timestamp()
    get_value()
    has_timestamp()
DeltaTrigger  (Trigger)
    static of(threshold, delta_function, state_type=None)
ProcessingTimeoutTrigger  (Trigger)
    static of(nested_trigger, timeout, reset_timer_on_new_record, should_clear_on_timeout)
EndOfStreamTrigger  (Trigger)
GlobalWindows
    static create_with_end_of_stream_trigger()
WindowStagger
    ALIGNED
    NATURAL
    RANDOM
TumblingEventTimeWindows
    class of(size, offset=None, window_stagger=WindowStagger.ALIGNED)
TumblingProcessingTimeWindows
    class of(size, offset=None, window_stagger=WindowStagger.ALIGNED)
""",
    ),
    *rows(
        "common.watermark_strategy",
        """
WatermarkStrategy
    static for_generator(factory)
WatermarkGenerator
    on_event(event, timestamp, output)
    on_periodic_emit(output)
WatermarkOutput
    emit_watermark(watermark)
    mark_active()
    mark_idle()
""",
    ),
    *rows(
        "common.order",
        """
Order
    ASCENDING
    DESCENDING
""",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
