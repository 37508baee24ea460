"""Stages that feed back: which stages a loop has, and what ends by itself where stages form loops.

In here: functions over the stages of a plan that is being made (`compile.py`). Not in here: how a loop comes to its end
(`runtime/loop.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kstreampy.errors import JobError
from kstreampy.graph.plan import Stage
from kstreampy.graph.source import ConnectorInput, PackedInput


def bounded_stages(stages: Sequence[Stage]) -> dict[str, bool]:
    """Stage → whether it ends by itself: all that sends to it does, fed back or not."""
    bounded = {stage.uid: _reads_to_an_end(stage) for stage in stages}
    changed = True
    while changed:
        changed = False
        for uid, senders in _senders(stages).items():
            if bounded[uid] and not all(bounded[sender] for sender in senders):
                bounded[uid] = False
                changed = True
    return bounded


def _reads_to_an_end(stage: Stage) -> bool:
    """Of a source; True for every other stage."""
    origin = stage.input.origin
    if isinstance(origin, PackedInput):
        return True
    if isinstance(origin, ConnectorInput):
        return origin.source.bounded
    return all(source.topics.bounded or source.topics.stopping is not None for source in stage.input.sources())


def loops(stages: Sequence[Stage]) -> dict[str, str]:
    """Stage → the head of the loop that it is part of. JobError for an iteration within another one."""
    senders = _senders(stages)
    receivers: dict[str, list[str]] = {stage.uid: [] for stage in stages}
    for uid, sending in senders.items():
        for sender in sending:
            receivers[sender].append(uid)
    heads = [stage.uid for stage in stages if _is_head(stage)]
    found: dict[str, str] = {}
    for head in heads:
        loop = _reached(head, receivers) & _reached(head, senders)
        other = next((uid for uid in heads if uid in loop and uid != head), None)
        if other is not None:
            raise JobError(
                f"the iterations {head!r} and {other!r} feed back into each other: what an iteration feeds back must not pass "
                "through another one. Make one iteration of the two"
            )
        found.update(dict.fromkeys(loop, head))
    return found


def _is_head(stage: Stage) -> bool:
    origin = stage.input.origin
    return isinstance(origin, PackedInput) and any(side.feeds_back for side in origin.sides())


def _senders(stages: Iterable[Stage]) -> dict[str, list[str]]:
    """Stage → all that send to it, fed back or not."""
    return {
        stage.uid: [sender for side in stage.input.origin.sides() for sender in side.senders]
        if isinstance(stage.input.origin, PackedInput)
        else []
        for stage in stages
    }


def _reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        uid = waiting.pop()
        if uid not in found:
            found.add(uid)
            waiting += edges[uid]
    return found
