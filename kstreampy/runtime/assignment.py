"""The tasks of one stage that this worker owns, as its consumer group gives and takes them.

In here: `Assignment`, the rebalance listener of a stage. Assigned: open the state, restore if needed (the partition is
paused meanwhile), then start. Revoked: commit within the same call, then close. Lost: drop, commit nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kstreampy.broker.broker import Chunk, GroupConsumer, Position, Start, TopicPartition
from kstreampy.errors import JobError
from kstreampy.graph.source import ConnectorInput, TopicInput
from kstreampy.operators.operator import Outlet
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.opening import Opening
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Restore, Restorer
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
        self.joined = False

    def join(self, instance_id: str | None) -> None:
        self.resources.health.joining(self.uid)
        self.consumer = self.resources.broker.consumer(
            self.layout.group, self.layout.topics, self, instance_id=instance_id
        )

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Start]:
        self.joined = True
        self.resources.health.joined(self.uid)
        starts: dict[TopicPartition, Start] = {}
        for number, mine in self._by_task(partitions).items():
            task = self.opening.task(number, mine)
            self.tasks[number] = task
            self.owner.update(dict.fromkeys(mine, task))
            restore = self.opening.restore_of(task)
            if restore is None:
                starts.update(self._start(task))
            else:
                task.to(Status.RESTORING)
                self.restorer.add(restore)
                self.resources.health.restoring(self.uid, number, restore.done(), restore.total())
                starts.update(dict.fromkeys(mine, Start(0, paused=True)))
        self.resources.metrics.rebalance(self.uid, "assigned")
        self.resources.metrics.tasks(self.uid, len(self.tasks))
        if partitions:
            _log.info("stage %s: took %s", self.uid, _listed(partitions))
        return starts

    def _by_task(self, partitions: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        grouped: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            number = self.layout.task_of(tp)
            if number is None:
                raise JobError(
                    f"{tp.topic}-{tp.partition} was assigned to stage {self.uid!r}, which did not know it at its start: "
                    "the topic has grown. Restart the job to read it; a stage that keeps state by input partitions "
                    "must be moved to a new application id"
                )
            grouped.setdefault(number, []).append(tp)
        for number, mine in grouped.items():
            if set(mine) != set(self.layout.inputs[number]):
                raise JobError(
                    f"stage {self.uid!r}: task {number} was given {_listed(mine)} without its other inputs "
                    f"({_listed(self.layout.inputs[number])}): the group's members must all use range assignment"
                )
        return grouped

    def _start(self, task: Task) -> dict[TopicPartition, Start]:
        task.start(self.opening.progress(task))
        task.changed = task.status is Status.RUNNING
        self.resources.health.restored(self.uid, task.number)
        self.resources.metrics.restored(self.uid, task.number)
        paused = not self.is_polled or task.status is Status.FINISHED
        return {tp: Start(task.progress.positions[tp], paused or self._unread(tp)) for tp in task.partitions}

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
        _log.info("task %s: restored %d changelog records", task.name, restore.records)
        for tp, start in self._start(task).items():
            self.consumer.seek(tp, start.offset)
            if not start.paused:
                self.consumer.resume([tp])
        return True

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        going = self._owners(partitions)
        if not going:
            return
        self.resources.metrics.rebalance(self.uid, "revoked")
        try:
            self.commit()
        finally:
            self._close(going)
        _log.info("stage %s: gave %s", self.uid, _listed(partitions))

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.resources.metrics.rebalance(self.uid, "lost")
        _log.warning(
            "stage %s: lost %s; what was not committed is redone by the new owner", self.uid, _listed(partitions)
        )
        self._close(self._owners(partitions))

    def _owners(self, partitions: Sequence[TopicPartition]) -> list[Task]:
        return list({id(task): task for tp in partitions if (task := self.owner.get(tp)) is not None}.values())

    def _close(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self.restorer.cancel(task.name)
            self.tasks.pop(task.number, None)
            for tp in task.partitions:
                self.owner.pop(tp, None)
            self.resources.health.gone(self.uid, task.number)
            self.resources.metrics.task_gone(self.uid, task.number)
            task.close()
        self.resources.metrics.tasks(self.uid, len(self.tasks))

    def abandon(self) -> None:
        """After an error: closes every task without a commit."""
        self._close(list(self.tasks.values()))

    def process(self, chunk: Chunk) -> int:
        """One chunk through its task; chunks of partitions that are not ours any more are dropped. Records handled."""
        task = self.owner.get(TopicPartition(chunk.topic, chunk.partition))
        if task is None:
            return 0
        before = task.records_in
        task.process(chunk)
        return task.records_in - before

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
    """`topic 0-3, 7` for the partitions of each topic."""
    numbers: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        numbers.setdefault(tp.topic, []).append(tp.partition)
    return "; ".join(f"{topic} {_ranges(found)}" for topic, found in numbers.items()) or "nothing"


def _ranges(numbers: Sequence[int]) -> str:
    """`0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
