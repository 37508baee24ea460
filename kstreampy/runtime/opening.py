"""Where a task begins: its stored progress, or for a task that never ran, what the source's settings say.

In here: opening a task's state and deciding between "go on", "restore first" and "begin". Tasks that keep something
resume from the meta record in their own changelog; the others from their group's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kstreampy.broker.broker import Position, TopicInfo, TopicPartition
from kstreampy.errors import JobError
from kstreampy.eventtime.future import FutureGuard, TimeRules
from kstreampy.graph import topic as topics
from kstreampy.graph.source import ConnectorInput, Input, OffsetKind, Offsets
from kstreampy.operators.operator import Outlet, TaskContext
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.progress import Progress, has_note, is_finished
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Restore, timers_in
from kstreampy.runtime.task import Task
from kstreampy.state.keyed import KeyedState
from kstreampy.state.task_meta import LocalMeta

_log = logging.getLogger(__name__)

_RETENTION_MARGIN = 0.9


class Opening:
    """Opens the tasks of one stage. Used inside rebalances by the driver's thread."""

    def __init__(self, resources: Resources, layout: StageLayout, outlet: Outlet) -> None:
        self.resources = resources
        self.layout = layout
        self.outlet = outlet
        self.known_counts: dict[str, int] = {}
        self.bounds: dict[TopicPartition, tuple[int, int]] = {}

    def task(self, number: int, partitions: Sequence[TopicPartition]) -> Task:
        """A task not started yet, its store open."""
        resources, layout = self.resources, self.layout
        state = resources.stores.open(layout.stage.uid, number) if layout.stage.stateful else None
        context = TaskContext(
            application_id=resources.layout.plan.application_id,
            stage=layout.stage.uid,
            partition=number,
            partitions=layout.tasks,
            outlet=self.outlet,
            clock=resources.clock,
            time=self._time_rules(),
            exactly_once=resources.exactly_once,
            loop=layout.stage.loop,
            state=state,
            attempt=resources.attempt,
            parameters=resources.layout.plan.parameters,
            partition_counts=resources.layout.partition_counts,
            partitions_of=lambda topic: self._partitions_of(topic),
            metric_group=partial(resources.metrics.functions.group, layout.stage.uid, number),
        )
        return Task(layout, number, context, partitions)

    def _time_rules(self) -> TimeRules:
        settings = self.resources.settings
        future = None
        if settings.max_future_ms is not None:
            future = FutureGuard(settings.max_future_ms, settings.max_future_policy, self.resources.clock)
        return TimeRules(settings.watermark_interval_ms > 0, settings.idle_timeout_ms, future)

    def _partitions_of(self, topic: str) -> int:
        if topic not in self.known_counts:
            found = self.resources.broker.topics([topic])
            if topic not in found:
                raise JobError(f"topic {topic!r}, which a sink's serializer chose, does not exist: create it")
            self.known_counts[topic] = found[topic].partitions
        return self.known_counts[topic]

    def look_up(self, numbers: Iterable[int]) -> None:
        """Asks for begin and end of these tasks' logs, all at once; `restore_of` takes them."""
        logs = [info.name for info in (self.layout.changelog, self.layout.timers) if info is not None]
        partitions = [TopicPartition(name, number) for number in numbers for name in logs]
        if not partitions:
            return
        begins = self.resources.broker.begin_offsets(partitions)
        ends = self.resources.broker.end_offsets(partitions, committed=False)
        self.bounds.update({tp: (begins[tp], ends[tp]) for tp in partitions})

    def restore_of(self, task: Task) -> Restore | None:
        """What must be replayed before the task may start; None when nothing has to be. `restore_after` follows it."""
        changelog, timers = self.layout.changelog, self.layout.timers
        state = task.state
        if changelog is None or state is None:
            return None
        tp = TopicPartition(changelog.name, task.number)
        if tp not in self.bounds:
            self.look_up([task.number])
        begin, end = self.bounds.pop(tp)
        local = state.local_meta
        reason = self._mistrust(task, local, changelog, begin, end)
        if reason is None and timers is not None:
            reason = self._mistrust(task, _seen_last(state), timers, *self.bounds[timers.name, task.number])  # type: ignore[index]
        if reason is not None:
            _log.warning("local state of %s is set aside and rebuilt from the changelog: %s", task.name, reason)
            state.reset()
            local = None
        start = begin if local is None else max(local.next_offset, begin)
        if start >= end and (local is None or local.complete):
            return self._timers_restore_of(task, state)
        return Restore(task.name, state, tp, changelog.topic_id, begin, start, end, self.resources.clock)

    def restore_after(self, done: Restore, task: Task) -> Restore | None:
        """What must be replayed next: after the changelog, the timers that belong to what it said."""
        if task.state is None or done.timers_written is not None or self.layout.timers is None:
            return None
        self.look_up([task.number])  # as it is now: the changelog may speak of what came after the first look
        return self._timers_restore_of(task, task.state)

    def _timers_restore_of(self, task: Task, state: KeyedState) -> Restore | None:
        timers = self.layout.timers
        if timers is None:
            return None
        tp = TopicPartition(timers.name, task.number)
        begin, end = self.bounds.pop(tp)
        meta = None if state.local_meta is None else state.local_meta.task()
        written = 0 if meta is None else meta.timers_written
        local = state.task_timers.local_meta
        start = begin if local is None else max(local.next_offset, begin)
        if start >= end and timers_in(local) == written:
            return None
        return Restore(task.name, state, tp, timers.topic_id, begin, start, end, self.resources.clock, written)

    def _mistrust(self, task: Task, local: LocalMeta | None, log: TopicInfo, begin: int, end: int) -> str | None:
        """Why the store's own account does not fit the log; None if the log bears it out."""
        if local is None:
            return None
        reason = None
        kind = log.name.rpartition("-")[2]
        if local.topic_id != log.topic_id:
            reason = f"its {kind} topic was deleted and made anew"
        elif local.next_offset > end:
            reason = f"it is ahead of its {kind} topic ({local.next_offset} > {end})"
        elif local.next_offset < begin:
            reason = f"its {kind} topic begins only at {begin}, and it has followed it to {local.next_offset}"
        elif self._too_old(local):
            reason = "it is older than delete.retention.ms, so deletions may have been missed"
        if reason is not None and begin == end and local.task_meta is not None:
            raise JobError(
                f"task {task.name} has local state, but its {kind} topic {log.name} is empty in partition {task.number} "
                f"({reason}): somebody deleted the topic or its records. To go on without that state, remove the state "
                "directory (--state-dir) and start again"
            )
        return reason

    def _too_old(self, local: LocalMeta) -> bool:
        retention = self.layout.delete_retention_ms
        age = self.resources.clock() - local.synced_at_ms
        return retention is not None and age > retention * _RETENTION_MARGIN

    def stored_progress(self, task: Task) -> Progress | None:
        """What the last checkpoint of this task said; None if there was none."""
        offsets = self.resources.broker.committed(self.layout.group, task.partitions)
        if task.state is None:
            return Progress.from_offsets(offsets) if offsets else None
        local = task.state.local_meta
        meta = None if local is None else local.task()
        if meta is None:
            self._check_never_ran(task, offsets)
            return None
        application_id = self.resources.settings.application_id
        if meta.application_id not in ("", application_id):
            raise JobError(
                f"the changelog of stage {self.layout.stage.uid!r} was written by application {meta.application_id!r}, not "
                f"by {application_id!r}: both derive the same topic names. Use another application id, or another uid"
            )
        progress = Progress.from_meta(meta)
        self._check_inputs(task, progress)
        self._report_moved(task, progress, offsets)
        return progress

    def _check_never_ran(self, task: Task, offsets: Mapping[TopicPartition, Position]) -> None:
        """A checkpoint's note beside the group's offset, but no state: to begin again silently would count twice."""
        ran = [f"{tp.topic}-{tp.partition}" for tp, position in offsets.items() if has_note(position)]
        changelog = self.layout.changelog
        if ran and changelog is not None:
            raise JobError(
                f"task {task.name} has run before (group {self.layout.group} has its offsets on {', '.join(ran)}), but its "
                f"changelog {changelog.name} has nothing of it: somebody deleted the topic. To begin anew, delete the "
                "group too, or use another application id"
            )

    def end_is_known(self, task: Task) -> bool:
        """False for a finished task whose group's offsets do not say so (any more): others wait for them."""
        offsets = self.resources.broker.committed(self.layout.group, task.partitions)
        return all(tp in offsets and is_finished(offsets[tp]) for tp in task.partitions)

    def progress(self, task: Task) -> Progress:
        """Where the task begins. Every partition has a position afterwards, and if the source is bounded, an end."""
        progress = self.stored_progress(task) or Progress()
        origin = self.layout.stage.input.origin
        if progress.finished and not self.layout.stage.bounded:
            raise JobError(
                f"task {task.name} has ended as part of a bounded job, which is unbounded now: what comes behind the end "
                "cannot be added to it. Use another --application-id"
            )
        if isinstance(origin, ConnectorInput):
            progress.positions = dict.fromkeys(task.partitions, 0)
        elif sources := self.layout.stage.input.sources():
            for source in sources:
                self._begin_topics(task, progress, source)
        else:
            fresh = [tp for tp in task.partitions if tp not in progress.positions]
            progress.positions.update(self.resources.broker.begin_offsets(fresh))
        return progress

    def _begin_topics(self, task: Task, progress: Progress, source: Input) -> None:
        origin = source.topics
        mine = [tp for tp in task.partitions if source is self.layout.stage.input or tp.topic in origin.topics]
        skipped = [tp for tp in mine if origin.partitions is not None and tp not in origin.partitions]
        read = [tp for tp in mine if tp not in skipped]
        if origin.stopping is None:
            for tp in read:
                # Left out by an earlier run, see below, or ended before the first record: it begins only now.
                if progress.stopping.pop(tp, None) == 0 == progress.positions.get(tp):
                    del progress.positions[tp]
        fresh = [tp for tp in read if tp not in progress.positions]
        progress.positions.update(self._resolve(origin.starting, fresh, source))
        if origin.stopping is not None:
            without = [tp for tp in read if tp not in progress.stopping]
            progress.stopping.update(self._resolve(origin.stopping, without, source))
        for tp in skipped:
            progress.stopping[tp] = progress.positions[tp] = 0

    def _check_inputs(self, task: Task, progress: Progress) -> None:
        """State that was made of the user's topics as they lie does not go on with what other stages send, nor the other way
        round: all of it would be read once more."""
        application_id, uid = self.resources.settings.application_id, self.layout.stage.uid
        sent = {topics.repartition(application_id, uid), *(topics.pair(application_id, uid, side) for side in (0, 1))}
        before = {tp.topic for tp in progress.positions}
        now = {tp.topic for tp in task.partitions}
        if before and sent.isdisjoint(before) is not sent.isdisjoint(now):
            raise JobError(
                f"the state of task {task.name} was made of {', '.join(sorted(before))}, and the job reads "
                f"{', '.join(sorted(now))} now, which would count all of it twice: the inputs of this step were read as they "
                "lie (reinterpret_as_keyed_stream), and are sent by key now, or the other way round. `kstreampy plan` shows "
                "which. Draw it as it was, or use another application id"
            )

    def _report_moved(self, task: Task, progress: Progress, offsets: Mapping[TopicPartition, Position]) -> None:
        """Offsets of a stateful task's group are for tools; moving them does not move the task. Our own notes may be behind
        the state under at-least-once (a crash before the offsets were committed); what a tool sets has no note."""
        for tp, position in offsets.items():
            known = progress.positions.get(tp)
            if known is None or position.offset == known:
                continue
            if self.resources.exactly_once or not has_note(position):
                _log.warning(
                    "the offset of group %s on %s-%d was set to %d behind the job's back; task %s goes on at %d, where "
                    "its state is",
                    self.layout.group, tp.topic, tp.partition, position.offset, task.name, known,
                )  # fmt: skip

    def _resolve(
        self, offsets: Offsets, partitions: Sequence[TopicPartition], source: Input
    ) -> dict[TopicPartition, int]:
        """Offsets initializers against the cluster as it is now."""
        broker = self.resources.broker
        if not partitions:
            return {}
        match offsets.kind:
            case OffsetKind.EARLIEST:
                return broker.begin_offsets(partitions)
            case OffsetKind.LATEST:
                return broker.end_offsets(partitions)
            case OffsetKind.TIMESTAMP:
                return broker.offsets_at(dict.fromkeys(partitions, offsets.timestamp_ms))
            case OffsetKind.COMMITTED:
                group = source.topics.group_id or self.layout.group
                found = {tp: position.offset for tp, position in broker.committed(group, partitions).items()}
                return self._with_reset(
                    offsets, partitions, found, f"source {source.name!r}: group {group!r} has no offset for"
                )
            case OffsetKind.GIVEN:
                found = {tp: offsets.given[tp] for tp in partitions if tp in offsets.given}
                what = f"source {source.name!r}: KafkaOffsetsInitializer.offsets names no offset for"
                return self._with_reset(offsets, partitions, found, what)

    def _with_reset(
        self, offsets: Offsets, partitions: Sequence[TopicPartition], found: Mapping[TopicPartition, int], what: str
    ) -> dict[TopicPartition, int]:
        missing = [tp for tp in partitions if tp not in found]
        if not missing:
            return dict(found)
        if offsets.reset is OffsetKind.EARLIEST:
            return {**found, **self.resources.broker.begin_offsets(missing)}
        if offsets.reset is OffsetKind.LATEST:
            return {**found, **self.resources.broker.end_offsets(missing)}
        listed = ", ".join(f"{tp.topic}-{tp.partition}" for tp in missing)
        raise JobError(
            f"{what} {listed}, and its reset strategy is NONE: give "
            "KafkaOffsetResetStrategy.EARLIEST or LATEST, or start from earliest()"
        )

    def note(self, task: Task) -> dict[TopicPartition, Position]:
        """The offsets to commit for a task."""
        return task.progress.to_offsets(task.partitions)


def _seen_last(state: KeyedState) -> LocalMeta | None:
    """How far the store has followed the timers topic. While that fits what it has of the changelog, it was true as long as
    the changelog's account was: not every checkpoint has timers to write."""
    local, of_changelog = state.task_timers.local_meta, state.local_meta
    meta = None if of_changelog is None else of_changelog.task()
    if local is None or of_changelog is None or meta is None or timers_in(local) != meta.timers_written:
        return local
    return replace(local, synced_at_ms=max(local.synced_at_ms, of_changelog.synced_at_ms))
