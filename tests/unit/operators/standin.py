"""Stand-ins for what is around an operator: what follows it, the producer, the task."""

from __future__ import annotations

from functools import partial
from typing import Any

from kstreampy.errors import RecordError
from kstreampy.observe.function_metric import FunctionMetrics
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.serde.batch import NO_TIMESTAMP, Batch
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore


class Collecting(Operator):
    """Keeps every batch that it is given, and what it was called with."""

    def __init__(self) -> None:
        super().__init__("collecting")
        self.batches: list[Batch] = []
        self.calls: list[Any] = []

    def process(self, batch: Batch) -> None:
        columns = [batch.values, batch.timestamps, batch.keys, batch.headers]
        assert all(column is None or len(column) == len(batch) for column in columns)
        self.batches.append(batch)

    def advance(self, watermark: int) -> None:
        self.calls.append(("advance", watermark))

    def wake(self, now_ms: int) -> None:
        self.calls.append(("wake", now_ms))

    def finish(self) -> None:
        self.calls.append("finish")

    def tick(self) -> None:
        self.calls.append("tick")

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")

    @property
    def values(self) -> list[Any]:
        return [value for batch in self.batches for value in batch.values]

    @property
    def timestamps(self) -> list[int]:
        return [stamp for batch in self.batches for stamp in batch.timestamps]

    @property
    def keys(self) -> list[Any]:
        return [key for batch in self.batches for key in batch.keys or []]

    @property
    def headers(self) -> list[Any]:
        return [pairs for batch in self.batches for pairs in batch.headers or [None] * len(batch)]


class FailingAt(Collecting):
    """Fails on the record that holds a given value."""

    def __init__(self, bad: Any) -> None:
        super().__init__()
        self.bad = bad

    def process(self, batch: Batch) -> None:
        if self.bad in batch.values:
            raise RecordError("bad", step="failing", index=batch.values.index(self.bad))
        super().process(batch)


class FakeOutlet:
    """A producer whose queue has room for `room` messages until somebody waits."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.left = room
        self.waits = 0
        self.produced: list[tuple[Any, ...]] = []

    def produce(self, topic: str, value: Any, key: Any, partition: int, *rest: Any) -> None:
        if self.left == 0:
            raise BufferError("the queue is full")
        self.left -= 1
        for data in (value, key):
            if data is not None and not isinstance(data, bytes):
                raise TypeError(f"a bytes-like object is required, not {type(data).__name__}")
        self.produced.append((topic, value, key, partition, *rest))

    send = produce

    def refused(self, error: Exception, topic: str) -> Exception:
        return error

    def wait_for_room(self) -> None:
        self.waits += 1
        self.left = self.room


def context(**changes: Any) -> TaskContext:
    """A task of a keyed stage with empty state, task 0 of 1."""
    settings: dict[str, Any] = {
        "application_id": "app",
        "stage": "stage",
        "partition": 0,
        "partitions": 1,
        "outlet": FakeOutlet(),
        "clock": lambda: 1_234,
        "metric_group": partial(FunctionMetrics().group, "stage", 0),
        "state": KeyedState(MemoryStore(), CacheBudget(1 << 24)),
        **changes,
    }
    return TaskContext(**settings)


def opened(operator: Operator, task: TaskContext | None = None, out: Operator | None = None) -> Collecting:
    """Opens the operator in front of `out`, which is returned."""
    operator.out = out or Collecting()
    operator.open(task or context())
    return operator.out  # type: ignore[return-value]


def batch(*values: Any, keys: list[Any] | None = None, stamps: list[int] | None = None, headers: Any = None) -> Batch:
    """A batch of these values, at 1, 2, 3 … ms unless `stamps` says otherwise."""
    return Batch(list(values), stamps or list(range(1, len(values) + 1)), keys, headers)


NONE = NO_TIMESTAMP
