"""How each client of Kafka is set up, and what all clients of one worker share.

In here: `Link` (the cluster as configured, the settings of every kind of client, the log of the client
library), `Health` (is the cluster answering?) and `speaks_consumer_protocol`. Not in here: anything that
reads, writes or asks.

Why the settings are what they are (measured with confluent-kafka 2.16.1 against a broker on the same
machine):

- `fetch.queue.backoff.ms`: at its default of 1000 the reader stalls for a second each time its queue was
  full.
- A small message costs some 300 bytes beside its payload. So `fetch.message.max.bytes` (per partition, compressed: half a
  megabyte can be 30,000 of them) and `queued.min.messages` (per partition) decide how many hundreds of megabytes a few
  partitions fill; larger messages come all the same, one at a time.
- `fetch.wait.max.ms` 100: a partition that was sought or resumed waits for the fetch that is under way.
- `retry.backoff.ms` 10: at 100, back-to-back transactions take 115 ms each, at 10 about 30.
- `linger.ms`, `batch.size`: batches of up to 1 MB; a flush does not wait for the linger time.
- `compression.type` lz4: the same CPU in the client as none, for a third to a half of the bytes.
- `topic.metadata.propagation.max.ms` 5000: so long a topic that is missing may be one that was just
  created.
- `partitioner` murmur2_random: the partition a Java client would choose; the default is CRC32.
- `enable.partition.eof`: the only word about a partition's end when the tail holds no record (see
  `intake.py`)."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kstreampy.broker.kafka.errors import cause, mapped
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, KStreamError

log: Final = logging.getLogger(__name__)

_CONSUMER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 512 * 1024,
    "queued.max.messages.kbytes": 32 * 1024,
    "queued.min.messages": 20_000,
    "retry.backoff.ms": 50,
}
_PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 10,
    "batch.size": 1_000_000,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 128 * 1024,
    "message.max.bytes": 16 * 1024 * 1024,
    "message.timeout.ms": 120_000,
    "topic.metadata.propagation.max.ms": 5_000,
    "retry.backoff.ms": 10,
}
_LOGIN: Final = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
)
"""A broken TLS handshake is not among them: a broker that restarts causes it, too, unless a certificate is named."""
_HELD: Final = str(KafkaError(KafkaError.UNRELEASED_INSTANCE_ID).str())
_PRODUCER_ONLY: Final = frozenset(
    {
        "acks",
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "linger.ms",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "request.required.acks",
        "request.timeout.ms",
        "retries",
        "sticky.partitioning.linger.ms",
    }
)
_CLASSIC_ONLY: Final = frozenset(
    {
        "group.protocol.type",
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
_CONSUMER_ONLY: Final = _CLASSIC_ONLY | frozenset(
    {
        "check.crcs",
        "coordinator.query.interval.ms",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.remote.assignor",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
    }
)


class Health:
    """Whether the cluster answers, gathered from all clients of one worker. Any thread may call. Lifetime:
    process."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.since: float | None = None
        """`time.monotonic()` of the moment since which no broker was reached; None while one is."""
        self.refusal: BrokerRefused | None = None
        """Set when the brokers rejected the login: nothing else will tell a consumer, it would wait for
        ever."""

    def heard(self, error: KafkaError) -> None:
        """The client library's own report of an error that belongs to no call."""
        code = error.code()
        if code in _LOGIN or (code == KafkaError._SSL and "certificate" in error.str().lower()):
            said = mapped(error, "log in", self._bootstrap)
            self.refusal = said if isinstance(said, BrokerRefused) else None
        elif code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
            self.down()

    def down(self) -> None:
        if self.since is None:
            self.since = time.monotonic()
            log.warning("No broker answers at %s; trying again.", self._bootstrap)

    def up(self) -> None:
        if self.since is not None:
            log.info("A broker answers at %s again after %.1f s.", self._bootstrap, time.monotonic() - self.since)
            self.since = None
        self.refusal = None


