"""The plan laid over a real cluster: which topics and partitions each stage reads, and which task each one belongs to.

In here: describing, creating and checking the job's own topics at the start of a worker, in Kafka's terms. They are described
first and created only when missing; a wrong partition count or cleanup policy is refused with what to do. Not in here: the
user's topics (`user_topics.py`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kstreampy.broker.broker import Broker, Message, TopicInfo, TopicPartition, TopicSpec
from kstreampy.errors import BrokerRefused, JobError, StateCorrupted
from kstreampy.graph import topic as topics
from kstreampy.graph.plan import Plan, Stage
from kstreampy.graph.source import ConnectorInput, PackedInput, sender_name
from kstreampy.runtime.user_topics import check_sinks, reads_side_by_side, user_topics
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import TaskMeta

_log = logging.getLogger(__name__)

_CONTENT = {"changelog": "state", "timers": "timers", "packed": "records"}
_OWNER_LOOK_BACK = 200
_OWNER_PATIENCE_S = 10.0


@dataclass(frozen=True)
class StageLayout:
    """One stage over real topics. Task numbers count its key groups; `inputs[n]` is what task n reads."""

    stage: Stage
    group: str
    topics: tuple[str, ...]
    inputs: tuple[tuple[TopicPartition, ...], ...]
    changelog: TopicInfo | None
    upstream: tuple[str, ...] = ()
    """Names of the tasks that send to it, `stage/task`."""
    delete_retention_ms: int | None = None
    """The shorter one of changelog and timers topic."""
    timers: TopicInfo | None = None

    @property
    def tasks(self) -> int:
        return len(self.inputs)

    def task_of(self, partition: TopicPartition) -> int | None:
        return next((number for number, inputs in enumerate(self.inputs) if partition in inputs), None)


@dataclass(frozen=True)
class Layout:
    """All stages over real topics. Made once per start; lives as long as the worker."""

    plan: Plan
    stages: tuple[StageLayout, ...]
    partition_counts: Mapping[str, int]

    def stage(self, uid: str) -> StageLayout:
        return next(layout for layout in self.stages if layout.stage.uid == uid)


def lay_out(plan: Plan, broker: Broker) -> Layout:
    """Resolves user topics, creates the job's own, checks them. Raises `JobError` for what does not fit."""
    read = {stage.uid: user_topics(stage, broker) for stage in plan.stages if stage.input.sources()}
    check_sinks(plan, broker)
    counts = {name: _count(name, kind, partitions, plan, read) for name, kind, partitions in plan.internal_topics}
    counts.update(_counts_of_sources(plan, broker))
    infos = _ensure(plan, broker, counts)
    _refuse_orphans(plan, broker)
    layouts = {stage.uid: _stage_layout(plan, stage, infos, read, broker) for stage in plan.stages}
    tasks = {uid: layout.tasks for uid, layout in layouts.items()}
    linked = tuple(replace(layout, upstream=_upstream(layout.stage, tasks)) for layout in layouts.values())
    return Layout(plan, linked, counts)


def _upstream(stage: Stage, tasks: Mapping[str, int]) -> tuple[str, ...]:
    origin = stage.input.origin
    if not isinstance(origin, PackedInput):
        return ()
    return tuple(
        sender_name(number, sender, task)
        for number, side in enumerate(origin.sides())
        for sender in side.senders
        for task in range(tasks[sender])
    )


