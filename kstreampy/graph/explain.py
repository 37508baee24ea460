"""A plan as a picture: text for a terminal, JSON for programs, Mermaid and DOT for drawings.

In here: what is shown is the same in all four: stages, their inputs, operators, and the topics between them with their
settings.
"""

from __future__ import annotations

import json
from typing import Any

from kstreampy.errors import JobError
from kstreampy.graph import topic as topics
from kstreampy.graph.plan import Link, Plan, Stage
from kstreampy.graph.source import ConnectorInput, Input, PackedInput, SourcesInput, TopicInput


def explain(plan: Plan, form: str) -> str:
    """`form` is text, json, mermaid or dot."""
    match form:
        case "text":
            return _text(plan)
        case "json":
            return json.dumps(as_data(plan), indent=2)
        case "mermaid":
            return _mermaid(plan)
        case "dot":
            return _dot(plan)
    raise JobError(f"a plan can be shown as text, json, mermaid or dot, not {form!r}")


def as_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON's types."""
    return {
        "job": plan.name,
        "application_id": plan.application_id,
        "key_groups": plan.key_groups,
        "bounded": plan.bounded,
        "stages": [_stage_data(plan, stage) for stage in plan.stages],
        "topics": [_topic_data(name, kind, count) for name, kind, count in plan.internal_topics],
        "acl_prefix": f"{plan.application_id}-",
        "warnings": plan.warnings(),
    }


def _stage_data(plan: Plan, stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.uid,
        "group": plan.group(stage),
        "input": _input_data(stage),
        "tasks": stage.partitions if stage.partitions is not None else "as many as the input has partitions",
        "bounded": stage.bounded,
        "stateful": stage.stateful,
        "changelog": topics.changelog(plan.application_id, stage.uid) if stage.stateful else None,
        "timers": topics.timers(plan.application_id, stage.uid) if stage.timers else None,
        "operators": _links_data(stage.chain, set()),
    }


def _input_data(stage: Stage) -> dict[str, Any]:
    origin = stage.input.origin
    if isinstance(origin, TopicInput):
        return _topics_data(stage.input)
    if isinstance(origin, SourcesInput):
        return {"kind": "side by side", "sources": [_topics_data(side) for side in origin.sides]}
    if isinstance(origin, PackedInput):
        topics_in = [side.topic for side in origin.sides()]
        fed_by = [sender for side in origin.sides() if side.feeds_back for sender in side.senders]
        data = {"kind": "stage", "topics": topics_in, "from_stages": list(origin.all_senders())}
        return {**data, "fed_back_by": fed_by} if fed_by else data
    assert isinstance(origin, ConnectorInput), "there are four kinds of input"
    return {"kind": "connector", "name": stage.input.name, "source": type(origin.source).__name__}


def _topics_data(source: Input) -> dict[str, Any]:
    origin = source.topics
    return {
        "kind": "topics",
        "name": source.name,
        "topics": _topics_read(origin),
        "from": origin.starting.kind.value,
        "to": None if origin.stopping is None else origin.stopping.kind.value,
    }


def _topics_read(origin: TopicInput) -> list[str]:
    if origin.partitions is not None:
        return [f"{tp.topic}-{tp.partition}" for tp in sorted(origin.partitions)]
    return list(origin.topics) or [f"/{origin.pattern}/"]


def _links_data(links: tuple[Link, ...], seen: set[int]) -> list[dict[str, Any]]:
    return [_link_data(link, seen) for link in links]


def _link_data(link: Link, seen: set[int]) -> dict[str, Any]:
    """`seen`: links that were shown, by `id`; where another branch leads to one of them, what follows is not shown again."""
    step = link.step
    data: dict[str, Any] = {"uid": step.uid, "name": step.name, "kind": step.kind}
    if step.detail:
        data["detail"] = step.detail
    if step.topic or step.writes:
        data["topic"] = step.topic or step.writes
    if step.stateful:
        data["stateful"] = True
    if id(link) in seen:
        return {**data, "shown_above": True}
    seen.add(id(link))
    if link.next:
        data["next"] = _links_data(link.next, seen)
    if link.sides:
        data["sides"] = {tag_id: _links_data(links, seen) for tag_id, links in link.sides}
    return data


