"""What the author drew: nodes, in the order they were drawn. Written by `datastream/`, read by `compile.py`.

In here: data only. A node may be named and given a uid until the plan is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.graph.source import TopicInput
from kstreampy.operators.connector import ConnectorSource
from kstreampy.operators.operator import Operator

Build = Callable[[str, str], Operator]
"""`build(step name, uid) -> Operator`: called once per task."""


_numbers = count(1)


@dataclass(frozen=True)
class Cluster:
    """What a Kafka source or sink says of the cluster and the client. None and nothing: whatever the job uses."""

    bootstrap_servers: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class Node:
    """One thing drawn. `kind` is Flink's name of the operation; `type_info` the declared type of its output, if any.

    `number` counts all nodes of the process in the order of drawing, from 1.
    """

    kind: str
    inputs: tuple[Node, ...]
    type_info: TypeInformation | None = None
    name: str | None = None
    uid: str | None = None
    description: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    cluster: Cluster | None = None
    number: int = field(default_factory=_numbers.__next__)

    def __post_init__(self) -> None:
        """TypeError for a declared type that is none, here where the author's line is in the trace."""
        if self.type_info is not None:
            require_type(self.type_info, self.kind)


@dataclass(eq=False)
class SourceNode(Node):
    source: TopicInput | ConnectorSource | None = None
    strategy: WatermarkStrategy | None = None
    is_table: bool = False
    """Of a global table: it holds no watermark back once it was read to its end."""


@dataclass(eq=False)
class StepNode(Node):
    """One operator. `terminal`: nothing follows; `stateful`: it keeps something in its task's checkpoint."""

    build: Build | None = None
    stateful: bool = False
    timers: bool = False
    """It may set timers; it is stateful then."""
    queryable: tuple[str, str] | None = None
    """The public name of the state that it keeps for others to ask for, and the state's own name."""
    terminal: bool = False
    coerce: bool = False
    """Its results are brought to `type_info`, which the author declared for it."""
    detail: str = ""
    writes: str | None = None
    """The user's topic that a sink writes to, where it is known beforehand."""
    exactly_once: bool | None = None
    """What a sink asks for; None: nothing."""
    strategy: WatermarkStrategy | None = None
    """Of a step that gives records their event time anew."""
    side_outputs: dict[str, SideNode] = field(default_factory=dict)
    """Those that were asked for, by the tag's id."""


@dataclass(eq=False)
class SideNode(Node):
    """A side output of the step that is its input, of `type_info` if the tag declares one."""

    tag: OutputTag = field(kw_only=True)


Route = Callable[[str, str, TypeInformation | None], Operator]
"""`route(step name, topic, type) -> Operator`: sends what comes to the partitions of the topic."""


@dataclass(eq=False)
class PartitionNode(Node):
    """A stream whose records are placed anew, by `route`: the step behind it begins a stage. What follows at once is a step, or
    another cut, which then counts instead."""

    route: Route = field(kw_only=True)


@dataclass(eq=False)
class BroadcastNode(PartitionNode):
    """A stream that goes whole to every task of the step with two inputs behind it."""


@dataclass(eq=False)
class UnionNode(Node):
    """All inputs as one stream: what follows is done behind each of them."""


@dataclass(eq=False)
class PairNode(StepNode):
    """One operator with two inputs (`operators/pair.py`): it begins a stage that reads a co-partitioned pair of topics, of the
    job's own or, where both inputs are keyed in place, of the user's (`side_by_side.py`)."""

    max_drift_ms: int | None = None
    """How far the event time of one input may be read ahead of the other's; None: as it comes."""
    is_table: bool = False
    """The second input is a global table, of which the first one waits until it is there."""


@dataclass(eq=False)
class IterateNode(PairNode):
    """The head of an iteration. Its second input, which is added when the iteration is closed, lies behind it."""

    max_wait_ms: int = 0


@dataclass(eq=False)
class CollectNode(Node):
    """Results go to a topic of the job's own, from which `execute_and_collect` reads them."""


@dataclass(eq=False)
class KeyNode(Node):
    """A stream by key. `in_place`: it is partitioned by this key already, so no cut is made."""

    select: Callable[[Any], Any] | None = None
    where: str = ""
    key_type: TypeInformation | None = None
    in_place: bool = False


@dataclass(eq=False)
class Graph:
    """All nodes of one environment. Owned by it."""

    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        self.nodes.append(node)

    def terminals(self) -> list[Node]:
        """Where streams end: without one there is nothing to run."""
        return [
            node
            for node in self.nodes
            if isinstance(node, CollectNode) or (isinstance(node, StepNode) and node.terminal)
        ]

    def needed(self) -> list[Node]:
        """What leads to a terminal, in the order of drawing: also nodes drawn before an earlier job of the same
        environment was taken, whose streams are used again."""
        found: set[Node] = set()
        waiting = self.terminals()
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += node.inputs
        return sorted(found, key=_number)

    def dead_ends(self) -> list[Node]:
        """Steps whose results go nowhere; none where results are collected, since the others may be asked for next."""
        if any(isinstance(node, CollectNode) for node in self.nodes):
            return []
        used = {*self.needed(), *(given for node in self.nodes for given in node.inputs)}
        return [node for node in self.nodes if isinstance(node, StepNode) and node not in used]


def _number(node: Node) -> int:
    return node.number
