"""A job as frozen data: stages, each a tree of steps between an input and topics. Made by `compile.py`, run by `runtime/`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kstreampy.graph.source import Input, SourcesInput
from kstreampy.operators.operator import End, Heads, Operator, Split, Tee
from kstreampy.operators.union import UnionOperator

_WITHOUT_SIDE_OUTPUTS = frozenset({"map", "flat_map", "filter", "project", "typed", "co_map", "co_flat_map"})
_UNTIL_THE_END = frozenset({"map_partition", "sort_partition", "reduce_partition", "aggregate_partition"})


@dataclass(frozen=True)
class Step:
    """One operator to be: `make()` gives a task its own."""

    uid: str
    name: str
    kind: str
    make: Callable[[], Operator]
    stateful: bool = False
    topic: str | None = None
    """The topic that the step writes to by explicit partition (routes), if any."""
    writes: str | None = None
    """The user's topic that the step writes to, where it is known beforehand."""
    detail: str = ""
    explicit_uid: bool = True
    timers: bool = False
    """It may set timers: its stage has a timers topic."""
    queryable: tuple[str, str] | None = None
    """The public name of the state that it keeps for others to ask for, and the state's own name."""


@dataclass(frozen=True)
class Link:
    """A step and what follows it; `sides`: the ids of its side outputs, and what follows each. A union's link follows each of
    the steps whose branches come together in it; every other link follows one."""

    step: Step
    next: tuple[Link, ...] = ()
    sides: tuple[tuple[str, tuple[Link, ...]], ...] = ()

    def following(self) -> Iterator[Link]:
        """Those that follow it directly, those of side outputs last."""
        for links in (self.next, *(links for _, links in self.sides)):
            yield from links

    def links(self) -> Iterator[Link]:
        """Itself and all that follow it, each once."""
        return all_links((self,))

    def steps(self) -> Iterator[Step]:
        return (link.step for link in self.links())


def all_links(links: Iterable[Link]) -> Iterator[Link]:
    """These and all that follow them, each once, along one branch after the other."""
    seen: set[int] = set()
    waiting = list(links)[::-1]
    while waiting:
        link = waiting.pop()
        if id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += list(link.following())[::-1]


@dataclass(frozen=True)
class Stage:
    """The steps between topics: one consumer group; on one partition, a task."""

    uid: str
    input: Input
    chain: tuple[Link, ...]
    """What follows the input; of sources that are read side by side, one link for each."""
    stateful: bool
    bounded: bool
    partitions: int | None
    """Its tasks: key groups, or for user topics None: as many as their partitions."""
    shared: frozenset[str] = frozenset()
    """Uids of steps that other stages have too: what follows a union of streams of several stages."""
    loop: str | None = None
    """The head of the iteration that it is part of."""

    def steps(self) -> list[Step]:
        return [link.step for link in all_links(self.chain)]

    @property
    def timers(self) -> bool:
        """Whether a step of it may set timers, so that it has a timers topic beside its changelog."""
        return any(step.timers for step in self.steps())

    def topics_out(self) -> list[str]:
        """The internal topics it writes to."""
        return list(dict.fromkeys(step.topic for step in self.steps() if step.topic is not None))

    def make_chain(self) -> tuple[Operator, list[Operator]]:
        """A task's own operators: the first of the chain, and all of them from last to first."""
        made: list[Operator] = []
        leading = _counted(self.chain)
        doors: dict[int, list[Operator]] = {}

        def join(links: tuple[Link, ...]) -> Operator:
            outs = [one(link) for link in links]
            if not outs:
                return End()
            return outs[0] if len(outs) == 1 else Tee(outs)

        def one(link: Link) -> Operator:
            if doors.get(id(link)):
                return doors[id(link)].pop(0)
            following = join(link.next)
            if link.step.kind == "union" and leading[id(link)] == 1:
                return following  # the other branches are in other stages
            sides = {tag_id: join(links) for tag_id, links in link.sides}
            operator = link.step.make()
            operator.out = Split(following, sides) if sides else following
            operator.sides = sides
            operator.is_shared = link.step.uid in self.shared
            made.append(operator)
            if isinstance(operator, UnionOperator):
                first, *doors[id(link)] = operator.doors(leading[id(link)])
                return first
            return operator

        if isinstance(self.input.origin, SourcesInput):
            return Heads([one(link) for link in self.chain]), made
        return join(self.chain), made


def _counted(chain: tuple[Link, ...]) -> Counter[int]:
    """How often each link follows another, or begins the chain, by its `id`."""
    counts = Counter(map(id, chain))
    for link in all_links(chain):
        counts.update(map(id, link.following()))
    return counts


@dataclass(frozen=True)
class CollectedResult:
    """Where `execute_and_collect` finds its results."""

    topic: str
    step: str


@dataclass(frozen=True)
class Plan:
    """A whole job, ready to run."""

    name: str
    application_id: str
    stages: tuple[Stage, ...]
    key_groups: int
    internal_topics: tuple[tuple[str, str, int | None], ...]
    """(name, "packed", "changelog" or "timers", partitions or None where they follow a stage's input)."""
    collected: tuple[CollectedResult, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Steps that were drawn and do not run, since they lead to no sink."""

    @property
    def bounded(self) -> bool:
        return all(stage.bounded for stage in self.stages)

    def group(self, stage: Stage) -> str:
        return f"{self.application_id}-{stage.uid}"

    def stage(self, uid: str) -> Stage:
        return next(stage for stage in self.stages if stage.uid == uid)

    def topic_inputs(self) -> list[Input]:
        """All that reads topics of the user's."""
        return [source for stage in self.stages for source in stage.input.sources()]

    def bootstrap_servers(self) -> set[str]:
        """What the job's sources name themselves."""
        named = [source.topics.bootstrap_servers for source in self.topic_inputs()]
        return {servers for servers in named if servers}

    def needs_kafka(self) -> bool:
        """Whether it reads or writes topics of the user's."""
        written = any(step.writes is not None for stage in self.stages for step in stage.steps())
        return written or bool(self.topic_inputs())

    def explain(self, form: str) -> str:
        """The plan as text, json, mermaid or dot."""
        from kstreampy.graph.explain import explain  # explain.py reads plans, and so imports this module

        return explain(self, form)

    def warnings(self) -> list[str]:
        """What is allowed but worth saying: stateful steps whose names may move when the job changes, side outputs of steps that
        send nothing to any, steps that do not run, and full windows that never end."""
        silent = [
            f"{step} leads to no sink, so it does not run: end its stream with sink_to(...), add_sink(...) or print()"
            for step in self.left_out
        ]
        silent += [
            f"{link.step.kind} {link.step.name!r} sends nothing to side outputs, so {tag_id!r} stays empty: call "
            "get_side_output on what process(...) returned"
            for stage in self.stages
            for link in all_links(stage.chain)
            for tag_id, _ in link.sides
            if link.step.kind in _WITHOUT_SIDE_OUTPUTS
        ]
        silent += [
            f"{step.kind} {step.name!r} gives its results when its input ends, and this input never does: it keeps everything, "
            "and nothing comes of it"
            for stage in self.stages
            for step in stage.steps()
            if step.kind in _UNTIL_THE_END and not stage.bounded
        ]
        return silent + [
            f"{step.kind} keeps state under the derived name {step.uid!r}: give it .uid(...) so that its state "
            "is found again when the job changes"
            for stage in self.stages
            for step in stage.steps()
            if step.stateful and not step.explicit_uid
        ]
