"""`StateTtlConfig`: PyFlink's builder and what comes out of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kstreampy.common.time import Duration, Time
from kstreampy.common.typeinfo import Types
from kstreampy.datastream.state import StateTtlConfig, ValueStateDescriptor

UpdateType = StateTtlConfig.UpdateType
StateVisibility = StateTtlConfig.StateVisibility
Strategies = StateTtlConfig.CleanupStrategies.Strategies


def test_unless_told_otherwise() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config.is_enabled()
    assert config.get_update_type() is UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.get_ttl() == Time.seconds(1)
    assert config.get_time_to_live() == Duration.of_seconds(1)
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    rocksdb = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert incremental is not None
    assert rocksdb is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert rocksdb.get_periodic_compaction_time() == Duration.of_days(30)


def test_what_was_asked_for() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(7, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .set_ttl(Time.hours(2))
        .build()
    )
    assert config.get_update_type() is UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateVisibility.ReturnExpiredIfNotCleanedUp
    assert config.get_ttl() == Time.hours(2)
    strategies = config.get_cleanup_strategies()
    assert strategies.in_full_snapshot()
    assert not strategies.is_cleanup_in_background()
    incremental = strategies.get_incremental_cleanup_strategy()
    rocksdb = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert incremental is not None
    assert rocksdb is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    assert rocksdb.get_query_time_after_num_entries() == 7
    assert rocksdb.get_periodic_compaction_time() == Duration.of_hours(1)
    assert "OnReadAndWrite" in repr(config)


def test_setters_by_their_values() -> None:
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_update_type(UpdateType.Disabled)
        .set_state_visibility(StateVisibility.ReturnExpiredIfNotCleanedUp)
        .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)
        .never_return_expired()
        .build()
    )
    assert not config.is_enabled()
    assert config.get_state_visibility() is StateVisibility.NeverReturnExpired
    again = StateTtlConfig.new_builder(Time.seconds(1)).set_update_type(UpdateType.Disabled)
    assert again.update_ttl_on_create_and_write().build().is_enabled()


def test_nothing_in_the_background() -> None:
    strategies = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background().build()
    assert strategies.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    assert strategies.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is None


def test_the_strategies_are_the_users_too() -> None:
    kinds = StateTtlConfig.CleanupStrategies
    strategies = kinds({Strategies.FULL_STATE_SCAN_SNAPSHOT: kinds.EMPTY_STRATEGY}, False)
    assert strategies.in_full_snapshot()
    assert isinstance(kinds.EMPTY_STRATEGY, kinds.EmptyCleanupStrategy)
    assert isinstance(kinds.IncrementalCleanupStrategy(1, False), kinds.CleanupStrategy)
    assert isinstance(kinds.RocksdbCompactFilterCleanupStrategy(1), kinds.CleanupStrategy)


@pytest.mark.parametrize("ttl", [Time.milliseconds(0), Time.seconds(-1), 0, timedelta(0)])
def test_a_ttl_must_be_positive(ttl: Any) -> None:
    with pytest.raises(ValueError, match="a TTL must be at least 1 ms"):
        StateTtlConfig.new_builder(ttl)
    with pytest.raises(ValueError, match="a TTL must be at least 1 ms"):
        StateTtlConfig.new_builder(Time.seconds(1)).set_ttl(ttl)


def test_what_is_no_member_is_refused() -> None:
    builder = StateTtlConfig.new_builder(Duration.of_millis(5))
    setters: list[Any] = [builder.set_update_type, builder.set_state_visibility, builder.set_ttl_time_characteristic]
    for use in setters:
        with pytest.raises(TypeError, match="expected a StateTtlConfig"):
            use("OnReadAndWrite")
    with pytest.raises(ValueError, match="cleanup_size"):
        builder.cleanup_incrementally(0, False)


def test_a_descriptor_takes_it() -> None:
    descriptor = ValueStateDescriptor("v", Types.LONG())
    assert not descriptor.get_ttl_config().is_enabled()
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    descriptor.enable_time_to_live(config)
    assert descriptor.get_ttl_config() is config
    with pytest.raises(TypeError, match="state 'v': enable_time_to_live takes a StateTtlConfig"):
        descriptor.enable_time_to_live(Time.seconds(1))  # type: ignore[arg-type]
    assert not StateTtlConfig.DISABLED.is_enabled()
