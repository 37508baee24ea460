"""`ListState`: a list per key, of any length.

In here: the handle. Not in here: where its elements lie (`list_cache.py`), and the same with a TTL (`ttl_state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.serde.batch import Token
from kstreampy.state.element_walk import walk
from kstreampy.state.handle import KeyScope, MergingState, no_key
from kstreampy.state.list_cache import ListCache

T = TypeVar("T")


class ListState(MergingState[T, Iterable[T]], Generic[T]):
    """A list per key (PyFlink's `ListState`). Each element is stored on its own: adding one reads and writes nothing of the
    others. None is no element. What `get` returns and what was added belong to the caller."""

    __slots__ = ("_cache", "_scope")

    def __init__(self, cache: ListCache, scope: KeyScope) -> None:
        self._cache = cache
        self._scope = scope

    def get(self) -> Iterable[T]:
        """The elements in order, as they are now; empty when there are none. A list, up to 10,000 of them; more are read
        from the store as they are walked over, once."""
        return walk(self._cache.name, self._cache.rows(self._token()), _value)

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Appends an element. ValueError for None."""
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        if value is None:
            raise self._refused()
        self._cache.append(token, value if type(value) in IMMUTABLE_TYPES else copy_value(value))

    def add_all(self, values: Iterable[T]) -> None:
        """Appends the elements, none of them if one is None (ValueError). An empty list changes nothing."""
        token = self._token()
        for value in self._checked(values):
            self._cache.append(token, value)

    def update(self, values: Iterable[T]) -> None:
        """Puts these elements in the place of what is kept; an empty list clears it. ValueError as `add_all`."""
        token = self._token()
        checked = self._checked(values)
        self._cache.clear(token)
        for value in checked:
            self._cache.append(token, value)

    def clear(self) -> None:
        self._cache.clear(self._token())

    def merge_namespaces(self, target: Token, sources: Iterable[Token]) -> None:
        for source in sources:
            if source != target:
                for _, value in self._cache.rows(source):
                    self._cache.append(target, value)
                self._cache.clear(source)

    def _token(self) -> Token:
        token = self._scope.token
        if token is None:
            raise no_key(self._cache.name)
        return token

    def _checked(self, values: Iterable[T] | None) -> list[Any]:
        copied = None if values is None else [copy_value(value) for value in values]
        if copied is None or None in map(_none, copied):
            raise self._refused()
        return copied

    def _refused(self) -> ValueError:
        return ValueError(f"state {self._cache.name!r}: None cannot be added to a ListState: leave it out")


def _none(value: Any) -> Any:
    """None for None, for a search by identity: `None in values` would ask every value's `__eq__`."""
    return None if value is None else 0


def _value(_: Any, value: Any) -> Any:
    return value if type(value) in IMMUTABLE_TYPES else copy_value(value)
