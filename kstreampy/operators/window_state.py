"""State of window functions, triggers and assigners, which ask for it at every call, not once in `open`.

In here: `RememberedStates`, a store that gives the same handle again, and the `RuntimeContext` made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kstreampy.operators.operator import TaskContext
from kstreampy.operators.runtime_context import TaskKeyedStateStore, TaskRuntimeContext
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.handle import KeyScope, ValueState
from kstreampy.state.keyed import KeyedState
from kstreampy.state.list_state import ListState
from kstreampy.state.map_state import MapState
from kstreampy.state.merging import AggregatingState, ReducingState

D = TypeVar("D", bound=StateDescriptor)
H = TypeVar("H")


class RememberedStates(TaskKeyedStateStore):
    """The same handle for the same descriptor object, without looking at it again."""

    def __init__(self, step: str, uid: str, state: KeyedState, scope: KeyScope, clock: Callable[[], int]) -> None:
        super().__init__(step, uid, state, scope, clock)
        self._found: dict[str, tuple[StateDescriptor, Any]] = {}

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._handle(state_descriptor, super().get_state)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._handle(state_descriptor, super().get_list_state)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._handle(state_descriptor, super().get_map_state)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._handle(state_descriptor, super().get_reducing_state)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._handle(state_descriptor, super().get_aggregating_state)

    def any_state(self, state_descriptor: StateDescriptor) -> Any:
        """By the descriptor's class. TypeError for what is none."""
        found = self._found.get(state_descriptor.get_name()) if isinstance(state_descriptor, StateDescriptor) else None
        if found is not None and found[0] is state_descriptor:
            return found[1]
        return self.state(state_descriptor)

    def _handle(self, descriptor: D, make: Callable[[D], H]) -> H:
        name = descriptor.get_name()
        found = self._found.get(name)
        if found is None or found[0] is not descriptor:
            found = self._found[name] = descriptor, make(descriptor)
        handle: H = found[1]
        return handle


class WindowRuntimeContext(TaskRuntimeContext):
    """Of a windowed step: its state is that of the key."""

    def __init__(self, step: str, uid: str, context: TaskContext, state: KeyedState) -> None:
        super().__init__(step, context, uid)
        self.states = RememberedStates(step, uid, state, context.scope, context.clock)

    def _store(self, descriptor: StateDescriptor) -> TaskKeyedStateStore:
        return self.states
