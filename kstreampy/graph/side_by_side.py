"""Which steps with two inputs read topics of the user's as they are, side by side.

A topic that is keyed already (`reinterpret_as_keyed_stream`) can be one input of a join, and another such topic the other,
without either of them going through a topic of the job's own: the stage reads the same partition of both. That is done where
it changes nothing else: each of the two streams is one source's, is read by nobody else, and only steps without state or a
look at time stand between. In all other cases each input is sent, by its key, through a topic of its own.

The two sources have one time, the least of both. So no step between may make a time of its own: it would go without what its
own source says of the end, and the other input would wait for a source that may tell no time at all.

In here: finding those steps. Not in here: the stages made of them (`compile.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.graph.node import KeyNode, Node, PairNode, SourceNode, StepNode
from kstreampy.graph.source import TopicInput
from kstreampy.graph.timing import step_with_time

_PASSING = frozenset({"map", "flat_map", "filter", "project", "typed", "timestamps_and_watermarks"})
"""Steps that can stand before such a step: without a key they have no state, and they do not see the watermark. Of strategies,
only those that become the source's (`_is_the_sources`)."""


def pairs_side_by_side(nodes: Sequence[Node]) -> dict[Node, tuple[SourceNode, ...]]:
    """Those steps, each with the sources of its inputs, in order."""
    uses = Counter(one for node in nodes for one in node.inputs)
    found: dict[Node, tuple[SourceNode, ...]] = {}
    for node in nodes:
        if isinstance(node, PairNode):
            sources = [_source_in_place(one, uses) for one in node.inputs]
            both = tuple(source for source in sources if source is not None)
            if len(both) == len(node.inputs) and _are_apart(both):
                found[node] = both
    return found


def _source_in_place(keyed: Node, uses: Counter[Node]) -> SourceNode | None:
    """The source of a stream that is keyed in place and used once, all the way from there."""
    if not isinstance(keyed, KeyNode) or not keyed.in_place or uses[keyed] > 1:
        return None
    (node,) = keyed.inputs
    while uses[node] == 1:
        if isinstance(node, SourceNode):
            return node if _is_plain(node) else None
        if not isinstance(node, StepNode) or node.kind not in _PASSING or node.side_outputs:
            return None
        if node.strategy is not None and not _is_the_sources(node):
            return None
        (node,) = node.inputs
    return None


def _is_the_sources(step: StepNode) -> bool:
    """Whether its strategy becomes that of the source before it. (One in mid-stream makes a time of its own.)"""
    (source,) = step.inputs
    return isinstance(source, SourceNode) and step_with_time(source, [step]) is step and not _waits(step.strategy)


def _waits(strategy: WatermarkStrategy | None) -> bool:
    """Whether it is one of sources that wait for each other."""
    return strategy is not None and strategy.alignment is not None


def _is_plain(source: SourceNode) -> bool:
    """Topics that are named, all partitions of them, and not held back by other sources."""
    origin = source.source
    if not isinstance(origin, TopicInput) or origin.pattern is not None or origin.partitions is not None:
        return False
    return not _waits(source.strategy)


def _are_apart(sources: Sequence[SourceNode]) -> bool:
    """No topic is read by both: one group reads each partition once."""
    names = [name for source in sources if isinstance(source.source, TopicInput) for name in source.source.topics]
    return len(names) == len(set(names))
