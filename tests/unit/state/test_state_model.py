"""Every kind of state against plain Python, over commits, evictions, crashes and restores, in memory and on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kstreampy.common.typeinfo import Types
from kstreampy.operators.function import AggregateFunction
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.serde.key import token
from kstreampy.state import element_reader
from kstreampy.state.budget import CacheBudget
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Entry, Store
from kstreampy.state.task_meta import LocalMeta, TaskMeta

MIB = 1 << 20
COUNTER = b"uid/list\x00\x00"
PICKLED = Types.PICKLED_BYTE_ARRAY()
KEYS = st.sampled_from([1, True])
MAP_KEYS = st.sampled_from([0, False, None])
VALUES = st.sampled_from([0, "", False, [], [1, [2]], {"a": [1]}, "text", 2**70, (1,)]) | st.integers()
LISTS = st.lists(VALUES, max_size=5)


class Collect(AggregateFunction):
    """A changeable accumulator, changed in place."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> tuple[int, list[Any]]:
        return len(accumulator), accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return acc_a + acc_b


def concat(one: list[Any], other: list[Any]) -> list[Any]:
    one.extend(other)
    return one


def identity(key: Any) -> Any:
    """Equal where keys are the same, which 1 and True are not."""
    return token(key) if key is not None else None, type(key)


class Model:
    """The states of one task as plain objects."""

    def __init__(self) -> None:
        self.value: dict[Any, Any] = {}
        self.list: dict[Any, list[Any]] = {}
        self.map: dict[Any, dict[Any, tuple[Any, Any]]] = {}
        self.reduced: dict[Any, list[Any]] = {}
        self.collected: dict[Any, list[Any]] = {}

    def copy(self) -> Model:
        twin = Model()
        twin.value = dict(self.value)
        twin.list = {key: list(values) for key, values in self.list.items()}
        twin.map = {key: dict(entries) for key, entries in self.map.items()}
        twin.reduced = {key: list(values) for key, values in self.reduced.items()}
        twin.collected = {key: list(values) for key, values in self.collected.items()}
        return twin

    def entries(self) -> int:
        """How many entries a store has for this: each element one."""
        singles = len(self.value) + len(self.reduced) + len(self.collected)
        return singles + sum(map(len, self.list.values())) + sum(map(len, self.map.values()))


