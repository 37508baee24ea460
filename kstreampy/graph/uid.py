"""What nodes are called: a uid for each, which stays when others come and go, and the public names of queryable states."""

from __future__ import annotations

import re
from collections import Counter

from kstreampy.errors import JobError
from kstreampy.graph.node import Node, StepNode

_UID = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_public_names(nodes: list[Node]) -> None:
    """JobError for two queryable states of one name."""
    public = Counter(node.queryable[0] for node in nodes if isinstance(node, StepNode) and node.queryable is not None)
    for name, times in public.items():
        if times > 1:
            raise JobError(f"{times} queryable states are named {name!r}: a public name is unique in a job")


def require_uids(nodes: list[Node]) -> None:
    """JobError for stateful operators without a uid of their own."""
    missing = [
        node.name or node.kind for node in nodes if isinstance(node, StepNode) and node.stateful and not node.uid
    ]
    if missing:
        raise JobError(
            f"uids are not derived in this job (disable_auto_generated_uids), and these operators have state but no "
            f"uid: {', '.join(missing)}. Give each one .uid(...)"
        )


def uids_of(nodes: list[Node]) -> dict[Node, str]:
    """A uid for every node: its own, or its kind and its number among those of its kind."""
    uids: dict[Node, str] = {}
    taken: dict[str, Node] = {}
    for node in nodes:
        if node.uid is None:
            continue
        if not _UID.fullmatch(node.uid):
            raise JobError(
                f"uid {node.uid!r} of {node.kind}: a uid becomes part of topic names, so it must be 1 to 100 letters, "
                "digits, '.', '_' or '-'"
            )
        if node.uid in taken:
            raise JobError(
                f"uid {node.uid!r} is given to two operators, {taken[node.uid].kind} and {node.kind}: make them unique"
            )
        taken[node.uid] = node
        uids[node] = node.uid
    counts: dict[str, int] = {}
    for node in nodes:
        if node.uid is not None:
            continue
        while True:
            counts[node.kind] = counts.get(node.kind, 0) + 1
            uid = f"{node.kind}-{counts[node.kind]}"
            if uid not in taken:
                break
        uids[node] = uid
        taken[uid] = node
    return uids
