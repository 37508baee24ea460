"""Elements by key and time in front of a store: order, far times, what cannot be kept or read. What a join makes of them is
tested against brute force (`operators/test_interval_join_model.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import timeline_cache
from kstreampy.state.memory import MemoryStore
from kstreampy.state.slice import rows_between
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from kstreampy.state.timeline import TimelineCache


class Kept(MemoryStore):
    def close(self) -> None: ...


def opened(store: MemoryStore, type_info: Any = None, exponent: int = 6) -> tuple[KeyedState, TimelineCache]:
    state = KeyedState(store, CacheBudget(1 << 20))
    return state, timeline_cache(state, "rows", type_info, exponent)


def commit(state: KeyedState) -> None:
    meta = TaskMeta(1, "app", states=state.types)
    state.committed(state.take_dirty(), LocalMeta("topic", 0, 0, task_meta=meta.encode()))


def test_rows_of_a_key_are_in_the_order_of_time_and_then_as_they_came() -> None:
    store = Kept()
    state, cache = opened(store)
    for number, time in enumerate([5, 3, 5, 4, 3, 5]):
        cache.slice(0).add("k", time, number)
    commit(state)
    for _, again in ((state, cache), opened(store)):
        assert [(time, value) for time, _, value in again.slice(0).entries["k"]] == [
            (3, 1), (3, 4), (4, 3), (5, 0), (5, 2), (5, 5),
        ]  # fmt: skip


def test_rows_between() -> None:
    rows = [(time, 0, None) for time in (1, 2, 4)] + [(4, 1, None), (9, 0, None)]
    assert rows_between(rows, 1, 9) is rows
    assert [row[:2] for row in rows_between(rows, 2, 4)] == [(2, 0), (4, 0), (4, 1)]
    assert rows_between(rows, 5, 8) == rows_between(rows, 10, 12) == rows_between(rows, 4, 3) == []


@pytest.mark.parametrize("time", [-(2**63) + 1, -1, 0, MAX_WATERMARK - 1, MAX_WATERMARK])
@pytest.mark.parametrize("exponent", [6, 40])
def test_times_at_the_ends_of_all_time(time: int, exponent: int) -> None:
    store = Kept()
    state, cache = opened(store, exponent=exponent)
    cache.slice(time >> exponent).add(b"(x", time, "far")
    commit(state)
    _, again = opened(store, exponent=exponent)
    (found,) = again.around(time, time)
    assert found.begin <= time <= found.end
    assert found.entries == {b"(x": [(time, 0, "far")]}
    again.drop(MAX_WATERMARK)
    assert again.around(time, time) == []


def test_a_slice_that_comes_and_goes_between_two_commits_is_written_nowhere() -> None:
    state, cache = opened(MemoryStore())
    cache.slice(0).add("k", 5, "gone")
    cache.slice(1).add("k", 64, "kept")
    cache.drop(64)
    assert [value for _, value in state.take_dirty().entries] != []
    assert len(state.take_dirty()) == 1


def test_sizes_follow_what_is_kept() -> None:
    state, cache = opened(MemoryStore())
    assert cache.size_bytes() == cache.dirty_bytes() == 0
    for number in range(1000):
        cache.slice(number >> 6).add(f"k{number % 10}", number, {"number": number, "text": "x" * 50})
    assert 50_000 < cache.dirty_bytes() < 200_000
    before = cache.size_bytes()
    commit(state)
    assert cache.dirty_bytes() == 0
    assert 200_000 < cache.size_bytes() < 1_000_000
    assert before < 2 * cache.size_bytes()
    half = cache.size_bytes() // 2
    cache.evict(half)
    assert half // 2 < cache.size_bytes() <= half
    cache.drop(10_000)
    commit(state)
    assert cache.size_bytes() == 0
    assert state.store.is_empty()


def test_what_cannot_be_stored() -> None:
    state, cache = opened(MemoryStore())
    cache.slice(0).add("k", 5, "fine")
    cache.slice(0).add("bad", 6, object())
    with pytest.raises(JobError, match="state 'rows': the value of key 'bad', a object, cannot be stored"):
        state.take_dirty()
    with pytest.raises(JobError, match="state 'rows': the value of key 'bad'"):
        state.dirty_bytes()


def test_what_is_too_large() -> None:
    state, cache = opened(MemoryStore())
    cache.slice(0).add("k", 5, "x" * 2_000_000)
    with pytest.raises(JobError, match=r"the value of key 'k' takes 2,000,\d\d\d bytes, more than the 1,000,000"):
        state.take_dirty()


def test_another_type_is_refused() -> None:
    store = Kept()
    state, cache = opened(store, Types.STRING())
    cache.slice(0).add("k", 5, "text")
    commit(state)
    with pytest.raises(JobError, match="state 'rows' holds"):
        opened(store, Types.TUPLE([Types.LONG()]))


def test_entries_that_are_none() -> None:
    store = Kept()
    state, cache = opened(store)
    cache.slice(0).add("k", 5, "text")
    commit(state)
    ((key, _),) = list(store.scan(b"rows"))
    store.write([(key[:-3], b"x")], None)
    _, again = opened(store)
    with pytest.raises(StateCorrupted, match="state 'rows': not an element's entry"):
        again.around(0, 100)
    store.write([(key[:-3], None), (key, b"\xff")], None)
    _, again = opened(store)
    with pytest.raises(JobError, match="what is stored for key 'k' cannot be read"):
        again.around(0, 100)


class Noting(Kept):
    """Notes the keys of every write."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[bytes, bytes | None]] = []

    def write(self, entries: Any, meta: bytes | None) -> None:
        entries = list(entries)
        self.noted += entries
        super().write(entries, meta)


