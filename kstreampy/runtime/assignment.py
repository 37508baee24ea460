"""The tasks of one stage that this worker owns, as its consumer group gives and takes them.

In here: `Assignment`, the rebalance listener of a stage. Assigned: open the state, restore if needed (the partition is
paused meanwhile), then start. Revoked: commit within the same call, then close. Lost: drop, commit nothing.

A task with several inputs may be given them one after another (the newer group protocol does that while other members
still let go): those that came first wait, paused, and the task starts between polls when it has all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kstreampy.broker.broker import Chunk, GroupConsumer, Position, Start, TopicPartition
from kstreampy.errors import JobError, TaskMigrated
from kstreampy.graph.source import ConnectorInput, TopicInput
from kstreampy.operators.operator import Outlet
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.opening import Opening
from kstreampy.runtime.progress import ranges
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Restore, Restorer
from kstreampy.runtime.tally import tell_counts
from kstreampy.runtime.task import Status, Task

_log = logging.getLogger(__name__)


class Assignment:
    """Owned by the driver; lives as long as its membership of the group."""

    consumer: GroupConsumer

    def __init__(
        self,
        resources: Resources,
        layout: StageLayout,
        outlet: Outlet,
        restorer: Restorer,
        commit: Callable[[], None],
    ) -> None:
        self.resources = resources
        self.layout = layout
        self.uid = layout.stage.uid
        self.restorer = restorer
        self.commit = commit
        self.opening = Opening(resources, layout, outlet)
        self.tasks: dict[int, Task] = {}
        self.owner: dict[TopicPartition, Task] = {}
        self.is_polled = not isinstance(layout.stage.input.origin, ConnectorInput)
        self.waiting: dict[int, set[TopicPartition]] = {}
        """Task number → its partitions that were given without the task's others."""
        self.waiting_since = 0.0
        self.patience_s = 2 * resources.settings.session_timeout_ms / 1000
        self.idle_after_s = resources.settings.session_timeout_ms / 1000
        self.joined = False
        self.joining_since = 0.0
        self._is_member = False

    def join(self, instance_id: str | None) -> None:
        self.resources.health.joining(self.uid)
        self.joining_since = self.resources.monotonic()
        self.consumer = self.resources.broker.consumer(
            self.layout.group, self.layout.topics, self, instance_id=instance_id
        )
        self._is_member = True

    def leave(self) -> None:
        """Leaves the group, after a last `revoked`. Safe to call twice, and before joining."""
        if self._is_member:
            self._is_member = False
            self.consumer.close()

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        self._has_joined()
        starts: dict[TopicPartition, Start] = {}
        given = self._by_task(partitions)
        self.opening.look_up([number for number, mine in given.items() if mine == set(self.layout.inputs[number])])
        for number, mine in given.items():
            if mine == set(self.layout.inputs[number]):
                starts.update(self._open(number))
            else:
                self._let_wait(number, mine)
                starts.update(dict.fromkeys(mine, Start(0, paused=True)))
        self.resources.metrics.rebalance(self.uid, "assigned")
        self.resources.metrics.tasks(self.uid, len(self.tasks))
        if partitions:
            _log.info("stage %s: took %s", self.uid, _listed(partitions))
        return starts

    def _has_joined(self) -> None:
        self.joined = True
        self.resources.health.joined(self.uid)

    def _by_task(self, partitions: Sequence[TopicPartition]) -> dict[int, set[TopicPartition]]:
        grouped: dict[int, set[TopicPartition]] = {}
        for tp in partitions:
            number = self.layout.task_of(tp)
            if number is None:
                raise JobError(
                    f"{tp.topic}-{tp.partition} was assigned to stage {self.uid!r}, which did not know it at its start: "
                    "the topic has grown. Restart the job to read it; a stage that keeps state by input partitions "
                    "must be moved to a new application id"
                )
            grouped.setdefault(number, set()).add(tp)
        return grouped

    def _open(self, number: int) -> dict[TopicPartition, Start]:
        """Makes the task; it starts at once, or is handed to the restorer, paused."""
        partitions = self.layout.inputs[number]
        task = self.opening.task(number, partitions)
        task.caught_up = self._caught_up
        self.tasks[number] = task
        self.owner.update(dict.fromkeys(partitions, task))
        restore = self.opening.restore_of(task)
        if restore is None:
            return self._start(task)
        task.to(Status.RESTORING)
        self.restorer.add(restore)
        self.resources.health.restoring(self.uid, number, restore.done(), restore.total())
        return dict.fromkeys(partitions, Start(0, paused=True))

    def _caught_up(self, tp: TopicPartition) -> bool:
        """Nothing is known to lie behind what was read, by a client that is in touch with the cluster."""
        return self.resources.broker.unavailable_since() is None and self.consumer.lag([tp]).get(tp) == 0

    def hold(self, task: Task, ahead: frozenset[Any]) -> None:
        """Stops reading these partitions (or splits) of a task, and reads on with others that were stopped so."""
        before, task.intake.held = task.intake.held, ahead
        if not self.is_polled:
            return
        if ahead - before:
            self.consumer.pause(ahead - before)
        if before - ahead:
            self.consumer.resume(before - ahead)

    def _let_wait(self, number: int, partitions: set[TopicPartition]) -> None:
        if not self.waiting:
            self.waiting_since = self.resources.monotonic()
        self.waiting.setdefault(number, set()).update(partitions)

    def start_waiting(self) -> None:
        """Between polls: opens the tasks whose partitions came one after another and are all there now."""
        if not self.waiting:
            return
        for number, partitions in list(self.waiting.items()):
            self.consumer.pause(partitions)
            if partitions == set(self.layout.inputs[number]):
                del self.waiting[number]
                starts = self._open(number)
                if self.tasks[number].status is not Status.RESTORING:
                    self._begin_reading(starts)

    def _begin_reading(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Seek first, resume last."""
        for tp, start in starts.items():
            self.consumer.seek(tp, start.offset)
            if not start.paused:
                self.consumer.resume([tp])

    def look(self) -> None:
        """Once a second. JobError when a task's inputs do not come together.

        A member that gets no partition, since others have them all, is not told so. It counts as joined when nothing has
        come for as long as a dead predecessor may hold them.
        """
        if not self.joined and self.resources.monotonic() - self.joining_since >= self.idle_after_s:
            self._has_joined()
        for task in self.running():
            task.look()
        if self.waiting and self.resources.monotonic() - self.waiting_since > self.patience_s:
            number, partitions = next(iter(self.waiting.items()))
            raise JobError(
                f"stage {self.uid!r}: task {number} was given {_listed(list(partitions))} without its other inputs "
                f"({_listed(self.layout.inputs[number])}): the group's members must all use range assignment"
            )

    def _start(self, task: Task) -> dict[TopicPartition, Start]:
        task.start(self.opening.progress(task))
        task.changed = task.status is Status.RUNNING or not self.opening.end_is_known(task)
        self.resources.health.restored(self.uid, task.number)
        self.resources.health.moved(self.uid, task.number, sum(task.progress.positions.values()), None)
        self.resources.metrics.restored(self.uid, task.number)
        paused = not self.is_polled or task.status is Status.FINISHED
        held = task.intake.held
        return {
            tp: Start(task.progress.positions[tp], paused or tp in held or self._unread(tp)) for tp in task.partitions
        }

    def _unread(self, tp: TopicPartition) -> bool:
        """A partition that the source leaves out (`set_partitions`)."""
        origin = self.layout.stage.input.origin
        return isinstance(origin, TopicInput) and origin.partitions is not None and tp not in origin.partitions

    def restored(self, restore: Restore) -> bool:
        """A replay has ended; if it was one of ours, its task starts and its partitions are read."""
        task = next((t for t in self.tasks.values() if t.name == restore.task and t.state is restore.state), None)
        if task is None or task.status is not Status.RESTORING:
            return False
        if restore.error is not None:
            raise restore.error
        _log.info("task %s: restored %d records of %s", task.name, restore.records, restore.partition.topic)
        following = self.opening.restore_after(restore, task)
        if following is not None:
            self.restorer.add(following)
            return True
        self._begin_reading(self._start(task))
        return True

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._stop_waiting(partitions)
        going = self._owners(partitions)
        if not going:
            return
        self.resources.metrics.rebalance(self.uid, "revoked")
        try:
            self.commit()
            for task in going:
                tell_counts(self.resources, task)
        finally:
            self._close(going, partitions)
        _log.info("stage %s: gave %s", self.uid, _listed(partitions))

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Exactly-once, what the lost tasks wrote lies in one transaction with what the others wrote, so all of that is
        dropped: TaskMigrated."""
        self._stop_waiting(partitions)
        going = self._owners(partitions)
        if not going:
            return
        self.resources.metrics.rebalance(self.uid, "lost")
        told = f"stage {self.uid}: lost {_listed(partitions)}; what was not committed is redone by the new owner"
        self._close(going, partitions)
        if self.resources.exactly_once:
            raise TaskMigrated(told)
        _log.warning("%s", told)

    def _stop_waiting(self, partitions: Sequence[TopicPartition]) -> None:
        for number, waiting in list(self.waiting.items()):
            waiting.difference_update(partitions)
            if not waiting:
                del self.waiting[number]

    def _owners(self, partitions: Sequence[TopicPartition]) -> list[Task]:
        return list({id(task): task for tp in partitions if (task := self.owner.get(tp)) is not None}.values())

    def _close(self, tasks: Sequence[Task], gone: Sequence[TopicPartition]) -> None:
        """Closes tasks. Of their partitions, those that are not gone wait for the others to come back."""
        for task in tasks:
            self.restorer.cancel(task.name)
            self.tasks.pop(task.number, None)
            for tp in task.partitions:
                self.owner.pop(tp, None)
            kept = set(task.partitions).difference(gone)
            if kept:
                self._let_wait(task.number, kept)
            self.resources.health.gone(self.uid, task.number)
            self.resources.metrics.task_gone(self.uid, task.number)
            task.close()
        self.resources.metrics.tasks(self.uid, len(self.tasks))

    def abandon(self) -> None:
        """After an error: closes every task without a commit."""
        self.waiting.clear()
        self._close(list(self.tasks.values()), list(self.owner))

    def process(self, chunk: Chunk) -> int:
        """One chunk through its task; chunks of partitions that are not ours any more are dropped. Records handled."""
        tp = TopicPartition(chunk.topic, chunk.partition)
        task = self.owner.get(tp)
        if task is None:
            return 0
        before = task.records_in
        task.process(chunk)
        if task.status is Status.RUNNING and task.intake.held:
            self._read_rest_later(task, chunk)
        stop = task.progress.stopping.get(tp)
        if stop is not None and chunk.messages[-1].offset() >= stop:
            self.consumer.pause([tp])  # the topic grows behind the end of what is read
        return task.records_in - before

    def _read_rest_later(self, task: Task, chunk: Chunk) -> None:
        """A task stops in the middle of a chunk when that side of its input has come too far ahead."""
        tp = TopicPartition(chunk.topic, chunk.partition)
        if tp not in task.intake.held:
            return
        self.consumer.pause([tp])
        position = task.progress.positions.get(tp, 0)
        if position <= chunk.messages[-1].offset():
            self.consumer.seek(tp, position)

    def running(self) -> list[Task]:
        """Tasks that have begun, finished ones among them."""
        return [task for task in self.tasks.values() if task.status in (Status.RUNNING, Status.FINISHED)]

    def refresh_positions(self) -> None:
        """Between polls, when all that was polled is processed: steps over markers and gaps at the end of partitions."""
        if not self.is_polled:
            return
        reading = [tp for tp, task in self.owner.items() if task.status is Status.RUNNING and not self._unread(tp)]
        for tp, position in self.consumer.positions(reading).items():
            progress = self.owner[tp].progress
            if position > progress.positions.get(tp, position):
                progress.positions[tp] = position

    def offsets(self, tasks: Sequence[Task]) -> dict[TopicPartition, Position]:
        """What to commit for these of its tasks."""
        return {tp: position for task in tasks for tp, position in self.opening.note(task).items()}


def _listed(partitions: Sequence[TopicPartition]) -> str:
    """`topic 0-3,7` for the partitions of each topic."""
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    return "; ".join(f"{topic} {ranges(found)}" for topic, found in numbers.items()) or "nothing"
