"""State as it is looked at from outside: against a plain dict, committed and live, over all that an entry may wait in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.serde.key import token, typed_bytes
from kstreampy.state.budget import CacheBudget
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.handle import KeyScope
from kstreampy.state.key_range import ALL_KEYS, KeyRange, place_of
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import timeline_cache
from kstreampy.state.memory import MemoryStore
from kstreampy.state.query import MOST_ELEMENTS, StateQuery
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.ttl import StateTtlConfig

VALUE = ValueStateDescriptor("it", Types.LONG())


class Kept:
    """One state of one task, with a checkpoint that takes nothing but memory."""

    def __init__(self, descriptor: StateDescriptor, *, write_behind_ms: int = 10**9, store: Any = None) -> None:
        self.now_ms = 0
        self.state = KeyedState(
            MemoryStore() if store is None else store, CacheBudget(1 << 20), write_behind_ms=write_behind_ms
        )
        self.scope = KeyScope()
        context = TaskKeyedStateStore("step", "uid", self.state, self.scope, lambda: self.now_ms)
        self.handle: Any = context.state(descriptor)

    def at(self, key: Any) -> Any:
        self.scope.token = token(key)
        return self.handle

    def commit(self) -> None:
        self.state.committed(self.state.take_dirty(), LocalMeta("topic", 0, self.now_ms, True, None))

    def query(self, *, live: bool = False) -> StateQuery:
        return StateQuery(self.state, self.state.caches["uid/it"], live=live)

    def value(self, key: Any, *, live: bool = False) -> Any:
        row = self.query(live=live).row(token(key))
        return None if row is None else row.value

    def keys(self, keys: KeyRange = ALL_KEYS, limit: int = 1000, *, live: bool = False) -> list[Any]:
        return [row.key for row in self.query(live=live).rows(keys, limit)[0]]


def test_what_was_set_since_the_checkpoint_is_seen_live_only() -> None:
    kept = Kept(VALUE)
    kept.at("a").update(1)
    assert (kept.value("a"), kept.value("a", live=True)) == (None, 1)
    kept.commit()
    kept.at("a").update(2)
    kept.at("b").update(3)
    assert (kept.value("a"), kept.value("a", live=True)) == (1, 2)
    assert (kept.keys(), kept.keys(live=True)) == (["a"], ["a", "b"])
    kept.at("a").clear()
    assert (kept.keys(), kept.keys(live=True)) == (["a"], ["b"])
    kept.commit()
    assert (kept.keys(), kept.keys(live=True)) == (["b"], ["b"])


def test_looking_changes_nothing() -> None:
    kept = Kept(VALUE, write_behind_ms=0)
    for number in range(50):
        kept.at(f"k{number}").update(number)
    kept.commit()
    kept.at("k7").update(-1)
    kept.state.discard()
    before = kept.state.cache_bytes()
    assert kept.value("k7", live=True) == 7
    assert len(kept.keys(live=True)) == 50
    assert kept.state.cache_bytes() == before, "nothing was loaded"
    assert len(kept.state.take_dirty()) == 0
    assert kept.state.store.open_scans == 0


def test_a_listing_that_is_not_read_to_its_end_leaves_no_scan_open() -> None:
    kept = Kept(VALUE, write_behind_ms=0)
    for number in range(200):
        kept.at("x" * (number % 7 + 1) + str(number)).update(number)
    kept.commit()
    rows, more = kept.query().rows(ALL_KEYS, 3)
    assert (len(rows), more, kept.state.store.open_scans) == (3, True, 0)


def test_lists_and_maps_are_whole_committed_and_live() -> None:
    kept = Kept(ListStateDescriptor("it", Types.LONG()))
    kept.at("a").add_all([1, 2])
    kept.commit()
    kept.at("a").add(3)
    assert (kept.value("a"), kept.value("a", live=True)) == ([1, 2], [1, 2, 3])
    kept.at("a").update([9])
    assert (kept.value("a"), kept.value("a", live=True)) == ([1, 2], [9])
    assert kept.keys() == ["a"], "the counter of a list is no key"

    by_name = Kept(MapStateDescriptor("it", Types.STRING(), Types.LONG()))
    by_name.at("a").put("x", 1)
    by_name.at("a").put("y", 2)
    by_name.commit()
    by_name.at("a").put("x", 5)
    by_name.at("a").remove("y")
    by_name.at("a").put("z", 6)
    assert (by_name.value("a"), by_name.value("a", live=True)) == ({"x": 1, "y": 2}, {"x": 5, "z": 6})
    by_name.at("a").clear()
    assert (by_name.keys(), by_name.keys(live=True)) == (["a"], [])


def test_a_map_whose_keys_are_not_text_is_shown_as_pairs() -> None:
    kept = Kept(MapStateDescriptor("it", Types.TUPLE([Types.LONG(), Types.LONG()]), Types.STRING()))
    kept.at("a").put((1, 2), "x")
    assert kept.value("a", live=True) == [[[1, 2], "x"]]


def test_very_many_elements_are_cut_and_end_a_listing() -> None:
    kept = Kept(ListStateDescriptor("it", Types.LONG()))
    kept.at("a").add_all(range(MOST_ELEMENTS + 5))
    kept.at("b").add(1)
    kept.commit()
    row = kept.query().row("a")
    assert row is not None
    assert (len(row.value), row.is_cut, row.elements) == (MOST_ELEMENTS, True, MOST_ELEMENTS)
    rows, more = kept.query().rows(ALL_KEYS, 10)
    assert ([one.key for one in rows], more) == (["a"], True)


@pytest.mark.parametrize("live", [False, True])
def test_what_is_expired_is_not_there_and_looking_keeps_nothing_alive(live: bool) -> None:
    descriptor = ValueStateDescriptor("it", Types.LONG())
    ttl = StateTtlConfig.new_builder(Time.milliseconds(10)).update_ttl_on_read_and_write().build()
    descriptor.enable_time_to_live(ttl)
    kept = Kept(descriptor)
    kept.at("a").update(1)
    kept.commit()
    kept.at("a").update(1)
    kept.now_ms = 9
    assert kept.value("a", live=live) == 1
    kept.now_ms = 10
    assert kept.value("a", live=live) is None
    assert kept.keys(live=live) == []


def test_elements_expire_one_by_one() -> None:
    descriptor = MapStateDescriptor("it", Types.STRING(), Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    kept = Kept(descriptor)
    kept.at("a").put("old", 1)
    kept.now_ms = 5
    kept.at("a").put("new", 2)
    kept.commit()
    kept.now_ms = 12
    assert (kept.value("a"), kept.value("a", live=True)) == ({"new": 2}, {"new": 2})


def test_of_an_aggregating_state_the_accumulator_is_shown() -> None:
    class Mean:
        def create_accumulator(self) -> tuple[int, int]:
            return 0, 0

        def add(self, value: int, so_far: tuple[int, int]) -> tuple[int, int]:
            return so_far[0] + value, so_far[1] + 1

        def get_result(self, so_far: tuple[int, int]) -> float:
            return so_far[0] / so_far[1]

    kept = Kept(AggregatingStateDescriptor("it", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])))
    kept.at("a").add(4)
    kept.at("a").add(6)
    assert kept.value("a", live=True) == [10, 2]


def test_what_is_kept_by_time_cannot_be_asked_for() -> None:
    kept = Kept(VALUE)
    timeline_cache(kept.state, "uid/left", Types.LONG(), 10)
    with pytest.raises(JobError, match="by time"):
        StateQuery(kept.state, kept.state.caches["uid/left"], live=False)


# Ranges, against a model

KEYS = st.one_of(
    st.text(alphabet="ab\u00e9z", max_size=4),
    st.sampled_from(["x" * 127, "x" * 130, "x" * 300]),
    st.integers(-3, 3),
    st.sampled_from([-(2**63), 2**63 - 1, 2**63, -(2**70)]),
    st.booleans(),
    st.binary(max_size=2),
    st.tuples(st.integers(0, 1), st.text(alphabet="ab", max_size=1)),
)
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 9)), st.sampled_from(["", "", "commit"])))
RANGES = st.one_of(
    st.just(ALL_KEYS),
    st.builds(KeyRange, prefix=st.text(alphabet="ab\u00e9", max_size=2), least=st.none(), most=st.none()),
    st.builds(KeyRange, prefix=st.none(), least=st.text("ab", max_size=2), most=st.none() | st.text("abz", max_size=2)),
    st.builds(KeyRange, prefix=st.none(), least=st.none() | st.integers(-3, 3), most=st.integers(-3, 3)),
    st.builds(KeyRange, prefix=st.text("ab", max_size=1), least=st.text("ab", max_size=2)),
)


def in_range(key: Any, keys: Any) -> bool:
    if keys.prefix is not None and not (type(key) is str and key.startswith(keys.prefix)):
        return False
    for bound, sign in ((keys.least, 1), (keys.most, -1)):
        if bound is None:
            continue
        if type(key) is not type(bound) or (type(key) is int and not -(2**63) <= key < 2**63):
            return False
        if (key < bound and sign == 1) or (key > bound and sign == -1):
            return False
    return True


def expected(model: dict[bytes, tuple[Any, int]], keys: KeyRange) -> list[tuple[bytes, int]]:
    found = [(typed, value) for typed, (key, value) in model.items() if in_range(key, keys)]
    if keys.after is not None:
        found = [one for one in found if place_of(one[0]) > place_of(keys.after)]
    return sorted(found, key=lambda one: place_of(one[0]))


@given(changes=CHANGES, keys=RANGES, limit=st.integers(1, 4), data=st.data())
def test_listings_are_those_of_a_dict(changes: Any, keys: KeyRange, limit: int, data: st.DataObject) -> None:
    kept = Kept(VALUE, write_behind_ms=data.draw(st.sampled_from([0, 2, 10**9]), "write_behind_ms"))
    live: dict[bytes, tuple[Any, int]] = {}
    committed: dict[bytes, tuple[Any, int]] = {}
    for key, value, then in changes:
        kept.at(key).update(value)
        typed = typed_bytes(token(key))
        if value is None:
            live.pop(typed, None)
        else:
            live[typed] = (key, value)
        if then:
            kept.now_ms += 1
            kept.commit()
            committed = dict(live)
    for is_live, model in ((False, committed), (True, live)):
        wanted = expected(model, keys)
        found: list[tuple[bytes, int]] = []
        page, more = keys, True
        while more:
            rows, more = kept.query(live=is_live).rows(page, limit)
            assert len(rows) == limit or not more
            found += [(row.typed_key, row.value) for row in rows]
            if rows:
                page = KeyRange(keys.prefix, keys.least, keys.most, rows[-1].typed_key)
        assert found == wanted
        for typed, (key, value) in model.items():
            assert kept.value(key, live=is_live) == value, typed
    assert kept.state.store.open_scans == 0


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[RocksStore]:
    store = RocksStore(tmp_path / "store", RocksBudget(1 << 20))
    yield store
    store.close()


def test_the_same_over_rocksdb(rocks: RocksStore) -> None:
    kept = Kept(VALUE, write_behind_ms=5, store=rocks)
    names = [f"user-{number}" for number in range(300)]
    for round_ in range(4):
        for number, name in enumerate(names):
            if number % 4 == round_:
                kept.at(name).update(number)
        kept.now_ms += 3
        kept.commit()
    kept.at("user-12").clear()
    assert kept.keys(KeyRange(prefix="user-1"), 5) == ["user-1", "user-10", "user-100", "user-101", "user-102"]
    after = KeyRange(prefix="user-1", after=typed_bytes("user-119"))
    assert kept.keys(after, 2) == ["user-12", "user-120"]
    assert kept.keys(after, 2, live=True) == ["user-120", "user-121"]
    assert kept.keys(KeyRange(least="user-98", most="user-99")) == ["user-98", "user-99"]
    assert rocks.open_scans == 0
