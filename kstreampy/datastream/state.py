"""PyFlink's path for state, by key and broadcast; it lives in `kstreampy/state/`."""

from kstreampy.state.broadcast_state import BroadcastState, OperatorStateStore, ReadOnlyBroadcastState
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.handle import AppendingState, MergingState, State, ValueState
from kstreampy.state.list_state import ListState
from kstreampy.state.map_state import MapState
from kstreampy.state.merging import AggregatingState, ReducingState
from kstreampy.state.ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]
