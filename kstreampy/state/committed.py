"""What was committed last of one named state: the store with what waits for it (`KeyedState.behind`) laid over."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Sequence
from itertools import islice

from kstreampy.state.keyed import KeyedState


class Committed:
    """Entries as bytes. Good until the task's next checkpoint; reads only."""

    def __init__(self, state: KeyedState, prefix: bytes) -> None:
        """`prefix`: what the keys of the state's entries begin with."""
        self.prefix = prefix
        self._store = state.store
        self._behind = state.behind
        self._behind_keys = sorted(key for key in state.behind if key.startswith(prefix))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """As `Store.get_many`."""
        behind = self._behind
        stored = iter(self._store.get_many([key for key in keys if key not in behind]))
        return [behind[key] if key in behind else next(stored) for key in keys]

    def first(self, least: bytes) -> bytes | None:
        """The first key from here on; it may be one that was removed."""
        at = bisect_left(self._behind_keys, least)
        stored = self._store.first_key(self.prefix, least)
        found = [key for key in (stored, *self._behind_keys[at : at + 1]) if key is not None]
        return min(found, default=None)

    def entries(self, prefix: bytes, least: bytes) -> Generator[tuple[bytes, bytes]]:
        """Those whose keys begin with `prefix`, from `least` on, ascending. It has an open scan until it is closed."""
        behind = self._behind
        keys = self._behind_keys
        at = bisect_left(keys, max(prefix, least))
        with self._store.scan(prefix, least) as rows:
            for key, data in rows:
                while at < len(keys) and keys[at] < key:
                    waiting = behind[keys[at]]
                    if waiting is not None:
                        yield keys[at], waiting
                    at += 1
                if at < len(keys) and keys[at] == key:
                    continue  # the newer one follows
                yield key, data
        for key in islice(keys, at, None):
            if not key.startswith(prefix):
                return
            waiting = behind[key]
            if waiting is not None:
                yield key, waiting