class Task(RuleBasedStateMachine):
    """A task over its life: what was committed survives, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.then = Model(), Model()
        self.log: list[Entry] = []
        self.offset = 0
        self.scope = KeyScope()
        self.directory = tempfile.TemporaryDirectory()
        self.most_whole = element_reader.MOST_WHOLE

    @initialize(
        on_disk=st.booleans(),
        budget=st.sampled_from([1, 1, 2000, 10 * MIB]),
        most_whole=st.sampled_from([2, 10_000]),
        write_behind_ms=st.sampled_from([0, 3]),
    )
    def begin(self, on_disk: bool, budget: int, most_whole: int, write_behind_ms: int) -> None:
        element_reader.MOST_WHOLE = most_whole
        self.rocks = RocksBudget(MIB) if on_disk else None
        self.budget = CacheBudget(budget)
        self.write_behind_ms = write_behind_ms
        self.directories = 0
        self.open(self.new_store())

    def new_store(self) -> Store:
        self.directories += 1
        return MemoryStore() if self.rocks is None else self.disk(self.rocks)

    def disk(self, rocks: RocksBudget) -> Store:
        return RocksStore(Path(self.directory.name) / str(self.directories), rocks)

    def open(self, store: Store) -> None:
        self.store = store
        self.state = KeyedState(store, self.budget, write_behind_ms=self.write_behind_ms)
        self.ask()

    def ask(self) -> None:
        made = TaskKeyedStateStore("step", "uid", self.state, self.scope, lambda: 0)
        self.value = made.get_state(ValueStateDescriptor("value", PICKLED))
        self.list = made.get_list_state(ListStateDescriptor("list", PICKLED))
        self.map = made.get_map_state(MapStateDescriptor("map", PICKLED, PICKLED))
        self.reduced = made.get_reducing_state(ReducingStateDescriptor("reduced", concat, Types.LIST(PICKLED)))
        self.collected = made.get_aggregating_state(AggregatingStateDescriptor("collected", Collect(), PICKLED))

    def at(self, key: Any) -> Any:
        self.scope.token = token(key)
        self.state.preload([self.scope.token])
        return identity(key)

    @rule()
    def checkpoint(self) -> None:
        self.offset += 1
        assert self.state.dirty_bytes() >= 0
        dirty = self.state.take_dirty()
        assert len(dict(dirty.entries)) == len(dirty)
        assert sorted(self.state.take_dirty().entries) == sorted(dirty.entries)
        self.log += dirty.entries
        self.state.committed(dirty, self.local())
        self.then = self.now.copy()
        self.check_nothing_else_is_stored(dict(self.log))

    @rule()
    def checkpoint_and_start(self) -> None:
        """Memory knows nothing of what is stored."""
        self.checkpoint()
        self.stop_and_start()

    @rule()
    def start_once_more(self) -> None:
        self.checkpoint_and_start()

    def local(self) -> LocalMeta:
        return LocalMeta("topic", self.offset, self.offset, True, TaskMeta(1, states=self.state.types).encode())

    @rule()
    def fenced(self) -> None:
        self.state.take_dirty()
        self.state.discard()
        self.now = self.then.copy()

    @rule()
    def stop_and_start(self) -> None:
        """What was committed reaches the store as it is closed."""
        if self.rocks is None:
            self.state.discard()
            self.open(self.store)
        else:
            self.state.close()
            self.open(self.disk(self.rocks))
        self.now = self.then.copy()

    @rule()
    def restore_elsewhere(self) -> None:
        self.state.close()
        store = self.new_store()
        if self.offset:
            KeyedState(store, CacheBudget(MIB)).apply(self.log, self.local())
        self.open(store)
        self.now = self.then.copy()
        with store.scan(b"") as rows:
            self.check_nothing_else_is_stored(dict(rows))

    def check_nothing_else_is_stored(self, stored: Mapping[bytes, bytes | None]) -> None:
        there = {key for key, value in stored.items() if value is not None}
        assert len(there.difference([COUNTER])) == self.then.entries()

    @invariant()
    def no_scan_stays_open(self) -> None:
        if hasattr(self, "store"):
            assert self.store.open_scans == 0

    def teardown(self) -> None:
        element_reader.MOST_WHOLE = self.most_whole
        if hasattr(self, "state"):
            self.state.close()
        self.directory.cleanup()


class Singles(Task):
    """Values, reduced and aggregated ones: one entry per key."""

    @rule(key=KEYS, value=st.none() | VALUES)
    def update(self, key: Any, value: Any) -> None:
        at = self.at(key)
        assert self.value.value() == self.now.value.get(at)
        self.value.update(value)
        self.now.value.pop(at, None)
        if value is not None:
            self.now.value[at] = value

    @rule(key=KEYS, values=LISTS)
    def reduce(self, key: Any, values: list[Any]) -> None:
        at = self.at(key)
        given = list(values)
        self.reduced.add(given)
        given.append("not kept")
        self.reduced.add(None)
        self.now.reduced.setdefault(at, []).extend(values)
        got = self.reduced.get()
        assert got == self.now.reduced[at]
        assert got is not None
        got.append("not kept either")

    @rule(key=KEYS, value=VALUES)
    def collect(self, key: Any, value: Any) -> None:
        at = self.at(key)
        self.collected.add(value)
        self.collected.add(None)
        expected = self.now.collected.setdefault(at, [])
        expected.append(value)
        got = self.collected.get()
        assert got == (len(expected), expected)
        got[1].append("not kept")

    @rule(key=KEYS, other=KEYS)
    def merge(self, key: Any, other: Any) -> None:
        at, to = self.at(other), self.at(key)
        self.reduced.merge_namespaces(token(key), [token(other)])
        self.collected.merge_namespaces(token(key), [token(other)])
        for model in (self.now.reduced, self.now.collected):
            if at != to and at in model:
                model.setdefault(to, []).extend(model.pop(at))

    @rule(key=KEYS, kind=st.sampled_from(["value", "reduced", "collected"]))
    def read(self, key: Any, kind: str) -> None:
        expected = getattr(self.now, kind).get(self.at(key))
        handle = getattr(self, kind)
        got = handle.value() if kind == "value" else handle.get()
        assert got == ((len(expected), expected) if kind == "collected" and expected is not None else expected)

    @rule(key=KEYS, kind=st.sampled_from(["value", "reduced", "collected"]))
    def clear(self, key: Any, kind: str) -> None:
        getattr(self.now, kind).pop(self.at(key), None)
        getattr(self, kind).clear()


class Lists(Task):
    """Lists against lists."""

    @rule(key=KEYS, values=LISTS, value=VALUES)
    def add_to_what_is_only_stored(self, key: Any, values: list[Any], value: Any) -> None:
        self.append_all(key, values)
        self.checkpoint_and_start()
        self.append(key, value)

    @rule(key=KEYS, value=VALUES)
    def append(self, key: Any, value: Any) -> None:
        self.now.list.setdefault(self.at(key), []).append(value)
        self.list.add(value)

    @rule(key=KEYS, values=LISTS)
    def append_all(self, key: Any, values: list[Any]) -> None:
        self.now.list.setdefault(self.at(key), []).extend(values)
        self.list.add_all(values)

    @rule(key=KEYS, values=LISTS)
    def replace_list(self, key: Any, values: list[Any]) -> None:
        self.now.list[self.at(key)] = list(values)
        self.list.update(values)

    @rule(key=KEYS, other=KEYS)
    def merge_lists(self, key: Any, other: Any) -> None:
        at, to = self.at(other), self.at(key)
        self.list.merge_namespaces(token(key), [token(other)])
        if at != to:
            self.now.list.setdefault(to, []).extend(self.now.list.pop(at, []))

    @rule(key=KEYS)
    def read_list(self, key: Any) -> None:
        at = self.at(key)
        assert list(self.list.get()) == self.now.list.get(at, [])
        assert list(self.list) == self.now.list.get(at, [])

    @rule(key=KEYS)
    def begin_to_read_and_change(self, key: Any) -> None:
        at = self.at(key)
        walk = iter(self.list.get())
        first = next(walk, None)
        self.list.add("later")
        expected = self.now.list.setdefault(at, [])
        assert ([] if first is None else [first, *walk]) == expected
        expected.append("later")

    @rule(key=KEYS)
    def clear(self, key: Any) -> None:
        self.now.list.pop(self.at(key), None)
        self.list.clear()


class Maps(Task):
    """Maps against dicts."""

    @rule(key=KEYS, pairs=st.dictionaries(MAP_KEYS, VALUES, min_size=2), map_key=MAP_KEYS)
    def change_what_is_only_stored(self, key: Any, pairs: dict[Any, Any], map_key: Any) -> None:
        self.put_all(key, pairs)
        self.checkpoint_and_start()
        self.remove(key, map_key)

    @rule(key=KEYS, map_key=MAP_KEYS, value=st.none() | VALUES)
    def put(self, key: Any, map_key: Any, value: Any) -> None:
        self.now.map.setdefault(self.at(key), {})[identity(map_key)] = (map_key, value)
        self.map.put(map_key, value)

    @rule(key=KEYS, pairs=st.dictionaries(MAP_KEYS, VALUES, max_size=4))
    def put_all(self, key: Any, pairs: dict[Any, Any]) -> None:
        at = self.at(key)
        self.map.put_all(pairs)
        for map_key, value in pairs.items():
            self.now.map.setdefault(at, {})[identity(map_key)] = (map_key, value)

    @rule(key=KEYS, map_key=MAP_KEYS)
    def remove(self, key: Any, map_key: Any) -> None:
        self.now.map.setdefault(self.at(key), {}).pop(identity(map_key), None)
        self.map.remove(map_key)

    @rule(key=KEYS, map_key=MAP_KEYS)
    def read_entry(self, key: Any, map_key: Any) -> None:
        entries = self.now.map.get(self.at(key), {})
        _, expected = entries.get(identity(map_key), (None, None))
        assert self.map.get(map_key) == expected
        assert self.map.contains(map_key) == (identity(map_key) in entries)

    @rule(key=KEYS)
    def read_map(self, key: Any) -> None:
        entries = self.now.map.get(self.at(key), {})
        assert self.map.is_empty() == (not entries)
        assert {identity(k): (k, v) for k, v in self.map.items()} == entries
        assert sorted(map(repr, self.map.keys())) == sorted(repr(k) for k, _ in entries.values())
        assert sorted(map(repr, self.map.values())) == sorted(repr(v) for _, v in entries.values())

    @rule(key=KEYS)
    def remove_while_reading(self, key: Any) -> None:
        entries = self.now.map.get(self.at(key), {})
        seen = []
        for map_key in self.map:
            seen.append(map_key)
            self.map.remove(map_key)
        assert sorted(map(repr, seen)) == sorted(repr(k) for k, _ in entries.values())
        entries.clear()

    @rule(key=KEYS)
    def clear(self, key: Any) -> None:
        self.now.map.pop(self.at(key), None)
        self.map.clear()


_SETTINGS = settings(deadline=None, max_examples=80, stateful_step_count=30)
TestSingles = Singles.TestCase
TestLists = Lists.TestCase
TestMaps = Maps.TestCase
TestSingles.settings = TestLists.settings = TestMaps.settings = _SETTINGS


def test_the_model_tells_keys_apart_as_state_does() -> None:
    assert len({identity(key) for key in (1, 1.0, True, "1", b"1", (1,))}) == 6
    with pytest.raises(TypeError):
        identity({})
