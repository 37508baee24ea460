"""Watermark alignment: sources of one group wait for each other, so that none reads far ahead of the slowest; and so do the two
sides of a step with two inputs.

In here: `Alignment`, which looks at the watermarks of all partitions (or splits) of a worker's sources that are in a group, and
pauses those that are too far ahead. It sees the tasks of its own worker only: partitions that other workers read neither wait
nor are waited for. The two sides of a pair are always in one task, so each task sees to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kstreampy.common.watermark_strategy import WatermarkAlignment
from kstreampy.graph.source import PackedInput, SourcesInput
from kstreampy.runtime.assignment import Assignment
from kstreampy.runtime.intake import PackedIntake
from kstreampy.runtime.sources_intake import SourcesIntake
from kstreampy.runtime.task import Status


class Alignment:
    """Made for one driver. `clock` is wall clock, int ms.

    A partition that is idle or at its end is not waited for; an active one without a watermark yet is, so that
    partitions which may stay empty need `with_idleness` too. The slowest partition is never paused.
    """

    def __init__(self, assignments: Iterable[Assignment], clock: Callable[[], int]) -> None:
        self._clock = clock
        self._groups: dict[str, list[tuple[Assignment, WatermarkAlignment]]] = {}
        self._next_look_ms: dict[str, int] = {}
        self._pairs: list[Assignment] = []
        for assignment in assignments:
            origin = assignment.layout.stage.input.origin
            is_table = isinstance(origin, PackedInput) and origin.is_table
            if isinstance(origin, PackedInput | SourcesInput) and (origin.max_drift_ms is not None or is_table):
                self._pairs.append(assignment)
            strategy = assignment.layout.stage.input.strategy
            if strategy is not None and strategy.alignment is not None:
                self._groups.setdefault(strategy.alignment.group, []).append((assignment, strategy.alignment))

    def look_at_pairs(self) -> None:
        """Once per turn: a side that is too far ahead of the other is not read on, and one that was so is again."""
        for assignment in self._pairs:
            for task in assignment.running():
                if task.status is Status.RUNNING and isinstance(task.intake, PackedIntake | SourcesIntake):
                    ahead = task.intake.ahead()
                    if ahead != task.intake.held:
                        assignment.hold(task, ahead)

    def look(self) -> None:
        """At the watermark interval: looks at those groups whose update interval has passed."""
        if not self._groups:
            return
        now_ms = self._clock()
        for group, members in self._groups.items():
            interval_ms = min(alignment.update_interval_ms for _, alignment in members)
            due = self._next_look_ms.get(group, now_ms)
            if due - interval_ms <= now_ms < due:
                continue
            self._next_look_ms[group] = now_ms + interval_ms
            self._align(members)

    def _align(self, members: list[tuple[Assignment, WatermarkAlignment]]) -> None:
        marks = {
            (index, number): task.intake.active()
            for index, (assignment, _) in enumerate(members)
            for number, task in assignment.tasks.items()
            if task.status is Status.RUNNING
        }
        slowest = min((mark for of_task in marks.values() for mark in of_task.values()), default=None)
        for (index, number), of_task in marks.items():
            assignment, alignment = members[index]
            limit = None if slowest is None else slowest + alignment.max_drift_ms
            assignment.hold(assignment.tasks[number], _ahead(of_task, limit))


def _ahead(marks: Mapping[Any, int], limit: int | None) -> frozenset[Any]:
    return frozenset() if limit is None else frozenset(name for name, mark in marks.items() if mark > limit)
