"""Which cluster a job runs on, and with which client settings, from what its sources and sinks say.

In here: one answer for the whole job, or a refusal. Not in here: what a worker does with it (`runtime/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstreampy.errors import JobError
from kstreampy.graph.node import Node, StepNode


def cluster_settings(nodes: Iterable[Node]) -> dict[str, Any]:
    """The settings `bootstrap_servers` and `kafka`, where there is something to set. JobError where two nodes contradict
    each other."""
    servers: dict[frozenset[str], str] = {}
    client: dict[str, str] = {}
    for node in nodes:
        if node.cluster is None:
            continue
        named = node.cluster.bootstrap_servers
        if named is not None:
            servers.setdefault(frozenset(name.strip() for name in named.split(",")), named)
        for key, value in node.cluster.properties.items():
            if client.setdefault(key, value) != value:
                raise JobError(
                    f"the client setting {key!r} is {client[key]!r} in one source or sink and {value!r} in another: "
                    "a job has one client configuration"
                )
    if len(servers) > 1:
        raise JobError(
            f"the job's sources and sinks name several clusters ({' and '.join(servers.values())}): a job runs on one, "
            "since its transactions cannot span two"
        )
    settings: dict[str, Any] = {}
    if servers:
        settings["bootstrap_servers"] = next(iter(servers.values()))
    if client:
        settings["kafka"] = client
    return settings


def asked_of_sinks(nodes: Iterable[Node]) -> set[bool]:
    """Whether sinks ask for exactly-once: True, False, both or (nothing asked) neither."""
    return {node.exactly_once for node in nodes if isinstance(node, StepNode) and node.exactly_once is not None}