class _Once(logging.Filter):
    """Lets one line per client and kind pass per minute: a cluster that is away makes hundreds of equal
    ones. None of a member that waits for its predecessor: the client calls that fatal each time, the consumer
    tells of it once (see `consumer.py`)."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if _HELD in message:
            return False
        kind = " ".join(message.split(" ", 2)[:2])
        now = time.monotonic()
        if now - self._last.get(kind, -60.0) < 60.0:
            return False
        self._last[kind] = now
        return True


class Link:
    """The cluster as one worker is configured to see it. Lifetime: process; shared by all its clients."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str],
        *,
        client_id: str,
        member_id: str | None = None,
        timeout_s: float,
        session_timeout_ms: int | None,
        transaction_timeout_ms: int,
    ) -> None:
        self.bootstrap = bootstrap
        self.client_id = client_id
        self.member_id = member_id or client_id
        """What members of groups call themselves: others see it."""
        self.timeout_s = timeout_s
        self.health = Health(bootstrap)
        self._user = dict(settings)
        _check_oauth(settings)
        self._session_timeout_ms = session_timeout_ms
        self._transaction_timeout_ms = transaction_timeout_ms
        self._log = logging.getLogger(f"{__name__}.librdkafka")
        if not any(isinstance(known, _Once) for known in self._log.filters):
            self._log.addFilter(_Once())

    def mapped(self, failure: KafkaException | KafkaError, doing: str) -> KStreamError:
        """The error to raise for the client's; what the brokers refused at login goes first, it is the
        reason."""
        said = mapped(failure, doing, self.bootstrap)
        if isinstance(said, BrokerUnavailable) and self.health.refusal is not None:
            return self.health.refusal
        return said

    def _common(self, without: frozenset[str]) -> dict[str, Any]:
        return {
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            "socket.keepalive.enable": True,
            "log.connection.close": False,
            **{name: value for name, value in self._user.items() if name not in without},
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "error_cb": self.health.heard,
            "logger": self._log,
        }

    def admin(self) -> dict[str, Any]:
        return self._common(_PRODUCER_ONLY | _CONSUMER_ONLY)

    def reader(self) -> dict[str, Any]:
        """A consumer outside any group. The client wants a name all the same (it looks the coordinator
        up)."""
        common = self._common(_PRODUCER_ONLY | _CLASSIC_ONLY)
        return {**_CONSUMER, **common, "group.id": f"{self.client_id}-reader"}

    def observer(self, group: str) -> dict[str, Any]:
        """A consumer that asks for the offsets of a group, and never joins it."""
        return {**self.reader(), "group.id": group}

    def consumer(self, group: str, instance_id: str | None, protocol: str) -> dict[str, Any]:
        """`protocol`: "consumer" (KIP-848: the broker assigns, and owns the session timeout) or
        "classic"."""
        conf = {**_CONSUMER, "group.protocol": protocol}
        if protocol == "consumer":
            conf["group.remote.assignor"] = "range"
            conf.update(self._common(_PRODUCER_ONLY | _CLASSIC_ONLY))
        else:
            conf["partition.assignment.strategy"] = "range"
            if self._session_timeout_ms is not None:
                conf["session.timeout.ms"] = self._session_timeout_ms
                conf["heartbeat.interval.ms"] = max(1, min(3000, self._session_timeout_ms // 4))
            conf.update(self._common(_PRODUCER_ONLY | {"group.remote.assignor"}))
        conf["group.id"] = group
        conf["client.id"] = self.member_id
        if instance_id is not None:
            conf["group.instance.id"] = instance_id
        return conf

    def producer(self, transactional_id: str | None) -> dict[str, Any]:
        conf = {**_PRODUCER, **self._common(_CONSUMER_ONLY)}
        if transactional_id is not None:
            conf["transactional.id"] = transactional_id
            conf["transaction.timeout.ms"] = self._transaction_timeout_ms
            conf["message.timeout.ms"] = min(int(conf["message.timeout.ms"]), self._transaction_timeout_ms)
        return conf


def _check_oauth(settings: Mapping[str, str]) -> None:
    """JobError for OAUTHBEARER without a way to get a token: the client would wait for one for ever, and say nothing."""
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    method = settings.get("sasl.oauthbearer.method", "default").lower()
    unsecured = settings.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower() == "true"
    if mechanism.upper() == "OAUTHBEARER" and method != "oidc" and not unsecured:
        raise JobError(
            "kafka.sasl.mechanism is OAUTHBEARER, but nothing gets a token: set kafka.sasl.oauthbearer.method to oidc, and "
            "with it sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
        )


def within(deadline: float, attempt: Callable[[float], None], link: Link, doing: str) -> None:
    """Calls `attempt(seconds)` in slices of at most a second (signal handlers run in between) until it
    succeeds. Errors that a retry may mend are retried until `deadline` (`time.monotonic()`), all others
    raised as the client raised them; at the deadline BrokerUnavailable."""
    while True:
        left = deadline - time.monotonic()
        try:
            attempt(max(0.1, min(1.0, left)))
        except KafkaException as failure:
            error = failure.args[0]
            if not isinstance(error, KafkaError) or error.fatal() or error.txn_requires_abort():
                raise
            if not error.retriable():
                raise
            if left <= 0 or link.health.refusal is not None:
                link.health.down()
                raise link.mapped(KafkaError(KafkaError._TIMED_OUT, str(error.str())), doing) from failure
            if cause(error) != KafkaError._TIMED_OUT:
                time.sleep(0.02)
        else:
            link.health.up()
            return


_QUIET_POLLS: Final = 10


def speaks_consumer_protocol(link: Link) -> bool:
    """Whether the brokers know KIP-848's group protocol in the version that is generally available (Kafka
    4.0).

    Asked without a group, a right or a new connection's worth of code: every connection begins with the
    broker's list of requests that it knows (ApiVersions), which the client library tells in its debug log
    only. A broker that knows the request but has the feature switched off is found by the consumer itself,
    see `consumer.py`."""
    versions: dict[str, int] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            for name, highest in re.findall(r"ApiKey (\w+) \(\d+\) Versions \d+\.\.(\d+)", record.getMessage()):
                versions[name] = int(highest)

    private = logging.Logger(f"{__name__}.probe", logging.DEBUG)
    private.propagate = False
    private.addHandler(Listener())
    conf: dict[str, Any] = {**link.admin(), "debug": "feature", "logger": private}
    probe = AdminClient(conf)
    try:
        probe.list_topics(timeout=link.timeout_s)
    except KafkaException as failure:
        probe.poll(0)
        raise link.mapped(failure, "ask which group protocols it speaks") from failure
    known, quiet = 0, 0
    for _ in range(200):  # the list was told before the topics were; its lines reach us one poll later
        probe.poll(0.005)
        quiet = quiet + 1 if len(versions) == known else 0
        known = len(versions)
        if "ConsumerGroupHeartbeat" in versions or (known and quiet >= _QUIET_POLLS):
            break
    return versions.get("ConsumerGroupHeartbeat", 0) >= 1


class Beacon:
    """Finds out, without waiting, that a cluster which was away is back: an idle worker makes no call that
    would tell."""

    def __init__(self, link: Link, admin: AdminClient) -> None:
        self._link = link
        self._admin = admin
        self._asked: Future[Any] | None = None

    def unavailable_since(self) -> float | None:
        """`time.monotonic()` since when no broker answers, None while one does. Cheap; any thread may
        call."""
        if self._link.health.since is None:
            self._asked = None
        elif self._asked is None:
            self._asked = self._admin.describe_cluster(request_timeout=5.0)
        elif self._asked.done():
            if self._asked.exception() is None:
                self._link.health.up()
            self._asked = None
        return self._link.health.since