def _stage_layout(
    plan: Plan,
    stage: Stage,
    infos: Mapping[str, TopicInfo],
    read: Mapping[str, dict[str, TopicInfo]],
    broker: Broker,
) -> StageLayout:
    origin = stage.input.origin
    name = topics.changelog(plan.application_id, stage.uid)
    changelog = infos[name] if stage.stateful else None
    if stage.input.sources():
        found = read[stage.uid]
        names = tuple(sorted(found))
        if reads_side_by_side(stage) or len(names) == 1:
            inputs = tuple(
                tuple(TopicPartition(name, number) for name in names) for number in range(found[names[0]].partitions)
            )
        else:
            inputs = tuple((TopicPartition(n, number),) for n in names for number in range(found[n].partitions))
    elif isinstance(origin, PackedInput):
        names = tuple(side.topic for side in origin.sides())
        groups = range(infos[origin.topic].partitions)
        inputs = tuple(tuple(TopicPartition(name, number) for name in names) for number in groups)
    else:
        assert isinstance(origin, ConnectorInput), "there are four kinds of input"
        assert changelog is not None, "a connector's stage keeps its positions"
        names = (changelog.name,)
        inputs = tuple((TopicPartition(changelog.name, number),) for number in range(changelog.partitions))
    timers = infos[topics.timers(plan.application_id, stage.uid)] if stage.timers else None
    kept = [info.name for info in (changelog, timers) if info is not None]
    retention_ms = _delete_retention_ms(kept, broker)
    return StageLayout(stage, plan.group(stage), names, inputs, changelog, (), retention_ms, timers)


def _delete_retention_ms(names: list[str], broker: Broker) -> int | None:
    """The shortest of these topics'; None when no topic has one."""
    configs = broker.topic_configs(names) if names else {}
    return min((int(found) for c in configs.values() if (found := c.get("delete.retention.ms"))), default=None)


def _count(name: str, kind: str, partitions: int | None, plan: Plan, read: Mapping[str, dict[str, TopicInfo]]) -> int:
    if partitions is not None:
        return partitions
    for uid, found in read.items():
        if name in _kept(plan, uid):
            return max(info.partitions for info in found.values())
    raise AssertionError(f"{kind} topic {name} follows no input")


def _kept(plan: Plan, uid: str) -> list[str]:
    """The topics that a stage restores itself from, if it has them: its key groups are theirs."""
    return [topics.changelog(plan.application_id, uid), topics.timers(plan.application_id, uid)]


def _counts_of_sources(plan: Plan, broker: Broker) -> dict[str, int]:
    """A source that is not Kafka may have other splits at the next start (a file more): its stages keep the partitions
    that their topics were first made with."""
    counts: dict[str, int] = {}
    names = {name for name, _, _ in plan.internal_topics}
    for stage in plan.stages:
        if not isinstance(stage.input.origin, ConnectorInput):
            continue
        (through,) = stage.topics_out()
        readers = [other.uid for other in plan.stages if _reads(other, through)]
        own = [through, *(name for uid in [stage.uid, *readers] for name in _kept(plan, uid))]
        there = broker.topics(name for name in own if name in names)
        if there:
            counts.update(
                dict.fromkeys([name for name in own if name in names], min(i.partitions for i in there.values()))
            )
    return counts


def _reads(stage: Stage, topic: str) -> bool:
    origin = stage.input.origin
    return isinstance(origin, PackedInput) and any(side.topic == topic for side in origin.sides())


def _ensure(plan: Plan, broker: Broker, counts: Mapping[str, int]) -> dict[str, TopicInfo]:
    """Describes the job's own topics, creates what is missing, refuses what does not fit."""
    kinds = {name: kind for name, kind, _ in plan.internal_topics}
    there = broker.topics(counts)
    missing = [name for name in counts if name not in there]
    if missing:
        _create(plan, broker, [topics.spec(name, kinds[name], counts[name]) for name in missing])
        there = broker.topics(counts)
    configs = broker.topic_configs(counts)
    for name, partitions in counts.items():
        info = there.get(name)
        if info is None:
            raise JobError(f"internal topic {name!r} was created but cannot be found: is somebody deleting topics?")
        if info.partitions != partitions:
            raise JobError(
                f"internal topic {name!r} has {info.partitions} partitions, but the job needs {partitions}: its key groups "
                "are fixed when the topic is first made. Set max_parallelism (or the input topic) back to what it was, or "
                "start anew under another application id"
            )
        _check_replicas(info, configs.get(name, {}))
        policy = configs.get(name, {}).get("cleanup.policy")
        wanted = "delete" if kinds[name] == "packed" else "compact"
        if policy is not None and policy != wanted:
            raise JobError(
                f"internal topic {name!r} has cleanup.policy={policy}, which would lose "
                f"{_CONTENT[kinds[name]]}: set it to {wanted}"
            )
        retention_ms = configs.get(name, {}).get("retention.ms", "-1")
        if wanted == "delete" and retention_ms != "-1":
            _log.warning(
                "internal topic %s has retention.ms=%s: what is not read for so long is lost (the job deletes what it has "
                "read; -1 keeps the rest)",
                name, retention_ms,
            )  # fmt: skip
    _warn_of_single_replicas(there.values(), broker)
    return there


