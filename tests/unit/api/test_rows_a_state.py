"""PyFlink's state, with its parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = rows(
    "datastream.state",
    """
OperatorStateStore
    get_broadcast_state(state_descriptor)
State
    clear()
ValueState  (State)
    value()
    update(value)
AppendingState  (State)
    get()
    add(value)
MergingState  (AppendingState)
ReducingState  (MergingState)
AggregatingState  (MergingState)
ListState  (MergingState)
    update(values)
    add_all(values)
    __iter__()
MapState  (State)
    get(key)
    put(key, value)
    put_all(dict_value)
    remove(key)
    contains(key)
    items()
    keys()
    values()
    is_empty()
    __getitem__(key)
    __setitem__(key, value)
    __delitem__(key)
    __contains__(key)
    __iter__()
ReadOnlyBroadcastState  (State)
    get(key)
    contains(key)
    items()
    keys()
    values()
    is_empty()
    __getitem__(key)
    __contains__(key)
    __iter__()
BroadcastState  (ReadOnlyBroadcastState)
    put(key, value)
    put_all(dict_value)
    remove(key)
    __setitem__(key, value)
    __delitem__(key)
StateDescriptor
    __init__(name, type_info)
    get_name()
    enable_time_to_live(ttl_config)
ValueStateDescriptor  (StateDescriptor)
    __init__(name, value_type_info)
ListStateDescriptor  (StateDescriptor)
    __init__(name, elem_type_info)
MapStateDescriptor  (StateDescriptor)
    __init__(name, key_type_info, value_type_info)
ReducingStateDescriptor  (StateDescriptor)
    __init__(name, reduce_function, type_info)
    get_reduce_function()
AggregatingStateDescriptor  (StateDescriptor)
    __init__(name, agg_function, state_type_info)
    get_agg_function()
StateTtlConfig
    __init__(update_type, state_visibility, ttl_time_characteristic, ttl, cleanup_strategies)
    static new_builder(ttl)
    get_update_type()
    get_state_visibility()
    get_ttl()
    get_ttl_time_characteristic()
    is_enabled()
    get_cleanup_strategies()
StateTtlConfig.UpdateType  (Enum)
    Disabled
    OnCreateAndWrite
    OnReadAndWrite
StateTtlConfig.StateVisibility  (Enum)
    ReturnExpiredIfNotCleanedUp
    NeverReturnExpired
StateTtlConfig.TtlTimeCharacteristic  (Enum)
    ProcessingTime
StateTtlConfig.Builder
    __init__(ttl)
    set_update_type(update_type)
    update_ttl_on_create_and_write()
    update_ttl_on_read_and_write()
    set_state_visibility(state_visibility)
    return_expired_if_not_cleaned_up()
    never_return_expired()
    set_ttl_time_characteristic(ttl_time_characteristic)
    use_processing_time()
    cleanup_full_snapshot()
    cleanup_incrementally(cleanup_size, run_cleanup_for_every_record)
    cleanup_in_rocksdb_compact_filter(query_time_after_num_entries, periodic_compaction_time=None)
    disable_cleanup_in_background()
    set_ttl(ttl)
    build()
StateTtlConfig.CleanupStrategies
    EMPTY_STRATEGY
    __init__(strategies, is_cleanup_in_background)
    is_cleanup_in_background()
    in_full_snapshot()
    get_incremental_cleanup_strategy()
    get_rocksdb_compact_filter_cleanup_strategy()
StateTtlConfig.CleanupStrategies.Strategies  (Enum)
    FULL_STATE_SCAN_SNAPSHOT
    INCREMENTAL_CLEANUP
    ROCKSDB_COMPACTION_FILTER
StateTtlConfig.CleanupStrategies.CleanupStrategy
StateTtlConfig.CleanupStrategies.EmptyCleanupStrategy  (CleanupStrategy)
StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy  (CleanupStrategy)
    __init__(cleanup_size, run_cleanup_for_every_record)
    get_cleanup_size()
    run_cleanup_for_every_record()
StateTtlConfig.CleanupStrategies.RocksdbCompactFilterCleanupStrategy  (CleanupStrategy)
    __init__(query_time_after_num_entries, periodic_compaction_time=None)
    get_query_time_after_num_entries()
    get_periodic_compaction_time()
""",
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
