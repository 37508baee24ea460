"""`ReducingState` and `AggregatingState`: the AppendingState contract."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.operators.function import AggregateFunction, ReduceFunction
from kstreampy.state.descriptor import AggregatingStateDescriptor, ReducingStateDescriptor
from kstreampy.state.handle import AppendingState, MergingState
from tests.unit.state.stage import Stage

ANY = Types.PICKLED_BYTE_ARRAY()


class Average(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Grow(AggregateFunction):
    """Changes its accumulator in place, and gives it away."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator


GROW: Any = Grow


class Longest(ReduceFunction):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


def concat(one: list[Any], other: list[Any]) -> list[Any]:
    one.append(other)
    return one


@pytest.fixture(params=["in memory", "restarted"])
def stage(request: pytest.FixtureRequest) -> Stage:
    stage = Stage()
    stage.restarted = request.param == "restarted"  # type: ignore[attr-defined]
    return stage


def turn(stage: Stage) -> None:
    if stage.restarted:  # type: ignore[attr-defined]
        stage.restart()


def test_reducing_by_a_plain_function(stage: Stage) -> None:
    descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
    state = stage.handles.get_reducing_state(descriptor)
    assert isinstance(state, MergingState)
    assert isinstance(state, AppendingState)
    assert state.get() is None
    for value, total in ((5, 5), (0, 5), (-5, 0), (7, 7)):
        stage.handles.get_reducing_state(descriptor).add(value)
        turn(stage)
        assert stage.handles.get_reducing_state(descriptor).get() == total
    stage.handles.get_reducing_state(descriptor).clear()
    turn(stage)
    assert stage.handles.get_reducing_state(descriptor).get() is None
    assert stage.commit() == [] or stage.stored() == {}


def test_reducing_by_a_reduce_function(stage: Stage) -> None:
    state = stage.handles.get_reducing_state(ReducingStateDescriptor("longest", Longest(), Types.STRING()))
    for value in ("a", "abc", "ab"):
        state.add(value)
    assert state.get() == "abc"


def test_aggregating(stage: Stage) -> None:
    descriptor = AggregatingStateDescriptor("average", Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    state = stage.handles.get_aggregating_state(descriptor)
    assert isinstance(state, MergingState)
    assert state.get() is None
    state.add(1)
    turn(stage)
    state = stage.handles.get_aggregating_state(descriptor)
    state.add(2)
    assert state.get() == 1.5
    state.clear()
    assert state.get() is None
    state.add(4)
    assert state.get() == 4


def test_none_leaves_what_is_kept_unchanged(stage: Stage) -> None:
    def fail(one: Any, other: Any) -> Any:
        raise AssertionError("called with None")

    reducing = stage.handles.get_reducing_state(ReducingStateDescriptor("r", fail, ANY))
    aggregating = stage.handles.get_aggregating_state(AggregatingStateDescriptor("a", Average(), ANY))
    reducing.add(None)
    aggregating.add(None)
    assert reducing.get() is None
    assert aggregating.get() is None
    reducing.add(1)
    aggregating.add(1)
    reducing.add(None)
    aggregating.add(None)
    assert (reducing.get(), aggregating.get()) == (1, 1)


def test_what_was_added_and_what_is_returned_belong_to_the_caller(stage: Stage) -> None:
    reducing = stage.handles.get_reducing_state(ReducingStateDescriptor("r", concat, ANY))
    aggregating = stage.handles.get_aggregating_state(AggregatingStateDescriptor("a", GROW(), ANY))
    first: list[Any] = [1]
    second: list[Any] = [2]
    for value in (first, second):
        reducing.add(value)
        aggregating.add(value)
    first.append("changed")
    second.append("changed")
    reducing.get().append("changed")  # type: ignore[union-attr]
    aggregating.get()[0].append("changed")  # type: ignore[index]
    assert reducing.get() == [1, [2]]
    assert aggregating.get() == [[1], [2]]


def test_what_is_taken_from_an_accumulator_stays_in_the_one_that_is_kept(stage: Stage) -> None:
    class Taking(Grow):
        def get_result(self, accumulator: list[Any]) -> Any:
            return accumulator.pop()

    taking: Any = Taking
    aggregating = stage.handles.get_aggregating_state(AggregatingStateDescriptor("a", taking(), ANY))
    aggregating.add("x")
    aggregating.add("y")
    assert (aggregating.get(), aggregating.get()) == ("y", "y")


def test_states_of_several_keys_are_made_one(stage: Stage) -> None:
    reducing_descriptor = ReducingStateDescriptor("r", lambda a, b: a + b, ANY)
    aggregating_descriptor = AggregatingStateDescriptor("a", Average(), ANY)
    reducing = stage.handles.get_reducing_state(reducing_descriptor)
    aggregating = stage.handles.get_aggregating_state(aggregating_descriptor)
    for value, stage.scope.token in enumerate(("a", "b", "k")):
        reducing.add(stage.scope.token)
        aggregating.add(value)
    turn(stage)
    reducing = stage.handles.get_reducing_state(reducing_descriptor)
    aggregating = stage.handles.get_aggregating_state(aggregating_descriptor)
    for state in (reducing, aggregating):
        state.merge_namespaces("new", ["k", "new", "a", "none", "b"])
    for token, reduced, average in (("new", "kab", 1.0), ("a", None, None), ("b", None, None), ("k", None, None)):
        stage.scope.token = token
        assert (reducing.get(), aggregating.get()) == (reduced, average)


def test_an_aggregate_function_without_merge_says_so() -> None:
    stage = Stage()
    state = stage.handles.get_aggregating_state(AggregatingStateDescriptor("a", GROW(), ANY))
    for stage.scope.token in ("a", "b"):
        state.add(1)
    with pytest.raises(JobError, match=r"Grow has no merge\(\)"):
        state.merge_namespaces("a", ["b"])


def test_without_a_key_it_is_refused() -> None:
    stage = Stage()
    reducing = stage.handles.get_reducing_state(ReducingStateDescriptor("r", concat, ANY))
    aggregating = stage.handles.get_aggregating_state(AggregatingStateDescriptor("a", Average(), ANY))
    stage.scope.token = None
    for state in (reducing, aggregating):
        for use in (state.get, state.clear, lambda state=state: state.add(1), lambda state=state: state.add(None)):
            with pytest.raises(JobError, match=r"state 'op/[ra]': no key"):
                use()


def test_what_is_no_function_is_refused() -> None:
    for function in (None, 5, Longest, "reduce"):
        with pytest.raises(TypeError, match="must be a ReduceFunction or a callable function"):
            ReducingStateDescriptor("r", function, Types.LONG())
    for aggregate in (None, Average, lambda a: a):
        with pytest.raises(TypeError, match="must be a AggregateFunction"):
            AggregatingStateDescriptor("a", aggregate, Types.LONG())


def test_descriptors_give_back_their_functions() -> None:
    longest, average = Longest(), Average()
    assert ReducingStateDescriptor("r", longest, Types.STRING()).get_reduce_function() is longest
    assert AggregatingStateDescriptor("a", average, Types.LONG()).get_agg_function() is average