def _topic_data(name: str, kind: str, count: int | None) -> dict[str, Any]:
    spec = topics.spec(name, kind, 1)
    return {
        "name": name,
        "purpose": next(part for part in name.split("-")[::-1] if part in topics.PURPOSES),
        "partitions": count if count is not None else "as its stage's input",
        "replication": "broker default",
        "config": dict(spec.config),
    }


def _text(plan: Plan) -> str:
    data = as_data(plan)
    ends = "ends by itself" if plan.bounded else "runs until it is stopped"
    count = f"{len(plan.stages)} stage{'' if len(plan.stages) == 1 else 's'}"
    lines = [f"Job {plan.name!r}, application {plan.application_id!r}: {count}, {ends}", ""]
    for number, stage in enumerate(data["stages"], 1):
        kept = f", state in {stage['changelog']}" if stage["stateful"] else ""
        kept += f", timers in {stage['timers']}" if stage["timers"] else ""
        lines.append(f"Stage {number}: {stage['name']}  (group {stage['group']}, tasks: {stage['tasks']}{kept})")
        lines += [f"  ◄── {_reads(source)}" for source in stage["input"].get("sources", [stage["input"]])]
        for index, link in enumerate(stage["operators"]):
            lines += _branch(link, "  ", last=index == len(stage["operators"]) - 1)
        lines.append("")
    lines.append("Topics of the job's own (replication: the broker's default)")
    for entry in data["topics"]:
        settings = " ".join(f"{key}={value}" for key, value in entry["config"].items())
        lines.append(f"  {entry['name']}  partitions: {entry['partitions']}  {settings}")
    lines.append("")
    lines.append(
        "ACLs: Read, Write, Create, Describe, DescribeConfigs and Delete on topics, Read and Delete on groups,"
    )
    lines.append(f"      with prefix {data['acl_prefix']!r};")
    lines.append(f"      Write on transactional ids with prefix {data['acl_prefix']!r}")
    lines += [f"Warning: {warning}" for warning in data["warnings"]]
    return "\n".join(lines) + "\n"


def _reads(source: dict[str, Any]) -> str:
    if source["kind"] == "topics":
        until = f" to {source['to']}" if source["to"] else ""
        return f"{source['name']}: topics {', '.join(source['topics'])} (from {source['from']}{until})"
    if source["kind"] == "stage":
        fed_by = f", fed back by stage {', '.join(source['fed_back_by'])}" if source.get("fed_back_by") else ""
        return f"{', '.join(source['topics'])} (from stage {', '.join(source['from_stages'])}{fed_by})"
    return f"{source['name']}: {source['source']}"


def _branch(link: dict[str, Any], indent: str, *, last: bool) -> list[str]:
    state = " [state]" if link.get("stateful") else ""
    detail = f"  {link['detail']}" if link.get("detail") else ""
    detail += "  (see above)" if link.get("shown_above") else ""
    head = f"{indent}{'└' if last else '├'}─ {link['kind']} {link['name']}{state}{detail}"
    lines = [head]
    following = list(link.get("next", []))
    for tag_id, branch in link.get("sides", {}).items():
        following.append({"kind": "side output", "name": repr(tag_id), "next": branch})
    for index, child in enumerate(following):
        lines += _branch(child, indent + ("   " if last else "│  "), last=index == len(following) - 1)
    return lines


