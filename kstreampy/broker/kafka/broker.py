"""A Kafka cluster behind the protocols of `broker/broker.py`.

In here: `KafkaBroker`, which makes the clients and knows which group protocol they speak. Not in here: what
the clients do (`admin.py`, `consumer.py`, `producer.py`, `reader.py`), their settings (`client.py`), what
errors mean (`errors.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from kstreampy.broker.broker import RebalanceListener
from kstreampy.broker.kafka.admin import KafkaAdmin
from kstreampy.broker.kafka.client import Beacon, Link, speaks_consumer_protocol
from kstreampy.broker.kafka.consumer import KafkaGroupConsumer
from kstreampy.broker.kafka.producer import KafkaProducer
from kstreampy.broker.kafka.reader import KafkaReader

GroupProtocol = Literal["auto", "consumer", "classic"]


class KafkaBroker(KafkaAdmin):
    """See `Broker`. Lifetime: the worker's.

    `settings` are the user's own client settings (names without `kafka.`), already checked.
    `group_protocol` "auto" takes KIP-848's "consumer" where the brokers have it (Kafka 4.0 and later) and
    "classic" elsewhere. `session_timeout_ms` is used by classic groups; in the other protocol the broker
    owns it. `member_id` is the client id of those who join groups, where that is another. `timeout_s` bounds
    every call that waits for an answer."""

    transactional = True

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        client_id: str = "kstreampy",
        member_id: str | None = None,
        group_protocol: GroupProtocol = "auto",
        session_timeout_ms: int | None = None,
        transaction_timeout_ms: int = 30_000,
        timeout_s: float = 60.0,
    ) -> None:
        link = Link(
            bootstrap_servers,
            settings or {},
            client_id=client_id,
            member_id=member_id,
            timeout_s=timeout_s,
            session_timeout_ms=session_timeout_ms,
            transaction_timeout_ms=transaction_timeout_ms,
        )
        super().__init__(link)
        self._beacon = Beacon(link, self._admin)
        self._protocol: GroupProtocol = group_protocol
        self._probed = False

    def unavailable_since(self) -> float | None:
        """`time.monotonic()` since when no broker of the cluster answers, None while one does. Any thread
        may call."""
        return self._beacon.unavailable_since()

    def group_protocol(self) -> GroupProtocol:
        """ "consumer" or "classic": the one in use. Asks the cluster the first time when it is to be found
        out."""
        if self._protocol == "auto":
            self._protocol = "consumer" if speaks_consumer_protocol(self._link) else "classic"
            self._probed = True
        return self._protocol

    def _fall_back_to_classic(self) -> None:
        self._protocol = "classic"

    def consumer(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
    ) -> KafkaGroupConsumer:
        protocol = self.group_protocol()
        return KafkaGroupConsumer(
            self._link,
            group,
            topics,
            listener,
            instance_id=instance_id,
            protocol=protocol,
            on_classic=self._fall_back_to_classic if self._probed else None,
            missing_topics=self.missing_topics,
            unavailable_since=self.unavailable_since,
        )

    def producer(self, transactional_id: str | None = None) -> KafkaProducer:
        return KafkaProducer(self._link, transactional_id)

    def reader(self) -> KafkaReader:
        return KafkaReader(self._link, self.missing_topics)

    def close(self) -> None:
        """Clients made by this broker are closed by their owners; the admin client needs no farewell."""
        self._admin.poll(0)
