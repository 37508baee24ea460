"""What functions are handed to ask for state."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.datastream.functions import AggregateFunction
from kstreampy.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    AppendingState,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    MergingState,
    ReducingState,
    ReducingStateDescriptor,
    State,
    StateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from kstreampy.errors import JobError
from kstreampy.operators.runtime_context import TaskKeyedStateStore, TaskRuntimeContext
from kstreampy.serde.key import scoped
from kstreampy.state.handle import KeyScope
from tests.unit.operators.standin import context


class Longest(AggregateFunction):
    def create_accumulator(self) -> str:
        return ""

    def add(self, value: str, accumulator: str) -> str:
        return max(value, accumulator, key=len)

    def get_result(self, accumulator: str) -> int:
        return len(accumulator)

    def merge(self, acc_a: str, acc_b: str) -> str:
        return max(acc_a, acc_b, key=len)


LONG = Types.LONG()
ASKED: dict[str, tuple[Any, type]] = {
    "get_state": (lambda: ValueStateDescriptor("v", LONG), ValueState),
    "get_list_state": (lambda: ListStateDescriptor("l", LONG), ListState),
    "get_map_state": (lambda: MapStateDescriptor("m", Types.STRING(), LONG), MapState),
    "get_reducing_state": (lambda: ReducingStateDescriptor("r", lambda a, b: a + b, LONG), ReducingState),
    "get_aggregating_state": (lambda: AggregatingStateDescriptor("a", Longest(), Types.STRING()), AggregatingState),
}


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("has_ttl", [False, True])
def test_a_keyed_step_gets_the_kind_it_asks_for(method: str, has_ttl: bool) -> None:
    descriptor, kind = ASKED[method]
    asked: StateDescriptor = descriptor()
    if has_ttl:
        asked.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    state = getattr(TaskRuntimeContext("step", context(), "uid"), method)(asked)
    assert isinstance(state, kind)
    assert isinstance(state, State)
    if kind not in (ValueState, MapState):
        assert isinstance(state, MergingState)
        assert isinstance(state, AppendingState)


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("other", ASKED)
def test_a_descriptor_of_another_kind_is_refused(method: str, other: str) -> None:
    runtime_context = TaskRuntimeContext("step", context(), "uid")
    given: StateDescriptor = ASKED[other][0]()
    if method == other:
        getattr(runtime_context, method)(given)
        return
    wanted = type(ASKED[method][0]()).__name__
    with pytest.raises(TypeError, match=rf"^step: {method} takes a {wanted}, not {type(given).__name__}\('"):
        getattr(runtime_context, method)(given)


@pytest.mark.parametrize("method", ASKED)
def test_a_step_without_keys_is_refused(method: str) -> None:
    descriptor, _ = ASKED[method]
    for made in (TaskRuntimeContext("step", context()), TaskRuntimeContext("step", context(state=None), "uid")):
        with pytest.raises(
            JobError, match=r"^step: This state is only accessible by functions executed on a KeyedStream"
        ):
            getattr(made, method)(descriptor())


def test_states_of_two_steps_are_two_states() -> None:
    task = context()
    one, other = (TaskRuntimeContext("step", task, uid).get_state(ValueStateDescriptor("v", LONG)) for uid in "ab")
    task.scope.token = "k"
    one.update(1)
    assert other.value() is None


def test_a_second_scope_is_that_of_a_window() -> None:
    """State per key and window is state under another token."""
    task = context()
    assert task.state is not None
    scope = KeyScope()
    windows = TaskKeyedStateStore("step", "uid/window", task.state, scope, task.clock)
    per_window = windows.get_list_state(ListStateDescriptor("l", LONG))
    per_key = TaskRuntimeContext("step", task, "uid").get_list_state(ListStateDescriptor("l", LONG))
    task.scope.token = "k"
    per_key.add(0)
    for number, window in enumerate((b"w1", b"w2"), 1):
        scope.token = scoped("k", window)
        per_window.add(number)
    scope.token = scoped("k", b"w1")
    assert (list(per_key), list(per_window)) == ([0], [1])
    per_window.clear()
    scope.token = scoped("k", b"w2")
    assert list(per_window) == [2]


def test_the_clock_of_the_task_is_that_of_the_ttl() -> None:
    now_ms = [1000]
    task = context(clock=lambda: now_ms[0])
    descriptor = ValueStateDescriptor("v", LONG)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(5)).build())
    state = TaskRuntimeContext("step", task, "uid").get_state(descriptor)
    task.scope.token = "k"
    state.update(1)
    now_ms[0] = 1004
    assert state.value() == 1
    now_ms[0] = 1005
    assert state.value() is None
