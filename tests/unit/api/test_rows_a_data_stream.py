"""PyFlink's streams, with their parameters."""

from __future__ import annotations

import pytest

from kstreampy.common import Types
from kstreampy.datastream import DataStream, KeyedStream
from tests.unit.api.row import Row, check, rows
from tests.unit.datastream.running import stream_of

ROWS = rows(
    "datastream.data_stream",
    """
DataStream
    get_name()
    name(name)
    uid(uid)
    set_uid_hash(uid_hash)
    set_parallelism(parallelism)
    set_max_parallelism(max_parallelism)
    get_type()
    get_execution_environment()
    get_execution_config()
    force_non_parallel()
    set_buffer_timeout(timeout_millis)
    start_new_chain()
    disable_chaining()
    slot_sharing_group(slot_sharing_group)
    set_description(description)
    map(func, output_type=None)
    flat_map(func, output_type=None)
    filter(func)
    window_all(window_assigner)
    union(*streams)
    connect(ds)
    shuffle()
    project(*field_indexes)
    rescale()
    rebalance()
    forward()
    broadcast(broadcast_state_descriptor=None, *other_broadcast_state_descriptors)
    process(func, output_type=None)
    assign_timestamps_and_watermarks(watermark_strategy)
    partition_custom(partitioner, key_selector)
    add_sink(sink_func)
    sink_to(sink)
    execute_and_collect(job_execution_name=None, limit=None)
    print(sink_identifier=None)
    get_side_output(output_tag)
    cache()
DataStreamSink
    name(name)
    uid(uid)
    set_uid_hash(uid_hash)
    set_parallelism(parallelism)
    set_description(description)
    disable_chaining()
    slot_sharing_group(slot_sharing_group)
KeyedStream  (DataStream)
    map(func, output_type=None)
    flat_map(func, output_type=None)
    reduce(func)
    filter(func)
    sum(position_to_sum=0)
    min(position_to_min=0)
    max(position_to_max=0)
    min_by(position_to_min_by=0)
    max_by(position_to_max_by=0)
    add_sink(sink_func)
    process(func, output_type=None)
    window(window_assigner)
    count_window(size, slide=0)
    union(*streams)
    connect(ds)
    shuffle()
    project(*field_indexes)
    rescale()
    rebalance()
    forward()
    broadcast(*args)
    partition_custom(partitioner, key_selector)
    print(sink_identifier=None)
    set_parallelism(parallelism)
    name(name)
    get_name()
    uid(uid)
    set_uid_hash(uid_hash)
    set_max_parallelism(max_parallelism)
    force_non_parallel()
    set_buffer_timeout(timeout_millis)
    start_new_chain()
    disable_chaining()
    slot_sharing_group(slot_sharing_group)
    cache()
CachedDataStream  (DataStream)
    invalidate()
    set_parallelism(parallelism)
    name(name)
    get_name()
    uid(uid)
    set_uid_hash(uid_hash)
    set_max_parallelism(max_parallelism)
    force_non_parallel()
    set_buffer_timeout(timeout_millis)
    start_new_chain()
    disable_chaining()
    slot_sharing_group(slot_sharing_group)
WindowedStream
    __init__(keyed_stream, window_assigner)
    get_execution_environment()
    get_input_type()
    trigger(trigger)
    allowed_lateness(time_ms)
    side_output_late_data(output_tag)
    reduce(reduce_function, window_function=None, output_type=None)
    aggregate(aggregate_function, window_function=None, accumulator_type=None, output_type=None)
    apply(window_function, output_type=None)
    process(process_window_function, output_type=None)
AllWindowedStream
    __init__(data_stream, window_assigner)
    get_execution_environment()
    get_input_type()
    trigger(trigger)
    allowed_lateness(time_ms)
    side_output_late_data(output_tag)
    reduce(reduce_function, window_function=None, output_type=None)
    aggregate(aggregate_function, window_function=None, accumulator_type=None, output_type=None)
    apply(window_function, output_type=None)
    process(process_window_function, output_type=None)
ConnectedStreams
    __init__(stream1, stream2)
    key_by(key_selector1, key_selector2, key_type=None)
    map(func, output_type=None)
    flat_map(func, output_type=None)
    process(func, output_type=None)
BroadcastStream
    __init__(input_stream, broadcast_state_descriptors)
BroadcastConnectedStream
    __init__(non_broadcast_stream, broadcast_stream, broadcast_state_descriptors)
    process(func, output_type=None)
CloseableIterator
    __iter__()
    __enter__()
    __exit__(exc_type, exc_val, exc_tb)
    next()
    close()
""",
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("kind", [DataStream, KeyedStream])
def test_key_by_takes_a_key_type_in_the_second_place_or_by_name(kind: type[DataStream]) -> None:
    """PyFlink's `key_by(key_selector, key_type=None)`; the signature has room for positions and names, too."""
    origin = stream_of([1])
    stream = origin if kind is DataStream else origin.key_by(str)
    assert type(stream) is kind
    assert stream.key_by(abs).get_key_type() is None
    assert stream.key_by(key_selector=abs).get_key_type() is None
    assert stream.key_by(abs, None).get_key_type() is None
    assert stream.key_by(abs, Types.INT()).get_key_type() == Types.INT()
    assert stream.key_by(abs, key_type=Types.INT()).get_key_type() == Types.INT()
