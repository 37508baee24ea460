"""From what was drawn to what is run: cuts the graph into stages wherever records must change partition.

Steps: 1 keep what leads to a sink; 2 give every node a uid that stays when others come and go; 3 every source, and every
operator on a keyed stream, begins a stage; 4 what follows it up to the next cut is its chain. A source that is not
Kafka gets a stage that only reads, and the stage behind it. Two sources whose streams meet as they are share one.

Not in here: uids (`uid.py`), names and settings of topics (`topic.py`), and how a plan is shown (`explain.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.errors import JobError
from kstreampy.graph import topic
from kstreampy.graph.loop import bounded_stages, loops
from kstreampy.graph.node import (
    BroadcastNode,
    CollectNode,
    Graph,
    IterateNode,
    KeyNode,
    Node,
    PairNode,
    PartitionNode,
    SideNode,
    SourceNode,
    StepNode,
    UnionNode,
)
from kstreampy.graph.plan import CollectedResult, Link, Plan, Stage, Step, all_links
from kstreampy.graph.side_by_side import pairs_side_by_side
from kstreampy.graph.source import ConnectorInput, Input, PackedInput, SourcesInput, TopicInput
from kstreampy.graph.timing import step_with_time
from kstreampy.graph.uid import check_public_names, require_uids, uids_of
from kstreampy.operators.connector import ConnectorSource
from kstreampy.operators.operator import Operator
from kstreampy.operators.route import EvenRouteOperator, KeyRouteOperator
from kstreampy.operators.stateless import CoerceOperator, KeyOperator
from kstreampy.operators.union import PassOperator, UnionOperator


def compile_plan(
    graph: Graph,
    *,
    name: str,
    application_id: str,
    key_groups: int,
    parameters: dict[str, str] | None = None,
    derive_uids: bool = True,
) -> Plan:
    """The plan of a graph. Raises `JobError` for a graph that cannot run: no sink, a uid twice or not fit for a topic name,
    or, without `derive_uids`, a stateful operator that was given no uid."""
    nodes = graph.needed()
    if not nodes:
        empty = "" if graph.nodes else ", and in this environment nothing was drawn since it was made, or last executed"
        raise JobError(
            f"the job has no sink, so nothing would run{empty}: end a stream with sink_to(...), add_sink(...), print() "
            "or execute_and_collect()"
        )
    if not derive_uids:
        require_uids(nodes)
    check_public_names(nodes)
    drawn = sorted({*graph.nodes, *nodes}, key=lambda node: node.number)
    uids = uids_of(drawn)
    plan = _Compiler(nodes, name, application_id, key_groups, uids, parameters or {}).plan()
    return replace(plan, left_out=tuple(f"{node.kind} {uids[node]!r}" for node in graph.dead_ends()))


@dataclass
class _Compiler:
    """Lives for one `compile_plan`."""

    nodes: list[Node]
    name: str
    application_id: str
    key_groups: int
    uids: dict[Node, str]
    parameters: dict[str, str]
    topics: dict[str, tuple[str, str, int | None]] = field(default_factory=dict)
    senders: dict[str, list[str]] = field(default_factory=dict)
    collected: list[CollectedResult] = field(default_factory=list)
    unions: dict[Node, Link] = field(default_factory=dict)
    """Those of the stage in hand: what follows one is in the stage once, however many branches lead there."""
    pairs: dict[Node, tuple[SourceNode, ...]] = field(init=False)
    """Steps with two inputs that read the topics of these sources as they are."""

    def __post_init__(self) -> None:
        self.pairs = pairs_side_by_side(self.nodes)

    def plan(self) -> Plan:
        drafts: list[tuple[Node, Stage]] = []
        paired = {source for sources in self.pairs.values() for source in sources}
        for node in self.nodes:
            if node in self.pairs:
                drafts.append((node, self._side_by_side_stage(node)))
            elif node in paired:
                continue
            elif isinstance(node, SourceNode):
                drafts += [(node, stage) for stage in self._source_stages(node)]
            elif self._begins_stage(node):
                drafts.append((node, self._cut_stage(node)))
        self._check_names([stage for _, stage in drafts])
        stages = _with_shared(self._linked([stage for _, stage in drafts]))
        for stage in stages:
            if stage.stateful:
                name = topic.changelog(self.application_id, stage.uid)
                self.topics[name] = (name, "changelog", stage.partitions)
            if stage.timers:
                name = topic.timers(self.application_id, stage.uid)
                self.topics[name] = (name, "timers", stage.partitions)
        return Plan(
            self.name,
            self.application_id,
            tuple(stages),
            self.key_groups,
            tuple(self.topics.values()),
            tuple(self.collected),
            self.parameters,
        )

    def _check_names(self, stages: list[Stage]) -> None:
        """Two stages of one name would be one consumer group; Kafka takes '.' and '_' in names for the same."""
        taken: dict[str, str] = {}
        for stage in stages:
            seen_by_kafka = stage.uid.replace(".", "_")
            if seen_by_kafka in taken:
                raise JobError(
                    f"two stages would be named {taken[seen_by_kafka]!r} and {stage.uid!r}, which Kafka cannot tell "
                    "apart: give one of their operators another uid"
                )
            taken[seen_by_kafka] = stage.uid

    def _begins_stage(self, node: Node) -> bool:
        if isinstance(node, PairNode):
            return node not in self.pairs
        return _is_work(node) and _is_cut(node.inputs[0])

    def _source_stages(self, node: SourceNode) -> list[Stage]:
        """The stage's name is its group's and its changelog's: that of its first stateful step, whose uid its state is found
        by; without one, the source's."""
        self.unions = {}
        uid = self.uids[node]
        label = node.name or uid
        strategy, last = self._timed(node)
        if isinstance(node.source, TopicInput):
            chain = self._chain(last)
            stateful = _stateful(chain)
            stage_uid = self._first_stateful(chain, uid)
            return [self._stage(stage_uid, Input(node.source, label, strategy, node.is_table), chain, stateful, None)]
        assert isinstance(node.source, ConnectorSource), "a source is topics or a connector"
        tasks = max(1, min(len(node.source.splits()), self.key_groups))
        name = topic.source(self.application_id, uid)
        self.topics[name] = (name, "packed", tasks)
        typed = self._typed_behind(node)
        type_info = node.type_info if typed is None else typed.type_info
        route = Link(
            Step(uid, f"{label} → {name}", "route", partial(EvenRouteOperator, label, name, type_info), topic=name)
        )
        source = Input(ConnectorInput(node.source), label, strategy, node.is_table)
        leading = route if typed is None else Link(self._step(typed), (route,))
        reading = self._stage(uid, source, (leading,), True, tasks)
        chain = self._chain(last if typed is None else typed)
        behind = self._stage(
            self._first_stateful(chain, f"{uid}-out"),
            Input(PackedInput(name, type_info, ()), label),
            chain,
            _stateful(chain),
            tasks,
        )
        return [reading, behind]

    def _side_by_side_stage(self, node: Node) -> Stage:
        """The stage of a step that reads the topics of two sources as they are: a head for each, whose chain leads there."""
        self.unions = {}
        heads: list[Link] = []
        sides: list[Input] = []
        for source in self.pairs[node]:
            assert isinstance(source.source, TopicInput), "a source that can be read side by side"
            label = source.name or self.uids[source]
            strategy, last = self._timed(source)
            sides.append(Input(source.source, label, strategy))
            step = Step(self.uids[source], label, "source", partial(PassOperator, label))
            heads.append(Link(step, self._chain(last)))
        assert isinstance(node, PairNode), "a step with two inputs"
        uid, chain = self.uids[node], tuple(heads)
        origin = SourcesInput(tuple(sides), node.max_drift_ms)
        return self._stage(uid, Input(origin, uid), chain, _stateful(chain), None)

    def _typed_behind(self, source: SourceNode) -> StepNode | None:
        """The step that brings a source's values to the type that was declared for it. It stands before the source's topic,
        whose bytes are of that type then."""
        for node in self.nodes:
            if isinstance(node, StepNode) and node.kind == "typed" and node.inputs == (source,):
                return node
        return None

    def _timed(self, source: SourceNode) -> tuple[WatermarkStrategy | None, Node]:
        """How time is told on a source, and the node whose followers are its chain."""
        step = step_with_time(source, [node for node in self.nodes if source in node.inputs])
        return (source.strategy, source) if step is None else (step.strategy, step)

    def _first_stateful(self, chain: tuple[Link, ...], otherwise: str) -> str:
        """Not one behind a union: other stages may have it too."""
        waiting = list(chain)[::-1]
        while waiting:
            link = waiting.pop()
            if link.step.kind == "union":
                continue
            if link.step.stateful:
                return link.step.uid
            waiting += list(link.following())[::-1]
        return otherwise

    def _cut_stage(self, node: Node) -> Stage:
        """The stage that begins with a step behind a cut."""
        if isinstance(node, IterateNode) and len(node.inputs) == 1:
            raise JobError(
                f"Iteration {node.name or self.uids[node]!r} does not have any feedback edges: close it with close_with(...)"
            )
        self.unions = {}
        uid = self.uids[node]
        inputs = [
            PackedInput(self._input_topic(node, side), _type_behind(one), ()) for side, one in enumerate(node.inputs)
        ]
        for one in inputs:
            self.topics[one.topic] = (one.topic, "packed", self.key_groups)
        chain = tuple(self._in_place(node)) if isinstance(node, KeyNode) else (self._link(node),)
        origin = inputs[0]
        if isinstance(node, PairNode):
            origin = replace(origin, second=inputs[1], max_drift_ms=node.max_drift_ms, is_table=node.is_table)
        if isinstance(node, IterateNode):
            origin = replace(origin, second=replace(inputs[1], feeds_back=True, max_wait_ms=node.max_wait_ms))
        return self._stage(uid, Input(origin, uid), chain, _stateful(chain), self.key_groups)

    def _input_topic(self, node: Node, side: int) -> str:
        uid = self.uids[node]
        if isinstance(node.inputs[side], BroadcastNode):
            return topic.broadcast(self.application_id, uid)
        if isinstance(node, IterateNode) and side == 1:
            return topic.feedback(self.application_id, uid)
        if isinstance(node, PairNode):
            return topic.pair(self.application_id, uid, side)
        return topic.repartition(self.application_id, uid)

    def _stage(self, uid: str, source: Input, chain: tuple[Link, ...], stateful: bool, partitions: int | None) -> Stage:
        for link in all_links(chain):
            if link.step.topic is not None:
                self.senders.setdefault(link.step.topic, []).append(uid)
        return Stage(uid, source, chain, stateful, False, partitions)

    def _linked(self, stages: list[Stage]) -> list[Stage]:
        """Fills in who sends to whom, what ends by itself, and which stages form loops; those keep their progress as state, so
        that it has room for all that they hear."""
        linked = [
            replace(stage, input=replace(stage.input, origin=self._with_senders(stage.input.origin)))
            if isinstance(stage.input.origin, PackedInput)
            else stage
            for stage in stages
        ]
        bounded, heads = bounded_stages(linked), loops(linked)
        return [
            replace(
                stage,
                bounded=bounded[stage.uid],
                loop=heads.get(stage.uid),
                stateful=stage.stateful or stage.uid in heads,
            )
            for stage in linked
        ]

    def _with_senders(self, origin: PackedInput) -> PackedInput:
        second = None if origin.second is None else self._with_senders(origin.second)
        senders = tuple(dict.fromkeys(self.senders.get(origin.topic, ())))
        return replace(origin, senders=senders, second=second)

    def _chain(self, node: Node) -> tuple[Link, ...]:
        """What follows a node, up to the next cuts."""
        links: list[Link] = []
        for follower in self.nodes:
            for side, one in enumerate(follower.inputs):
                if one is node and not isinstance(follower, SideNode):
                    links += self._following(follower, side)
        return tuple(links)

    def _following(self, follower: Node, side: int) -> tuple[Link, ...]:
        """`follower`, as what follows its input number `side`."""
        if isinstance(follower, UnionNode):
            return (self._union(follower),)
        if follower in self.pairs:
            return (self._meeting(follower),)
        if isinstance(follower, PairNode):
            if isinstance(follower.inputs[side], KeyNode):
                return ()  # sent there from before the key, see _in_place
            return (  # nothing says where the records must be
                self._route(
                    PartitionNode("rebalance", (follower.inputs[side],), route=EvenRouteOperator), follower, side
                ),
            )
        if isinstance(follower, KeyNode) and follower.in_place:
            return tuple(self._in_place(follower))
        if not _is_cut(follower):
            return (self._link(follower),)
        return tuple(self._routes(follower))

    def _in_place(self, node: KeyNode) -> Iterator[Link]:
        """A stream that is keyed where it lies, and what follows it. To a step with two inputs that reads topics of its own it
        is sent by that key."""
        stays = False
        for user in self.nodes:
            for side, one in enumerate(user.inputs):
                if one is node and isinstance(user, PairNode) and user not in self.pairs:
                    yield self._route(node, user, side)
                elif one is node:
                    stays = True
        if stays:
            yield self._link(node)

    def _union(self, node: UnionNode) -> Link:
        if node not in self.unions:
            uid = self.uids[node]
            label = node.name or uid
            self.unions[node] = Link(Step(uid, label, node.kind, partial(UnionOperator, label, uid)), self._chain(node))
        return self.unions[node]

    def _meeting(self, node: Node) -> Link:
        """Where the chains of two sources come into the step that has both as its inputs."""
        if node not in self.unions:
            uid = f"{self.uids[node]}~inputs"
            label = f"inputs of {node.name or self.uids[node]}"
            self.unions[node] = Link(
                Step(uid, label, "inputs", partial(UnionOperator, label, uid)), (self._link(node),)
            )
        return self.unions[node]

    def _routes(self, cut: Node) -> Iterator[Link]:
        """From before a cut to every step behind it."""
        for user in self.nodes:
            for side, one in enumerate(user.inputs):
                if one is not cut:
                    continue
                if _is_work(user):
                    yield self._route(cut, user, side)
                else:  # of several cuts in a row the last one counts
                    assert _is_cut(user), f"{user.kind} cannot follow {cut.kind}"
                    yield from self._following(user, side)

    def _link(self, node: Node) -> Link:
        uid = self.uids[node]
        label = node.name or uid
        if isinstance(node, CollectNode):
            return Link(self._collect_step(node, uid))
        if isinstance(node, KeyNode):
            assert node.select is not None, "a key node has a selector"
            step = Step(uid, label, node.kind, partial(KeyOperator, label, node.select, node.where), detail=node.where)
            return Link(step, self._chain(node))
        assert isinstance(node, StepNode), f"{node.kind} cannot stand in a chain"
        if node.strategy is not None and node.strategy.alignment is not None:
            raise JobError(
                f"{label}: with_watermark_alignment holds back sources, and this strategy is assigned in mid-stream: give it "
                "to from_source, or assign it directly behind a source that has no strategy and nothing else behind it"
            )
        following = () if node.terminal else self._chain(node)
        if node.coerce and node.type_info is not None:
            coerce = node.type_info.coercer()
            typed = Step(uid, f"{label} as {node.type_info!r}", "type", partial(CoerceOperator, label, coerce))
            following = (Link(typed, following),)
        return Link(self._step(node), following, self._sides(node, label))

    def _step(self, node: StepNode) -> Step:
        uid = self.uids[node]
        label = node.name or uid
        return Step(
            uid,
            label,
            node.kind,
            partial(_made, node, label, uid),
            node.stateful,
            writes=node.writes,
            detail=node.description or node.detail,
            explicit_uid=node.uid is not None,
            timers=node.timers,
            queryable=node.queryable,
        )

    def _sides(self, node: StepNode, label: str) -> tuple[tuple[str, tuple[Link, ...]], ...]:
        """What follows each side output that leads somewhere; its values are brought to the tag's type first."""
        found: list[tuple[str, tuple[Link, ...]]] = []
        for side in self.nodes:
            if not isinstance(side, SideNode) or side.inputs[0] is not node:
                continue
            tag_id, following = side.tag.tag_id, self._chain(side)
            if side.type_info is not None:
                name = f"{label}, side output {tag_id!r}"
                make = partial(CoerceOperator, name, side.type_info.coercer())
                typed = Step(self.uids[side], f"{name} as {side.type_info!r}", "type", make)
                following = (Link(typed, following),)
            found.append((tag_id, following))
        return tuple(found)

    def _collect_step(self, node: CollectNode, uid: str) -> Step:
        name = topic.collect(self.application_id, uid)
        self.topics[name] = (name, "packed", 1)
        if all(result.topic != name for result in self.collected):  # behind a union, several stages send there
            self.collected.append(CollectedResult(name, uid))
        return Step(
            uid, f"{uid} → {name}", "collect", partial(EvenRouteOperator, uid, name, node.type_info), topic=name
        )

    def _route(self, cut: Node, user: Node, side: int) -> Link:
        name = self._input_topic(user, side)
        type_info = _type_behind(cut)
        if isinstance(cut, PartitionNode):
            uid = self.uids.get(cut, self.uids[user])
            label = cut.name or uid
            return Link(Step(uid, f"{label} → {name}", "route", partial(cut.route, label, name, type_info), topic=name))
        assert isinstance(cut, KeyNode), "a cut is by key or by a partitioning"
        assert cut.select is not None, "a key node has a selector"
        label = cut.name or self.uids[cut]
        make = partial(KeyRouteOperator, label, name, type_info, cut.select, cut.where)
        return Link(Step(self.uids[cut], f"{label} → {name}", "route", make, topic=name, detail=cut.where))


