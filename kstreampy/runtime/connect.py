"""From settings to a broker: Kafka where bootstrap servers are named, otherwise a log in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kstreampy.broker.broker import Broker
from kstreampy.broker.kafka import KafkaBroker
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.query_route import member_name
from kstreampy.runtime.settings import Settings

_CALL_TIMEOUT_S = 15.0
"""Of one call. Shorter than the shutdown budget; a broker away for longer is waited for by trying again."""


def broker_factory(plan: Plan, settings: Settings) -> Callable[[], Broker]:
    """What `run_worker` and readers of collected results connect with; every call gives a new view of the same log.
    JobError when the job reads topics but no cluster is named."""
    servers = settings.bootstrap_servers
    if servers is not None:
        return partial(_kafka, servers, settings)
    if plan.needs_kafka():
        raise JobError(
            "the job reads or writes topics, but no Kafka cluster is named: use set_bootstrap_servers(...) of the source's or "
            "sink's builder, --bootstrap-servers or KSTREAMPY_BOOTSTRAP_SERVERS"
        )
    cluster = MemoryCluster()
    return lambda: MemoryBroker(cluster)


def _kafka(servers: str, settings: Settings) -> Broker:
    return KafkaBroker(
        servers,
        settings.kafka,
        client_id=settings.application_id,
        member_id=member_name(settings),
        group_protocol=settings.group_protocol,
        session_timeout_ms=settings.session_timeout_ms,
        transaction_timeout_ms=settings.transaction_timeout_ms,
        timeout_s=min(settings.broker_timeout_s, _CALL_TIMEOUT_S),
    )
