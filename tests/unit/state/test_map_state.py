"""`MapState`: what each method does, and what it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.state import element_reader
from kstreampy.state.descriptor import MapStateDescriptor
from kstreampy.state.map_state import MapState
from tests.unit.state.stage import CountingStore, Stage

ANY = Types.PICKLED_BYTE_ARRAY()
DESCRIPTOR = MapStateDescriptor("map", ANY, ANY)


@dataclass(frozen=True)
class Point:
    x: int
    y: int


AWKWARD_KEYS: list[Any] = [1, 1.0, True, "1", b"1", (1,), ["1"], "", b"", 0, False, None, (None,), 2**70, Point(1, 2)]


def the_map(stage: Stage) -> MapState[Any, Any]:
    return stage.handles.get_map_state(DESCRIPTOR)


@pytest.fixture(params=[True, False], ids=["in memory", "from the store"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """The second begins with nothing in memory, over a store that is not empty."""
    stage = Stage()
    if not request.param:
        stage.scope.token = "another"
        the_map(stage).put("x", "y")
        stage.restart()
    return stage


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(element_reader, "MOST_WHOLE", 3)
    return 3


def test_entries_by_their_methods(stage: Stage) -> None:
    state = the_map(stage)
    assert state.get("a") is None
    assert not state.contains("a")
    assert state.is_empty()
    state.put("a", 1)
    state.put_all({"b": 2, "c": 3})
    state.put("a", 10)
    state.remove("b")
    state.remove("never")
    assert not state.is_empty()
    assert state.contains("a")
    assert not state.contains("b")
    assert state.get("c") == 3
    for _ in range(2):
        state = the_map(stage)
        assert dict(state.items()) == {"a": 10, "c": 3}
        assert sorted(state.keys()) == ["a", "c"]
        assert sorted(state.values()) == [3, 10]
        stage.restart()


def test_entries_as_of_a_dict(stage: Stage) -> None:
    state = the_map(stage)
    state["a"] = 1
    assert state["a"] == 1
    assert state["missing"] is None
    assert "a" in state
    assert "b" not in state
    assert list(state) == ["a"]
    del state["a"]
    del state["a"]
    assert "a" not in state


def test_none_is_a_value(stage: Stage) -> None:
    state = the_map(stage)
    state.put("a", None)
    for _ in range(2):
        state = the_map(stage)
        assert state.get("a") is None
        assert "a" in state
        assert list(state.items()) == [("a", None)]
        stage.restart()


def test_awkward_keys_are_different_keys_and_come_back_as_they_were(stage: Stage) -> None:
    state = the_map(stage)
    for number, key in enumerate(AWKWARD_KEYS):
        state.put(key, number)
    for _ in range(2):
        state = the_map(stage)
        assert [state.get(key) for key in AWKWARD_KEYS] == list(range(len(AWKWARD_KEYS)))
        found = {value: key for key, value in state.items()}
        for number, key in enumerate(AWKWARD_KEYS):
            assert found[number] == key
            assert type(found[number]) is type(key)
        stage.restart()


def test_what_cannot_be_a_key_is_refused(stage: Stage) -> None:
    for key in ({}, object(), {1}):
        with pytest.raises(TypeError, match="cannot be a key"):
            the_map(stage).put(key, 1)
    assert the_map(stage).is_empty()


def test_keys_of_the_stream_have_maps_of_their_own(stage: Stage) -> None:
    state = the_map(stage)
    for stage.scope.token in ("a", "b"):
        state.put("x", stage.scope.token)
    stage.scope.token = "a"
    state.clear()
    assert state.is_empty()
    stage.scope.token = "b"
    assert state.get("x") == "b"


def test_a_look_up_reads_one_entry_and_remembers_it() -> None:
    store = CountingStore()
    stage = Stage(store)
    the_map(stage).put_all({number: str(number) for number in range(1000)})
    stage.restart()
    store.looked_up.clear()
    state = the_map(stage)
    for _ in range(2):
        assert state.get(7) == "7"
        assert "missing" not in state
    assert len(store.looked_up) == 2
    assert store.scans == 0
    state.put(8, "eight")
    state.remove(9)
    assert len(stage.commit()) == 2
    assert len(store.looked_up) == 2
    assert len(dict(state.items())) == 999
    assert store.scans == 1
    dict(state.items())
    assert store.scans == 1


def test_only_what_changed_is_written(stage: Stage) -> None:
    state = the_map(stage)
    state.put_all({"a": 1, "b": 2})
    assert len(stage.commit()) == 2
    state.put("a", 3)
    state.put("a", 4)
    [(key, _)] = stage.commit()
    assert key.endswith(b"sa")


def test_what_comes_and_goes_between_checkpoints_is_not_written(stage: Stage) -> None:
    state = the_map(stage)
    assert "a" not in state
    state.put("a", 1)
    state.remove("a")
    state.put("b", 1)
    state.clear()
    left = stage.state.take_dirty().entries  # where nothing is known of "b", a tombstone: it might be there
    assert [(key[-2:], value) for key, value in left] in ([], [(b"sb", None)])


def test_clear_leaves_a_tombstone_for_each_entry(stage: Stage) -> None:
    the_map(stage).put_all({"a": 1, "b": None})
    keys = {key for key, _ in stage.commit()}
    stage.start()
    state = the_map(stage)
    state.clear()
    state.put("b", 5)
    assert list(state.items()) == [("b", 5)]
    dirty = stage.commit()
    assert {key for key, _ in dirty} == keys
    assert sum(value is None for _, value in dirty) == 1
    stage.rebuild()
    assert list(the_map(stage).items()) == [("b", 5)]


def test_a_key_that_was_cleared_and_put_and_removed_is_gone(stage: Stage) -> None:
    the_map(stage).put("a", 1)
    stage.restart()
    state = the_map(stage)
    state.clear()
    state.put("a", 2)
    state.remove("a")
    stage.commit()
    stage.start()
    assert the_map(stage).is_empty()
    assert the_map(stage).get("a") is None


def test_the_map_may_be_changed_while_it_is_read(stage: Stage) -> None:
    state = the_map(stage)
    state.put_all(dict.fromkeys(range(5)))
    for key in state:
        state.remove(key)
        state.put(key + 100, None)
    assert sorted(state) == [100, 101, 102, 103, 104]


def test_many_entries_are_read_as_they_are_walked_over(few: int) -> None:
    stage = Stage()
    the_map(stage).put_all({number: [number] for number in range(10)})
    stage.restart()
    state = the_map(stage)
    state.put(10, [10])
    state.remove(3)
    state.put(4, [40])
    got = state.items()
    for key in state:
        state.remove(key)
    assert state.is_empty()
    assert stage.store.open_scans == 1
    expected = {number: [number] for number in range(11) if number != 3} | {4: [40]}
    assert dict(got) == expected
    assert stage.store.open_scans == 0
    with pytest.raises(JobError, match="ask the state again"):
        list(got)
    stage.restart()
    assert the_map(stage).is_empty()


def test_what_was_given_and_what_is_returned_belong_to_the_caller(stage: Stage) -> None:
    state = the_map(stage)
    given = [1]
    state.put("a", given)
    state["b"] = given
    state.put_all({"c": given})
    given.append(2)
    state.get("a").append(3)  # type: ignore[union-attr]
    for pair in state.items():
        pair[1].append(4)
    for value in state.values():
        value.append(5)
    assert dict(state.items()) == {"a": [1], "b": [1], "c": [1]}


def test_memory_is_bounded_also_in_one_large_map() -> None:
    stage = Stage(budget_bytes=100_000)
    state = the_map(stage)
    for part in range(10):
        for number in range(part * 500, part * 500 + 500):
            state.put(number, f"{number:>100}")
        stage.commit()
        assert stage.state.cache_bytes() < 150_000
    assert [int(state.get(number) or -1) for number in range(0, 5000, 7)] == list(range(0, 5000, 7))
    stage.commit()
    assert stage.state.cache_bytes() < 150_000
    assert len(list(state)) == 5000


def test_without_a_key_it_is_refused(stage: Stage) -> None:
    state = the_map(stage)
    stage.scope.token = None
    for use in (
        state.clear,
        state.is_empty,
        state.items,
        state.keys,
        state.values,
        lambda: iter(state),
        lambda: state.get("a"),
        lambda: state["a"],
        lambda: "a" in state,
        lambda: state.put("a", 1),
        lambda: state.put_all({"a": 1}),
        lambda: state.remove("a"),
    ):
        with pytest.raises(JobError, match=r"state 'op/map': no key: .*only while a record or timer"):
            use()
