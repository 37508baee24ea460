"""`KeyedState`: the store and the caches of one task, over checkpoints, crashes and restores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.key import token, typed_bytes
from kstreampy.serde.typed import codec_for
from kstreampy.state.budget import CacheBudget
from kstreampy.state.dirty import Dirty
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import entry_key, name_prefix
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Store
from kstreampy.state.task_meta import LocalMeta, TaskMeta

codec = codec_for(None)
MIB = 1 << 20


def local(offset: int, *, complete: bool = True, states: dict[str, str] | None = None) -> LocalMeta:
    return LocalMeta("topic", offset, 1_000, complete, TaskMeta(offset, states=states or {}).encode())


def keyed(store: Store, **settings: Any) -> KeyedState:
    return KeyedState(store, CacheBudget(64 * MIB), **settings)


def put(state: KeyedState, name: str, values: dict[Any, Any]) -> None:
    cache = state.value(name, codec, "ANY")
    cache.load(values)
    cache.entries.update(values)
    cache.dirty.update(values)


def get(state: KeyedState, name: str, key: Any) -> Any:
    return state.value(name, codec, "ANY").fetch(token(key))


def raw(name: str, key: Any) -> bytes:
    return entry_key(name_prefix(name), typed_bytes(token(key)))


def commit(state: KeyedState, offset: int = 1) -> Dirty:
    dirty = state.take_dirty()
    state.committed(dirty, local(offset, states=state.types))
    return dirty


@pytest.fixture(params=["memory", "rocks"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else RocksStore(tmp_path / "s", RocksBudget(8 * MIB))
    yield made
    made.close()


def test_a_checkpoint_writes_each_key_once_and_only_what_changed(store: Store) -> None:
    state = keyed(store)
    assert state.local_meta is None
    put(state, "a", {1: 1, 2: 2})
    put(state, "b", {1: "x"})
    put(state, "a", {1: 3})
    dirty = commit(state, 10)
    assert dict(dirty.entries).keys() == {raw("a", 1), raw("a", 2), raw("b", 1)}
    assert len(dirty) == 3
    assert dirty.size_bytes() == sum(len(key) + len(value or b"") for key, value in dirty.entries)
    put(state, "a", {2: None})
    assert commit(state, 11).entries == [(raw("a", 2), None)]
    assert commit(state, 12).entries == []
    again = keyed(store)
    assert again.local_meta == local(12, states={"a": "ANY", "b": "ANY"})
    assert [get(again, "a", 1), get(again, "a", 2), get(again, "b", 1)] == [3, None, "x"]
    assert again.entry_count() >= 2
    assert again.size_bytes() > 0


def test_nothing_reaches_the_store_before_the_commit_is_reported(store: Store) -> None:
    state = keyed(store)
    put(state, "a", {1: 1})
    first = state.take_dirty()
    assert store.is_empty()
    assert state.take_dirty() == first
    state.discard()
    assert state.take_dirty().entries == []
    assert get(state, "a", 1) is None


def test_discard_brings_back_what_is_committed(store: Store) -> None:
    state = keyed(store)
    put(state, "a", {1: [1]})
    commit(state)
    state.value("a", codec, "ANY").entries[1].append(2)
    put(state, "a", {2: 2})
    state.discard()
    assert (get(state, "a", 1), get(state, "a", 2)) == ([1], None)


def test_preload_reads_for_all_states(store: Store) -> None:
    writer = keyed(store)
    put(writer, "a", {1: 1})
    put(writer, "b", {1: 2})
    commit(writer)
    state = keyed(store)
    caches = [state.value(name, codec, "ANY") for name in ("a", "b")]
    state.preload([1, 2])
    assert [cache.entries for cache in caches] == [{1: 1, 2: None}, {1: 2, 2: None}]


def test_a_state_first_used_later_in_the_life_of_an_empty_store(store: Store) -> None:
    state = keyed(store)
    put(state, "a", {1: 1})
    commit(state)
    assert get(state, "b", 1) is None
    put(state, "b", {1: 5})
    commit(state)
    assert get(keyed(store), "b", 1) == 5


# Types (P51)


def test_one_name_with_two_types_is_refused(store: Store) -> None:
    state = keyed(store)
    cache = state.value("a", codec, "LONG")
    assert state.value("a", codec, "LONG") is cache
    with pytest.raises(JobError, match=r"'a' is declared twice, as LONG and as STRING"):
        state.value("a", codec, "STRING")


def test_another_type_than_the_stored_one_is_refused(store: Store) -> None:
    state = keyed(store)
    state.value("a", codec, "LONG")
    state.committed(state.take_dirty(), local(1, states=state.types))
    again = keyed(store)
    with pytest.raises(JobError, match=r"'a' holds LONG, and the job now declares STRING"):
        again.value("a", codec, "STRING")
    again.value("b", codec, "STRING")
    assert again.types == {"a": "LONG", "b": "STRING"}


def test_another_type_found_by_a_restore_is_refused(store: Store) -> None:
    state = keyed(store)
    state.value("a", codec, "STRING")
    with pytest.raises(JobError, match=r"'a' holds LONG, and the job now declares STRING"):
        state.apply([], local(1, states={"a": "LONG"}))


def test_a_name_that_cannot_be_one_is_refused(store: Store) -> None:
    with pytest.raises(JobError, match="name"):
        keyed(store).value("", codec, "LONG")


# Restore


def test_a_restore_into_an_empty_store(store: Store) -> None:
    state = keyed(store)
    cache = state.value("a", codec, "ANY")
    assert cache.fetch(1) is None
    state.apply([(raw("a", 2), codec.encode(0)), (raw("a", 1), codec.encode(1))], local(2, complete=False))
    assert state.local_meta == local(2, complete=False)
    state.apply([(raw("a", 1), codec.encode(5)), (raw("a", 2), codec.encode(2)), (raw("a", 2), None)], local(4))
    assert (cache.fetch(1), cache.fetch(2)) == (5, None)
    assert keyed(store).local_meta == local(4)


def test_a_restore_with_nothing_in_it_leaves_reads_free(store: Store) -> None:
    state = keyed(store)
    state.apply([], local(0))
    assert state.value("a", codec, "ANY").complete


def test_reset_empties_all(store: Store) -> None:
    state = keyed(store)
    put(state, "a", {1: 1})
    commit(state)
    put(state, "a", {2: 2})
    state.mark_dirty([raw("a", 9)])
    state.reset()
    assert state.local_meta is None
    assert state.take_dirty().entries == []
    assert (get(state, "a", 1), get(state, "a", 2)) == (None, None)
    assert keyed(store).local_meta is None


def test_keys_of_an_unfinished_checkpoint_are_written_again(store: Store) -> None:
    """Before any state is registered, with the value they have at the checkpoint: stored, changed or none."""
    writer = keyed(store)
    put(writer, "a", {1: 1, 2: 2})
    commit(writer)
    state = keyed(store)
    state.mark_dirty([raw("a", 1), raw("a", 2), raw("gone", 3)])
    expected = {raw("a", 1): codec.encode(1), raw("a", 2): codec.encode(2), raw("gone", 3): None}
    assert dict(state.take_dirty().entries) == expected
    put(state, "a", {2: 20})
    dirty = commit(state)
    assert len(dirty) == 3
    assert dict(dirty.entries) == {**expected, raw("a", 2): codec.encode(20)}
    assert commit(state).entries == []
    assert get(keyed(store), "a", 2) == 20


@pytest.mark.parametrize("meta", [b"", b"{}", b"\xff", LocalMeta("t", 1, 1, True, b'{"version":1}').encode()])
def test_a_meta_record_that_cannot_be_read_is_corruption_with_the_path(tmp_path: Path, meta: bytes) -> None:
    store = RocksStore(tmp_path / "s", RocksBudget(MIB))
    store.write([], meta)
    with pytest.raises(StateCorrupted, match=str(tmp_path / "s")):
        keyed(store)
    store.close()


# Limits


def test_the_largest_entry_is_limited(store: Store) -> None:
    state = keyed(store, max_value_bytes=1000)
    put(state, "a", {1: "x" * 1001})
    with pytest.raises(JobError, match="1,000"):
        state.take_dirty()


def test_caches_shrink_to_the_budget_after_a_commit(store: Store) -> None:
    budget = CacheBudget(200_000)
    state = KeyedState(store, budget)
    for part in range(10):
        for name in ("a", "b"):
            put(state, name, {f"{part}-{number}": "x" * 100 for number in range(500)})
        assert state.dirty_bytes() > 2 * 500 * 100
        commit(state)
        assert state.dirty_bytes() == 0
        assert state.cache_bytes() < 260_000
    assert budget.used_bytes() > 200_000
    assert [get(state, name, f"{part}-7") for part in range(10) for name in ("a", "b")] == ["x" * 100] * 20
    state.close()
    assert budget.used_bytes() == 0


# Any sequence of events

KEYS = st.sampled_from([token(key) for key in (1, 1.0, True, "1", b"1", (1,), 0, "", b"", "é", 2, 3, 4, 5, "x" * 200)])
VALUES = st.none() | st.sampled_from([0, "", False, b"", [], [1], "text", 2**70, (1,)]) | st.integers() | st.text()


class Task(RuleBasedStateMachine):
    """A task's state against two dicts: what it should be, and what was so at the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[tuple[str, Any], Any] = {}
        self.then: dict[tuple[str, Any], Any] = {}
        self.offset = 0
        self.directory = tempfile.TemporaryDirectory()

    @initialize(on_disk=st.booleans(), budget=st.sampled_from([1, 1500, 10 * MIB]))
    def open(self, on_disk: bool, budget: int) -> None:
        self.rocks = RocksBudget(MIB) if on_disk else None
        self.budget = CacheBudget(budget)
        self.store: Store = MemoryStore() if self.rocks is None else self.disk(self.rocks)
        self.state = KeyedState(self.store, self.budget)

    def disk(self, rocks: RocksBudget) -> Store:
        return RocksStore(Path(self.directory.name) / "s", rocks)

    @rule(name=st.sampled_from("ab"), values=st.dictionaries(KEYS, VALUES, max_size=6))
    def batch(self, name: str, values: dict[Any, Any]) -> None:
        cache = self.state.value(name, codec, "ANY")
        cache.load(values)
        entries = cache.entries
        for key, value in values.items():
            assert entries.get(key) == self.now.get((name, key))
            entries[key] = value
            self.now[name, key] = value
        cache.dirty.update(values)

    @rule(name=st.sampled_from("ab"), key=KEYS)
    def read_one(self, name: str, key: Any) -> None:
        value = self.state.value(name, codec, "ANY").fetch(key)
        assert value == self.now.get((name, key))
        assert type(value) is type(self.now.get((name, key)))

    @rule(name=st.sampled_from("ab"), keys=st.lists(KEYS, max_size=3))
    def void(self, name: str, keys: list[Any]) -> None:
        self.state.mark_dirty([entry_key(name_prefix(name), typed_bytes(key)) for key in keys])

    @rule()
    def checkpoint(self) -> None:
        self.offset += 1
        dirty = self.state.take_dirty()
        assert len(dict(dirty.entries)) == len(dirty)
        self.state.committed(dirty, local(self.offset))
        self.then = dict(self.now)

    @rule()
    def failed_checkpoint(self) -> None:
        self.state.take_dirty()

    @rule()
    def fenced(self) -> None:
        self.state.discard()
        self.now = dict(self.then)

    @rule()
    def crash(self) -> None:
        if self.rocks is not None:
            self.state.close()
            self.store = self.disk(self.rocks)
        self.state = KeyedState(self.store, self.budget)
        self.now = dict(self.then)

    @rule()
    def reset(self) -> None:
        self.state.reset()
        self.now, self.then, self.offset = {}, {}, 0

    @rule(entries=st.lists(st.tuples(st.sampled_from("ab"), KEYS, VALUES), max_size=6))
    def restore(self, entries: list[tuple[str, Any, Any]]) -> None:
        self.offset += 1
        self.state.apply(
            [
                (
                    entry_key(name_prefix(name), typed_bytes(key)),
                    None if value is None else codec.encode(value),
                )
                for name, key, value in entries
            ],
            local(self.offset),
        )
        if entries:
            self.now = dict(self.then)
        for name, key, value in entries:
            self.now[name, key] = self.then[name, key] = value

    @invariant()
    def the_meta_record_is_that_of_the_last_write(self) -> None:
        if hasattr(self, "state"):
            assert self.state.local_meta == (local(self.offset) if self.offset else None)
            assert self.store.open_scans == 0

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.state.close()
        self.directory.cleanup()


TestTask = Task.TestCase
TestTask.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
