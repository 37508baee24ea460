"""State from the changelog, timers from the timers topic: what a task's store lacks is replayed before it takes input.

In here: `Restore`, the replay of one partition as steps, and `Restorer`, which takes those steps for all tasks of a worker
in a thread of its own, with one reader over all their partitions. Not in here: deciding whether there is anything to
restore (`opening.py`).

Steps of a restore, of the changelog range [start, end) where end is the high watermark, so that a predecessor's open
transaction is waited for:

1. Find the last meta record, reading from near the end. What lies behind it is an unfinished checkpoint (it can be
   there only under at-least-once): its keys are marked to be written again, which makes it void.
2. Replay [start, meta record] into the store, in large batches, as "incomplete".
3. The last batch carries the task's meta record and makes the store complete.

The end is noticed by the reader's position, never by a record: the last offset may be a transaction marker.

The changelog comes first. Its meta record says how many checkpoints have written timers; a timers topic is then replayed in
the same steps, except that it is looked for the last meta record with just that number: a later one is of a checkpoint that
was never finished.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from kstreampy.broker.broker import Broker, Chunk, Reader, TopicPartition
from kstreampy.errors import BrokerUnavailable, JobError, StateCorrupted
from kstreampy.state.keyed import KeyedState
from kstreampy.state.store import META_KEY, Entry
from kstreampy.state.task_meta import LocalMeta, TaskMeta

_log = logging.getLogger(__name__)

_LOOK_BACK = 2_000
_BATCH = 20_000


class Phase(Enum):
    FIND = "find"
    REPLAY = "replay"
    DONE = "done"


class Follower(Protocol):
    """The side of a store that follows one log: `KeyedState` its changelog, its `TaskTimers` the timers topic."""

    @property
    def local_meta(self) -> LocalMeta | None: ...
    def apply(self, entries: Sequence[Entry], local_meta: LocalMeta) -> None: ...
    def mark_dirty(self, keys: Iterable[bytes]) -> None: ...
    def reset(self) -> None: ...


def timers_in(local: LocalMeta | None) -> int | None:
    """The number of checkpoints that have written timers, as a store that has followed the timers topic knows it; None while
    a replay has not come to its end."""
    if local is None:
        return 0
    task = local.task()
    return None if not local.complete else 0 if task is None else task.timers_written


@dataclass
class Restore:
    """One task's replay of one log. Owned by the restorer until it is done or cancelled."""

    task: str
    state: KeyedState
    partition: TopicPartition
    topic_id: str
    begin: int
    start: int
    end: int
    clock: Callable[[], int]
    timers_written: int | None = None
    """Of a timers topic: the number in the meta record that is looked for. None: it is the changelog."""
    phase: Phase = Phase.FIND
    found: TaskMeta | None = None
    error: Exception | None = None
    cancelled: bool = False
    records: int = 0
    _found_bytes: bytes | None = None
    _found_at: int = -1
    _look_from: int = 0
    _next: int = 0
    _tail: list[bytes] = field(default_factory=list)
    _entries: dict[bytes, bytes | None] = field(default_factory=dict)
    _waiting_since: float = field(default_factory=time.monotonic)
    _warned: bool = False

    def __post_init__(self) -> None:
        self._look_from = self._next = max(self.start, self.end - _LOOK_BACK)

    @property
    def follower(self) -> Follower:
        return self.state if self.timers_written is None else self.state.task_timers

    @property
    def position(self) -> int:
        """Where to read next."""
        return self._next

    def done(self) -> int:
        """Offsets of the log replayed so far, of `total()`."""
        return 0 if self.phase is Phase.FIND else max(self._next - self.start, 0)

    def total(self) -> int:
        return max(self.end - self.start, 0)

    def take(self, chunk: Chunk) -> None:
        """Records of this task's partition, in order."""
        self._waiting_since = time.monotonic()
        if self.phase is Phase.FIND:
            for message in chunk.messages:
                key = message.key()
                if key is None:
                    continue
                if not key.startswith(META_KEY):
                    self._tail.append(key)
                elif self._is_looked_for(message.value()):
                    self._found_bytes, self._found_at = message.value(), message.offset()
                    self._tail = []
        else:
            for message in chunk.messages:
                key = message.key()
                if key is not None and message.offset() < self._found_at and not key.startswith(META_KEY):
                    self._entries[key] = message.value()
                    self.records += 1
        self._next = chunk.messages[-1].offset() + 1

    def _is_looked_for(self, meta: bytes | None) -> bool:
        if self.timers_written is None:
            return True
        try:
            return TaskMeta.decode(meta or b"").timers_written == self.timers_written
        except StateCorrupted:
            return False

    def reached(self, position: int) -> bool:
        """The reader has come to `position`. True if it must be assigned anew, or is not needed any more."""
        self._next = max(self._next, position)
        if self.phase is Phase.FIND:
            if self._next < self.end:
                self._warn_if_stuck()
                return False
            return self._found_or_look_further()
        if len(self._entries) >= _BATCH:
            self._write(complete=False)
        if self._next > self._found_at:
            self._write(complete=True)
            self.phase = Phase.DONE
            return True
        return False

    def _found_or_look_further(self) -> bool:
        if self._found_bytes is None and self._look_from > self.start:
            length = (self.end - self._look_from) * 8
            self._look_from = self._next = max(self.start, self.end - length)
            self._tail = []
            return True
        if self._found_bytes is None and self._must_begin_anew():
            self.follower.reset()
            self.start = self._look_from = self._next = self.begin
            self._tail = []
            return True
        if self._tail:
            self.follower.mark_dirty(self._tail)
        if self._found_bytes is None:
            self._nothing_new()
            return True
        try:
            self.found = TaskMeta.decode(self._found_bytes)
        except StateCorrupted as error:
            topic, partition = self.partition
            raise StateCorrupted(
                f"changelog {topic}, partition {partition}, offset {self._found_at}: {error}. No local copy can replace it: "
                "start anew under another application id"
            ) from error
        self.phase = Phase.REPLAY
        self._next = self.start
        return True

    def _must_begin_anew(self) -> bool:
        """An earlier restore was cut short, and the meta record that it was under way to is not there any more: what it
        wrote belongs to no checkpoint. JobError when a timers topic lacks what the changelog says that it has."""
        local = self.follower.local_meta
        if self.timers_written is None:
            return local is not None and not local.complete
        if timers_in(local) == self.timers_written:
            return False
        if local is not None:
            return True
        topic, partition = self.partition
        raise JobError(
            f"task {self.task} has timers, but {topic} has not those of its last checkpoint in partition {partition} (offsets "
            f"{self.begin} to {self.end}): somebody deleted the topic or its records. They are nowhere else: put the topic "
            "back, or start anew under another application id"
        )

    def _nothing_new(self) -> None:
        """No meta record in the range: what the store has, if anything, is the last checkpoint."""
        local = self.follower.local_meta
        self.found = None if local is None else local.task()
        kept = None if local is None else local.task_meta
        self.follower.apply([], LocalMeta(self.topic_id, self._settled_at(), self.clock(), True, kept))
        self.phase = Phase.DONE

    def _settled_at(self) -> int:
        """Up to where nothing is left to do. An unfinished tail is left to do until a checkpoint has made it void: should
        that not come about, the next restore must find it again."""
        if not self._tail:
            return self.end
        return self.start if self._found_at < 0 else self._found_at + 1

    def _write(self, *, complete: bool) -> None:
        entries: list[Entry] = sorted(self._entries.items(), key=lambda entry: entry[0])
        upto = self._settled_at() if complete else self._next
        meta = LocalMeta(self.topic_id, upto, self.clock(), complete, self._found_bytes if complete else None)
        self.follower.apply(entries, meta)
        self._entries = {}

    def _warn_if_stuck(self) -> None:
        if not self._warned and time.monotonic() - self._waiting_since > 5:
            self._warned = True
            _log.warning(
                "restore of %s waits at offset %d of %s-%d (end %d): a predecessor's transaction is still open; "
                "the broker ends it after its transaction timeout",
                self.task, self._next, self.partition.topic, self.partition.partition, self.end,
            )  # fmt: skip


