"""A plan as text, JSON, Mermaid and DOT."""

import json
import re

import pytest

from kstreampy.common import SimpleStringSchema, Types, WatermarkStrategy
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from kstreampy.errors import JobError
from tests.unit.graph.drawing import compiled, environment, from_topic, to_topic


def parse(line):
    user, price = line.split(",")
    return user, int(price)


def user_of(order):
    return order[0]


def drawn():
    env = environment()
    orders = from_topic(env).uid("in").map(parse, Types.TUPLE([Types.STRING(), Types.LONG()])).name('parse "it"')
    totals = orders.key_by(user_of).sum(1).uid("total").set_description("what each <user> spent")
    totals.print("totals").name("show")
    totals.map(str).sink_to(to_topic())
    env.from_collection([1], Types.LONG()).name("numbers").print()
    return compiled(env, name='the "job"')


GOLDEN = """\
Job 'the "job"', application 'app': 4 stages, runs until it is stopped

Stage 1: in  (group app-in, tasks: as many as the input has partitions)
  ◄── Orders: topics orders (from earliest)
  └─ map parse "it"  parse (FILE)
     └─ type parse "it" as TupleTypeInfo(String, Long)
        └─ route key_by-1 → app-total-repartition  user_of (FILE)

Stage 2: total  (group app-total, tasks: 12, state in app-total-changelog)
  ◄── app-total-repartition (from stage in)
  └─ sum total [state]  what each <user> spent
     ├─ print show
     └─ map map-2  str
        └─ sink sink-1  topic totals

Stage 3: collection-1  (group app-collection-1, tasks: 1, state in app-collection-1-changelog)
  ◄── numbers: CollectionSource
  └─ typed typed-1  Long
     └─ route numbers → app-collection-1-source

Stage 4: collection-1-out  (group app-collection-1-out, tasks: 1)
  ◄── app-collection-1-source (from stage collection-1)
  └─ print print-2

Topics of the job's own (replication: the broker's default)
  app-total-repartition  partitions: 12  PACKED
  app-collection-1-source  partitions: 1  PACKED
  app-total-changelog  partitions: 12  COMPACT
  app-collection-1-changelog  partitions: 1  COMPACT

ACLs: Read, Write, Create, Describe, DescribeConfigs and Delete on topics, Read and Delete on groups,
      with prefix 'app-';
      Write on transactional ids with prefix 'app-'
"""


def test_golden_text():
    text = drawn().explain("text")
    text = re.sub(r"\(\S+test_explain\.py:\d+\)", "(FILE)", text)
    text = re.sub(r"cleanup\.policy=delete .*", "PACKED", text)
    text = re.sub(r"cleanup\.policy=compact .*", "COMPACT", text)
    assert text == GOLDEN


def test_text_tells_warnings():
    env = environment()
    from_topic(env).key_by(user_of).max(1).print()
    assert "Warning: max keeps state under the derived name 'max-1'" in compiled(env).explain("text")


def test_json_has_stages_topics_and_what_to_grant():
    data = json.loads(drawn().explain("json"))
    assert data["job"] == 'the "job"'
    assert (data["application_id"], data["key_groups"], data["bounded"], data["warnings"]) == ("app", 12, False, [])
    assert data["acl_prefix"] == "app-"
    names = {"in": None, "total": "app-total-changelog", "collection-1": "app-collection-1-changelog"}
    for stage in data["stages"][:3]:
        assert stage["changelog"] == names[stage["name"]]
        assert stage["group"] == f"app-{stage['name']}"
    assert [stage["bounded"] for stage in data["stages"]] == [False, False, True, True]
    assert data["stages"][0]["input"] == {
        "kind": "topics",
        "name": "Orders",
        "topics": ["orders"],
        "from": "earliest",
        "to": None,
    }
    assert data["stages"][1]["input"] == {
        "kind": "stage",
        "topics": ["app-total-repartition"],
        "from_stages": ["in"],
    }
    (total,) = data["stages"][1]["operators"]
    assert (total["uid"], total["kind"], total["stateful"]) == ("total", "sum", True)
    assert [branch["kind"] for branch in total["next"]] == ["print", "map"]
    assert total["next"][1]["next"][0]["topic"] == "totals"
    changelog = next(entry for entry in data["topics"] if entry["name"] == "app-total-changelog")
    assert changelog["purpose"] == "changelog"
    assert changelog["partitions"] == 12
    assert changelog["config"]["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("choose", "shown"),
    [
        (lambda b: b.set_topics("b", "a"), ["b", "a"]),
        (lambda b: b.set_topic_pattern("x.*"), ["/x.*/"]),
        (
            lambda b: b.set_partitions([KafkaTopicPartition("t", 10), KafkaTopicPartition("t", 9)]),
            ["t-9", "t-10"],
        ),
    ],
)
def test_what_a_source_reads_is_shown(choose, shown):
    builder = choose(KafkaSource.builder()).set_value_only_deserializer(SimpleStringSchema())
    builder.set_starting_offsets(KafkaOffsetsInitializer.latest()).set_bounded(KafkaOffsetsInitializer.timestamp(5))
    env = environment()
    env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), "In").print()
    plan = compiled(env)
    data = json.loads(plan.explain("json"))["stages"][0]["input"]
    assert (data["topics"], data["from"], data["to"]) == (shown, "latest", "timestamp")
    assert f"In: topics {', '.join(shown)} (from latest to timestamp)" in plan.explain("text")
    for form in ("mermaid", "dot"):
        assert all(name in plan.explain(form) for name in shown)


