"""Where a task begins: its stored progress, or for a task that never ran, what the source's settings say.

In here: opening a task's state and deciding between "go on", "restore first" and "begin". Tasks that keep something
resume from the meta record in their own changelog; the others from their group's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from kstreampy.broker.broker import Position, TopicPartition
from kstreampy.errors import JobError
from kstreampy.graph.source import ConnectorInput, OffsetKind, Offsets, TopicInput
from kstreampy.operators.operator import Outlet, TaskContext
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.progress import Progress
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Restore
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
            state=state,
            attempt=resources.attempt,
            parameters=resources.layout.plan.parameters,
            partition_counts=resources.layout.partition_counts,
            partitions_of=lambda topic: self._partitions_of(topic),
        )
        return Task(layout, number, context, partitions)

    def _partitions_of(self, topic: str) -> int:
        if topic not in self.known_counts:
            found = self.resources.broker.topics([topic])
            if topic not in found:
                raise JobError(f"topic {topic!r}, which a sink's serializer chose, does not exist: create it")
            self.known_counts[topic] = found[topic].partitions
        return self.known_counts[topic]

    def restore_of(self, task: Task) -> Restore | None:
        """What must be replayed before the task may start; None when nothing has to be."""
        changelog = self.layout.changelog
        state = task.state
        if changelog is None or state is None:
            return None
        tp = TopicPartition(changelog.name, task.number)
        begin = self.resources.broker.begin_offsets([tp])[tp]
        end = self.resources.broker.end_offsets([tp], committed=False)[tp]
        local = self._trusted(task, state, changelog.topic_id, begin, end)
        start = begin if local is None else max(local.next_offset, begin)
        if start >= end and (local is None or local.complete):
            return None
        return Restore(task.name, state, tp, changelog.topic_id, begin, start, end, self.resources.clock)

    def _trusted(self, task: Task, state: KeyedState, topic_id: str, begin: int, end: int) -> LocalMeta | None:
        """The store's own account, if the changelog still bears it out; otherwise the store is emptied."""
        local = state.local_meta
        if local is None:
            return None
        changelog = f"{task.layout.stage.uid}-changelog"
        reason = None
        if local.topic_id != topic_id:
            reason = "its changelog topic was deleted and made anew"
            if end == begin:
                raise JobError(
                    f"task {task.name} has local state, but {changelog} was made anew and is empty: somebody deleted the "
                    "topic. To go on without that state, remove the state directory (--state-dir) and start again"
                )
        elif local.next_offset > end:
            reason = f"it is ahead of its changelog ({local.next_offset} > {end})"
        elif self._too_old(local):
            reason = "it is older than delete.retention.ms, so deletions may have been missed"
        if reason is None:
            return local
        _log.warning("local state of %s is set aside and rebuilt from the changelog: %s", task.name, reason)
        state.reset()
        return None

    def _too_old(self, local: LocalMeta) -> bool:
        retention = self.layout.delete_retention_ms
        age = self.resources.clock() - local.synced_at_ms
        return retention is not None and age > retention * _RETENTION_MARGIN

    def stored_progress(self, task: Task) -> Progress | None:
        """What the last checkpoint of this task said; None if there was none."""
        if task.state is not None:
            local = task.state.local_meta
            meta = None if local is None else local.task()
            return None if meta is None else Progress.from_meta(meta)
        offsets = self.resources.broker.committed(self.layout.group, task.partitions)
        return Progress.from_offsets(offsets) if offsets else None

    def progress(self, task: Task) -> Progress:
        """Where the task begins. Every partition has a position afterwards, and if the source is bounded, an end."""
        progress = self.stored_progress(task) or Progress()
        origin = self.layout.stage.input.origin
        if isinstance(origin, ConnectorInput):
            progress.positions = dict.fromkeys(task.partitions, 0)
            return progress
        fresh = [tp for tp in task.partitions if tp not in progress.positions]
        if isinstance(origin, TopicInput):
            self._report_moved(task, progress)
            progress.positions.update(self._starts(origin, fresh))
            if origin.stopping is not None:
                without = [tp for tp in task.partitions if tp not in progress.stopping]
                progress.stopping.update(self._resolve(origin.stopping, without, origin))
            skipped = [tp for tp in task.partitions if origin.partitions is not None and tp not in origin.partitions]
            for tp in skipped:
                progress.stopping[tp] = progress.positions[tp] = 0
        else:
            progress.positions.update(self.resources.broker.begin_offsets(fresh))
        return progress

    def _report_moved(self, task: Task, progress: Progress) -> None:
        """Offsets of a stateful task's group are for tools; moving them does not move the task."""
        if task.state is None or not progress.positions:
            return
        committed = self.resources.broker.committed(self.layout.group, task.partitions)
        for tp, position in committed.items():
            known = progress.positions.get(tp)
            if known is not None and position.offset != known and position.offset < known:
                _log.warning(
                    "the offset of group %s on %s-%d was set to %d behind the job's back; task %s goes on at %d, where "
                    "its state is",
                    self.layout.group, tp.topic, tp.partition, position.offset, task.name, known,
                )  # fmt: skip

    def _starts(self, origin: TopicInput, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._resolve(origin.starting, partitions, origin)

    def _resolve(
        self, offsets: Offsets, partitions: Sequence[TopicPartition], origin: TopicInput
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
                group = origin.group_id or self.layout.group
                found = {tp: position.offset for tp, position in broker.committed(group, partitions).items()}
                return self._with_reset(offsets, partitions, found, f"group {group!r} has no offset for")
            case OffsetKind.GIVEN:
                found = {tp: offsets.given[tp] for tp in partitions if tp in offsets.given}
                return self._with_reset(
                    offsets, partitions, found, "KafkaOffsetsInitializer.offsets names no offset for"
                )

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
            f"source {self.layout.stage.input.name!r}: {what} {listed}, and its reset strategy is NONE: give "
            "KafkaOffsetResetStrategy.EARLIEST or LATEST, or start from earliest()"
        )

    def note(self, task: Task) -> dict[TopicPartition, Position]:
        """The offsets to commit for a task."""
        return task.progress.to_offsets(task.partitions)
