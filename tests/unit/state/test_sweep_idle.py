"""Expired state of a task that gets no records: `KeyedState.sweep` finds it, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.state.descriptor import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Store
from kstreampy.state.ttl import StateTtlConfig
from tests.unit.state.stage import CountingStore, Stage

TTL = 100
ANY = Types.PICKLED_BYTE_ARRAY()
CONFIG = StateTtlConfig.new_builder(Time.milliseconds(TTL)).build()


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "store", RocksBudget(16 << 20))
    yield store
    store.close()


def opened(stage: Stage) -> tuple[Any, Any, Any]:
    descriptors = ValueStateDescriptor("v", ANY), ListStateDescriptor("l", ANY), MapStateDescriptor("m", ANY, ANY)
    for descriptor in descriptors:
        descriptor.enable_time_to_live(CONFIG)
    value, listed, mapped = descriptors
    handles = stage.handles
    return handles.get_state(value), handles.get_list_state(listed), handles.get_map_state(mapped)


def write(stage: Stage, keys: range) -> None:
    value, listed, mapped = opened(stage)
    for stage.scope.token in keys:
        value.update(stage.scope.token)
        listed.add_all([1, 2])
        mapped.put("x", 1)


def idle(stage: Stage, checkpoints: int) -> int:
    """Checkpoints of a task that gets no records; how many of them had something to write."""
    written = 0
    for _ in range(checkpoints):
        if stage.state.sweep():
            stage.commit()
            written += 1
    return written


@pytest.mark.parametrize("how", ["as written", "restarted", "evicted"])
def test_everything_goes_in_time(store: Store, how: str) -> None:
    stage = Stage(store, budget_bytes=1 if how == "evicted" else 1 << 26)
    write(stage, range(10))
    stage.commit()
    stage.now_ms = TTL - 1
    write(stage, range(3))
    stage.commit()
    if how == "restarted":
        stage.start()
        opened(stage)
    assert idle(stage, 5) == 0
    stage.now_ms = TTL
    assert idle(stage, 5) >= 1
    assert len(stage.stored()) == 3 * 4
    assert idle(stage, 5) == 0
    stage.now_ms = 2 * TTL
    assert idle(stage, 5) >= 1
    assert stage.stored() == {}
    assert stage.state.sweep() is False


def test_what_waits_for_the_store_is_found_too() -> None:
    """Committed entries may wait in memory; the sweep, which looks at the store, brings them there first."""
    stage = Stage()
    write(stage, range(5))
    stage.commit()
    stage.write_behind_ms = 10**9
    stage.start()
    write(stage, range(5, 8))
    stage.commit()
    assert stage.state.behind
    stage.now_ms = TTL
    assert idle(stage, 4) >= 1
    assert stage.state.sweep() is False
    assert not stage.state.behind
    assert stage.stored() == {}


def test_between_two_rounds_nothing_is_read() -> None:
    """Once all was looked at, the store is left alone until the first entry may expire."""
    store = CountingStore()
    stage = Stage(store)
    write(stage, range(5))
    stage.restart()
    opened(stage)
    idle(stage, 3)
    scans = store.scans
    stage.now_ms = TTL - 1
    assert idle(stage, 10) == 0
    assert store.scans == scans
    stage.now_ms = TTL
    assert idle(stage, 10) >= 1
    assert stage.stored() == {}


def test_state_without_a_ttl_costs_nothing() -> None:
    store = CountingStore()
    stage = Stage(store)
    stage.handles.get_state(ValueStateDescriptor("v", ANY)).update(1)
    stage.commit()
    scans = store.scans
    assert stage.state.sweep() is False
    assert store.scans == scans


def test_a_restore_is_looked_at_anew() -> None:
    """Another worker's older entries come into a store whose round told of none."""
    other = Stage()
    write(other, range(4))
    other.commit()
    stage = Stage()
    opened(stage)
    stage.now_ms = TTL + 50
    assert idle(stage, 3) == 0
    stage.state.apply(other.log, stage.local())
    assert idle(stage, 3) >= 1
    assert stage.stored() == {}