def _with_shared(stages: list[Stage]) -> list[Stage]:
    """Tells each stage which of its steps others have too. JobError for keys in place behind a union of several stages."""
    having: dict[str, set[str]] = {}
    for stage in stages:
        for step in stage.steps():
            having.setdefault(step.uid, set()).add(stage.uid)
            if step.kind == "reinterpret" and len(having[step.uid]) > 1:
                raise JobError(
                    f"reinterpret_as_keyed_stream ({step.name}) behind a union of streams of several stages "
                    f"({', '.join(sorted(having[step.uid]))}): the records of a key would lie in a task of each. Use key_by"
                )
    shared = frozenset(uid for uid, found in having.items() if len(found) > 1)
    return [replace(stage, shared=shared.intersection(step.uid for step in stage.steps())) for stage in stages]


def _is_cut(node: Node) -> bool:
    return isinstance(node, PartitionNode) or (isinstance(node, KeyNode) and not node.in_place)


def _is_work(node: Node) -> bool:
    """True for what becomes a step, and so can begin a stage."""
    return isinstance(node, StepNode | CollectNode) or (isinstance(node, KeyNode) and node.in_place)


def _type_behind(node: Node) -> TypeInformation | None:
    """The declared type of what a cut, or a stream that is cut, hands on."""
    return node.inputs[0].type_info if _is_cut(node) else node.type_info


def _made(node: StepNode, label: str, uid: str) -> Operator:
    assert node.build is not None, "a step node can be built"
    return node.build(label, uid)


def _stateful(chain: tuple[Link, ...]) -> bool:
    return any(link.step.stateful for link in all_links(chain))
