"""Timers of one task: their order, what a checkpoint writes of them, and how they come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from kstreampy.serde.key import token
from kstreampy.state import timer
from kstreampy.state.budget import CacheBudget
from kstreampy.state.dirty import Dirty
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import name_prefix
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import META_KEY, Store
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from kstreampy.state.task_timer import TIMERS_META_KEY, timers_log_key
from kstreampy.state.timer import EVENT, PROCESSING, TIMER_PREFIX, Timers

MIB = 1 << 20


def local(offset: int, *, complete: bool = True) -> LocalMeta:
    return LocalMeta("topic", offset, 1_000, complete, TaskMeta(offset, timers_written=offset).encode())


def keyed(store: Store, **settings: Any) -> KeyedState:
    return KeyedState(store, CacheBudget(64 * MIB), **settings)


def commit(state: KeyedState, offset: int = 1) -> Dirty:
    dirty = state.take_dirty()
    state.committed(dirty, local(offset), local(offset) if dirty.timers else None)
    return dirty


def times(timers: Timers, until_ms: int = MAX_WATERMARK) -> list[int]:
    return [time for time, _, _ in timers.due(until_ms)]


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "s", RocksBudget(8 * MIB))
    yield made
    made.close()


@pytest.fixture
def state() -> KeyedState:
    return keyed(MemoryStore())


class TestRules:
    def test_due_gives_time_key_and_namespace_in_the_order_of_time(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        timers.register(5, "b")
        timers.register(-7, "a", b"w")
        timers.register(5_000_000_000, 9)
        timers.register(6, token((1, "x")), b"\x00\xff")
        assert list(timers.due(6)) == [(-7, "a", b"w"), (5, "b", b""), (6, token((1, "x")), b"\x00\xff")]
        assert list(timers.due(6)) == []
        assert list(timers.due(MAX_WATERMARK)) == [(5_000_000_000, 9, b"")]

    @pytest.mark.parametrize(("until", "expected"), [(9, []), (10, [10]), (11, [10, 11])])
    def test_up_to_and_with_the_bound(self, state: KeyedState, until: int, expected: list[int]) -> None:
        timers = state.timers("u", EVENT)
        for time in (10, 11):
            timers.register(time, "k")
        assert times(timers, until) == expected

    @pytest.mark.parametrize("time", [NO_TIMESTAMP, -1, 0, 1, MAX_WATERMARK - 1, MAX_WATERMARK])
    def test_every_time_of_64_bit(self, state: KeyedState, time: int) -> None:
        timers = state.timers("u", EVENT)
        timers.register(time, "k")
        assert timers.next_time() == time
        if time > NO_TIMESTAMP:
            assert times(timers, time - 1) == []
        assert times(timers, time) == [time]

    @pytest.mark.parametrize("time", [1.5, None, "1", 2**63, -(2**63) - 1])
    def test_other_times_are_refused(self, state: KeyedState, time: Any) -> None:
        with pytest.raises(JobError, match=r"a timer's time must be an int of milliseconds.*not"):
            state.timers("u", EVENT).register(time, "k")

    def test_one_per_time_key_and_namespace(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        for _ in range(3):
            timers.register(1, "k")
            timers.register(1, "k", b"w")
            timers.register(1, "l")
            timers.register(2, "k")
        assert sorted(timers.due(2), key=str) == [(1, "k", b""), (1, "k", b"w"), (1, "l", b""), (2, "k", b"")]

    def test_keys_that_are_equal_in_python_are_told_apart(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        keys = [1, 1.0, True, "1", b"1", (1,), [1], 2**80, "x" * 300, "\ud800"]
        for key in keys:
            timers.register(1, token(key), b"n")
        found = [found for _, found, namespace in timers.due(1) if namespace == b"n"]
        assert len(found) == len(keys)
        assert set(found) == {token(key) for key in keys}

    def test_deleting(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        for time in range(5):
            timers.register(time, "k")
        timers.delete(0, "k")
        timers.delete(3, "k")
        timers.delete(3, "k")
        timers.delete(9, "never")
        assert timers.next_time() == 1
        assert times(timers) == [1, 2, 4]
        assert timers.next_time() is None

    def test_registered_again_after_deleting(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        for _ in range(3):
            timers.register(1, "k")
            timers.delete(1, "k")
        timers.register(1, "k")
        assert times(timers) == [1]

    def test_what_is_registered_while_iterating_is_among_them(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        timers.register(10, "k")
        seen = []
        for time, key, _ in timers.due(10):
            seen.append(time)
            if time < 4:
                timers.register(time + 2, key)  # before the next that was there
                timers.register(0, "late") if time == 1 else None  # before the present one
                timers.register(11, key)  # not yet
        assert seen == [1, 0, 2, 3, 4, 5, 10]
        assert times(timers) == [11, 11]

    def test_what_is_deleted_while_iterating_is_not_among_them(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        for time in (1, 2, 3):
            timers.register(time, "k")
        seen = []
        for time, key, _ in timers.due(3):
            seen.append(time)
            timers.delete(2, key)
        assert seen == [1, 3]

    def test_registered_again_as_it_fires(self, state: KeyedState) -> None:
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        seen = 0
        for time, key, _ in timers.due(1):
            seen += 1
            if seen < 3:
                timers.register(time, key)
        assert seen == 3

    def test_operators_and_domains_are_apart(self, state: KeyedState) -> None:
        all_of_them = [state.timers(uid, domain) for uid in ("a", "ab", "b") for domain in (EVENT, PROCESSING)]
        for number, timers in enumerate(all_of_them):
            timers.register(number, "k")
        commit(state)
        assert [times(timers) for timers in all_of_them] == [[number] for number in range(6)]
        assert state.timers("a", EVENT) is all_of_them[0]

    def test_many_deleted_ones_are_not_held(self, state: KeyedState) -> None:
        """A key that moves its timer with every record."""
        timers = state.timers("u", EVENT)
        for time in range(20_000):
            timers.delete(time - 1, "k")
            timers.register(time, "k")
        assert timers.size_bytes() < 400_000
        assert times(timers) == [19_999]


class TestCheckpoint:
    def test_one_entry_each_and_only_what_changed(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in (1, 2, 3):
            timers.register(time, "k")
        dirty = commit(state)
        assert dirty.entries == []
        assert len(dirty) == len(dirty.timers) == 3
        assert all(value is not None for _, value in dirty.timers)
        assert commit(state, 2).timers == []
        timers.delete(2, "k")
        assert times(timers, 1) == [1]
        gone = commit(state, 3).timers
        assert sorted(gone) == sorted((key, None) for key, _ in sorted(dirty.timers)[:2])
        assert times(keyed(store).timers("u", EVENT)) == [3]

    def test_the_keys_sort_by_time_and_are_no_states(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in (-5, 0, 2**40, -(2**63), 3):
            timers.register(time, "k")
        keys = sorted(key for key, _ in commit(state).timers)
        assert [int.from_bytes(key[len(b"\x00Tu\x00e") :][:8], "big") - 2**63 for key in keys] == [
            -(2**63), -5, 0, 3, 2**40
        ]  # fmt: skip
        assert all(key.startswith(TIMER_PREFIX) for key in keys)
        with pytest.raises(JobError):
            name_prefix(TIMER_PREFIX.decode())
        assert not META_KEY.startswith(TIMER_PREFIX)
        assert not TIMERS_META_KEY.startswith(TIMER_PREFIX)

    def test_registered_and_fired_in_between_is_written_nowhere(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in range(10):
            timers.register(time, "k")
        timers.delete(9, "k")
        assert times(timers, 9) == list(range(9))
        assert commit(state).timers == []
        assert state.task_timers.local_meta is None

    def test_deleted_and_set_again_in_between_is_not_written(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        commit(state)
        timers.delete(1, "k")
        timers.register(1, "k")
        assert commit(state, 2).timers == []
        assert times(timers) == [1]

    def test_the_same_again_until_committed(self, state: KeyedState) -> None:
        state.timers("u", EVENT).register(1, "k")
        assert state.take_dirty() == state.take_dirty()
        assert state.dirty_bytes() > 0
        commit(state)
        assert state.dirty_bytes() == 0

    def test_discard(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        timers.register(2, "k")
        commit(state)
        assert times(timers, 1) == [1]
        timers.register(3, "k")
        timers.delete(2, "k")
        state.discard()
        assert times(timers) == [1, 2]

    def test_how_far_the_topic_was_followed_is_kept_with_them(self, store: Store) -> None:
        state = keyed(store)
        state.timers("u", EVENT).register(1, "k")
        commit(state, 7)
        commit(state, 8)
        again = keyed(store)
        assert again.local_meta == local(8)
        assert again.task_timers.local_meta == local(7)

    def test_write_behind(self, tmp_path: Path) -> None:
        """Timers wait in memory with the other entries, and are there when they are needed."""
        store = RocksStore(tmp_path / "s", RocksBudget(8 * MIB))
        state = keyed(store, write_behind_ms=60_000)
        timers = state.timers("u", EVENT)
        commit(state, 1)
        timers.register(1, "k")
        timers.register(2, "k")
        commit(state, 2)
        timers.evict(0)
        timers.forget(complete=False)
        assert timers.next_time() == 1
        state.close()
        again = keyed(RocksStore(tmp_path / "s", RocksBudget(8 * MIB)))
        assert times(again.timers("u", EVENT)) == [1, 2]
        again.close()

    def test_void_keys_are_written_as_they_are(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in (1, 2, 3):
            timers.register(time, "k")
        (one, two, three) = sorted(key for key, _ in commit(state).timers)
        stray = one + b"stray"
        state.task_timers.mark_dirty([one, two, stray])
        timers.delete(2, "k")
        dirty = state.take_dirty()
        assert dict(dirty.timers) == {one: b"\x01", two: None, stray: None}
        assert len(dirty.timers) == 3
        assert dirty.entries == []
        state.committed(dirty, local(2), local(2))
        assert state.take_dirty().timers == []
        assert three not in dict(dirty.timers)


class TestRestore:
    def test_apply_and_reset(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        entries = state.take_dirty().timers
        state.discard()
        assert times(timers) == []
        state.task_timers.apply(entries, local(5, complete=False))
        assert times(timers) == [1]
        assert keyed(store).task_timers.local_meta == local(5, complete=False)
        state.task_timers.reset()
        assert state.task_timers.local_meta is None
        assert keyed(store).task_timers.local_meta is None
        assert times(timers) == []
        assert store.is_empty()

    def test_reset_of_timers_leaves_state_alone(self, store: Store) -> None:
        state = keyed(store)
        store.write([(b"a\x00k", b"1")], None)
        state.timers("u", EVENT).register(1, "k")
        commit(state)
        state.task_timers.reset()
        with store.scan(b"") as rows:
            assert list(rows) == [(b"a\x00k", b"1")]

    def test_reset_of_state_takes_the_timers_along(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        timers.register(1, "k")
        commit(state)
        state.reset()
        assert times(timers) == []
        assert state.task_timers.local_meta is None

    def test_broken_bytes_name_the_place(self, tmp_path: Path) -> None:
        store = MemoryStore("here")
        for broken in (b"{broken", LocalMeta("t", 1, 1, True, b'{"version":1}').encode()):
            store.write([(TIMERS_META_KEY, broken)], None)
            with pytest.raises(StateCorrupted, match="the store at here: "):
                keyed(store)
        store = MemoryStore()
        store.write([(TIMER_PREFIX + b"u\x00e" + b"\x80" + b"\0" * 7 + b"\x05s", b"\x01")], None)
        with pytest.raises(StateCorrupted, match="not a timer's entry"):
            times(keyed(store).timers("u", EVENT))

    def test_meta_records_count_and_older_ones_have_none(self) -> None:
        assert TaskMeta.decode(TaskMeta(9, timers_written=3).encode()).timers_written == 3
        assert TaskMeta.decode(b'{"version":1,"checkpoint_id":9}').timers_written == 0

    def test_two_keys_in_turn_for_meta_records(self) -> None:
        keys = [timers_log_key(number) for number in (1, 2, 3)]
        assert keys[0] == keys[2] != keys[1]
        assert all(key.startswith(META_KEY) and key != META_KEY for key in keys)


class TestMany:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(timer, "_CHUNK", 5)
        monkeypatch.setattr(timer, "_MOST_NEAR", 8)
        monkeypatch.setattr(timer, "_SLACK", 2)

    def test_the_far_ones_stay_in_the_store(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in range(100):
            timers.register(time, "k")
        commit(state)
        assert timers.size_bytes() < 10 * 200
        assert times(timers, 2) == [0, 1, 2]
        assert timers.next_time() == 3
        assert times(timers) == list(range(3, 100))
        assert len(commit(state, 2).timers) == 100
        assert store.get_many([b"x"]) == [None]
        assert times(keyed(store).timers("u", EVENT)) == []

    def test_far_ones_set_and_deleted(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in range(0, 100, 2):
            timers.register(time, "k")
        commit(state)
        timers.delete(90, "k")
        timers.register(91, "k")
        timers.register(92, "k")  # is there
        timers.register(93, "k")
        timers.delete(93, "k")
        timers.delete(95, "k")  # is not there
        timers.delete(96, "k")
        timers.register(96, "k")
        expected = sorted({*range(0, 90, 2), 91, 92, 94, 96, 98})
        assert times(timers) == expected
        commit(state, 2)
        assert times(keyed(store).timers("u", EVENT)) == []

    def test_far_ones_are_committed_without_being_loaded(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in range(0, 100, 2):
            timers.register(time, "k")
        commit(state)
        timers.delete(90, "k")
        timers.register(91, "k")
        assert len(commit(state, 2).timers) == 2
        assert times(keyed(store).timers("u", EVENT))[-5:] == [88, 91, 92, 94, 96, 98][1:]

    def test_registering_while_chunks_are_taken(self, store: Store) -> None:
        state = keyed(store)
        timers = state.timers("u", EVENT)
        for time in range(0, 60, 2):
            timers.register(time, "k")
        commit(state)
        seen = []
        for time, key, _ in timers.due(59):
            seen.append(time)
            if time % 2 == 0:
                timers.register(time + 21, key)
        assert seen == sorted({*range(0, 60, 2), *range(21, 60, 2)})

    def test_eviction_by_budget(self, store: Store) -> None:
        state = KeyedState(store, CacheBudget(100))
        timers = state.timers("u", EVENT)
        for time in range(8):
            timers.register(time, "k")
        commit(state)
        assert timers.size_bytes() <= 2 * 130
        assert times(timers) == list(range(8))