def _edges(
    plan: Plan,
) -> tuple[list[tuple[str, str, list[tuple[str, str]]]], list[tuple[str, str, str | None]], dict[str, str]]:
    """Clusters (stage id, title, steps), edges (from, to, id of the side output if it is one) and topic nodes, with ids fit
    for Mermaid and DOT."""
    clusters: list[tuple[str, str, list[tuple[str, str]]]] = []
    edges: list[tuple[str, str, str | None]] = []
    outside: dict[str, str] = {}
    ids: dict[str, str] = {}

    def outer(label: str) -> str:
        name = ids.setdefault(label, f"t{len(ids)}")
        outside[name] = label
        return name

    for number, stage in enumerate(plan.stages):
        steps: list[tuple[str, str]] = []
        shown: dict[int, str] = {}
        origin = stage.input.origin
        heads: tuple[tuple[Link, ...], ...] = (stage.chain,)
        if stage.input.sources():
            sources = [[outer(name) for name in _topics_read(one.topics)] for one in stage.input.sources()]
            heads = tuple((link,) for link in stage.chain) if len(sources) > 1 else heads
        elif isinstance(origin, PackedInput):
            sources = [[outer(side.topic) for side in origin.sides()]]
        else:
            assert isinstance(origin, ConnectorInput), "there are four kinds of input"
            sources = [[outer(f"{type(origin.source).__name__} {stage.input.name}")]]

        def walk(
            links: tuple[Link, ...],
            before: list[str],
            side: str | None = None,
            number: int = number,
            steps: list[tuple[str, str]] = steps,
            shown: dict[int, str] = shown,
        ) -> None:
            for link in links:
                if id(link) in shown:  # a union: another branch that leads there
                    edges.extend((source, shown[id(link)], side) for source in before)
                    continue
                name = shown[id(link)] = f"s{number}_{len(steps)}"
                label = f"{link.step.kind}: {link.step.name.split(' → ')[0]}" + (
                    " (state)" if link.step.stateful else ""
                )
                steps.append((name, label))
                edges.extend((source, name, side) for source in before)
                target = link.step.topic or link.step.writes
                if target:
                    edges.append((name, outer(target), None))
                walk(link.next, [name])
                for tag_id, following in link.sides:
                    walk(following, [name], tag_id)

        for links, before in zip(heads, sources, strict=True):
            walk(links, before)
        clusters.append((f"stage{number}", f"stage {stage.uid}", steps))
    return clusters, edges, outside


def _mermaid(plan: Plan) -> str:
    clusters, edges, outside = _edges(plan)
    lines = ["flowchart LR"]
    lines += [f'  {name}[("{_mermaid_text(label)}")]' for name, label in outside.items()]
    for name, title, steps in clusters:
        lines.append(f'  subgraph {name}["{_mermaid_text(title)}"]')
        lines += [f'    {step}["{_mermaid_text(label)}"]' for step, label in steps]
        lines.append("  end")
    for source, target, side in edges:
        arrow = "-->" if side is None else f'-.->|"{_mermaid_text(side)}"|'
        lines.append(f"  {source} {arrow} {target}")
    return "\n".join(lines) + "\n"


def _dot(plan: Plan) -> str:
    clusters, edges, outside = _edges(plan)
    lines = [f'digraph "{_dot_text(plan.name)}" {{', "  rankdir=LR;", "  node [shape=box];"]
    lines += [f'  {name} [label="{_dot_text(label)}", shape=cylinder];' for name, label in outside.items()]
    for name, title, steps in clusters:
        lines.append(f'  subgraph cluster_{name} {{ label="{_dot_text(title)}";')
        lines += [f'    {step} [label="{_dot_text(label)}"];' for step, label in steps]
        lines.append("  }")
    for source, target, side in edges:
        style = "" if side is None else f' [label="{_dot_text(side)}", style=dashed]'
        lines.append(f"  {source} -> {target}{style};")
    return "\n".join([*lines, "}"]) + "\n"


_MERMAID_ENTITIES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "\n": " "})
_DOT_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": " "})


def _mermaid_text(text: str) -> str:
    return text.translate(_MERMAID_ENTITIES)


def _dot_text(text: str) -> str:
    return text.translate(_DOT_ESCAPES)
