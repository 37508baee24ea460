"""A job as frozen data: stages, each a tree of steps between an input and topics. Made by `compile.py`, run by `runtime/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kstreampy.graph.source import Input, TopicInput
from kstreampy.operators.operator import End, Operator, Tee


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


@dataclass(frozen=True)
class Link:
    """A step and what follows it."""

    step: Step
    next: tuple[Link, ...] = ()

    def steps(self) -> Iterator[Step]:
        yield self.step
        for link in self.next:
            yield from link.steps()


@dataclass(frozen=True)
class Stage:
    """The steps between topics: one consumer group; on one partition, a task."""

    uid: str
    input: Input
    chain: tuple[Link, ...]
    stateful: bool
    bounded: bool
    partitions: int | None
    """Its tasks: key groups, or for user topics None: as many as their partitions."""

    def steps(self) -> list[Step]:
        return [step for link in self.chain for step in link.steps()]

    def topics_out(self) -> list[str]:
        """The internal topics it writes to."""
        return list(dict.fromkeys(step.topic for step in self.steps() if step.topic is not None))

    def make_chain(self) -> tuple[Operator, list[Operator]]:
        """A task's own operators: the first of the chain, and all of them from last to first."""
        made: list[Operator] = []

        def join(links: tuple[Link, ...]) -> Operator:
            outs = [one(link) for link in links]
            if not outs:
                return End()
            return outs[0] if len(outs) == 1 else Tee(outs)

        def one(link: Link) -> Operator:
            following = join(link.next)
            operator = link.step.make()
            operator.out = following
            made.append(operator)
            return operator

        return join(self.chain), made


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
    """(name, "packed" or "changelog", partitions or None where they follow a stage's input)."""
    collected: tuple[CollectedResult, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def bounded(self) -> bool:
        return all(stage.bounded for stage in self.stages)

    def group(self, stage: Stage) -> str:
        return f"{self.application_id}-{stage.uid}"

    def stage(self, uid: str) -> Stage:
        return next(stage for stage in self.stages if stage.uid == uid)

    def topic_inputs(self) -> list[tuple[Stage, TopicInput]]:
        return [(stage, stage.input.origin) for stage in self.stages if isinstance(stage.input.origin, TopicInput)]

    def bootstrap_servers(self) -> set[str]:
        """What the job's sources name themselves."""
        return {origin.bootstrap_servers for _, origin in self.topic_inputs() if origin.bootstrap_servers}

    def needs_kafka(self) -> bool:
        """Whether it reads or writes topics of the user's."""
        written = any(step.writes is not None for stage in self.stages for step in stage.steps())
        return written or bool(self.topic_inputs())

    def explain(self, form: str) -> str:
        """The plan as text, json, mermaid or dot."""
        from kstreampy.graph.explain import explain  # explain.py reads plans, and so imports this module

        return explain(self, form)

    def warnings(self) -> list[str]:
        """What is allowed but worth saying: stateful steps whose names may move when the job changes."""
        return [
            f"{step.kind} keeps state under the derived name {step.uid!r}: give it .uid(...) so that its state "
            "is found again when the job changes"
            for stage in self.stages
            for step in stage.steps()
            if step.stateful and not step.explicit_uid
        ]
