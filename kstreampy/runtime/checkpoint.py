"""The atomic commit: outputs, offsets and state become durable together.

The steps, numbered as in the design:

1. Every task's chain is flushed; input positions are taken.
2. Dirty state and timers are encoded once and produced to the changelogs and the timers topics, each task's meta record
   last; the one in a timers topic counts for nothing until the one in the changelog names it.
3. Everything produced is acknowledged; a delivery error ends the attempt. At-least-once, the changelogs' meta records
   follow only now, and are acknowledged in turn: a meta record says that all that led to it is there.
4. The input offsets of every stage go into the transaction (exactly-once) or to the groups (at-least-once).
5. The transaction commits.
6. Only now the same bytes, with the changelog offset, go into the store, one batch per task.
7. Topics between stages are purged, now and then.

A crash before 5 leaves nothing; one between 5 and 6 leaves a store behind its changelog by a known offset. At-least-once
has no transaction: a crash between 2 and the meta record leaves an unfinished checkpoint, which restore makes void.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kstreampy.broker.broker import Producer, Receipt, TopicInfo, TopicPartition
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError
from kstreampy.graph.source import PackedInput
from kstreampy.runtime.assignment import Assignment
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Follower
from kstreampy.runtime.task import Task
from kstreampy.state.dirty import Dirty
from kstreampy.state.keyed import KeyedState
from kstreampy.state.store import META_KEY, Entry
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from kstreampy.state.task_timer import timers_log_key

_log = logging.getLogger(__name__)

_PURGE_INTERVAL_S = 30.0
_SIZE_INTERVAL_S = 0.01
_AGE_INTERVAL_MS = 600_000


@dataclass
class _Written:
    """A task's part of a checkpoint, between steps 2 and 6."""

    task: Task
    state: KeyedState
    dirty: Dirty
    changelog: TopicInfo
    meta: bytes = b""
    receipt: Receipt | None = None
    timers_meta: bytes = b""
    timers_receipt: Receipt | None = None
    """None: no timers were to be written."""