def lived_and_died(*, written_between: bool) -> tuple[Noting, KeyedState, int]:
    """Two elements are committed, and one of them is removed with the next commit, while both wait for the store or after
    they went there. Also tells how many entries each commit gave the changelog."""
    store = Noting()
    state = KeyedState(store, CacheBudget(1 << 20), write_behind_ms=10**9)
    cache = timeline_cache(state, "rows", None, 6)
    cache.slice(0).add("k", 5, "gone")
    cache.slice(1).add("k", 70, "kept")
    commit(state)
    if written_between:
        state.discard()  # writes out what waits
    cache.drop(64)
    tombstones = [key for key, data in state.take_dirty().entries if data is None]
    commit(state)
    return store, state, len(tombstones)


def test_an_element_that_the_store_never_had_leaves_nothing_there() -> None:
    store, state, tombstones = lived_and_died(written_between=False)
    assert tombstones == 1  # for the changelog, which has it
    assert store.noted == []
    assert [data is None for data in state.behind.values()] == [False]
    state.discard()
    assert [data is None for _, data in store.noted] == [False]


def test_one_that_the_store_has_is_removed_there() -> None:
    store, state, tombstones = lived_and_died(written_between=True)
    assert tombstones == 1
    state.discard()
    assert [data is None for _, data in store.noted] == [False, False, True]
    _, again = opened(store)
    assert [slice_.entries for slice_ in again.around(0, 100)] == [{"k": [(70, 0, "kept")]}]


def test_what_an_unfinished_checkpoint_wrote_goes_to_the_store_at_once() -> None:
    """It has the same keys as what the store has already, so its removal must reach the store too."""
    store = Noting()
    state, cache = opened(store)
    cache.slice(0).add("k", 5, "a")
    commit(state)
    (key,) = [key for key, _ in store.noted]
    state = KeyedState(store, CacheBudget(1 << 20), write_behind_ms=10**9)
    cache = timeline_cache(state, "rows", None, 6)
    state.mark_dirty([key])
    commit(state)
    assert state.behind == {}
    cache.drop(64)
    commit(state)
    state.discard()
    assert state.store.is_empty()
