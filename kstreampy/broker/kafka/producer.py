"""Writes to Kafka, in transactions where an id was given.

In here: `KafkaProducer`: the transaction calls with their deadlines, delivery errors, receipts. Not in
here: what an error means (`errors.py`), what the worker does after one (any error from `commit`: abort,
close, and go on with a new producer).

How an error of a transaction call is treated:

| the client says | here | the producer after it |
| --- | --- | --- |
| retriable, and there is time | the same call again (the client resumes it) | goes on |
| the transaction must be aborted | raised, mapped | `abort` works; discard it all the same |
| fatal, fenced | raised as TaskMigrated | of no use: `abort` only logs |
| no answer until the deadline | BrokerUnavailable: the outcome is in doubt | of no use: `abort` only logs |

Two facts of the client decide how deliveries are watched. `delivery.report.only.error` silences the success
reports of *every* message, also of one with its own callback; and without it, a default callback costs a
Python call per record. So:

- A transactional producer has no default callback. No delivery can fail unseen: the transaction then cannot
  commit, and the error that commit gives is the delivery's own. Messages with a receipt have their own
  callback.
- Any other producer has an error-only default callback; messages with a receipt wait for `flush` and then
  go through a second client without that setting. They land behind everything produced before the flush.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client
from confluent_kafka import TopicPartition as ClientPartition

from kstreampy.broker.broker import GroupConsumer, Position, TopicPartition
from kstreampy.broker.kafka.client import Link, within
from kstreampy.broker.kafka.consumer import KafkaGroupConsumer
from kstreampy.errors import BrokerUnavailable, JobError, KStreamError, TaskMigrated

log: Final = logging.getLogger(__name__)

_CLOSE_S: Final = 3.0


class KafkaReceipt:
    """See `Receipt`."""

    __slots__ = ("offset",)

    def __init__(self) -> None:
        self.offset: int | None = None


_Tracked = tuple[str, bytes | None, bytes | None, int, int, KafkaReceipt]


class KafkaProducer:
    """See `Producer`. Lifetime: until the first error from `commit`, or `close`. Owned by the driver
    thread."""

    produce: Callable[..., None]

    def __init__(self, link: Link, transactional_id: str | None) -> None:
        self._link = link
        self._id = transactional_id
        self._failure: KStreamError | None = None
        self._useless = False
        self._in_transaction = False
        self._closed = False
        self._tracked: list[_Tracked] = []
        self._tracker: Client | None = None
        """The second client; a transactional producer has none."""
        conf = link.producer(transactional_id)
        if transactional_id is None:
            conf.update({"delivery.report.only.error": True, "on_delivery": self._undelivered})
        try:
            self._client = Client(conf)
            if transactional_id is None:  # at once: its first message would wait half a second for a producer id
                self._tracker = Client(link.producer(None))
        except KafkaException as failure:
            raise link.mapped(failure, f"open {self._name}") from failure
        self.send: Callable[..., None] = self._client.produce
        self.produce = self._mapping_produce()
        if transactional_id is not None:
            self._call(self._client.init_transactions, f"start {self._name} and fence its predecessor")

    @property
    def _name(self) -> str:
        return "a producer" if self._id is None else f"the producer with transactional id {self._id}"

    # --- deliveries ----------------------------------------------------------------------------------------------

    def _undelivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = self._link.mapped(error, f"write to {message.topic()}-{message.partition()}")

    def _mapping_produce(self) -> Callable[..., None]:
        """The client's own method, its errors mapped: a record must not be blamed for a transaction that
        failed. Costs about 2 % of a produce; a closure, so that hot loops look nothing up."""
        send = self._client.produce

        def produce(
            topic: str,
            value: bytes | None,
            key: bytes | None,
            partition: int,
            callback: None,
            on_delivery: None,
            timestamp: int,
            headers: Any = None,
        ) -> None:
            try:
                send(topic, value, key, partition, callback, on_delivery, timestamp, headers)
            except KafkaException as failure:
                raise self._refused(failure, topic) from failure

        return produce

    def refused(self, error: Exception, topic: str) -> Exception:
        return self._refused(error, topic) if isinstance(error, KafkaException) else error

    def _refused(self, failure: KafkaException, topic: str) -> KStreamError:
        """Why the client took a message not even into its queue."""
        reason = failure.args[0]
        if reason.code() == KafkaError._STATE:
            reason = self._transaction_failure() or KafkaError(KafkaError._FENCED, str(reason.str()))
        return self._link.mapped(reason, f"write to topic {topic}")

    def _transaction_failure(self) -> KafkaError | None:
        """What made the open transaction fail, if it did. Any call tells; to begin the one that is open
        does nothing else."""
        if not self._in_transaction:
            return None
        try:
            self._client.begin_transaction()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            return None if error.code() == KafkaError._STATE else error
        return None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def produce_tracked(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int, timestamp: int = 0
    ) -> KafkaReceipt:
        receipt = KafkaReceipt()
        message = (topic, value, key, partition, timestamp, receipt)
        if self._tracker is not None:
            self._tracked.append(message)
        else:
            self._send_tracked(self._client, message)
        return receipt

    def _send_tracked(self, client: Client, message: _Tracked) -> None:
        topic, value, key, partition, timestamp, receipt = message

        def delivered(error: KafkaError | None, sent: Any) -> None:
            if error is None:
                receipt.offset = sent.offset()
            else:
                self._undelivered(error, sent)

        while True:
            try:
                client.produce(topic, value, key, partition, delivered, None, timestamp)
                return
            except BufferError:
                client.poll(0.1)
            except KafkaException as failure:
                raise self._refused(failure, topic) from failure

    def wait_for_room(self) -> None:
        self._client.poll(0.05)
        self._raise_failure()

    def serve(self) -> None:
        self._client.poll(0)
        if self._failure is not None:
            self._raise_failure()

    def flush(self) -> None:
        self._flush(self._client)
        if self._tracker is not None and self._tracked:
            tracked, self._tracked = self._tracked, []
            for message in tracked:
                self._send_tracked(self._tracker, message)
            self._flush(self._tracker)

    def _flush(self, client: Client) -> None:
        deadline = time.monotonic() + self._link.timeout_s
        while client.flush(1.0) > 0:
            self._raise_failure()
            if time.monotonic() > deadline:
                raise self._link.mapped(
                    KafkaError(KafkaError._TIMED_OUT, f"{len(client)} messages are not acknowledged"), "write"
                )
        self._raise_failure()
        failure = self._transaction_failure()
        if failure is not None:
            raise self._link.mapped(failure, f"write in a transaction of {self._id}")
        self._link.health.up()

    # --- transactions --------------------------------------------------------------------------------------------

    def _call(self, attempt: Callable[[float], None], doing: str) -> None:
        """One transaction call within the deadline; see the table at the top."""
        if self._useless:
            raise TaskMigrated(
                f"Kafka at {self._link.bootstrap}: could not {doing}: an earlier error has ended this producer."
            )
        try:
            within(time.monotonic() + self._link.timeout_s, attempt, self._link, doing)
        except KafkaException as failure:
            error = failure.args[0]
            self._useless = bool(error.fatal()) or not error.txn_requires_abort()
            raise self._link.mapped(failure, doing) from failure
        except BrokerUnavailable:
            self._useless = True
            raise

    def _require_transactional(self, doing: str) -> None:
        if self._id is None:
            raise JobError(f"Cannot {doing}: this producer was made without a transactional id.")

    def begin(self) -> None:
        self._require_transactional("begin a transaction")
        self._call(lambda _: self._client.begin_transaction(), f"begin a transaction of {self._id}")
        self._in_transaction = True

    def commit(self, positions: Sequence[tuple[GroupConsumer, Mapping[TopicPartition, Position]]]) -> None:
        self._require_transactional("commit a transaction")
        for consumer, of_group in positions:
            if of_group:
                self._send_offsets(consumer, of_group)
        self._call(self._client.commit_transaction, f"commit a transaction of {self._id}")
        self._in_transaction = False
        self._raise_failure()

    def _send_offsets(self, consumer: GroupConsumer, positions: Mapping[TopicPartition, Position]) -> None:
        doing = f"commit offsets of group {consumer.group} in a transaction of {self._id}"
        if not isinstance(consumer, KafkaGroupConsumer):
            raise JobError(f"Cannot {doing}: the consumer is not one of this Kafka cluster.")
        offsets = [ClientPartition(p.topic, p.partition, at.offset, at.metadata) for p, at in positions.items()]
        member = consumer.group_metadata()
        self._call(lambda seconds: self._client.send_offsets_to_transaction(offsets, member, seconds), doing)

    def abort(self) -> None:
        if not self._in_transaction:
            return
        self._in_transaction = False
        self._failure = None
        if self._useless:
            log.info("The open transaction of %s is left to the broker or to the successor.", self._id)
            return
        try:
            self._call(self._client.abort_transaction, f"abort a transaction of {self._id}")
        except KStreamError as failure:
            log.warning("%s", failure)
        self._failure = None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._in_transaction:
            self._abort_quickly()
        for client in (self._client, self._tracker):
            if client is not None:
                self._let_go(client)

    def _let_go(self, client: Client) -> None:
        try:
            if client.flush(0 if self._useless else _CLOSE_S) > 0:
                client.purge()
                client.flush(0.2)
        except KafkaException as failure:  # a client that was fenced says so once more
            log.debug("%s is closed: %s", self._name, failure)

    def _abort_quickly(self) -> None:
        """The successor would have to end an open transaction; saves it the wait when the broker answers at
        once."""
        self._in_transaction = False
        self._client.purge()
        if self._useless:
            return
        try:
            self._client.abort_transaction(_CLOSE_S)
        except KafkaException as failure:
            log.info("The open transaction of %s is left to the broker or to the successor: %s", self._id, failure)