class Restorer:
    """Replays for all tasks of a worker. `step` does one round; `start` makes a thread do the rounds. Owned by the driver;
    `add`, `cancel`, `finished` and `running` are for the driver's thread."""

    def __init__(self, broker: Broker, *, threaded: bool = True) -> None:
        self._broker = broker
        self._threaded = threaded
        self._added: queue.SimpleQueue[Restore] = queue.SimpleQueue()
        self._finished: queue.SimpleQueue[Restore] = queue.SimpleQueue()
        self._active: dict[TopicPartition, Restore] = {}
        self._known: list[Restore] = []
        self._reader: Reader | None = None
        self._stale = True
        self._closing = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def add(self, restore: Restore) -> None:
        self._known.append(restore)
        self._added.put(restore)
        if self._threaded and self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="restore", daemon=True)
            self._thread.start()

    def running(self) -> list[Restore]:
        """Those not finished yet, for progress reports."""
        return list(self._known)

    def finished(self) -> list[Restore]:
        """Those that became ready (or failed, see `error`) since the last call. Without a thread, does a round first."""
        if not self._threaded and (self._known or not self._added.empty()):
            self.step(0.0)
        ready: list[Restore] = []
        while not self._finished.empty():
            restore = self._finished.get()
            if restore in self._known:
                self._known.remove(restore)
                ready.append(restore)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return ready

    def cancel(self, task: str) -> None:
        """The task was revoked: returns once its store is not touched any more."""
        for restore in [r for r in self._known if r.task == task]:
            restore.cancelled = True
            self._known.remove(restore)
            with self._lock:
                self._active = {tp: r for tp, r in self._active.items() if r is not restore}
                self._stale = True

    def _loop(self) -> None:
        while not self._closing:
            try:
                if not self.step(0.1):
                    time.sleep(0.005)
            except BrokerUnavailable as error:
                _log.warning("restore waits for the broker: %s", error)
                self._drop_reader()
                time.sleep(0.5)
            except Exception as error:
                self._failure = error
                return

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._stale = True

    def step(self, timeout_s: float) -> bool:
        """One round over all restores; False when there is nothing to do."""
        with self._lock:
            while not self._added.empty():
                restore = self._added.get()
                if not restore.cancelled:
                    self._active[restore.partition] = restore
                    self._stale = True
            self._settle({})
            if not self._active:
                return False
            reader = self._assigned()
        chunks = reader.poll(_BATCH, timeout_s)
        positions = reader.positions()
        with self._lock:
            if self._stale:
                return True
            for chunk in chunks:
                taker = self._active.get(TopicPartition(chunk.topic, chunk.partition))
                if taker is not None:
                    taker.take(chunk)
            self._settle(positions)
        return True

    def _assigned(self) -> Reader:
        if self._reader is None:
            self._reader = self._broker.reader()
        if self._stale:
            self._reader.assign({tp: restore.position for tp, restore in self._active.items()})
            self._stale = False
        return self._reader

    def _settle(self, positions: dict[TopicPartition, int]) -> None:
        """Tells each restore how far its reader is; hands back those that are done."""
        for tp, restore in list(self._active.items()):
            try:
                moved = restore.reached(positions.get(tp, restore.position))
            except (JobError, StateCorrupted, OSError) as error:
                restore.error = error
                moved = True
            if restore.error is not None or restore.phase is Phase.DONE:
                del self._active[tp]
                self._finished.put(restore)
            elif moved:
                self._stale = True

    def close(self) -> None:
        """Stops the thread; no store is touched after this. Safe to call twice."""
        self._closing = True
        if self._thread is not None:
            self._thread.join(timeout=30)
        if self._reader is not None:
            self._reader.close()
            self._reader = None
