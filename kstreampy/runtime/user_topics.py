"""The user's topics that a job reads and writes: they must be there, and fit together. They are never created here."""

from __future__ import annotations

from kstreampy.broker.broker import Broker, TopicInfo
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan, Stage
from kstreampy.graph.source import Input, SourcesInput


def reads_side_by_side(stage: Stage) -> bool:
    """Whether a task reads the same partition of every topic."""
    return stage.stateful or isinstance(stage.input.origin, SourcesInput)


def user_topics(stage: Stage, broker: Broker) -> dict[str, TopicInfo]:
    """The user's topics that a stage reads. They are never created here."""
    found: dict[str, TopicInfo] = {}
    for source in stage.input.sources():
        found.update(_topics_of(source, broker))
    if reads_side_by_side(stage) and len({info.partitions for info in found.values()}) > 1:
        listed = ", ".join(f"{info.name}: {info.partitions}" for info in found.values())
        what = "keeps state by the partitions" if stage.stateful else "reads the same partitions"
        raise JobError(
            f"stage {stage.uid!r} {what} of its input topics, which must be equally many ({listed}): "
            "use key_by instead of reinterpret_as_keyed_stream, or topics with equal partition counts"
        )
    return found


def _topics_of(source: Input, broker: Broker) -> dict[str, TopicInfo]:
    origin = source.topics
    if origin.pattern is not None:
        found = broker.topics_matching(origin.pattern)
        if not found:
            raise JobError(
                f"source {source.name!r}: no topic matches {origin.pattern!r}: create one before starting the job"
            )
    else:
        wanted = origin.topics or tuple(sorted({tp.topic for tp in origin.partitions or ()}))
        found = broker.topics(wanted)
        missing = [name for name in wanted if name not in found]
        if missing:
            raise JobError(
                f"source {source.name!r}: topic {', '.join(repr(name) for name in missing)} does not exist: "
                "create it before starting the job, or check the name and the cluster (bootstrap servers)"
            )
    for tp in origin.partitions or ():
        if tp.partition >= found[tp.topic].partitions:
            raise JobError(
                f"source {source.name!r}: partition {tp.partition} of {tp.topic!r} does not exist: "
                f"the topic has {found[tp.topic].partitions}"
            )
    return found


def check_sinks(plan: Plan, broker: Broker) -> None:
    """Topics that sinks write to must exist, as far as they are known beforehand."""
    written = {step.writes: step.name for stage in plan.stages for step in stage.steps() if step.writes is not None}
    there = broker.topics(written)
    for name, step in written.items():
        if name not in there:
            raise JobError(
                f"sink {step!r}: topic {name!r} does not exist: create it before starting the job, or check the name and the "
                "cluster (bootstrap servers)"
            )
