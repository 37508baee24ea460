"""Steps with two inputs that read two topics as they are: what their stage looks like, and in which cases they do not."""

import json
import re

import pytest

from kstreampy.common import Duration, SimpleStringSchema, Types, WatermarkStrategy
from kstreampy.datastream import (
    CoMapFunction,
    CoProcessFunction,
    DataStreamUtils,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
)
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaTopicPartition
from kstreampy.datastream.output_tag import OutputTag
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.errors import JobError
from kstreampy.graph.plan import all_links
from kstreampy.graph.source import PackedInput, SourcesInput
from kstreampy.operators.operator import Heads
from kstreampy.operators.route import KeyRouteOperator
from tests.unit.graph.drawing import by, compiled, environment, from_topic, shape, to_topic, uids

NO_TIME = WatermarkStrategy.no_watermarks()
ASCENDING = WatermarkStrategy.for_monotonous_timestamps()
ALIGNED = ASCENDING.with_watermark_alignment("group", Duration.of_seconds(1))
RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
LATE = OutputTag("late", Types.STRING())


class Both(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


class RichBoth(Both):
    def open(self, runtime_context):
        pass


class Meet(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        return None

    def process_element2(self, value, ctx):
        return None


class TimedMeet(Meet):
    def on_timer(self, timestamp, ctx):
        return None


class Ruled(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        return None

    def process_broadcast_element(self, value, ctx):
        return None


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        return None


class Pass(ProcessFunction):
    def process_element(self, value, ctx):
        return None


def in_place(stream):
    return DataStreamUtils.reinterpret_as_keyed_stream(stream, by)


def joined(left, right):
    return left.interval_join(right).between(0, 1).process(Pair()).uid("pairs")


def drawn(*, left=lambda stream: stream, right=lambda stream: stream):
    """An interval join of the topics orders and payments, both keyed in place behind these steps."""
    env = environment()
    orders, payments = from_topic(env), from_topic(env, "payments")
    joined(in_place(left(orders)), in_place(right(payments))).print()
    return compiled(env)


def read_side_by_side(plan):
    """The names of the topics of each side of the stage of the pairs."""
    origin = plan.stage("pairs").input.origin
    assert isinstance(origin, SourcesInput)
    return [list(side.topics.topics) for side in origin.sides]


# What the stage looks like


def test_an_interval_join_is_one_stage_on_both_topics():
    plan = drawn()
    assert shape(plan) == {
        "pairs": [
            ["source", ["reinterpret", ["inputs", ["interval_join", "print"]]]],
            ["source", ["reinterpret", ["inputs", ["interval_join", "print"]]]],
        ]
    }
    (stage,) = plan.stages
    assert read_side_by_side(plan) == [["orders"], ["payments"]]
    assert [side.name for side in stage.input.origin.sides] == ["Orders", "Payments"]
    assert [side.strategy for side in stage.input.origin.sides] == [NO_TIME, NO_TIME]
    assert (stage.input.name, stage.partitions, stage.stateful, stage.timers) == ("pairs", None, True, False)
    assert plan.group(stage) == "app-pairs"
    assert plan.internal_topics == (("app-pairs-changelog", "changelog", None),)
    assert stage.topics_out() == []
    assert plan.needs_kafka()
    assert [source.name for source in plan.topic_inputs()] == ["Orders", "Payments"]


def test_the_step_is_there_once_with_a_uid_for_where_both_meet():
    plan = drawn()
    assert uids(plan) == ["source-1", "reinterpret-1", "pairs~inputs", "pairs", "print-1", "source-2", "reinterpret-2"]
    chain, operators = plan.stages[0].make_chain()
    assert isinstance(chain, Heads)
    assert [type(operator).__name__ for operator in operators].count("IntervalJoinOperator") == 1
    assert len(chain.inputs()) == 2


def test_what_the_first_source_gives_comes_in_at_the_first_input():
    """Also where the second source was drawn first."""
    env = environment()
    payments, orders = from_topic(env, "payments"), from_topic(env)
    keyed = in_place(payments.filter(bool))
    joined(in_place(orders), keyed).print()
    plan = compiled(env)
    assert read_side_by_side(plan) == [["orders"], ["payments"]]
    assert [link.step.name for link in plan.stages[0].chain] == ["Orders", "Payments"]


@pytest.mark.parametrize(
    ("function", "kind", "stateful", "timers"),
    [
        (Both(), "co_map", False, False),
        (RichBoth(), "co_map", True, False),
        (Meet(), "co_process", True, False),
        (TimedMeet(), "co_process", True, True),
    ],
)
def test_connected_streams(function, kind, stateful, timers):
    env = environment()
    connected = in_place(from_topic(env)).connect(in_place(from_topic(env, "payments")))
    stream = connected.map(function) if kind == "co_map" else connected.process(function)
    stream.uid("both").sink_to(to_topic())
    plan = compiled(env)
    side = ["source", ["reinterpret", ["inputs", [kind, "sink"]]]]
    assert shape(plan) == {"both": [side, side]}
    (stage,) = plan.stages
    assert (stage.stateful, stage.timers, stage.partitions) == (stateful, timers, None)
    topics = [("app-both-changelog", "changelog", None)] * stateful + [("app-both-timers", "timers", None)] * timers
    assert plan.internal_topics == tuple(topics)


def test_results_are_typed_and_go_on_as_of_any_step():
    env = environment()
    pairs = in_place(from_topic(env)).connect(in_place(from_topic(env, "payments")))
    stream = pairs.process(Meet(), Types.STRING()).uid("both")
    stream.key_by(by).sum(1).uid("total").print()
    stream.get_side_output(LATE).print()
    plan = compiled(env)
    side = ["source", ["reinterpret", ["inputs", ["co_process", ["type", "route"], {"late": [["type", "print"]]}]]]]
    assert shape(plan) == {"both": [side, side], "total": [["sum", "print"]]}
    assert plan.stage("total").input.origin.senders == ("both",)


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        (lambda stream: stream.map(str), ["map"]),
        (lambda stream: stream.map(str, Types.STRING()), ["map", "type"]),
        (lambda stream: stream.filter(bool), ["filter"]),
        (lambda stream: stream.flat_map(lambda value: [value]), ["flat_map"]),
        (lambda stream: stream.map(str, Types.TUPLE([Types.STRING()])).project(0), ["map", "type", "project"]),
        (lambda stream: stream.map(str).filter(bool).map(str), ["map", "filter", "map"]),
        (lambda stream: stream.assign_timestamps_and_watermarks(ASCENDING), []),
        (lambda stream: stream.assign_timestamps_and_watermarks(ASCENDING).map(str), ["map"]),
    ],
)
@pytest.mark.parametrize("where", ["left", "right"])
def test_steps_that_may_stand_between(steps, kinds, where):
    plan = drawn(**{where: steps})
    assert read_side_by_side(plan) == [["orders"], ["payments"]]
    plain: list = ["reinterpret", ["inputs", ["interval_join", "print"]]]
    stepped = plain
    for kind in kinds[::-1]:
        stepped = [kind, stepped]
    sides = [["source", stepped], ["source", plain]]
    assert shape(plan)["pairs"] == (sides if where == "left" else sides[::-1])


def test_a_strategy_directly_behind_a_source_is_the_sources():
    plan = drawn(right=lambda stream: stream.assign_timestamps_and_watermarks(ASCENDING))
    assert [side.strategy for side in plan.stages[0].input.origin.sides] == [NO_TIME, ASCENDING]


def test_several_topics_of_one_source():
    env = environment()
    builder = KafkaSource.builder().set_topics("b", "a").set_value_only_deserializer(SimpleStringSchema())
    several = env.from_source(builder.build(), ASCENDING, "Several")
    joined(in_place(several), in_place(from_topic(env, "c"))).print()
    assert read_side_by_side(compiled(env)) == [["b", "a"], ["c"]]


@pytest.mark.parametrize("drift", [None, 5_000])
@pytest.mark.parametrize("kind", ["interval_join", "co_process"])
def test_the_drift_is_the_inputs(drift, kind):
    env = environment()
    left, right = in_place(from_topic(env)), in_place(from_topic(env, "payments"))
    drawing = left.interval_join(right).between(0, 1) if kind == "interval_join" else left.connect(right)
    if drift is not None:
        drawing = drawing.align_by_time(drift)
    drawing.process(Pair() if kind == "interval_join" else Meet()).print()
    (stage,) = compiled(env).stages
    assert stage.input.origin.max_drift_ms == drift


@pytest.mark.parametrize("bounded", [(False, False), (True, False), (False, True), (True, True)])
def test_it_ends_when_both_do(bounded):
    env = environment()
    left, right = (
        from_topic(env, topic, bounded=ends) for topic, ends in zip(("orders", "payments"), bounded, strict=True)
    )
    joined(in_place(left), in_place(right)).print()
    plan = compiled(env)
    assert read_side_by_side(plan) == [["orders"], ["payments"]]
    assert plan.stages[0].bounded is plan.bounded is all(bounded)


def test_what_leads_to_no_sink_does_not_count():
    """A second use that is not run takes nothing away."""
    env = environment()
    orders, payments = from_topic(env), from_topic(env, "payments")
    keyed = in_place(orders)
    orders.map(str)
    keyed.sum(1)
    joined(keyed, in_place(payments)).print()
    assert read_side_by_side(compiled(env)) == [["orders"], ["payments"]]


def test_several_pairs_of_one_job():
    env = environment()
    for number in (1, 2):
        sides = [in_place(from_topic(env, f"{side}{number}")) for side in "ab"]
        sides[0].interval_join(sides[1]).between(0, 1).process(Pair()).uid(f"pairs{number}").print()
    plan = compiled(env)
    assert [stage.uid for stage in plan.stages] == ["pairs1", "pairs2"]
    assert [source.name for source in plan.topic_inputs()] == ["A1", "B1", "A2", "B2"]
    assert [step.uid for stage in plan.stages for step in stage.steps() if step.kind == "inputs"] == [
        "pairs1~inputs",
        "pairs2~inputs",
    ]


def test_the_cluster_that_a_source_names_is_heard():
    env = environment()
    builder = KafkaSource.builder().set_topics("payments").set_bootstrap_servers("kafka:9092")
    payments = env.from_source(builder.set_value_only_deserializer(SimpleStringSchema()).build(), NO_TIME, "Payments")
    joined(in_place(from_topic(env)), in_place(payments)).print()
    assert compiled(env).bootstrap_servers() == {"kafka:9092"}


def test_compiling_twice_gives_the_same():
    env = environment()
    joined(in_place(from_topic(env).map(str)), in_place(from_topic(env, "payments"))).print()
    plans = [compiled(env) for _ in range(2)]
    for form in ("text", "json", "mermaid", "dot"):
        first, second = (plan.explain(form) for plan in plans)
        assert first == second
    assert shape(plans[0]) == shape(plans[1])


# When they are not read side by side


def one_side_by_key(env, orders, payments):
    joined(in_place(orders), payments.key_by(by)).print()


def other_side_by_key(env, orders, payments):
    joined(orders.key_by(by), in_place(payments)).print()


def both_by_key(env, orders, payments):
    joined(orders.key_by(by), payments.key_by(by)).print()


def keyed_anew(env, orders, payments):
    in_place(orders).connect(in_place(payments)).key_by(by, by).process(Meet()).uid("pairs").print()


def a_side_used_by_a_second_step(env, orders, payments):
    keyed = in_place(orders)
    keyed.sum(1).uid("total").print()
    joined(keyed, in_place(payments)).print()


def a_side_used_by_a_second_pair(env, orders, payments):
    keyed = in_place(payments)
    joined(in_place(orders), keyed).print()
    keyed.connect(in_place(from_topic(env, "refunds"))).process(Meet()).uid("others").print()


def one_stream_with_itself(env, orders, payments):
    keyed = in_place(orders)
    joined(keyed, keyed).print()


def the_source_used_twice(env, orders, payments):
    orders.print()
    joined(in_place(orders), in_place(payments)).print()


def a_step_between_used_twice(env, orders, payments):
    parsed = payments.map(str)
    parsed.print()
    joined(in_place(orders), in_place(parsed)).print()


def one_source_on_both_sides(env, orders, payments):
    joined(in_place(orders), in_place(orders.filter(bool))).print()


def one_topic_on_both_sides(env, orders, payments):
    joined(in_place(orders), in_place(from_topic(env))).print()


def one_topic_among_several(env, orders, payments):
    builder = KafkaSource.builder().set_topics("payments", "orders").set_value_only_deserializer(SimpleStringSchema())
    joined(in_place(orders), in_place(env.from_source(builder.build(), NO_TIME, "Several"))).print()


def a_keyed_step_between(env, orders, payments):
    joined(in_place(in_place(orders).sum(1).uid("total")), in_place(payments)).print()


def a_keyed_step_behind_a_shuffle(env, orders, payments):
    joined(in_place(orders.key_by(by).sum(1).uid("total")), in_place(payments)).print()


def a_stream_keyed_in_place_twice(env, orders, payments):
    joined(in_place(in_place(orders)), in_place(payments)).print()


def a_process_function(env, orders, payments):
    joined(in_place(orders.process(Pass())), in_place(payments)).print()


def a_side_output(env, orders, payments):
    joined(in_place(orders.process(Pass()).get_side_output(LATE)), in_place(payments)).print()


def a_step_with_a_side_output(env, orders, payments):
    parsed = orders.map(str)
    parsed.get_side_output(LATE).print()
    joined(in_place(parsed), in_place(payments)).print()


def a_union(env, orders, payments):
    joined(in_place(orders.union(from_topic(env, "more"))), in_place(payments)).print()


def a_pattern(env, orders, payments):
    builder = KafkaSource.builder().set_topic_pattern("o.*").set_value_only_deserializer(SimpleStringSchema())
    joined(in_place(env.from_source(builder.build(), NO_TIME, "All")), in_place(payments)).print()


def some_partitions(env, orders, payments):
    builder = KafkaSource.builder().set_partitions([KafkaTopicPartition("orders", 0)])
    builder.set_value_only_deserializer(SimpleStringSchema())
    joined(in_place(env.from_source(builder.build(), NO_TIME, "Some")), in_place(payments)).print()


def an_aligned_source(env, orders, payments):
    builder = KafkaSource.builder().set_topics("aligned").set_value_only_deserializer(SimpleStringSchema())
    joined(in_place(env.from_source(builder.build(), ALIGNED, "Aligned")), in_place(payments)).print()


def a_strategy_that_aligns(env, orders, payments):
    joined(in_place(orders.assign_timestamps_and_watermarks(ALIGNED)), in_place(payments)).print()


def a_strategy_in_mid_stream(env, orders, payments):
    joined(in_place(orders.map(str).assign_timestamps_and_watermarks(ASCENDING)), in_place(payments)).print()


def a_strategy_behind_another(env, orders, payments):
    timed = orders.assign_timestamps_and_watermarks(ASCENDING).assign_timestamps_and_watermarks(ASCENDING)
    joined(in_place(timed), in_place(payments)).print()


def a_strategy_behind_a_source_with_one(env, orders, payments):
    builder = KafkaSource.builder().set_topics("timed").set_value_only_deserializer(SimpleStringSchema())
    timed = env.from_source(builder.build(), ASCENDING, "Timed").assign_timestamps_and_watermarks(ASCENDING)
    joined(in_place(timed), in_place(payments)).print()


def a_strategy_with_a_side_output_that_nobody_reads(env, orders, payments):
    timed = orders.assign_timestamps_and_watermarks(ASCENDING)
    timed.get_side_output(LATE)
    joined(in_place(timed), in_place(payments)).print()


def a_shuffle(env, orders, payments):
    joined(in_place(orders.rebalance()), in_place(payments)).print()


def an_iteration(env, orders, payments):
    head = orders.iterate(5_000)
    head.close_with(head.filter(bool))
    joined(in_place(head), in_place(payments)).print()


def a_source_that_is_not_kafka(env, orders, payments):
    joined(in_place(env.from_collection(["a"])), in_place(payments)).print()


REASONS = [
    one_side_by_key,
    other_side_by_key,
    both_by_key,
    keyed_anew,
    a_side_used_by_a_second_step,
    a_side_used_by_a_second_pair,
    one_stream_with_itself,
    the_source_used_twice,
    a_step_between_used_twice,
    one_source_on_both_sides,
    one_topic_on_both_sides,
    one_topic_among_several,
    a_keyed_step_between,
    a_keyed_step_behind_a_shuffle,
    a_stream_keyed_in_place_twice,
    a_process_function,
    a_side_output,
    a_step_with_a_side_output,
    a_union,
    a_pattern,
    some_partitions,
    an_aligned_source,
    a_strategy_that_aligns,
    a_strategy_in_mid_stream,
    a_strategy_behind_another,
    a_strategy_behind_a_source_with_one,
    a_strategy_with_a_side_output_that_nobody_reads,
    a_shuffle,
    an_iteration,
    a_source_that_is_not_kafka,
]


@pytest.mark.filterwarnings("ignore:iterate is deprecated:DeprecationWarning")
@pytest.mark.parametrize("draw", REASONS, ids=lambda draw: draw.__name__)
def test_otherwise_each_input_has_a_topic_of_its_own(draw):
    env = environment()
    draw(env, from_topic(env), from_topic(env, "payments"))
    plan = compiled(env)
    origin = plan.stage("pairs").input.origin
    assert isinstance(origin, PackedInput)
    pair = ["app-pairs-repartition-1", "app-pairs-repartition-2"]
    assert [side.topic for side in origin.sides()] == pair
    assert {(name, "packed", 12) for name in pair} <= set(plan.internal_topics)
    assert plan.stage("pairs").partitions == 12
    assert not [stage for stage in plan.stages if isinstance(stage.input.origin, SourcesInput)]
    if draw is not a_stream_keyed_in_place_twice:
        for stage in plan.stages:
            check_that_keys_are_told_once(stage, pair)
    for side in origin.sides():
        assert side.senders


def check_that_keys_are_told_once(stage, pair):
    """What goes to the pair is sent by its key, and no key was told for that alone: the route tells it."""
    for link in all_links(stage.chain):
        if link.step.topic in pair:
            assert isinstance(link.step.make(), KeyRouteOperator)
        if link.step.kind == "reinterpret":
            assert link.next
            assert all(following.step.topic not in pair for following in link.next)


@pytest.mark.parametrize(
    ("draw", "stages"),
    [
        (both_by_key, {"source-1": ["route"], "source-2": ["route"]}),
        (one_side_by_key, {"source-1": ["route"], "source-2": ["route"]}),
        (one_stream_with_itself, {"source-1": ["route", "route"]}),
        (the_source_used_twice, {"source-1": ["print", "route"], "source-2": ["route"]}),
        (a_process_function, {"source-1": [["process", "route"]], "source-2": ["route"]}),
        (a_strategy_that_aligns, {"source-1": ["route"], "source-2": ["route"]}),
        (
            a_strategy_in_mid_stream,
            {"source-1": [["map", ["timestamps_and_watermarks", "route"]]], "source-2": ["route"]},
        ),
        (
            a_side_used_by_a_second_step,
            {"total": ["route", ["reinterpret", ["sum", "print"]]], "source-2": ["route"]},
        ),
        (
            a_keyed_step_between,
            {"total": [["reinterpret", ["sum", "route"]]], "source-2": ["route"]},
        ),
        (a_shuffle, {"source-1": ["route"], "source-2": ["route"], "reinterpret-1": ["route"]}),
        (a_union, {"source-1": [["union", "route"]], "source-2": ["route"], "source-3": [["union", "route"]]}),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_what_stands_before_the_topics(draw, stages):
    env = environment()
    draw(env, from_topic(env), from_topic(env, "payments"))
    found = shape(compiled(env))
    last = found.pop("pairs")
    assert last in ([["interval_join", "print"]], [["co_process", "print"]])
    assert found == stages


def test_a_shuffle_before_the_key_in_place_is_a_topic_of_its_own():
    env = environment()
    a_shuffle(env, from_topic(env), from_topic(env, "payments"))
    plan = compiled(env)
    origin = plan.stage("reinterpret-1").input.origin
    assert (origin.topic, origin.senders) == ("app-reinterpret-1-repartition", ("source-1",))
    assert plan.stage("source-1").topics_out() == ["app-reinterpret-1-repartition"]
    assert plan.stage("reinterpret-1").topics_out() == ["app-pairs-repartition-1"]
    assert not plan.stage("reinterpret-1").stateful


def test_a_shuffle_before_a_key_in_place_that_others_use_too():
    env = environment()
    keyed = in_place(from_topic(env).rebalance())
    keyed.sum(1).uid("total").print()
    joined(keyed, in_place(from_topic(env, "payments"))).print()
    plan = compiled(env)
    assert shape(plan)["reinterpret-1"] == ["route", ["reinterpret", ["sum", "print"]]]
    assert plan.stage("reinterpret-1").stateful


def test_a_broadcast_side_is_no_topic_of_the_users():
    env = environment()
    ruled = in_place(from_topic(env)).connect(from_topic(env, "rules").broadcast(RULES))
    ruled.process(Ruled()).uid("pairs").print()
    plan = compiled(env)
    origin = plan.stage("pairs").input.origin
    assert [side.topic for side in origin.sides()] == ["app-pairs-repartition-1", "app-pairs-broadcast"]
    check_that_keys_are_told_once(plan.stage("source-1"), ["app-pairs-repartition-1"])
    assert shape(plan)["source-1"] == ["route"]


def test_nor_is_a_global_table():
    env = environment()
    keyed = in_place(from_topic(env))
    keyed.left_join_table(env.global_table("users", name="users"), by, lambda value, row: row).uid("pairs").print()
    plan = compiled(env)
    origin = plan.stage("pairs").input.origin
    assert [side.topic for side in origin.sides()] == ["app-pairs-repartition-1", "app-pairs-broadcast"]
    assert origin.is_table
    assert shape(plan)["source-1"] == ["route"]


@pytest.mark.filterwarnings("ignore:iterate is deprecated:DeprecationWarning")
def test_an_iteration_of_a_keyed_stream_is_none_either():
    env = environment()
    in_place(from_topic(env)).iterate(5_000).print()
    with pytest.raises(JobError, match="does not have any feedback edges"):
        compiled(env)


@pytest.mark.parametrize("keyed", [(True, False), (False, True), (False, False)])
def test_streams_without_a_key_are_spread(keyed):
    env = environment()
    left, right = (
        in_place(from_topic(env, topic)) if by_key else from_topic(env, topic)
        for topic, by_key in zip(("orders", "payments"), keyed, strict=True)
    )

    class Any(CoProcessFunction):
        def process_element1(self, value, ctx):
            return None

        def process_element2(self, value, ctx):
            return None

    left.connect(right).process(Any()).uid("pairs").print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": ["route"], "source-2": ["route"], "pairs": [["co_process", "print"]]}
    for uid, by_key in zip(("source-1", "source-2"), keyed, strict=True):
        (link,) = plan.stage(uid).chain
        assert isinstance(link.step.make(), KeyRouteOperator) is by_key


# How it is shown


def shown():
    env = environment()
    orders = from_topic(env).uid("in").map(str).name("parse")
    payments = from_topic(env, "payments", bounded=True)
    joined(in_place(orders), in_place(payments)).name("pair up").sink_to(to_topic())
    return compiled(env)


GOLDEN = """\
Job 'job', application 'app': 1 stage, runs until it is stopped

Stage 1: pairs  (group app-pairs, tasks: as many as the input has partitions, state in app-pairs-changelog)
  ◄── Orders: topics orders (from earliest)
  ◄── Payments: topics payments (from earliest to latest)
  ├─ source Orders
  │  └─ map parse  str
  │     └─ reinterpret reinterpret-1  by (FILE)
  │        └─ inputs inputs of pair up
  │           └─ interval_join pair up [state]  0 to 1 ms, Pair (FILE)
  │              └─ sink sink-1  topic totals
  └─ source Payments
     └─ reinterpret reinterpret-2  by (FILE)
        └─ inputs inputs of pair up  (see above)

Topics of the job's own (replication: the broker's default)
  app-pairs-changelog  partitions: as its stage's input  COMPACT
"""


def test_text():
    text = shown().explain("text")
    text = re.sub(r"\(\S+(?:test_side_by_side|drawing)\.py:\d+\)", "(FILE)", text)
    text = re.sub(r"cleanup\.policy=compact .*", "COMPACT", text)
    assert text.startswith(GOLDEN)


def test_json():
    data = json.loads(shown().explain("json"))
    (stage,) = data["stages"]
    assert stage["input"] == {
        "kind": "side by side",
        "sources": [
            {"kind": "topics", "name": "Orders", "topics": ["orders"], "from": "earliest", "to": None},
            {"kind": "topics", "name": "Payments", "topics": ["payments"], "from": "earliest", "to": "latest"},
        ],
    }
    assert stage["tasks"] == "as many as the input has partitions"
    first, second = stage["operators"]
    meeting = first["next"][0]["next"][0]["next"][0]
    assert (meeting["uid"], meeting["next"][0]["uid"]) == ("pairs~inputs", "pairs")
    again = second["next"][0]["next"][0]
    assert again == {"uid": "pairs~inputs", "name": "inputs of pair up", "kind": "inputs", "shown_above": True}
    assert [(entry["name"], entry["purpose"]) for entry in data["topics"]] == [("app-pairs-changelog", "changelog")]


@pytest.mark.parametrize(
    ("form", "node", "edge"),
    [
        ("mermaid", r'^ +(\w+)\[\(?"([^"]*)"\)?\]$', r"^  (\w+) --> (\w+)$"),
        ("dot", r'^ +(\w+) \[label="([^"]*)".*\];$', r"^  (\w+) -> (\w+);$"),
    ],
)
def test_drawings_lead_from_each_topic_through_its_own_steps(form, node, edge):
    text = shown().explain(form)
    names = dict(re.findall(node, text, re.M))
    edges = [(names[one], names[other]) for one, other in re.findall(edge, text, re.M)]
    assert sorted(edges) == sorted(
        [
            ("orders", "source: Orders"),
            ("source: Orders", "map: parse"),
            ("map: parse", "reinterpret: reinterpret-1"),
            ("reinterpret: reinterpret-1", "inputs: inputs of pair up"),
            ("payments", "source: Payments"),
            ("source: Payments", "reinterpret: reinterpret-2"),
            ("reinterpret: reinterpret-2", "inputs: inputs of pair up"),
            ("inputs: inputs of pair up", "interval_join: pair up (state)"),
            ("interval_join: pair up (state)", "sink: sink-1"),
            ("sink: sink-1", "totals"),
        ]
    )


def test_its_state_has_the_usual_warning():
    env = environment()
    in_place(from_topic(env)).connect(in_place(from_topic(env, "payments"))).process(Meet()).print()
    (warning,) = compiled(env).warnings()
    assert "co_process keeps state under the derived name 'co_process-1'" in warning


def test_the_offsets_of_each_side_are_shown():
    env = environment()
    sides = []
    for topic, starting in (("a", KafkaOffsetsInitializer.latest()), ("b", KafkaOffsetsInitializer.timestamp(5))):
        builder = KafkaSource.builder().set_topics(topic).set_value_only_deserializer(SimpleStringSchema())
        sides.append(in_place(env.from_source(builder.set_starting_offsets(starting).build(), NO_TIME, topic)))
    joined(*sides).print()
    text = compiled(env).explain("text")
    assert "◄── a: topics a (from latest)" in text
    assert "◄── b: topics b (from timestamp)" in text