class Checkpoint:
    """Makes checkpoints for one driver. `due` looks at the clock and at how much is dirty."""

    def __init__(self, resources: Resources, producer: Producer, interval_s: float, dirty_bytes: int) -> None:
        self.resources = resources
        self.producer = producer
        self.dirty_bytes = dirty_bytes
        self.interval_s = interval_s
        self.last = self.last_purge = self.last_sized = resources.monotonic()
        self.next_id = 1
        self.purging = True
        if resources.exactly_once:
            producer.begin()

    def due(self, assignments: Sequence[Assignment]) -> bool:
        """Asked once per turn; how much is dirty is looked at now and then."""
        now = self.resources.monotonic()
        if now - self.last >= self.interval_s:
            return True
        for assignment in assignments:
            for task in assignment.tasks.values():
                if task.is_urgent and task.has_begun():
                    return True
        if now - self.last_sized < _SIZE_INTERVAL_S:
            return False
        self.last_sized = now
        return sum(
            task.state.dirty_bytes() for a in assignments for task in a.running() if task.state is not None
        ) >= self.dirty_bytes  # fmt: skip

    def commit(self, assignments: Sequence[Assignment], *, between_polls: bool) -> bool:
        """One checkpoint of everything that moved; False if nothing had. `between_polls` False: called from inside a poll (a
        revocation), when the client's positions may be ahead of what was processed."""
        began = time.perf_counter()
        for assignment in assignments:
            if between_polls:
                assignment.refresh_positions()
        for assignment in assignments:
            for task in assignment.running():
                task.flush()
                if between_polls:
                    task.sweep()
        moved = [(a, [task for task in a.running() if task.has_work()]) for a in assignments]
        moved = [(a, tasks) for a, tasks in moved if tasks]
        self.last = self.resources.monotonic()
        if not moved:
            return False
        written = [self._write(task, task.state) for _, tasks in moved for task in tasks if task.state is not None]
        self._make_durable(moved, written)
        for part in written:
            self._settle(part)
        for _, tasks in moved:
            for task in tasks:
                task.changed = False
                task.committed.update(task.progress.positions)
        self.last = self.resources.monotonic()
        self.resources.metrics.checkpoint_done(time.perf_counter() - began, sum(len(part.dirty) for part in written))
        self._purge(assignments)
        return True

    def _write(self, task: Task, state: KeyedState) -> _Written:
        """Step 2 for one task."""
        changelog = task.layout.changelog
        assert changelog is not None, "a task with state has a changelog"
        self.next_id = max(self.next_id, task.progress.checkpoint_id + 1)
        task.progress.checkpoint_id = self.next_id
        part = _Written(task, state, state.take_dirty(), changelog)
        self._send(changelog.name, task.number, part.dirty.entries)
        if part.dirty.timers:
            self._write_timers(part)
        return part

    def _write_timers(self, part: _Written) -> None:
        """To the timers topic, a meta record behind them. It counts for nothing until the one in the changelog names it."""
        task = part.task
        topic = task.layout.timers
        assert topic is not None, f"task {task.name} sets timers, so one of its steps must be drawn with timers=True"
        self._send(topic.name, task.number, part.dirty.timers)
        progress = task.progress
        progress.timers_written += 1
        number, application_id = progress.timers_written, self.resources.settings.application_id
        part.timers_meta = TaskMeta(progress.checkpoint_id, application_id, timers_written=number).encode()
        part.timers_receipt = self._track(topic.name, part.timers_meta, timers_log_key(number), task.number)

    def _send(self, topic: str, partition: int, entries: Sequence[Entry]) -> None:
        send = self.producer.send
        for key, value in entries:
            try:
                send(topic, value, key, partition, None, None, 0)
            except BufferError:
                self._produce_when_room(topic, value, key, partition)
            except Exception as error:
                raise self.producer.refused(error, topic) from error

    def _write_meta(self, part: _Written) -> None:
        """The end of step 2."""
        task = part.task
        part.meta = task.progress.to_meta(self.resources.settings.application_id, part.state.types).encode()
        part.receipt = self._track(part.changelog.name, part.meta, META_KEY, task.number)

    def _track(self, topic: str, value: bytes, key: bytes, partition: int) -> Receipt:
        while True:
            try:
                return self.producer.produce_tracked(topic, value, key, partition)
            except BufferError:
                self.producer.wait_for_room()

    def _produce_when_room(self, topic: str, value: bytes | None, key: bytes, partition: int) -> None:
        while True:
            self.producer.wait_for_room()
            try:
                self.producer.produce(topic, value, key, partition, None, None, 0)
                return
            except BufferError:
                continue

    def _make_durable(self, moved: Sequence[tuple[Assignment, Sequence[Task]]], written: Sequence[_Written]) -> None:
        """Steps 3 to 5."""
        offsets = [(assignment.consumer, assignment.offsets(tasks)) for assignment, tasks in moved]
        if not self.resources.exactly_once:
            self.producer.flush()
        for part in written:
            self._write_meta(part)
        if self.resources.exactly_once:
            self.producer.commit(offsets)
            self.producer.begin()
            return
        self.producer.flush()
        for consumer, positions in offsets:
            consumer.commit(positions)

    def _settle(self, part: _Written) -> None:
        """Step 6 for one task."""
        timers_meta = None
        if part.timers_receipt is not None:
            timers = part.task.layout.timers
            assert timers is not None, "it was written to"
            timers_meta = self._local_meta(part.task, timers, part.timers_receipt, part.timers_meta)
        local = self._local_meta(part.task, part.changelog, part.receipt, part.meta)
        part.state.committed(part.dirty, local, timers_meta)

    def _local_meta(self, task: Task, log: TopicInfo, receipt: Receipt | None, meta: bytes) -> LocalMeta:
        offset = None if receipt is None else receipt.offset
        if offset is None:
            raise JobError(f"the meta record of task {task.name} in {log.name} was acknowledged without an offset")
        return LocalMeta(log.topic_id, offset + 1, self.resources.clock(), True, meta)

    def note_ends(self, assignments: Sequence[Assignment]) -> None:
        """Before the worker leaves, with everything committed: each store notes that it has all of its logs, the last
        transaction's marker included, so that the next start has nothing to read."""
        settled: dict[TopicPartition, Follower] = {}
        for assignment in assignments:
            changelog, timers = assignment.layout.changelog, assignment.layout.timers
            for task in assignment.running():
                if changelog is None or task.state is None or task.changed:
                    continue
                settled[TopicPartition(changelog.name, task.number)] = task.state
                if timers is not None:
                    settled[TopicPartition(timers.name, task.number)] = task.state.task_timers
        if not settled:
            return
        ends = self.resources.broker.end_offsets(settled, committed=False)
        markers = (0, 1) if self.resources.exactly_once else (0,)
        for tp, follower in settled.items():
            local = follower.local_meta
            if local is not None and ends[tp] - local.next_offset in markers:
                follower.apply([], replace(local, next_offset=ends[tp], synced_at_ms=self.resources.clock()))

    def note_age(self, assignments: Sequence[Assignment]) -> None:
        """A task that is idle has all there is: its store notes that now and then, or it would count as too old after
        `delete.retention.ms` (see `opening.py`) and be rebuilt for nothing."""
        now_ms = self.resources.clock()
        for assignment in assignments:
            for task in assignment.running():
                local = None if task.state is None else task.state.local_meta
                if (
                    task.state is None
                    or local is None
                    or task.changed
                    or now_ms - local.synced_at_ms < _AGE_INTERVAL_MS
                ):
                    continue
                task.state.apply([], replace(local, synced_at_ms=now_ms))

    def _purge(self, assignments: Sequence[Assignment]) -> None:
        """Step 7: what every reader has behind it is deleted from the topics between stages."""
        if not self.purging or self.resources.monotonic() - self.last_purge < _PURGE_INTERVAL_S:
            return
        self.last_purge = self.resources.monotonic()
        before: dict[TopicPartition, int] = {}
        for assignment in assignments:
            if isinstance(assignment.layout.stage.input.origin, PackedInput):
                for task in assignment.running():
                    before.update({tp: offset for tp, offset in task.committed.items() if offset > 0})
        if not before:
            return
        try:
            self.resources.broker.delete_records(before)
        except BrokerUnavailable as error:
            _log.info("topics between stages were not purged this time: %s", error)
        except BrokerRefused as error:
            self.purging = False
            _log.warning(
                "topics between stages cannot be purged, so they grow: %s. Allow Delete on the topics of this application",
                error,
            )