def _warn_of_single_replicas(infos: Iterable[TopicInfo], broker: Broker) -> None:
    """Kafka's own default is one replica, on any number of brokers. A cluster of one broker is for development."""
    single = sorted(info.name for info in infos if info.replication == 1)
    if single and broker.size() > 1:
        _log.warning(
            "internal topics %s have one replica: they are lost, and the job's state with them, when one broker's disk is. "
            "Add replicas, and set the brokers' default.replication.factor",
            ", ".join(single),
        )


def _check_replicas(info: TopicInfo, config: Mapping[str, str]) -> None:
    """Refuses what would refuse every write."""
    least = int(config.get("min.insync.replicas", 1))
    if info.replication < least:
        raise JobError(
            f"internal topic {info.name!r} has {info.replication} replicas, and its min.insync.replicas is {least}: nothing "
            "could be written to it. Add replicas, or delete the topic and set the brokers' default.replication.factor"
        )


def _create(plan: Plan, broker: Broker, specs: list[TopicSpec]) -> None:
    try:
        broker.create_topics(specs)
    except BrokerRefused as error:
        listed = ", ".join(f"{spec.name} ({spec.partitions} partitions)" for spec in specs)
        raise BrokerRefused(
            f"the job's own topics cannot be created: {listed}: {error}. Allow Create on topics with prefix "
            f"'{plan.application_id}-', or make them beforehand as `kstreampy plan` shows them"
        ) from error


def _refuse_orphans(plan: Plan, broker: Broker) -> None:
    """State that no stage of this plan owns: a renamed uid would silently begin with empty state."""
    pattern = re.escape(f"{plan.application_id}-") + ".*-changelog"
    known = {name for name, kind, _ in plan.internal_topics if kind == "changelog"}
    others = {name: info for name, info in broker.topics_matching(pattern).items() if name not in known}
    orphans = sorted(name for name, info in others.items() if _owner(info, broker) == plan.application_id)
    if orphans:
        raise JobError(
            f"state of application {plan.application_id!r} that no operator of this job owns: {', '.join(orphans)}. "
            "A uid was changed, or an operator was removed. Give the operator its old uid back; or, if that state is not "
            "needed any more, delete these topics; or use another application id"
        )


def _owner(info: TopicInfo, broker: Broker) -> str | None:
    """The application that wrote a changelog, as its meta records tell; None if there is none."""
    partitions = [TopicPartition(info.name, number) for number in range(info.partitions)]
    begins, ends = broker.begin_offsets(partitions), broker.end_offsets(partitions)
    look_back = _OWNER_LOOK_BACK
    deadline = time.monotonic() + _OWNER_PATIENCE_S
    while time.monotonic() < deadline:
        starts = {tp: max(begins[tp], ends[tp] - look_back) for tp in partitions if ends[tp] > begins[tp]}
        owner = _owner_from(starts, ends, broker, deadline)
        if owner is not None or all(start == begins[tp] for tp, start in starts.items()):
            return owner
        look_back *= 10
    return None


def _owner_from(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], broker: Broker, deadline: float
) -> str | None:
    if not starts:
        return None
    reader = broker.reader()
    try:
        reader.assign(starts)
        while time.monotonic() < deadline:
            for chunk in reader.poll(500, 0.1):
                for message in chunk.messages:
                    owner = _named_in(message)
                    if owner is not None:
                        return owner
            if all(position >= ends[tp] for tp, position in reader.positions().items()):
                return None
    finally:
        reader.close()
    return None


def _named_in(message: Message) -> str | None:
    """The application that a meta record names; None for other records, and what we cannot read is not ours."""
    if message.key() != META_KEY:
        return None
    try:
        return TaskMeta.decode(message.value() or b"").application_id
    except (StateCorrupted, JobError):
        return None
