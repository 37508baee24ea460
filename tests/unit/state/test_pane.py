"""The panes of windows in front of a store: what is read, what is written, what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.serde.typed import codec_for
from kstreampy.state.layout import name_prefix, pane_end, pane_prefix
from kstreampy.state.memory import MemoryStore
from kstreampy.state.pane import Pane, PaneCache
from kstreampy.state.store import Entry, Scan

codec = codec_for(None)


class CountingStore(MemoryStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: list[int] = []
        self.scans = 0
        self.seeks = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.gets.append(len(keys))
        assert list(keys) == sorted(keys)
        return super().get_many(keys)

    def scan(self, prefix: bytes, least: bytes = b"") -> Scan:
        self.scans += 1
        return super().scan(prefix, least)

    def first_key(self, prefix: bytes, least: bytes) -> bytes | None:
        self.seeks += 1
        return super().first_key(prefix, least)


def put(cache: PaneCache, end: int, values: dict[Any, Any]) -> Pane:
    pane = cache.pane(end)
    cache.read(pane, values)
    pane.entries.update(values)
    pane.dirty.update(values)
    return pane


def commit(cache: PaneCache, store: MemoryStore) -> list[Entry]:
    entries = cache.encode_dirty()
    assert dict(entries) == dict(cache.encode_dirty())
    store.write(entries, None)
    cache.committed()
    assert cache.encode_dirty() == []
    return entries


def committed(values: dict[int, dict[Any, Any]]) -> tuple[CountingStore, PaneCache]:
    """A store that holds these panes, and a new cache before it."""
    store = CountingStore()
    writer = PaneCache("w", codec, store, complete=True)
    for end, entries in values.items():
        put(writer, end, entries)
    commit(writer, store)
    return store, PaneCache("w", codec, store)


def drained(cache: PaneCache, end: int, *, remove: bool = True) -> dict[Any, Any]:
    pane = cache.panes()[end]
    return {
        token: value
        for tokens, values in cache.chunks(pane, remove=remove)
        for token, value in zip(tokens, values, strict=True)
    }


def test_a_pane_that_came_and_went_between_two_checkpoints_is_not_written() -> None:
    store = CountingStore()
    cache = PaneCache("w", codec, store, complete=True)
    put(cache, 10, {"a": 1, "b": 2})
    assert drained(cache, 10) == {"a": 1, "b": 2}
    assert cache.encode_dirty() == []
    assert cache.panes() == {}
    assert (store.gets, store.scans, store.seeks) == ([], 0, 0)


def test_a_pane_that_was_written_leaves_tombstones_for_what_was_written() -> None:
    store = MemoryStore()
    cache = PaneCache("w", codec, store, complete=True)
    put(cache, 10, {"a": 1})
    commit(cache, store)
    put(cache, 10, {"b": 2})
    cache.remove(cache.panes()[10])
    assert [data for _, data in commit(cache, store)] == [None]
    assert store.is_empty()


@pytest.mark.parametrize("ends", [[-20, -10, 0, 10, 300, 1 << 40], [-(2**63), 2**63 - 1]])
def test_entries_lie_in_the_order_of_their_panes(ends: list[int]) -> None:
    prefix = name_prefix("w")
    keys = [pane_prefix(prefix, end) + b"z" for end in ends]
    assert keys == sorted(keys)
    assert [pane_end(prefix, key) for key in keys] == ends


def test_a_restart_finds_the_panes_with_one_seek_each() -> None:
    ends = [-10, 0, 10, 2**63 - 1]
    store, cache = committed({end: dict.fromkeys(range(100), end) for end in ends})
    assert sorted(cache.panes()) == ends
    assert store.seeks <= len(ends) + 1
    assert (store.gets, store.scans) == ([], 0)
    assert drained(cache, 10) == dict.fromkeys(range(100), 10)


def test_the_panes_of_another_state_are_not_seen() -> None:
    store, _ = committed({10: {"a": 1}})
    assert PaneCache("w2", codec, store).panes() == {}
    assert PaneCache("v", codec, store).panes() == {}


def test_a_stored_pane_is_closed_by_one_scan_and_no_look_ups() -> None:
    store, cache = committed({10: {number: number for number in range(1000)}, 20: {"later": 1}})
    assert drained(cache, 10) == {number: number for number in range(1000)}
    assert (store.gets, store.scans) == ([], 1)
    assert len(commit(cache, store)) == 1000
    assert drained(PaneCache("w", codec, store), 20) == {"later": 1}
    assert store.open_scans == 0


def test_the_misses_of_a_batch_are_read_at_once_and_only_they() -> None:
    store, cache = committed({10: {"a": 1, "b": 2, 3: 3}})
    pane = cache.pane(10)
    cache.read(pane, ["b", "x", 3, "b"])
    assert pane.entries == {"b": 2, 3: 3}
    assert store.gets == [3]
    cache.read(pane, ["b", 3])
    assert store.gets == [3]


def test_a_new_pane_is_known_to_be_empty() -> None:
    store, cache = committed({10: {"a": 1}})
    put(cache, 20, {"a": 2})
    assert store.gets == []


def test_memory_wins_over_the_store_when_a_pane_is_drained() -> None:
    store, cache = committed({10: {"a": 1, "b": 2}})
    put(cache, 10, {"a": 100, "c": 3})
    assert drained(cache, 10, remove=False) == {"a": 100, "b": 2, "c": 3}
    assert 10 in cache.panes()
    assert drained(cache, 10) == {"a": 100, "b": 2, "c": 3}
    assert {data for _, data in cache.encode_dirty()} == {None}
    commit(cache, store)
    assert store.is_empty()


def test_a_whole_pane_is_read_by_one_scan() -> None:
    store, cache = committed({10: {"a": 1, "b": 2}})
    put(cache, 10, {"a": 5})
    pane = cache.panes()[10]
    assert cache.whole(pane) == {"a": 5, "b": 2}
    assert cache.whole(pane) is pane.entries
    assert store.scans == 1
    cache.remove(pane)
    commit(cache, store)
    assert store.is_empty()


def test_large_panes_are_drained_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreampy.state.pane._CHUNK", 3)
    _, cache = committed({10: {number: number for number in range(10)}})
    put(cache, 10, {number: number for number in range(20, 27)})
    sizes = [len(tokens) for tokens, _ in cache.chunks(cache.panes()[10], remove=False)]
    assert sum(sizes) == 17
    assert max(sizes) <= 3


def test_the_panes_used_least_of_late_are_evicted_first_and_come_back() -> None:
    store = CountingStore()
    cache = PaneCache("w", codec, store, complete=True)
    for end in (10, 20, 30):
        put(cache, end, {number: number for number in range(500)})
    commit(cache, store)
    cache.pane(10)
    size = cache.size_bytes()
    cache.evict(size * 2 // 3)
    held = {end: len(pane.entries) for end, pane in cache.panes().items()}
    assert held[20] < 500
    assert held[10] == held[30] == 500
    assert cache.size_bytes() <= size * 0.8
    cache.read(cache.panes()[20], [1, 499])
    assert cache.panes()[20].entries[1] == 1
    for end in (10, 20, 30):
        assert drained(cache, end) == {number: number for number in range(500)}
    commit(cache, store)
    assert store.is_empty()


def test_what_is_dirty_is_not_evicted() -> None:
    cache = PaneCache("w", codec, MemoryStore(), complete=True)
    pane = put(cache, 10, {number: number for number in range(100)})
    cache.evict(0)
    assert len(pane.entries) == 100


class Extra:
    def __init__(self) -> None:
        self.cleared = 0

    def __len__(self) -> int:
        return 0 if self.cleared else 1000

    def clear(self) -> None:
        self.cleared += 1


def test_what_is_derived_counts_and_goes_last() -> None:
    store = MemoryStore()
    cache = PaneCache("w", codec, store, complete=True)
    put(cache, 10, {number: number for number in range(1000)})
    commit(cache, store)
    bare = cache.size_bytes()
    extra = cache.derived = Extra()
    assert cache.size_bytes() > bare
    cache.evict(cache.size_bytes() - 1000)
    assert extra.cleared == 0
    cache.evict(0)
    assert extra.cleared == 1
    cache.forget(complete=False)
    assert extra.cleared == 2


def test_forgetting_makes_the_store_the_truth_again() -> None:
    store = MemoryStore()
    cache = PaneCache("w", codec, store, complete=True)
    put(cache, 10, {"a": 1})
    commit(cache, store)
    put(cache, 10, {"a": 2})
    put(cache, 20, {"a": 3})
    cache.remove(cache.panes()[10])
    cache.forget(complete=False)
    assert cache.encode_dirty() == []
    assert sorted(cache.panes()) == [10]
    assert drained(cache, 10) == {"a": 1}
    cache.forget(complete=True)
    assert cache.panes() == {}


def test_an_accumulator_of_none_is_none_in_the_store_too() -> None:
    store = MemoryStore()
    cache = PaneCache("w", codec, store, complete=True)
    put(cache, 10, {"a": 1})
    commit(cache, store)
    put(cache, 10, {"a": None})
    commit(cache, store)
    assert store.is_empty()


def test_an_accumulator_that_its_type_cannot_hold_is_refused_with_its_key() -> None:
    cache = PaneCache("w", codec, MemoryStore(), complete=True)
    put(cache, 10, {"good": 1, "bad": lambda: None})
    with pytest.raises(JobError, match=r"state 'w': .* of key 'bad', a function"):
        cache.encode_dirty()


def test_an_accumulator_that_is_too_large_is_refused_with_its_key() -> None:
    cache = PaneCache("w", codec, MemoryStore(), complete=True, max_value_bytes=1000)
    put(cache, 10, {"good": 1, "bad": "x" * 2000})
    with pytest.raises(JobError, match=r"key 'bad' takes 2,\d+ bytes"):
        cache.encode_dirty()


def test_what_cannot_be_read_is_named() -> None:
    store = MemoryStore()
    writer = PaneCache("w", codec_for(Types.LIST(Types.LONG())), store, complete=True)
    put(writer, 10, {"a": [1]})
    commit(writer, store)
    cache = PaneCache("w", codec_for(Types.LONG()), store)
    with pytest.raises(JobError, match="state 'w': what is stored for key 'a' cannot be read"):
        cache.whole(cache.pane(10))
    with pytest.raises(JobError, match="key 'a'"):
        cache.read(cache.pane(10), ["a"])
    assert store.open_scans == 0


def test_the_estimate_of_what_is_dirty_is_near() -> None:
    store = MemoryStore()
    cache = PaneCache("w", codec, store, complete=True)
    assert cache.dirty_bytes() == 0
    put(cache, 10, {f"key {number}": "x" * 50 for number in range(1000)})
    estimate = cache.dirty_bytes()
    real = sum(len(key) + len(data or b"") for key, data in cache.encode_dirty())
    assert abs(estimate - real) < real / 10
    commit(cache, store)
    assert cache.dirty_bytes() == 0
    cache.remove(cache.panes()[10])
    assert cache.dirty_bytes() > 10_000
