"""State as a user's function sees it: handles that follow the current key.

In here: the abstract kinds (`State`, `AppendingState`, `MergingState`), `ValueState`, and the `KeyScope` that tells handles
the key. Not in here: the other kinds (`merging.py`, `list_state.py`, `map_state.py`; with a TTL `ttl_state.py`), how a
handle is asked for (`descriptor.py`, and the runtime context), and where values lie (`cache.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.state.cache import ValueCache

T = TypeVar("T")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class KeyScope:
    """The current key of one task: the operator sets `token` before it calls the user's function, and None
    after."""

    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token: Token | None = None


class State(ABC):
    """Anything kept per key. A handle is asked for once, in `open`, and acts on the key of the record or
    timer that is being processed; without a current key all its methods raise JobError."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what is kept for the current key."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What is kept for the current key; None when there is nothing (an empty list for a `ListState`)."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value for the current key. None leaves what is kept unchanged (a `ListState` refuses it)."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state of which that of several keys can be made one, as windows that merge need it."""

    @abstractmethod
    def merge_namespaces(self, target: Token, sources: Iterable[Token]) -> None:
        """What is kept under the tokens `sources`, in their order, is added to what is kept under `target` and removed
        from there. The current key does not matter. For operators; tokens are of a key and a window (`serde/key.py`,
        `scoped`)."""


class ValueState(State, Generic[T]):
    """One value per key (PyFlink's `ValueState`).

    What `value` returns and what `update` was given belong to the caller: changing such an object later
    changes nothing that is kept. To keep a change, call `update`. All methods raise JobError when there is no
    current key."""

    __slots__ = ("_cache", "_scope")

    def __init__(self, cache: ValueCache, scope: KeyScope) -> None:
        self._cache = cache
        self._scope = scope

    def value(self) -> T | None:
        """The current key's value, None when there is none. 0, "", False and b"" are values."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        value: T | None = self._cache.entries.get(token)
        if value is None:
            value = self._cache.fetch(token)
        return value if type(value) in IMMUTABLE_TYPES else copy_value(value)

    def update(self, value: T | None) -> None:
        """Keeps the value for the current key; None removes what is kept."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        cache = self._cache
        cache.entries[token] = value if type(value) in IMMUTABLE_TYPES else copy_value(value)
        cache.dirty.add(token)

    def clear(self) -> None:
        """Removes what is kept for the current key."""
        self.update(None)


def no_key(name: str) -> JobError:
    """The error of a handle that is used where there is no current key."""
    return JobError(
        f"state {name!r}: no key: state can be used only while a record or timer of a keyed stream is processed"
    )
