"""Timers: ordered by time, the near ones in memory, all that are committed in the store.

In here: `Timers`, the timers of one operator in one time domain, and the bytes of an entry. Not in here: all timers of a task
together (`task_timer.py`), and who sets and fires them (operators).

An entry's key, the same in the store and in the timers topic:

    0x00 T · uid (UTF-8) · 0x00 · e or p (domain) · time (8 bytes, big endian, sign bit flipped) · length of the typed key
    (varint) · typed key · namespace

So the entries of an operator lie in the order of time, and none can be an entry of a state (`layout.py`). What comes after
the domain is called the timer's *tail* here: memory holds only that, since bytes compare as the timers do.

Timers are written behind: one that is registered and fired between two checkpoints is written nowhere. Where there are
many, memory holds those before a *horizon*, and the rest lie in the store until the near ones are used up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import index

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import MAX_WATERMARK, Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.state.layout import length_prefixed, split_prefixed
from kstreampy.state.store import Entry, Store

EVENT = "event"
PROCESSING = "processing"

TIMER_PREFIX = b"\x00T"

_LIVE = b"\x01"
_SHORT = tuple(bytes((length,)) for length in range(128))
_SIGN = 1 << 63
_TIME = struct.Struct(">Q")
_BEYOND = b"\xff" * 9
"""Greater than every tail."""
_CHUNK = 50_000
"""Timers taken from the store at once."""
_MOST_NEAR = 200_000
"""Timers of one operator and domain in memory after a checkpoint, at most."""
_NEAR_BYTES = 130
_WRITTEN_BYTES = 48
_SLACK = 1_000


class Timers:
    """One timer per (time, key, namespace). Owned by its task; used by one thread.

    Those before the horizon are in `_near`. Their order is in `_run`, descending, and of those registered of late in the
    heap `_recent`; both may hold some that were deleted since. `_new` and `_gone` are what differs from the store there.
    Behind the horizon nothing is known of the store, so `_far` holds what was asked for, either way.
    """

    def __init__(self, prefix: bytes, store: Store, settle: Callable[[], None], *, complete: bool) -> None:
        """`settle` brings the store up to what is committed; `complete`: it has none of these timers."""
        self._prefix = prefix
        self._store = store
        self._settle = settle
        self._run: list[bytes] = []
        self._recent: list[bytes] = []
        self._near: set[bytes] = set()
        self._new: dict[bytes, None] = {}
        self._gone: set[bytes] = set()
        self._far: dict[bytes, bool] = {}
        self._horizon: bytes | None = None if complete else b""

    def register(self, time_ms: int, token: Token, namespace: bytes = b"") -> None:
        """Sets the timer, unless it is set. JobError for a time that is no int of 64 bit."""
        tail = _tail(time_ms, token, namespace)
        horizon = self._horizon
        if horizon is None or tail < horizon:
            if tail in self._near:
                return
            self._near.add(tail)
            heappush(self._recent, tail)
            if tail in self._gone:
                self._gone.remove(tail)
            else:
                self._new[tail] = None
        elif self._is_untouched():
            self._take_chunk()
            self.register(time_ms, token, namespace)
        else:
            self._far[tail] = True

    def delete(self, time_ms: int, token: Token, namespace: bytes = b"") -> None:
        """Removes the timer, if it is set."""
        tail = _tail(time_ms, token, namespace)
        horizon = self._horizon
        if horizon is None or tail < horizon:
            if tail in self._near:
                self._remove(tail)
                if self._is_mostly_stale():
                    self._merge()
        elif self._is_untouched():
            self._take_chunk()
            self.delete(time_ms, token, namespace)
        else:
            self._far[tail] = False

    def due(self, until_ms: int) -> Iterator[tuple[int, Token, bytes]]:
        """Removes and gives all timers up to `until_ms`, in the order of time: (time, token, namespace). Those registered
        while it is iterated are among them."""
        limit = _BEYOND if until_ms >= MAX_WATERMARK else _TIME.pack(until_ms + 1 + _SIGN)
        near, new, gone = self._near, self._new, self._gone
        while True:
            run, recent = self._run, self._recent
            if run and (not recent or run[-1] < recent[0]):
                if run[-1] >= limit:
                    return
                tail = run.pop()
            elif recent:
                if recent[0] >= limit:
                    return
                tail = heappop(recent)
            elif self._horizon is None or self._horizon >= limit:
                return
            else:
                self._take_chunk()
                continue
            if tail in near:
                near.remove(tail)
                if tail in new:
                    del new[tail]
                else:
                    gone.add(tail)
                yield _parsed(tail)

    def next_time(self) -> int | None:
        """The time of the first timer, in int milliseconds; None when there is none."""
        near = self._near
        while True:
            run, recent = self._run, self._recent
            while run and run[-1] not in near:
                run.pop()
            while recent and recent[0] not in near:
                heappop(recent)
            if run or recent:
                first = min(run[-1:] + recent[:1])
                return int(_TIME.unpack_from(first)[0]) - _SIGN
            if self._horizon is None:
                return None
            self._take_chunk()

    def _remove(self, tail: bytes) -> None:
        self._near.remove(tail)
        if tail in self._new:
            del self._new[tail]
        else:
            self._gone.add(tail)

    def _is_mostly_stale(self) -> bool:
        return len(self._run) + len(self._recent) > 2 * len(self._near) + _SLACK

    def _merge(self) -> None:
        """All near ones into `_run`. What is in order already, as timers often come, is merged rather than sorted."""
        ordered = self._run
        ordered.reverse()
        ordered += self._recent
        ordered.sort()
        if len(ordered) > len(self._near):  # some were deleted, some of these registered again
            ordered = [tail for tail in dict.fromkeys(ordered) if tail in self._near]
        ordered.reverse()
        self._run, self._recent = ordered, []

    def _is_untouched(self) -> bool:
        return self._horizon == b""

    def _take_chunk(self) -> None:
        """The next timers of the store become near ones, and the horizon moves behind them."""
        self._settle()
        least = self._prefix + (self._horizon or b"")
        skip = len(self._prefix)
        with self._store.scan(self._prefix, least) as rows:
            stored = [key[skip:] for key, _ in islice(rows, _CHUNK + 1)]
        self._horizon = stored.pop() if len(stored) > _CHUNK else None
        live = self._with_far(stored) if self._far else stored
        self._near.update(live)
        live.reverse()
        self._run = live + self._run

    def _with_far(self, stored: list[bytes]) -> list[bytes]:
        """The chunk with what was asked for behind the old horizon, as far as the new one."""
        horizon = self._horizon
        there = set(stored)
        reached = {tail: live for tail, live in self._far.items() if horizon is None or tail < horizon}
        for tail, live in reached.items():
            del self._far[tail]
            if live and tail not in there:
                self._new[tail] = None
                there.add(tail)
            elif not live and tail in there:
                self._gone.add(tail)
                there.remove(tail)
        return sorted(there)

    def encode_dirty(self) -> list[Entry]:
        """What differs from the store; the same again until `committed`."""
        prefix = self._prefix
        entries: list[Entry] = [(prefix + tail, _LIVE) for tail in self._new]
        entries += [(prefix + tail, None) for tail in self._gone]
        entries += [(prefix + tail, _LIVE if live else None) for tail, live in self._far.items()]
        return entries

    def committed(self) -> None:
        """What `encode_dirty` gave is in the store; nothing was set since."""
        self._new.clear()
        self._gone.clear()
        self._far.clear()
        if len(self._near) > _MOST_NEAR:
            self._keep(_MOST_NEAR // 2)
        elif len(self._recent) * 4 > len(self._run):
            self._merge()

    def dirty_bytes(self) -> int:
        """About how many bytes `encode_dirty` would give."""
        return (len(self._new) + len(self._gone) + len(self._far)) * _WRITTEN_BYTES

    def size_bytes(self) -> int:
        """About how much memory the timers take."""
        return (len(self._run) + len(self._recent) + len(self._far)) * _NEAR_BYTES

    def count(self) -> int:
        """How many are in memory."""
        return len(self._near) + sum(self._far.values())

    def evict(self, target_bytes: int) -> None:
        """Leaves the later ones to the store until about `target_bytes` are left. Only after a commit."""
        self._keep(max(target_bytes // _NEAR_BYTES, _SLACK))

    def _keep(self, count: int) -> None:
        if len(self._near) > count:
            self._merge()
            self._horizon = self._run[-count - 1]
            del self._run[:-count]
            self._near = set(self._run)

    def forget(self, *, complete: bool) -> None:
        """Drops what is in memory: the store is the truth again. `complete`: it has none of these timers."""
        self._run, self._recent = [], []
        self._near = set()
        self._new, self._gone = {}, set()
        self._far = {}
        self._horizon = None if complete else b""


def _tail(time_ms: int, token: Token, namespace: bytes) -> bytes:
    try:
        time = _TIME.pack(index(time_ms) + _SIGN)
    except (TypeError, struct.error):
        raise JobError(
            f"a timer's time must be an int of milliseconds that fits 64 bit, not {time_ms!r}: round it with int(...)"
        ) from None
    typed_key = typed_bytes(token)
    length = len(typed_key)
    return time + (_SHORT[length] + typed_key if length < 128 else length_prefixed(typed_key)) + namespace


def _parsed(tail: bytes) -> tuple[int, Token, bytes]:
    try:
        time = int(_TIME.unpack_from(tail)[0]) - _SIGN
        end = 9 + tail[8]
        if end < 137:
            if end > len(tail):
                raise ValueError("its key is cut off")
            return time, from_typed_bytes(tail[9:end]), tail[end:]
        typed_key, namespace = split_prefixed(tail[8:])
        return time, from_typed_bytes(typed_key), namespace
    except (struct.error, IndexError, ValueError) as error:
        raise StateCorrupted(f"not a timer's entry: {tail[:80]!r} ({error})") from error
