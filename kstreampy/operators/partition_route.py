"""Routes of streams whose records the author places himself: `shuffle`, `rebalance`, `rescale`, `global_`, `partition_custom`.

In here: which partition each record goes to. Not in here: how records are packed and sent (`route.py`, which also has the route
of `broadcast`). Semantics: Flink's, with the partitions of the next stage as its parallel tasks. Records of one task that go to
the same partition keep their order; keys do not go along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import KStreamError
from kstreampy.operators.function import Function, Partitioner, callable_of, own_copy, where
from kstreampy.operators.operator import TaskContext, failure, shown
from kstreampy.operators.route import RouteOperator
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.serde.batch import Batch


class RebalanceRouteOperator(RouteOperator):
    """Record by record to each partition in turn, beginning with the task's own."""

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.targets = self._targets()
        self.next = context.partition % len(self.targets)

    def _targets(self) -> Sequence[int]:
        return range(self.partitions)

    def process(self, batch: Batch) -> None:
        targets, start = self.targets, self.next
        count = len(targets)
        for offset in range(min(count, len(batch))):
            self._keep(targets[(start + offset) % count], _every(batch, offset, count))
        self.next = (start + len(batch)) % count


class RescaleRouteOperator(RebalanceRouteOperator):
    """To some of the partitions in turn: each task has its own share of them, or where there are fewer, several tasks one."""

    def _targets(self) -> Sequence[int]:
        number, tasks = self.context.partition, self.context.partitions
        first = number * self.partitions // tasks
        return range(first, max((number + 1) * self.partitions // tasks, first + 1))


class ShuffleRouteOperator(RouteOperator):
    """To any partition, all equally likely."""

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.dice = Random(f"{context.stage}/{context.partition}/{context.attempt}")

    def process(self, batch: Batch) -> None:
        self._keep_at(batch, self.dice.choices(range(self.partitions), k=len(batch)))

    def _keep_at(self, batch: Batch, places: Iterable[int]) -> None:
        """Record i goes to the i-th place."""
        given: dict[int, list[int]] = {}
        for index, place in enumerate(places):
            given.setdefault(place, []).append(index)
        for place, indexes in given.items():
            self._keep(place, _chosen(batch, indexes))


class GlobalRouteOperator(RouteOperator):
    """All to partition 0."""

    def process(self, batch: Batch) -> None:
        self._keep(0, Batch(batch.values, batch.timestamps, None, batch.headers))


class CustomRouteOperator(ShuffleRouteOperator):
    """Where the author's `Partitioner` says. An answer that is no partition is a `RecordError`."""

    def __init__(
        self, step: str, topic: str, type_info: TypeInformation | None, partitioner: Any, select: Callable[[Any], Any]
    ) -> None:
        super().__init__(step, topic, type_info)
        self.owner = own_copy(partitioner)
        self.partition: Callable[[Any, int], Any] = callable_of(self.owner, Partitioner, "partition")
        self.select = select
        self.where = where(partitioner)
        self._opened = False

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self._opened = True
        if isinstance(self.owner, Function):
            self.owner.open(TaskRuntimeContext(self.step, context))

    def process(self, batch: Batch) -> None:
        partition, select, count = self.partition, self.select, self.partitions
        places: list[int] = []
        try:
            for value in batch.values:
                key = select(value)
                place = partition(key, count)
                if type(place) is not int or not 0 <= place < count:
                    raise ValueError(
                        f"the partitioner returned {shown(place)} for the key {shown(key)}: it must be an int from 0 to "
                        f"{count - 1}"
                    )
                places.append(place)
        except KStreamError:
            raise
        except Exception as error:
            index = len(places)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        self._keep_at(batch, places)

    def close(self) -> None:
        super().close()
        opened, self._opened = self._opened, False
        if opened and isinstance(self.owner, Function):
            self.owner.close()


def _every(batch: Batch, first: int, step: int) -> Batch:
    headers = batch.headers
    part = slice(first, None, step)
    return Batch(batch.values[part], batch.timestamps[part], None, None if headers is None else headers[part])


def _chosen(batch: Batch, indexes: list[int]) -> Batch:
    values, timestamps, headers = batch.values, batch.timestamps, batch.headers
    return Batch(
        [values[index] for index in indexes],
        [timestamps[index] for index in indexes],
        None,
        None if headers is None else [headers[index] for index in indexes],
    )
