"""All timers of one task, and what its store knows of the timers topic.

In here: `TaskTimers`, which `KeyedState` has beside its caches. Not in here: the timers of one operator (`timer.py`), and
producing to the timers topic and reading it back: the runtime does that, with the bytes it gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from kstreampy.errors import StateCorrupted
from kstreampy.state.store import META_KEY, Entry, Store
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.timer import EVENT, PROCESSING, TIMER_PREFIX, Timers

TIMERS_META_KEY = b"\x00meta-timers"
"""Where the store keeps how far it has followed the timers topic: an entry, so that it is written with the others."""

_RESET_BATCH = 10_000


def timers_log_key(number: int) -> bytes:
    """The key of the meta record which the `number`th checkpoint that wrote timers puts behind them in the timers topic.

    Two keys in turn: a checkpoint that is never finished must not make compaction take away the record of the finished one
    before it (it would be tried again under the same number, so under the same key)."""
    return META_KEY + (b"1" if number % 2 else b"0")


class TaskTimers:
    """All timers of one task, and how far its store has followed the timers topic. Owned by the task's `KeyedState`."""

    def __init__(self, store: Store, settle: Callable[[], None], *, complete: bool) -> None:
        """Reads the store's record of the timers topic. StateCorrupted when it cannot be read."""
        self._store = store
        self._settle = settle
        self._complete = complete
        self._timers: dict[tuple[str, str], Timers] = {}
        self._void: set[bytes] = set()
        self._local_meta = self._read_meta()

    def _read_meta(self) -> LocalMeta | None:
        (data,) = self._store.get_many([TIMERS_META_KEY])
        try:
            meta = None if data is None else LocalMeta.decode(data)
            if meta is not None:
                meta.task()
            return meta
        except StateCorrupted as error:
            raise StateCorrupted(f"the store at {self._store.path}: {error}") from error

    @property
    def local_meta(self) -> LocalMeta | None:
        """How far the store has followed the timers topic; None when it never began to. Its `task_meta` is the meta record
        of that topic which was applied last."""
        return self._local_meta

    def of(self, uid: str, domain: str) -> Timers:
        """The timers of one operator in one domain (`EVENT` or `PROCESSING`); the same object each time."""
        timers = self._timers.get((uid, domain))
        if timers is None:
            assert domain in (EVENT, PROCESSING), domain
            prefix = TIMER_PREFIX + uid.encode() + b"\x00" + domain[:1].encode()
            timers = Timers(prefix, self._store, self._settle, complete=self._complete)
            self._timers[uid, domain] = timers
        return timers

    def all(self) -> Iterable[Timers]:
        return self._timers.values()

    def count(self) -> int:
        """How many are in memory."""
        return sum(timers.count() for timers in self.all())

    def mark_dirty(self, keys: Iterable[bytes]) -> None:
        """Keys of entries to write again at the next checkpoint: as `KeyedState.mark_dirty`."""
        self._void.update(keys)

    def take_dirty(self) -> list[Entry]:
        """Everything to be written; the same again until `committed`."""
        entries = [entry for timers in self._timers.values() for entry in timers.encode_dirty()]
        if self._void:
            self._settle()
            keys = sorted(self._void.difference([key for key, _ in entries]))
            entries += zip(keys, self._store.get_many(keys), strict=True)
        return entries

    def committed(self, local_meta: LocalMeta | None) -> None:
        """What `take_dirty` gave is in the store, with this record (None: nothing was dirty)."""
        if local_meta is not None:
            self._local_meta = local_meta
        self._void.clear()
        for timers in self._timers.values():
            timers.committed()

    def apply(self, entries: Sequence[Entry], local_meta: LocalMeta) -> None:
        """Restore: writes records of the timers topic, in their order, with the record of how far that is."""
        self._settle()
        self._store.write([*entries, (TIMERS_META_KEY, local_meta.encode())], None)
        self._local_meta = local_meta
        if entries:
            self.forget(complete=False)

    def reset(self) -> None:
        """Removes all timers from the store, to restore them from the beginning."""
        self._settle()
        with self._store.scan(TIMER_PREFIX) as rows:
            while batch := [(key, None) for key, _ in islice(rows, _RESET_BATCH)]:
                self._store.write(batch, None)
        self._store.write([(TIMERS_META_KEY, None)], None)
        self.emptied()

    def emptied(self) -> None:
        """The store has no timers any more."""
        self._local_meta = None
        self._void.clear()
        self.forget(complete=True)

    def forget(self, *, complete: bool) -> None:
        """Drops what is in memory: the store is the truth again."""
        self._complete = complete
        for timers in self._timers.values():
            timers.forget(complete=complete)
