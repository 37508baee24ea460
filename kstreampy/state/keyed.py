"""All keyed state of one task: its store, the caches in front of it, and what a checkpoint takes and gives
back.

In here: `KeyedState`. Not in here: producing to the changelog and reading it back, which the runtime
does with the bytes it gets here.

A checkpoint: `take_dirty` → the runtime writes those entries to the changelog and commits → `committed`
writes the same bytes to the store, with the meta record, in one batch. Nothing is set in between. If the
commit fails, nothing was changed here: either `take_dirty` again, or `discard`.

A restore: `reset` if the store's `local_meta` does not fit the changelog, then `apply` as often as there is
something, with `complete=False` until the last one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import Token
from kstreampy.serde.typed import Codec
from kstreampy.state.budget import CacheBudget
from kstreampy.state.cache import MAX_VALUE_BYTES, Cache, ValueCache
from kstreampy.state.dirty import Dirty
from kstreampy.state.expiry import SWEEP, Sweeping
from kstreampy.state.layout import entry_key, name_prefix
from kstreampy.state.store import Entry, Store
from kstreampy.state.stored_type import merged, shown_type
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.task_timer import TIMERS_META_KEY, TaskTimers
from kstreampy.state.timeline import TimelineCache
from kstreampy.state.timer import Timers

_log = logging.getLogger(__name__)

C = TypeVar("C", bound=Cache)

_TTL_TOO = " (of another kind, or once with a TTL and once without)"
_MOST_BEHIND = 30_000
"""Entries that may wait in memory for the store."""


class KeyedState:
    """Owner of one task's store and caches; lives as long as the task is open. One thread at a time."""

    def __init__(
        self,
        store: Store,
        budget: CacheBudget,
        *,
        max_value_bytes: int = MAX_VALUE_BYTES,
        write_behind_ms: int = 0,
    ) -> None:
        """Reads the store's meta record. StateCorrupted when that or the store cannot be read. With `write_behind_ms` what
        was committed may stay in memory so long before the store gets it, several checkpoints at once: a crash then
        replays that much more of the changelog."""
        self._store = store
        self._budget = budget
        self._max_value_bytes = max_value_bytes
        self._write_behind_ms = write_behind_ms
        self._behind: dict[bytes, bytes | None] = {}
        self._written_at_ms: int | None = None
        self._caches: dict[str, Cache] = {}
        self._sweeping: list[Sweeping] = []
        self._timelines: list[TimelineCache] = []
        self._types: dict[str, str] = {}
        self._declared: dict[str, str] = {}
        self._void: set[bytes] = set()
        self._complete = store.is_empty()
        self._local_meta = self._read_meta()
        self._stored_types = self._types_of(self._local_meta)
        self.task_timers = TaskTimers(store, self._write_out, complete=self._complete)

    def _read_meta(self) -> LocalMeta | None:
        data = self._store.meta()
        try:
            return None if data is None else LocalMeta.decode(data)
        except StateCorrupted as error:
            raise StateCorrupted(f"the store at {self._store.path}: {error}") from error

    def _types_of(self, meta: LocalMeta | None) -> Mapping[str, str]:
        try:
            task = None if meta is None else meta.task()
        except StateCorrupted as error:
            raise StateCorrupted(f"the store at {self._store.path}: {error}") from error
        return {} if task is None else task.states

    @property
    def store(self) -> Store:
        return self._store

    @property
    def behind(self) -> Mapping[bytes, bytes | None]:
        """What is committed and not in the store yet: laid over the store's entries it gives what was committed."""
        return self._behind

    @property
    def caches(self) -> Mapping[str, Cache]:
        """Those of the states that were asked for so far, by name."""
        return self._caches

    @property
    def local_meta(self) -> LocalMeta | None:
        """How far the store has followed its changelog; None when it never began to."""
        return self._local_meta

    @property
    def types(self) -> dict[str, str]:
        """Name of each state → description of its type, registered or only stored: for `TaskMeta.states`."""
        return {**self._stored_types, **self._types}

    def value(self, name: str, codec: Codec, type_description: str) -> ValueCache:
        """The cache of a state with one value per key; the same one for the same name. JobError when the name
        cannot be one, or has another type here or in what is stored."""

        def make(store: Store, complete: bool, max_value_bytes: int) -> ValueCache:
            return ValueCache(name, codec, store, complete=complete, max_value_bytes=max_value_bytes)

        return self.cache(name, type_description, ValueCache, make)

    def cache(self, name: str, type_description: str, kind: type[C], make: Callable[[Store, bool, int], C]) -> C:
        """The cache of the state `name`, made by `make(store, complete, max_value_bytes)` where there is none yet.
        JobError as for `value`."""
        cache = self._caches.get(name)
        if cache is not None:
            if self._declared[name] != type_description or type(cache) is not kind:
                raise JobError(
                    f"state {name!r} is declared twice, as {shown_type(self._declared[name])} and as "
                    f"{shown_type(type_description)}{_TTL_TOO if type(cache) is not kind else ''}: "
                    "give one of them another name"
                )
            return cache
        text = self.stored_type(name, type_description)
        made = make(self._store, self._complete, self._max_value_bytes)
        self._caches[name] = made
        if isinstance(made, Sweeping):
            self._sweeping.append(made)
        if isinstance(made, TimelineCache):
            self._timelines.append(made)
        self._types[name] = text
        self._declared[name] = type_description
        return made

    def stored_type(self, name: str, type_description: str) -> str:
        """What is to be stored of the type of a state that the job declares as this: with the older types of what is
        stored already. JobError when that cannot be read as declared."""
        return merged(name, self._stored_types.get(name), type_description)

    def holds(self, name: str) -> bool:
        """Whether the store has entries of this state, registered or not; the counter of a list is none. For when a task
        opens."""
        prefix = name_prefix(name)
        return self._store.first_key(prefix, entry_key(prefix, b"") + b"\x00") is not None

    def timers(self, uid: str, domain: str) -> Timers:
        """The timers of the operator `uid` in a time domain, "event" or "processing"; the same object each time."""
        return self.task_timers.of(uid, domain)

    def preload(self, tokens: Iterable[Token]) -> None:
        """`load` on every state registered so far."""
        for cache in self._caches.values():
            cache.load(tokens)

    def mark_dirty(self, keys: Iterable[bytes]) -> None:
        """Keys of entries to write again at the next checkpoint, with the value they have then: those which
        an unfinished checkpoint wrote to the changelog and which are to be made void. They need not be
        registered."""
        self._void.update(keys)

    def take_dirty(self) -> Dirty:
        """Everything to be written, encoded; the same again until `committed`. JobError for a value that
        cannot be stored (see `ValueCache.encode_dirty`)."""
        entries: list[Entry] = []
        for cache in self._caches.values():
            entries += cache.encode_dirty()
        if self._void:
            self._write_out()
            keys = sorted(self._void.difference([key for key, _ in entries]))
            entries += zip(keys, self._store.get_many(keys), strict=True)
        return Dirty(entries, self.task_timers.take_dirty())

    def committed(self, dirty: Dirty, local_meta: LocalMeta, timers_meta: LocalMeta | None = None) -> None:
        """The changelog has the entries: now the store gets them, with the meta record (at once, or with those of the next
        checkpoints, see `write_behind_ms`), and the caches shrink to their allowance. `OSError` when the disk refuses:
        the store is then behind the changelog by what its own meta record says."""
        behind = self._behind
        unseen = [key for timeline in self._timelines for key in timeline.removed if behind.get(key) is not None]
        behind.update(dirty.entries)
        behind.update(dirty.timers)
        for key in unseen:  # the store never had it
            del behind[key]
        if timers_meta is not None:
            self._behind[TIMERS_META_KEY] = timers_meta.encode()
        self._local_meta = local_meta
        self._stored_types = self.types
        if self._written_at_ms is None:
            self._written_at_ms = local_meta.synced_at_ms
        waited_ms = abs(local_meta.synced_at_ms - self._written_at_ms)
        if self._void or waited_ms >= self._write_behind_ms or len(behind) >= _MOST_BEHIND:
            self._write_out()
        self._void.clear()
        for cache in self._caches.values():
            cache.committed()
        self.task_timers.committed(timers_meta)
        self._evict()
        for expiring in self._sweeping:
            expiring.sweep(SWEEP)

    def sweep(self) -> bool:
        """A checkpoint begins with nothing set since the last: some entries that may have expired are looked at all the same.
        True if there is something to write now. `OSError` as for `committed`."""
        if self._sweeping and self._behind:
            self._write_out()  # sweeps look at the store
        changes = [cache.sweep(SWEEP) for cache in self._sweeping]
        return any(changes)

    def _write_out(self) -> None:
        """What is committed and not in the store yet goes there: one batch, with the meta record of the last checkpoint."""
        local_meta = self._local_meta
        if local_meta is None or self._written_at_ms is None:
            return
        self._store.write(self._behind.items(), local_meta.encode())
        self._behind = {}
        self._written_at_ms = local_meta.synced_at_ms

    def _write(self, entries: Iterable[Entry], local_meta: LocalMeta) -> None:
        self._write_out()
        self._store.write(entries, local_meta.encode())
        self._local_meta = local_meta
        self._stored_types = self._types_of(local_meta)

    def _holders(self) -> list[Cache | Timers]:
        return [*self._caches.values(), *self.task_timers.all()]

    def _evict(self) -> None:
        holders = self._holders()
        sizes = [holder.size_bytes() for holder in holders]
        used = sum(sizes)
        allowed = self._budget.allowance(self, used)
        if used > allowed:
            self._write_out()  # what is evicted is read from the store again
            for holder, size in zip(holders, sizes, strict=True):
                holder.evict(size * allowed // used)

    def apply(self, entries: Sequence[Entry], local_meta: LocalMeta) -> None:
        """Restore: writes changelog records, in their order, with the meta record. Any order of keys is fine;
        some tens of thousands at a time are best. JobError when a state registered already has another type
        in them."""
        self._write(entries, local_meta)
        for name, type_description in self._declared.items():
            if self.stored_type(name, type_description) != self._types[name]:
                raise JobError(f"state {name!r} was opened before what is stored of it was restored: restart the job")
        if entries:
            self._complete = False
            for cache in self._caches.values():
                cache.forget(complete=False)

    def reset(self) -> None:
        """Empties the store and all caches, to restore from the beginning."""
        self._behind = {}
        self._written_at_ms = None
        self._store.clear()
        self._local_meta = None
        self._stored_types = {}
        self._void.clear()
        self._complete = True
        for cache in self._caches.values():
            cache.forget(complete=True)
        self.task_timers.emptied()

    def discard(self) -> None:
        """Forgets everything set since the last commit: the store is the truth again."""
        self._write_out()
        self._complete = self._store.is_empty()
        for cache in self._caches.values():
            cache.forget(complete=self._complete)
        self.task_timers.forget(complete=self._complete)

    def dirty_bytes(self) -> int:
        """About how many bytes the next `take_dirty` gives."""
        return sum(holder.dirty_bytes() for holder in self._holders())

    def cache_bytes(self) -> int:
        """About how much memory the objects take."""
        return sum(holder.size_bytes() for holder in self._holders())

    def size_bytes(self) -> int:
        """About how much the store takes on disk and in its write buffers."""
        return self._store.size_bytes()

    def entry_count(self) -> int:
        """About how many entries the store has (see `Store.entry_count`)."""
        return self._store.entry_count()

    def close(self) -> None:
        """Writes out what is committed and closes the store; what was not committed is gone. Safe to call twice."""
        self._budget.leave(self)
        try:
            if self._behind:
                self._write_out()
        except (StateCorrupted, OSError) as error:
            _log.warning(
                "the store at %s could not be brought up to date as it was closed: %s", self._store.path, error
            )
        finally:
            self._behind = {}
            self._store.close()
