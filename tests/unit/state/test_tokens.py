"""All keys of a state, over commits, evictions and restarts: as a dict has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.typeinfo import Types
from kstreampy.serde.key import token
from kstreampy.state.descriptor import ListStateDescriptor, MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from tests.unit.state.stage import Stage

VALUE = ValueStateDescriptor("value", Types.LONG())
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.LONG(), Types.LONG())
KEYS = st.sampled_from(["a", "b", "", 1, 1.0, True, (None,)])

STEPS = st.one_of(
    st.tuples(st.sampled_from(["set", "set", "add", "remove", "clear", "read"]), KEYS, st.integers(0, 3)),
    st.tuples(st.sampled_from(["commit", "evict", "restart", "rebuild", "discard"]), st.just(""), st.just(0)),
)


class Model:
    """One state of a task, and what of it plain Python would have."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.stage = Stage()
        self.now: dict[Any, set[int]] = {}
        self.committed: dict[Any, set[int]] = {}

    def act(self, what: str, key: Any, number: int) -> None:
        if what == "commit":
            self.commit()
        elif what == "evict":
            self.commit()
            for cache in self.stage.state._caches.values():
                self.stage.state._write_out()
                cache.evict(0)
        elif what == "restart":
            self.commit()
            self.stage.start()
        elif what == "rebuild":
            self.commit()
            self.stage.rebuild()
        elif what == "discard":
            self.stage.state.discard()
            self.now = {of_key: set(kept) for of_key, kept in self.committed.items()}
        else:
            self.stage.scope.token = of_key = token(key)
            self.change(what, of_key, number)

    def commit(self) -> None:
        self.stage.commit()
        self.committed = {of_key: set(kept) for of_key, kept in self.now.items()}

    def change(self, what: str, of_key: Any, number: int) -> None:
        state: Any = self.stage.handles.state(self.descriptor)
        kept = self.now.setdefault(of_key, set())
        if what == "clear":
            state.clear()
            kept.clear()
        elif self.descriptor is MAP:
            self.change_map(state, what, kept, number)
        elif what in ("set", "add"):
            state.update([number] if self.descriptor is LIST else number)
            kept.add(number)
        elif what == "remove":
            state.update([] if self.descriptor is LIST else None)
            kept.clear()
        else:
            list(state.get()) if self.descriptor is LIST else state.value()

    def change_map(self, state: Any, what: str, kept: set[int], number: int) -> None:
        if what in ("set", "add"):
            state.put(number, number)
            kept.add(number)
        elif what == "remove":
            state.remove(number)
            kept.discard(number)
        else:
            state.get(number)

    def check(self) -> None:
        tokens = list(self.stage.handles.tokens(self.descriptor))
        assert len(tokens) == len(set(tokens))
        assert set(tokens) == {of_key for of_key, kept in self.now.items() if kept}


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP], ids=lambda d: d.get_name())
@given(steps=st.lists(STEPS, max_size=25))
def test_against_a_dict(descriptor: StateDescriptor, steps: list[tuple[str, Any, int]]) -> None:
    model = Model(descriptor)
    for step in steps:
        model.act(*step)
        model.check()


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP], ids=lambda d: d.get_name())
def test_other_states_and_other_names_are_not_among_them(descriptor: StateDescriptor) -> None:
    model = Model(descriptor)
    model.act("set", "mine", 1)
    other = Model(MapStateDescriptor("mapped", Types.LONG(), Types.LONG()))
    other.stage = model.stage
    model.stage.scope.token = "theirs"
    state: Any = model.stage.handles.state(other.descriptor)
    state.put(1, 1)
    for what in ("commit", "restart"):
        model.act(what, "", 0)
        assert list(model.stage.handles.tokens(descriptor)) == ["mine"]


@pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP], ids=lambda d: d.get_name())
def test_what_was_given_may_be_changed_meanwhile(descriptor: StateDescriptor) -> None:
    """Half of the keys in memory, half in the store only; each is visited once, and removed as it is visited."""
    model = Model(descriptor)
    for number in range(20):
        model.act("set", f"k{number}", 1)
    model.act("restart", "", 0)
    for number in range(10, 30):
        model.act("set", f"k{number}", 2)
    seen = []
    for of_key in model.stage.handles.tokens(descriptor):
        seen.append(of_key)
        model.act("clear", of_key, 0)
        model.act("read", of_key, 0)
    assert sorted(seen) == sorted(f"k{number}" for number in range(30))
    model.check()
    assert model.stage.store.open_scans == 0
