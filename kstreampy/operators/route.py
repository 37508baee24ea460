"""Where records change partition: keys are computed and records leave, packed, for the next stage's topic.

In here: the operator at the end of a stage whose stream goes on behind a cut. It keeps one open batch per target
partition and sends it as one message when it is full, at the watermark interval and at a checkpoint. Every message
carries the sending task, its watermark and whether it is idle; the last one, the end of that task.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.operators.operator import Operator, Outlet, TaskContext, shown
from kstreampy.operators.stateless import keys_of
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Headers, Token
from kstreampy.serde.key import Partitioner
from kstreampy.serde.packed import Mark, pack_marks, pack_split
from kstreampy.serde.typed import codec_for

MAX_RECORDS = 1000
MAX_BYTES = 512 * 1024


class RouteOperator(Operator):
    """Packs records for `topic`. Subclasses decide the partition of each record."""

    may_change_values = False
    keeps_values = True
    outlet: Outlet
    context: TaskContext
    partitions: int

    def __init__(self, step: str, topic: str, type_info: TypeInformation | None) -> None:
        super().__init__(step)
        self.topic = topic
        self.codec = codec_for(type_info)
        self.watermark = NO_TIMESTAMP
        self.sent_watermark = NO_TIMESTAMP
        self.idle = False
        self.sent_idle = False
        self.ended = False
        self.sent_round = 0

    def open(self, context: TaskContext) -> None:
        self.context = context
        self.outlet = context.outlet
        self.partitions = context.partition_counts[self.topic]
        self.waiting: list[Batch] = [Batch([], []) for _ in range(self.partitions)]

    def advance(self, watermark: int) -> None:
        self.watermark = watermark

    def set_idle(self, idle: bool) -> None:
        self.idle = idle

    def wake(self, now_ms: int) -> None: ...

    def tick(self) -> None:
        if not self.context.exactly_once:
            self._send_all()

    def flush(self) -> None:
        self._send_all()
        if self.context.round > self.sent_round:
            self._send_round()

    def finish(self) -> None:
        self._send_all()
        self.ended = True
        for place in range(len(self.waiting)):
            self._send(place, Batch([], []))

    def close(self) -> None:
        self.waiting = []

    def _keep(self, partition: int, batch: Batch) -> None:
        """Adds to the open batch of a partition; sends it when full. Behind a union only some batches may bear keys, from
        further up, where they say nothing: then the open one has none."""
        waiting = self.waiting[partition]
        before = len(waiting)
        if batch.headers is not None or waiting.headers is not None:
            headers: list[Headers | None] = waiting.headers if waiting.headers is not None else [None] * before
            headers += batch.headers if batch.headers is not None else [None] * len(batch)
            waiting.headers = headers
        if not before:
            waiting.keys = None if batch.keys is None else batch.keys[:]
        elif batch.keys is None:
            waiting.keys = None
        elif waiting.keys is not None:
            waiting.keys += batch.keys
        waiting.values += batch.values
        waiting.timestamps += batch.timestamps
        if before + len(batch) >= MAX_RECORDS:
            self._send(partition, waiting)
            self.waiting[partition] = Batch([], [])

    def _send_all(self) -> None:
        moved = self.watermark > self.sent_watermark or self.idle is not self.sent_idle
        for partition, waiting in enumerate(self.waiting):
            if waiting.values:
                self._send(partition, waiting)
                self.waiting[partition] = Batch([], [])
            elif moved:
                self._send(partition, waiting)
        self.sent_watermark, self.sent_idle = self.watermark, self.idle

    def _send(self, partition: int, batch: Batch) -> None:
        context = self.context
        mark = Mark(context.stage, context.partition, self.watermark, self.ended, self.idle)
        try:
            messages = pack_split(batch, self.codec, mark, MAX_BYTES)
        except Exception as error:
            raise self._unsendable(batch.values, error) from error
        for message in messages:
            self._produce(message, partition)
        context.records_out += len(batch.values)

    def _produce(self, message: bytes, partition: int) -> None:
        send(self.outlet, self.topic, message, partition)

    def _send_round(self) -> None:
        """Behind all that was held back, also by the steps before this one."""
        context = self.context
        mark = Mark(f"{context.stage}~{context.loop}", context.partition, context.round)
        for partition in range(self.partitions):
            send(self.outlet, self.topic, pack_marks([mark]), partition)
        self.sent_round = context.round

    def _unsendable(self, values: list[Any], first: Exception) -> JobError:
        """Names the value: records of several batches wait here, so there is no place in one to name."""
        for value in values:
            try:
                self.codec.encode(value)
            except Exception as error:
                return JobError(
                    f"{self.step}: a {type(value).__name__} cannot be sent to the next stage ({error}): "
                    f"emit values of Python's own types, dataclasses or Rows, or declare the type; it is {shown(value)}"
                )
        return JobError(f"{self.step}: records cannot be sent to the next stage: {first}")


class KeyRouteOperator(RouteOperator):
    """Sends each record to its key's group: `murmur2(key) mod key groups`, as Java's default partitioner."""

    partitioner: Partitioner

    def __init__(
        self, step: str, topic: str, type_info: TypeInformation | None, select: Callable[[Any], Any], where: str
    ) -> None:
        super().__init__(step, topic, type_info)
        self.select = select
        self.where = where

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.partitioner = Partitioner(self.partitions)

    def process(self, batch: Batch) -> None:
        keys = keys_of(self.step, batch, self.select, self.where)
        places: list[list[int]] = [[] for _ in range(self.partitions)]
        for index, partition in enumerate(self.partitioner.partitions(keys)):
            places[partition].append(index)
        for partition, indexes in enumerate(places):
            if indexes:
                self._keep(partition, pick(batch, keys, indexes))


class EvenRouteOperator(RouteOperator):
    """Sends whole batches to the partitions in turn, beginning with the task's own: for sources that are not Kafka."""

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.next = context.partition % self.partitions

    def process(self, batch: Batch) -> None:
        self._keep(self.next, batch)
        if self.partitions != self.context.partitions:
            self.next = (self.next + 1) % self.partitions


class BroadcastRouteOperator(RouteOperator):
    """Sends everything to all partitions: packed once, produced to each."""

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.waiting = [Batch([], [])]

    def process(self, batch: Batch) -> None:
        self._keep(0, batch)

    def _produce(self, message: bytes, partition: int) -> None:
        for each in range(self.partitions):
            send(self.outlet, self.topic, message, each)


def pick(batch: Batch, keys: list[Token], indexes: list[int]) -> Batch:
    """The records at `indexes`, as a batch of its own."""
    if len(indexes) == 1:
        index = indexes[0]
        headers = None if batch.headers is None else [batch.headers[index]]
        return Batch([batch.values[index]], [batch.timestamps[index]], [keys[index]], headers)
    take = itemgetter(*indexes)
    return Batch(
        list(take(batch.values)),
        list(take(batch.timestamps)),
        list(take(keys)),
        None if batch.headers is None else list(take(batch.headers)),
    )


def send(outlet: Outlet, topic: str, value: bytes, partition: int) -> None:
    """Produces one message, stamped with the present (the records' own times are inside); waits while the queue is full."""
    while True:
        try:
            outlet.produce(topic, value, None, partition, None, None, 0)
            return
        except BufferError:
            outlet.wait_for_room()
