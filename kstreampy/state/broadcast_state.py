"""Broadcast state: maps that a task keeps as a whole, not by key.

In here: the handles under PyFlink's names, and where such a map lies. Not in here: the functions that use them
(`operators/broadcast_function.py`).

A task keeps the map as the map state of one reserved key, which no record can have: so it is part of the task's changelog
and comes back with it, and may be larger than memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from kstreampy.errors import JobError
from kstreampy.serde.key import NO_KEY
from kstreampy.state.descriptor import MapStateDescriptor
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import map_cache
from kstreampy.state.map_state import MapState, ReadableMap

K = TypeVar("K")
V = TypeVar("V")


class OperatorStateStore(ABC):
    """Where state that belongs to a task as a whole comes from."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The map of this name. `JobError` as for keyed state."""


class ReadOnlyBroadcastState(ReadableMap[K, V], Generic[K, V]):
    """A broadcast state as the side that is not broadcast sees it. What it returns belongs to the caller."""

    __slots__ = ()

    def clear(self) -> None:
        """`JobError`: it cannot be changed here."""
        raise JobError(
            f"state {self._cache.name!r}: broadcast state can be changed in process_broadcast_element only, so that all "
            "tasks change it in the same way"
        )


class BroadcastState(ReadOnlyBroadcastState[K, V], MapState[K, V]):
    """A broadcast state as the broadcast side sees it: as a `MapState`, without a key."""

    __slots__ = ()

    def clear(self) -> None:
        """Removes all entries."""
        MapState.clear(self)


class TaskOperatorStateStore(OperatorStateStore):
    """Of one operator in one task."""

    def __init__(self, uid: str, state: KeyedState) -> None:
        self._uid = uid
        self._state = state
        self._scope = KeyScope()
        self._scope.token = NO_KEY

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        name = f"{self._uid}/broadcast/{state_descriptor.name}"
        cache = map_cache(self._state, name, state_descriptor.key_type, state_descriptor.value_type)
        return BroadcastState(cache, self._scope)

    def read_only(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The same map, to read."""
        writable = self.get_broadcast_state(state_descriptor)
        return ReadOnlyBroadcastState(writable._cache, self._scope)
