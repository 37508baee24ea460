"""What `Function.open` is handed, and where a function's keyed state comes from.

In here: `TaskRuntimeContext`, and `TaskKeyedStateStore`, which makes the handles that a descriptor asks for. Not in here: the
handles (`state/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kstreampy.common.metric import MetricGroup
from kstreampy.errors import JobError
from kstreampy.operators.function import KeyedStateStore, ReduceFunction, RuntimeContext, callable_of
from kstreampy.operators.operator import TaskContext
from kstreampy.serde.batch import Token
from kstreampy.state.cache import ValueCache
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.expiry import ExpiringList, ExpiringMap, ExpiringValues, Expiry
from kstreampy.state.handle import KeyScope, State, ValueState
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import list_cache, map_cache, value_cache
from kstreampy.state.list_state import ListState
from kstreampy.state.map_state import MapState
from kstreampy.state.merging import AggregatingState, ReducingState
from kstreampy.state.stored_type import AGGREGATING, REDUCING, VALUE
from kstreampy.state.ttl_state import TtlAggregatingState, TtlListState, TtlMapState, TtlReducingState, TtlValueState


class TaskKeyedStateStore(KeyedStateStore):
    """Handles of one operator's state that follow one `KeyScope`. A window operator has a second one, whose scope holds the
    key and the window."""

    def __init__(self, step: str, uid: str, state: KeyedState, scope: KeyScope, clock: Callable[[], int]) -> None:
        """`step` names the operator in messages, `uid` its states in what is stored; `clock` gives ms, for TTL."""
        self._step = step
        self._uid = uid
        self._state = state
        self._scope = scope
        self._clock = clock

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        self._require("get_state", ValueStateDescriptor, state_descriptor)
        cache = self._values(VALUE, state_descriptor)
        return (TtlValueState if isinstance(cache, ExpiringValues) else ValueState)(cache, self._scope)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        self._require("get_list_state", ListStateDescriptor, state_descriptor)
        name, expiry = self._name(state_descriptor), self._expiry(state_descriptor)
        cache = list_cache(self._state, name, state_descriptor.element_type, expiry)
        return TtlListState(cache, self._scope) if isinstance(cache, ExpiringList) else ListState(cache, self._scope)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        self._require("get_map_state", MapStateDescriptor, state_descriptor)
        name, expiry = self._name(state_descriptor), self._expiry(state_descriptor)
        cache = map_cache(self._state, name, state_descriptor.key_type, state_descriptor.value_type, expiry)
        return TtlMapState(cache, self._scope) if isinstance(cache, ExpiringMap) else MapState(cache, self._scope)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        self._require("get_reducing_state", ReducingStateDescriptor, state_descriptor)
        cache = self._values(REDUCING, state_descriptor)
        reduce = callable_of(state_descriptor.get_reduce_function(), ReduceFunction, "reduce")
        return (TtlReducingState if isinstance(cache, ExpiringValues) else ReducingState)(cache, self._scope, reduce)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        self._require("get_aggregating_state", AggregatingStateDescriptor, state_descriptor)
        cache = self._values(AGGREGATING, state_descriptor)
        function = state_descriptor.get_agg_function()
        kind = TtlAggregatingState if isinstance(cache, ExpiringValues) else AggregatingState
        return kind(cache, self._scope, function)

    def state(self, descriptor: StateDescriptor) -> State:
        """Of whatever kind the descriptor describes. TypeError for none of the five."""
        match descriptor:
            case ValueStateDescriptor():
                return self.get_state(descriptor)
            case ListStateDescriptor():
                return self.get_list_state(descriptor)
            case MapStateDescriptor():
                return self.get_map_state(descriptor)
            case ReducingStateDescriptor():
                return self.get_reducing_state(descriptor)
            case AggregatingStateDescriptor():
                return self.get_aggregating_state(descriptor)
        raise TypeError(f"{self._step}: a descriptor of keyed state is required, not {descriptor!r}")

    def tokens(self, descriptor: StateDescriptor) -> Iterator[Token]:
        """All keys that have something in this state; see `ValueCache.tokens`."""
        handle: Any = self.state(descriptor)
        tokens: Iterator[Token] = handle._cache.tokens()
        return tokens

    def _require(self, call: str, wanted: type[StateDescriptor], given: object) -> None:
        if not isinstance(given, wanted):
            raise TypeError(f"{self._step}: {call} takes a {wanted.__name__}, not {given!r}")

    def _values(self, kind: str, descriptor: StateDescriptor) -> ValueCache:
        return value_cache(self._state, self._name(descriptor), kind, descriptor.type_info, self._expiry(descriptor))

    def _name(self, descriptor: StateDescriptor) -> str:
        return f"{self._uid}/{descriptor.get_name()}"

    def _expiry(self, descriptor: StateDescriptor) -> Expiry | None:
        config = descriptor.get_ttl_config()
        return Expiry.of(config, self._clock) if config.is_enabled() else None


class TaskRuntimeContext(RuntimeContext):
    """One per operator and task. State is there only where the operator was opened as a keyed one."""

    def __init__(self, step: str, context: TaskContext, uid: str | None = None) -> None:
        self._step = step
        self._context = context
        self._uid = uid

    def get_task_name(self) -> str:
        return self._step

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.partitions

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.partitions

    def get_index_of_this_subtask(self) -> int:
        return self._context.partition

    def get_attempt_number(self) -> int:
        return self._context.attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._step} ({self._context.partition + 1}/{self._context.partitions})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._context.metric_group(self._step)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._store(state_descriptor).get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._store(state_descriptor).get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._store(state_descriptor).get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._store(state_descriptor).get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._store(state_descriptor).get_aggregating_state(state_descriptor)

    def _store(self, descriptor: StateDescriptor) -> TaskKeyedStateStore:
        context = self._context
        if self._uid is None or context.state is None:
            raise JobError(
                f"{self._step}: This state is only accessible by functions executed on a KeyedStream. "
                f"Put key_by(...) before it to use the state {descriptor.get_name()!r}"
            )
        return TaskKeyedStateStore(self._step, self._uid, context.state, context.scope, context.clock)
