"""`ListState`: what each method does, and what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import Token
from kstreampy.state import element_reader
from kstreampy.state.descriptor import ListStateDescriptor
from kstreampy.state.handle import AppendingState, MergingState
from kstreampy.state.list_state import ListState
from tests.unit.state.stage import CountingStore, Stage

TOKENS: list[Token] = ["1", 1, b"1", "k"]
DESCRIPTOR = ListStateDescriptor("list", Types.PICKLED_BYTE_ARRAY())


def the_list(stage: Stage) -> ListState[Any]:
    return stage.handles.get_list_state(DESCRIPTOR)


@pytest.fixture(params=[True, False], ids=["in memory", "from the store"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """The second begins with nothing in memory, over a store that is not empty."""
    stage = Stage()
    if not request.param:
        stage.scope.token = "another"
        the_list(stage).add_all(["x", "y"])
        stage.restart()
    return stage


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """More elements than this are read as they are walked over."""
    monkeypatch.setattr(element_reader, "MOST_WHOLE", 3)
    return 3


def test_it_is_a_merging_state() -> None:
    assert isinstance(the_list(Stage()), MergingState)
    assert isinstance(the_list(Stage()), AppendingState)


def test_an_empty_list_is_no_none(stage: Stage) -> None:
    assert list(the_list(stage).get()) == []
    assert list(the_list(stage)) == []


def test_elements_come_back_in_order(stage: Stage) -> None:
    state = the_list(stage)
    state.add(3)
    state.add_all([1, 2])
    state.add(3)
    assert list(state.get()) == [3, 1, 2, 3]
    stage.restart()
    assert list(the_list(stage)) == [3, 1, 2, 3]
    the_list(stage).add(0)
    assert list(the_list(stage)) == [3, 1, 2, 3, 0]


def test_keys_have_lists_of_their_own(stage: Stage) -> None:
    state = the_list(stage)
    for number, stage.scope.token in enumerate(TOKENS):
        state.add_all([number] * 2)
    stage.restart()
    state = the_list(stage)
    for number, stage.scope.token in enumerate(TOKENS):
        assert list(state) == [number] * 2


@pytest.mark.parametrize("value", [0, "", False, b"", 0.0, [], {}, ()])
def test_falsy_values_are_elements(stage: Stage, value: Any) -> None:
    the_list(stage).add(value)
    stage.restart()
    assert list(the_list(stage)) == [value]


def test_none_is_refused_and_nothing_is_added(stage: Stage) -> None:
    state = the_list(stage)
    state.add(1)
    uses: list[Callable[[], None]] = [
        lambda: state.add(None),
        lambda: state.add_all([2, None]),
        lambda: state.add_all(None),  # type: ignore[arg-type]
        lambda: state.update([2, None]),
        lambda: state.update(None),  # type: ignore[arg-type]
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"state 'op/list': None cannot be added to a ListState"):
            use()
    assert list(state) == [1]


def test_update_puts_others_in_their_place(stage: Stage) -> None:
    state = the_list(stage)
    state.add_all([1, 2, 3])
    state.update([4])
    assert list(state) == [4]
    stage.restart()
    the_list(stage).update([5, 6])
    stage.restart()
    assert list(the_list(stage)) == [5, 6]


def test_update_with_an_empty_list_clears_and_adding_one_does_nothing(stage: Stage) -> None:
    state = the_list(stage)
    state.add(1)
    state.add_all([])
    assert list(state) == [1]
    state.update([])
    assert list(state) == []
    stage.restart()
    assert list(the_list(stage)) == []


def test_clear_leaves_a_tombstone_for_each_element() -> None:
    stage = Stage()
    the_list(stage).add_all(range(5))
    keys = {key for key, _ in stage.commit()}
    the_list(stage).clear()
    assert sorted(stage.commit()) == [(key, None) for key in sorted(keys)]
    assert stage.stored() == {}
    assert stage.commit() == []


def test_clear_of_what_is_not_in_memory_leaves_tombstones_too() -> None:
    stage = Stage()
    the_list(stage).add_all(range(5))
    keys = {key for key, _ in stage.commit()}
    stage.start()
    the_list(stage).clear()
    assert list(the_list(stage)) == []
    the_list(stage).add("new")
    dirty = stage.commit()
    assert {key for key, value in dirty if value is None} == keys
    assert len(dirty) == 6
    stage.rebuild()
    assert list(the_list(stage)) == ["new"]


def test_what_comes_and_goes_between_checkpoints_is_not_written(stage: Stage) -> None:
    state = the_list(stage)
    state.add(1)
    state.update([2, 3])
    state.clear()
    assert stage.state.take_dirty().entries == []
    state.add(4)
    assert len(stage.commit()) == 1


def test_adding_reads_no_elements() -> None:
    store = CountingStore()
    stage = Stage(store)
    the_list(stage).add_all(range(1000))
    stage.restart()
    store.looked_up.clear()
    the_list(stage).add(1000)
    the_list(stage).add(1001)
    assert len(stage.commit()) == 2
    assert len(store.looked_up) == 1  # where to go on counting
    assert store.scans == 0
    assert list(the_list(stage)) == list(range(1002))


def test_a_list_is_read_once_and_then_kept(stage: Stage) -> None:
    store = CountingStore()
    stage = Stage(store)
    the_list(stage).add_all(range(10))
    stage.restart()
    state = the_list(stage)
    for _ in range(3):
        assert list(state) == list(range(10))
    assert store.scans == 1


def test_each_element_is_an_entry_so_a_list_may_be_longer_than_an_entry() -> None:
    stage = Stage()
    the_list(stage).add_all(["x" * 1000] * 2000)
    dirty = stage.commit()
    assert len(dirty) == 2000
    assert max(len(key) + len(value or b"") for key, value in dirty) < 1200


def test_what_was_given_and_what_is_returned_belong_to_the_caller(stage: Stage) -> None:
    state = the_list(stage)
    given = [1]
    state.add(given)
    state.add_all([given])
    state.update([*state.get(), given])
    given.append(2)
    for got in state.get():
        got.append(3)
    assert list(state) == [[1], [1], [1]]


def test_a_list_that_is_being_read_may_be_changed(stage: Stage) -> None:
    state = the_list(stage)
    state.add_all([1, 2])
    seen = []
    for value in state:
        seen.append(value)
        state.add(value * 10)
    assert seen == [1, 2]
    got = state.get()
    state.clear()
    assert list(got) == [1, 2, 10, 20]


def test_many_elements_are_read_as_they_are_walked_over(few: int) -> None:
    stage = Stage()
    the_list(stage).add_all(range(10))
    stage.restart()
    state = the_list(stage)
    state.add(10)
    got = state.get()
    state.clear()
    assert stage.store.open_scans == 1
    assert list(got) == list(range(11))
    assert stage.store.open_scans == 0
    with pytest.raises(JobError, match=r"state 'op/list': more than 10,000 elements .* ask the state again"):
        list(got)


def test_a_walk_that_is_given_up_lets_go_of_the_store(few: int) -> None:
    stage = Stage()
    the_list(stage).add_all(range(10))
    stage.restart()
    state = the_list(stage)
    state.get()
    assert stage.store.open_scans == 0
    for value in state:
        assert value == 0
        break
    assert stage.store.open_scans == 0
    assert stage.state.cache_bytes() < 2000


def test_memory_is_bounded() -> None:
    stage = Stage(budget_bytes=100_000)
    state = the_list(stage)
    for key in range(200):
        stage.scope.token = key
        state.add_all([f"{number:>100}" for number in range(10)])
        stage.commit()
    assert stage.state.cache_bytes() < 150_000
    for key in range(200):
        stage.scope.token = key
        assert len(list(state)) == 10
    stage.commit()
    assert stage.state.cache_bytes() < 150_000


def test_one_long_list_does_not_stay_in_memory() -> None:
    stage = Stage(budget_bytes=100_000)
    state = the_list(stage)
    for part in range(10):
        state.add_all([f"{number:>100}" for number in range(part * 1000, part * 1000 + 1000)])
        assert stage.state.dirty_bytes() > 100_000
        stage.commit()
        assert stage.state.dirty_bytes() == 0
    assert stage.state.cache_bytes() < 150_000
    assert [int(value) for value in state] == list(range(10_000))


def test_numbers_are_not_given_twice_after_a_restore() -> None:
    stage = Stage()
    the_list(stage).add_all([1, 2])
    stage.commit()
    the_list(stage).update([3])
    stage.commit()
    stage.rebuild()
    the_list(stage).add(4)
    stage.commit()
    stage.rebuild()
    assert list(the_list(stage)) == [3, 4]


def test_merging_appends_in_order_and_empties_the_sources(stage: Stage) -> None:
    state = the_list(stage)
    for stage.scope.token in ("a", "b", "k"):
        state.add_all([f"{stage.scope.token}1", f"{stage.scope.token}2"])
    state.merge_namespaces("k", ["a", "k", "b", "none"])
    stage.restart()
    state = the_list(stage)
    assert list(state) == ["k1", "k2", "a1", "a2", "b1", "b2"]
    for stage.scope.token in ("a", "b"):
        assert list(state) == []


def test_without_a_key_it_is_refused(stage: Stage) -> None:
    state = the_list(stage)
    stage.scope.token = None
    for use in (
        state.get,
        state.clear,
        lambda: iter(state),
        lambda: state.add(1),
        lambda: state.add_all([1]),
        lambda: state.update([]),
    ):
        with pytest.raises(JobError, match=r"state 'op/list': no key: .*only while a record or timer"):
            use()
    assert stage.commit() == []


def test_a_value_too_large_is_told_with_state_key_and_size() -> None:
    stage = Stage()
    the_list(stage).add_all(["x", "x" * 2_000_000])
    with pytest.raises(JobError, match=r"state 'op/list': the value of key 'k' takes 2,000,\d\d\d bytes"):
        stage.commit()


def test_a_value_that_cannot_be_stored_is_told_with_state_key_and_type() -> None:
    stage = Stage()
    stage.handles.get_list_state(ListStateDescriptor("l", Types.LONG())).add_all([1, object()])
    with pytest.raises(JobError, match=r"state 'op/l': the value of key 'k', a object, cannot be stored"):
        stage.commit()


def test_bytes_that_cannot_be_read_are_told() -> None:
    stage = Stage()
    the_list(stage).add(1)
    [(key, _)] = stage.commit()
    stage.store.write([(key, b"\xff")], None)
    stage.start()
    with pytest.raises(JobError, match=r"state 'op/list': what is stored for key 'k' cannot be read"):
        list(the_list(stage))
    stage.store.write([(b"op/list\x00\x00", b"\xff")], None)
    with pytest.raises(StateCorrupted, match="op/list"):
        the_list(stage).add(1)
    assert stage.store.open_scans == 0
