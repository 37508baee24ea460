"""Crashes at a chosen call: what a worker does with its broker and its disk, watched by a fuse.

In here: `Crash`, `Fuse` and `FusedBroker`. Not in here: what a crash leaves behind (`worker.py`), and faults that the log
itself has (failing commits and deliveries, see `MemoryCluster`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from kstreampy.broker.memory import MemoryBroker, MemoryCluster, MemoryConsumer, MemoryProducer, MemoryReader

CrashPoint = Literal["poll", "produce", "flush", "commit", "restore", "store"]
"""What a worker is doing when it crashes: reading input, handing a record to the producer, waiting for its
acknowledgement, committing, reading a changelog back, writing committed state to its disk."""
CRASH_POINTS: tuple[str, ...] = get_args(CrashPoint)

_PRODUCER_CALLS = {
    "produce": "produce",
    "send": "produce",
    "produce_tracked": "produce",
    "flush": "flush",
    "serve": "serve",
    "commit": "commit",
}
_CONSUMER_CALLS = {"poll": "poll", "commit": "commit", "seek": "seek"}


class Crash(BaseException):
    """The process dies here. No handler for errors may see it."""


@dataclass
class Fuse:
    """Counts a worker's calls into its broker and its stores, before and after each; at the one that makes `left` 0, the
    worker crashes. `left` None: never. With `point` only calls of that kind count, on that `side`."""

    left: int | None = None
    point: str | None = None
    side: Literal["before", "after"] = "before"
    crashed_at: str | None = None
    """Where the last crash was."""

    def __call__(self, point: str, side: Literal["before", "after"]) -> None:
        if self.left is None or (self.point is not None and (point, side) != (self.point, self.side)):
            return
        self.left -= 1
        if self.left <= 0:
            self.left = self.point = None
            self.crashed_at = f"{side} {point}"
            raise Crash


class FusedBroker(MemoryBroker):
    """A worker's view of the log, in which it may crash before and after every call that matters."""

    def __init__(self, cluster: MemoryCluster, fuse: Fuse, *, queue_messages: int = 64) -> None:
        super().__init__(cluster, queue_messages=queue_messages)
        self.fuse = fuse

    def producer(self, transactional_id: str | None = None) -> MemoryProducer:
        producer = super().producer(transactional_id)
        for name, point in _PRODUCER_CALLS.items():
            _burn(producer, name, point, self.fuse)
        return producer

    def consumer(self, *arguments: Any, **keywords: Any) -> MemoryConsumer:
        consumer = super().consumer(*arguments, **keywords)
        for name, point in _CONSUMER_CALLS.items():
            _burn(consumer, name, point, self.fuse)
        return consumer

    def reader(self) -> MemoryReader:
        reader = super().reader()
        _burn(reader, "poll", "restore", self.fuse)
        return reader


def _burn(owner: object, name: str, point: str, fuse: Fuse) -> None:
    call = getattr(owner, name)

    def burning(*arguments: Any, **keywords: Any) -> Any:
        fuse(point, "before")
        result = call(*arguments, **keywords)
        fuse(point, "after")
        return result

    setattr(owner, name, burning)
