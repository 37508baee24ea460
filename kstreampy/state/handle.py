"""State as a user's function sees it: handles that follow the current key.

In here: `State`, `ValueState`, and the `KeyScope` that tells them the key. Not in here: how a handle is asked
for (descriptors, `descriptor.py`, and the runtime context), and where values lie (`cache.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.state.cache import ValueCache

T = TypeVar("T")


class KeyScope:
    """The current key of one task: the operator sets `token` before it calls the user's function, and None
    after."""

    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token: Token | None = None


class State(ABC):
    """Anything kept per key. A handle is asked for once, in `open`, and acts on the key of the record or
    timer that is being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what is kept for the current key."""


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
            raise self._no_key()
        value: T | None = self._cache.entries.get(token)
        if value is None:
            value = self._cache.fetch(token)
        return value if type(value) in IMMUTABLE_TYPES else copy_value(value)

    def update(self, value: T | None) -> None:
        """Keeps the value for the current key; None removes what is kept."""
        token = self._scope.token
        if token is None:
            raise self._no_key()
        cache = self._cache
        cache.entries[token] = value if type(value) in IMMUTABLE_TYPES else copy_value(value)
        cache.dirty.add(token)

    def clear(self) -> None:
        """Removes what is kept for the current key."""
        self.update(None)

    def _no_key(self) -> JobError:
        return JobError(
            f"state {self._cache.name!r}: no key: state can be used only while a record or timer of a "
            "keyed stream is processed"
        )
