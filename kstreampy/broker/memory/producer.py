"""Producing: the queue, its delivery, and transactions as their owner sees them.

In here: `MemoryProducer` and its receipts. Not in here: fencing and markers (`transaction.py`), hashing
(`partitioner.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, TypeAlias

from kstreampy.broker.broker import GroupConsumer, Position, TopicPartition
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.consumer import MemoryConsumer
from kstreampy.broker.memory.log import Headers, PartitionLog, Topic
from kstreampy.broker.memory.partitioner import partition_of
from kstreampy.broker.memory.transaction import Session, TransactionState
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, KStreamError, TaskMigrated

log = logging.getLogger(__name__)

CREATE_TIME = 1
LOG_APPEND_TIME = 2


class MemoryReceipt:
    """The offset of one message, once it is delivered."""

    __slots__ = ("offset",)

    def __init__(self) -> None:
        self.offset: int | None = None


Queued: TypeAlias = tuple[
    str, bytes | None, bytes | None, int, int, Sequence[tuple[str, bytes | None]] | None, MemoryReceipt | None
]


class MemoryProducer:
    """A `Producer` on the in-memory log. Owned by one thread.

    Messages wait in a queue of `queue_messages` and are delivered, in order, by `serve`, `wait_for_room`,
    `flush` and `commit`. After a delivery error in a transaction, every further call but `abort` raises it
    again.
    """

    produce: Callable[..., None]
    send: Callable[..., None]

    def __init__(self, cluster: MemoryCluster, transactional_id: str | None, queue_messages: int) -> None:
        self.produce = self.send = self._produce
        self._cluster = cluster
        self._queue_messages = queue_messages
        self._queue: list[Queued] = []
        self._error: KStreamError | None = None
        self._dealt: dict[str, int] = {}
        self._closed = False
        self._session: Session | None = None
        if transactional_id is not None:
            with cluster.lock:
                self._session = cluster.transactions.enter(transactional_id)
                cluster.touch()

    def _produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        callback: None = None,
        on_delivery: None = None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        /,
    ) -> None:
        self._enqueue((topic, value, key, partition, timestamp, headers, None))

    def refused(self, error: Exception, topic: str) -> Exception:
        return error

    def produce_tracked(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp: int = 0
    ) -> MemoryReceipt:
        receipt = MemoryReceipt()
        self._enqueue((topic, value, key, partition, timestamp, None, receipt))
        return receipt

    def _enqueue(self, message: Queued) -> None:
        if len(self._queue) >= self._queue_messages:
            raise BufferError(f"the producer's queue is full ({self._queue_messages} messages); call wait_for_room")
        if self._closed:
            raise RuntimeError("the producer is closed")
        if self._session is not None and self._session.state is TransactionState.READY:
            raise RuntimeError(
                f"producer {self._session.transactional_id} has no open transaction; call begin before produce"
            )
        value, key = message[1], message[2]
        if not (value is None or isinstance(value, bytes)) or not (key is None or isinstance(key, bytes)):
            raise TypeError(
                f"keys and values are bytes or None, not {type(key).__name__} and {type(value).__name__}: "
                "encode them first"
            )
        self._queue.append(message)

    def wait_for_room(self) -> None:
        """An error of a delivery is kept for the next `serve`, `flush` or `commit`."""
        self._deliver()

    def serve(self) -> None:
        self._deliver()
        if self._error is not None:
            self._raise_error(self._error)

    def flush(self) -> None:
        self.serve()

    def _raise_error(self, error: KStreamError) -> NoReturn:
        if self._session is None:
            self._error = None
        raise error

    def _deliver(self) -> None:
        if not self._queue:
            return
        queue, self._queue = self._queue, []
        with self._cluster.lock:
            if self._session is not None and self._session.state is not TransactionState.OPEN:
                self._error = self._error or self._refusal(self._session)
                return
            for message in queue:
                try:
                    self._append(message)
                except KStreamError as error:
                    self._error = self._error or error
            self._cluster.touch()

    def _append(self, message: Queued) -> None:
        name, value, key, number, timestamp, headers, receipt = message
        topic = self._cluster.topic(name)
        target = self._choose(topic, key, number)
        if key is None and topic.compacted:
            raise BrokerRefused(f"topic {name} is compacted and takes no message without a key; produce with a key")
        if self._cluster.take_delivery_fault(name):
            raise BrokerUnavailable(f"a message to {name}[{target.partition}] was not acknowledged (injected fault)")
        if topic.configs["message.timestamp.type"] == "LogAppendTime":
            stamp = (LOG_APPEND_TIME, self._cluster.clock())
        else:
            stamp = (CREATE_TIME, timestamp or self._cluster.clock())
        copied: Headers | None = list(headers) if headers else None
        offset = target.append(key, value, stamp, copied, self._session)
        if self._session is not None:
            self._session.written[target] = None
        if receipt is not None:
            receipt.offset = offset

    def _choose(self, topic: Topic, key: bytes | None, number: int) -> PartitionLog:
        """The partition asked for; for -1 that of the key, and without a key each in turn."""
        if number != -1:
            return self._cluster.log(TopicPartition(topic.name, number))
        if key is not None:
            return topic.logs[partition_of(key, len(topic.logs))]
        dealt = self._dealt.get(topic.name, 0)
        self._dealt[topic.name] = dealt + 1
        return topic.logs[dealt % len(topic.logs)]

    def _transaction(self) -> Session:
        if self._session is None:
            raise RuntimeError("this producer was made without a transactional id and has no transactions")
        return self._session

    @staticmethod
    def _refusal(session: Session) -> KStreamError:
        if session.state is TransactionState.FENCED:
            return TaskMigrated(
                f"producer {session.transactional_id} was fenced by a newer one with the same id, or its "
                "transaction timed out; drop what is not committed and rejoin"
            )
        return BrokerUnavailable(
            f"producer {session.transactional_id} is {session.state.value} and must be discarded; make a new one"
        )

    def begin(self) -> None:
        session = self._transaction()
        with self._cluster.lock:
            if session.state is TransactionState.OPEN:
                raise RuntimeError(f"producer {session.transactional_id} has an open transaction; end it first")
            if session.state is not TransactionState.READY:
                raise self._refusal(session)
            session.state = TransactionState.OPEN

    def commit(self, positions: Sequence[tuple[GroupConsumer, Mapping[TopicPartition, Position]]]) -> None:
        session = self._transaction()
        self.flush()
        with self._cluster.lock:
            if session.state is TransactionState.READY:
                raise RuntimeError(f"producer {session.transactional_id} has no open transaction to commit")
            if session.state is not TransactionState.OPEN:
                raise self._refusal(session)
            stores = [(_own(consumer), offsets) for consumer, offsets in positions]
            for consumer, offsets in stores:
                consumer.check(offsets)
            fault = self._cluster.take_commit_fault(session.transactional_id)
            if fault is not False:
                for consumer, offsets in stores:
                    consumer.store(offsets)
            session.end(
                TransactionState.READY if fault is None else TransactionState.DOUBTFUL,
                committed=fault is not False,
            )
            self._cluster.touch()
        if fault is not None:
            raise BrokerUnavailable(
                f"the commit of {session.transactional_id} was not answered, its outcome is in doubt "
                "(injected fault); discard the producer and go on from the committed offsets"
            )

    def abort(self) -> None:
        session = self._transaction()
        self._queue.clear()
        with self._cluster.lock:
            if session.state is TransactionState.OPEN:
                session.end(TransactionState.READY, committed=False)
                self._error = None
                self._cluster.touch()
            elif session.state is not TransactionState.READY:
                log.info("nothing to abort: %s", self._refusal(session))

    def close(self) -> None:
        """What is queued outside a transaction is delivered; an open transaction is aborted."""
        if self._closed:
            return
        self._closed = True
        if self._session is None:
            self._deliver()
            return
        self._queue.clear()
        with self._cluster.lock:
            self._session.end(TransactionState.CLOSED, committed=False)
            self._cluster.touch()


def _own(consumer: GroupConsumer) -> MemoryConsumer:
    if not isinstance(consumer, MemoryConsumer):
        raise JobError(
            f"group {consumer.group} is read from another broker: its offsets cannot go into a transaction "
            "of the in-memory log"
        )
    return consumer