NODE = re.compile(r'  (\w+)\[\("([^"]*)"\)\]')
STEP = re.compile(r'    (\w+)\["([^"]*)"\]')
EDGE = re.compile(r"  (\w+) --> (\w+)")


def test_mermaid_is_well_formed():
    """Every line is one of the few forms; every edge joins two declared nodes; labels hold nothing that ends them."""
    lines = drawn().explain("mermaid").splitlines()
    assert lines[0] == "flowchart LR"
    nodes, edges, depth = {}, [], 0
    for line in lines[1:]:
        if found := NODE.fullmatch(line):
            assert depth == 0
            nodes[found[1]] = found[2]
        elif found := STEP.fullmatch(line):
            assert depth == 1
            nodes[found[1]] = found[2]
        elif re.fullmatch(r'  subgraph \w+\["[^"]*"\]', line):
            depth += 1
        elif line == "  end":
            depth -= 1
        else:
            edge = EDGE.fullmatch(line)
            assert edge, line
            edges.append((edge[1], edge[2]))
    assert depth == 0
    assert {name for edge in edges for name in edge} == set(nodes)
    labelled = {(nodes[a], nodes[b]) for a, b in edges}
    assert ("orders", "map: parse #quot;it#quot;") in labelled
    assert ("route: key_by-1", "app-total-repartition") in labelled
    assert ("app-total-repartition", "sum: total (state)") in labelled
    assert ("sink: sink-1", "totals") in labelled


def dot_tokens(text):
    """DOT's lexical grammar: identifiers, quoted strings, edges and punctuation, and nothing else."""
    token = re.compile(r'\s*(?:(->)|([A-Za-z_]\w*)|"((?:[^"\\]|\\.)*)"|([{}\[\];=,]))')
    at, found = 0, []
    while text[at:].strip():
        match = token.match(text, at)
        assert match, text[at : at + 60]
        found.append(next(group for group in match.groups() if group is not None))
        at = match.end()
    return found


def test_dot_is_well_formed():
    text = drawn().explain("dot")
    tokens = dot_tokens(text)
    assert tokens[:2] == ["digraph", 'the \\"job\\"']
    assert tokens.count("{") == tokens.count("}") == 5
    declared = set(re.findall(r"^\s+(\w+) \[label=", text, re.M))
    edges = re.findall(r"^  (\w+) -> (\w+);$", text, re.M)
    assert {name for edge in edges for name in edge} == declared
    assert text.count("->") == len(edges)
    assert r'[label="map: parse \"it\""]' in text


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a#b;", "<lambda>", "a]b", "x → y"])
def test_no_name_breaks_a_drawing(name):
    env = environment()
    from_topic(env).map(str).name(name).print()
    plan = compiled(env)
    dot_tokens(plan.explain("dot"))
    steps = [line for line in plan.explain("mermaid").splitlines() if line.startswith("    ")]
    assert len(steps) == 2
    assert all(STEP.fullmatch(line) for line in steps)
    assert json.loads(plan.explain("json"))["stages"][0]["operators"][0]["name"] == name


def test_there_are_four_forms():
    with pytest.raises(JobError, match="text, json, mermaid or dot, not 'png'"):
        drawn().explain("png")
