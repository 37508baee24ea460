"""From a drawing to stages: where it is cut, what things are called, and what is refused."""

import pytest

from kstreampy.common import JobExecutionResult, Types
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction
from kstreampy.datastream.launch import use
from kstreampy.errors import JobError
from kstreampy.graph import topic
from kstreampy.graph.source import ConnectorInput, PackedInput, TopicInput
from kstreampy.operators.operator import End, Tee
from kstreampy.operators.stateless import FilterOperator, MapOperator
from kstreampy.runtime.settings import Settings
from tests.unit.graph.drawing import Rich, by, compiled, environment, from_topic, shape, stateful_uids, to_topic, uids


class Nothing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


# Cuts


def test_a_job_without_a_cut_is_one_stage_on_the_topics_partitions():
    env = environment()
    from_topic(env).map(str).filter(bool).sink_to(to_topic())
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["map", ["filter", "sink"]]]}
    (stage,) = plan.stages
    assert isinstance(stage.input.origin, TopicInput)
    assert stage.partitions is None
    assert not stage.stateful
    assert plan.internal_topics == ()
    assert plan.needs_kafka()


def test_key_by_cuts_and_the_keyed_operator_begins_a_stage():
    env = environment()
    from_topic(env).map(str).key_by(by).sum(1).map(str).sink_to(to_topic())
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["map", "route"]], "sum-1": [["sum", ["map", "sink"]]]}
    first, second = plan.stages
    assert second.input.origin == PackedInput("app-sum-1-repartition", None, ("source-1",))
    assert first.topics_out() == ["app-sum-1-repartition"]
    assert (second.partitions, second.stateful, first.stateful) == (12, True, False)
    assert plan.internal_topics == (
        ("app-sum-1-repartition", "packed", 12),
        ("app-sum-1-changelog", "changelog", 12),
    )


def test_a_source_that_is_not_kafka_reads_in_a_stage_of_its_own():
    env = environment()
    env.from_collection([1]).map(str).print()
    plan = compiled(env)
    assert shape(plan) == {"collection-1": ["route"], "collection-1-out": [["map", "print"]]}
    reading, behind = plan.stages
    assert isinstance(reading.input.origin, ConnectorInput)
    assert behind.input.origin == PackedInput("app-collection-1-source", None, ("collection-1",))
    assert (reading.stateful, reading.partitions, behind.stateful, behind.partitions) == (True, 1, False, 1)
    assert plan.internal_topics == (
        ("app-collection-1-source", "packed", 1),
        ("app-collection-1-changelog", "changelog", 1),
    )
    assert not plan.needs_kafka()


def test_every_keyed_operator_of_one_keyed_stream_is_a_stage_with_its_own_topic():
    env = environment()
    keyed = from_topic(env).key_by(by)
    keyed.sum(1).uid("total").print()
    keyed.max(1).uid("most").print()
    keyed.map(len).uid("plain").print()
    keyed.print().uid("seen")
    plan = compiled(env)
    assert shape(plan) == {
        "source-1": ["route", "route", "route", "route"],
        "total": [["sum", "print"]],
        "most": [["max", "print"]],
        "plain": [["map", "print"]],
        "seen": ["print"],
    }
    assert plan.stage("source-1").topics_out() == [
        f"app-{name}-repartition" for name in ("total", "most", "plain", "seen")
    ]
    assert [stage.stateful for stage in plan.stages] == [False, True, True, False, False]


def test_keying_again_replaces_the_key():
    env = environment()
    from_topic(env).key_by(by).key_by(len).key_by(str).sum(1).print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": ["route"], "sum-1": [["sum", "print"]]}


def test_keying_what_a_keyed_operator_gives_cuts_again():
    env = environment()
    from_topic(env).key_by(by).sum(1).key_by(by).max(1).print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": ["route"], "sum-1": [["sum", "route"]], "max-1": [["max", "print"]]}
    assert plan.stage("max-1").input.origin == PackedInput("app-max-1-repartition", Types.STRING(), ("sum-1",))


def test_a_reinterpreted_stream_is_not_cut():
    env = environment()
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(from_topic(env), by)
    keyed.sum(1).uid("total").map(str).print()
    keyed.process(Nothing()).uid("second").print()
    plan = compiled(env)
    assert shape(plan) == {"total": [["reinterpret", ["sum", ["map", "print"]], ["process", "print"]]]}
    (stage,) = plan.stages
    assert stateful_uids(stage) == ["total", "second"]
    assert stage.partitions is None
    assert plan.internal_topics == (("app-total-changelog", "changelog", None),)


def test_reinterpreting_what_a_keyed_operator_gives_stays_in_its_stage():
    env = environment()
    counted = from_topic(env).key_by(by).sum(1)
    DataStreamUtils.reinterpret_as_keyed_stream(counted, by).max(1).print()
    assert shape(compiled(env)) == {"source-1": ["route"], "sum-1": [["sum", ["reinterpret", ["max", "print"]]]]}


def test_reinterpreting_a_keyed_stream_keys_in_place_behind_the_cut():
    env = environment()
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(from_topic(env).key_by(by), len)
    keyed.sum(1).print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": ["route"], "reinterpret-1": [["reinterpret", ["sum", "print"]]]}
    assert plan.stage("reinterpret-1").stateful


def test_keying_a_reinterpreted_stream_cuts():
    env = environment()
    DataStreamUtils.reinterpret_as_keyed_stream(from_topic(env), by).key_by(len).sum(1).print()
    assert shape(compiled(env)) == {"source-1": ["route"], "sum-1": [["sum", "print"]]}


def test_a_stream_used_several_times_branches():
    env = environment()
    stream = from_topic(env).map(str)
    stream.print()
    stream.filter(bool).sink_to(to_topic())
    stream.key_by(by).sum(1).print()
    plan = compiled(env)
    assert shape(plan)["source-1"] == [["map", "print", ["filter", "sink"], "route"]]


def test_what_leads_to_no_sink_is_left_out():
    env = environment()
    stream = from_topic(env)
    stream.map(str).key_by(by).sum(1)
    from_topic(env, "unused").map(str)
    stream.print()
    assert shape(compiled(env)) == {"source-1": ["print"]}


def test_a_declared_type_becomes_a_step():
    env = environment()
    from_topic(env).map(str, Types.STRING()).key_by(by).reduce(max).map(str).print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["map", ["type", "route"]]], "reduce-1": [["reduce", ["map", "print"]]]}
    assert plan.stage("reduce-1").input.origin.type_info == Types.STRING()


def test_several_sources_into_several_stages():
    env = environment()
    from_topic(env, "a").key_by(by).sum(1).print()
    from_topic(env, "b").key_by(by).sum(1).print()
    plan = compiled(env)
    assert [stage.uid for stage in plan.stages] == ["source-1", "sum-1", "source-2", "sum-2"]
    assert plan.stage("sum-2").input.origin.senders == ("source-2",)


def test_streams_of_an_earlier_job_can_be_used_again():
    env = environment()
    stream = env.from_collection([1]).map(str)
    stream.print()
    first = compiled(env)
    env.take_job("first")
    stream.map(len).print()
    second = compiled(env)
    assert shape(first) == {"collection-1": ["route"], "collection-1-out": [["map", "print"]]}
    assert shape(second) == {"collection-1": ["route"], "collection-1-out": [["map", ["map", "print"]]]}
    assert uids(second)[1:] == ["map-1", "map-2", "print-1"]


# Bounded


def test_a_stage_ends_by_itself_when_all_it_reads_does():
    for bounded in (True, False):
        env = environment()
        from_topic(env, bounded=bounded).key_by(by).sum(1).key_by(by).max(1).print()
        plan = compiled(env)
        assert [stage.bounded for stage in plan.stages] == [bounded] * 3
        assert plan.bounded is bounded
    env = environment()
    env.from_collection([1]).print()
    from_topic(env).print()
    plan = compiled(env)
    assert [stage.bounded for stage in plan.stages] == [True, True, False]
    assert not plan.bounded


# Names


def test_uids_stay_when_other_operators_come():
    """P51: state is found again when a filter is inserted before."""

    def draw(extra):
        env = environment()
        stream = from_topic(env).map(str)
        if extra:
            stream = stream.filter(bool).flat_map(list).map(str, Types.STRING()).name("new")
        stream.key_by(by).sum(1).print()
        stream.key_by(by).process(Nothing()).uid("mine").print()
        return compiled(env)

    before, after = draw(False), draw(True)
    assert (
        [stage.uid for stage in before.stages] == [stage.uid for stage in after.stages] == ["source-1", "sum-1", "mine"]
    )
    assert before.internal_topics == after.internal_topics
    assert [before.group(stage) for stage in before.stages] == [after.group(stage) for stage in after.stages]


def test_state_under_a_derived_name_is_warned_of():
    env = environment()
    from_topic(env).key_by(by).sum(1).print()
    from_topic(env).key_by(by).max(1).uid("most").print()
    (warning,) = compiled(env).warnings()
    assert "sum keeps state under the derived name 'sum-1'" in warning
    assert ".uid(...)" in warning


def test_steps_that_lead_to_no_sink_are_warned_of():
    env = environment()
    stream = from_topic(env).map(str)
    stream.filter(bool).flat_map(list).uid("lost")
    stream.print()
    (warning,) = compiled(env).warnings()
    assert warning.startswith("flat_map 'lost' leads to no sink, so it does not run")


def test_results_that_are_collected_later_are_not_warned_of():
    env = environment()
    stream = from_topic(env)
    stream.map(str)
    stream.filter(bool).collect_async()
    assert compiled(env).warnings() == []


def test_derived_uids_can_be_refused():
    env = environment()
    keyed = from_topic(env).key_by(by)
    keyed.sum(1).name("the total").print()
    keyed.map(Rich()).print()
    keyed.max(1).uid("most").print()
    with pytest.raises(JobError, match=r"disable_auto_generated_uids.*the total, map\. Give each one \.uid"):
        compiled(env, derive_uids=False)
    env = environment()
    from_topic(env).key_by(by).max(1).uid("most").print()
    assert compiled(env, derive_uids=False).warnings() == []


def test_a_derived_uid_makes_way_for_a_given_one():
    env = environment()
    stream = from_topic(env)
    stream.map(str).print()
    stream.map(str).uid("map-1").print()
    assert uids(compiled(env)) == ["map-2", "print-1", "map-1", "print-2"]


def test_a_uid_given_twice_is_refused():
    env = environment()
    from_topic(env).map(str).uid("mine").filter(bool).uid("mine").print()
    with pytest.raises(JobError, match="uid 'mine' is given to two operators, map and filter"):
        compiled(env)


@pytest.mark.parametrize("uid", ["", "a b", "ä", "a/b", "a" * 101, "a\n", "{x}"])
def test_a_uid_that_does_not_fit_a_topic_name_is_refused(uid):
    env = environment()
    from_topic(env).map(str).uid(uid).print()
    with pytest.raises(JobError, match=r"uid .* of map: a uid becomes part of topic names"):
        compiled(env)


@pytest.mark.parametrize("uid", ["a", "A-b_c.9", "a" * 100])
def test_a_uid_that_fits(uid):
    env = environment()
    from_topic(env).key_by(by).sum(1).uid(uid).print()
    assert compiled(env).stages[1].uid == uid
    longest = max(len(name) for name, _, _ in compiled(env, application_id="x" * 120).internal_topics)
    assert longest <= 249


def test_two_stages_of_one_name_are_refused():
    env = environment()
    env.from_collection([1]).uid("in").print()
    from_topic(env).key_by(by).sum(1).uid("in-out").print()
    with pytest.raises(JobError, match="two stages would be named 'in-out' and 'in-out'"):
        compiled(env)
    env = environment()
    keyed = from_topic(env).key_by(by)
    keyed.sum(1).uid("a.b").print()
    keyed.sum(1).uid("a_b").print()
    with pytest.raises(JobError, match=r"'a\.b' and 'a_b', which Kafka cannot tell apart"):
        compiled(env)


def test_a_job_without_a_sink_is_refused():
    env = environment()
    with pytest.raises(JobError, match=r"no sink.*nothing was drawn since .*executed: .*sink_to\(\.\.\.\)"):
        compiled(env)
    from_topic(env).key_by(by).sum(1)
    with pytest.raises(JobError, match=r"no sink, so nothing would run: .*sink_to\(\.\.\.\)"):
        compiled(env)


def test_topics_are_named_after_application_uid_and_purpose():
    assert topic.repartition("app", "u") == "app-u-repartition"
    assert topic.source("app", "u") == "app-u-source"
    assert topic.changelog("app", "u") == "app-u-changelog"
    assert topic.collect("app", "u") == "app-u-collect"


def test_topics_have_the_configuration_that_their_use_needs():
    packed = topic.packed_spec("p", 3)
    assert (packed.partitions, packed.replication) == (3, -1)
    assert packed.config["cleanup.policy"] == "delete"
    assert packed.config["retention.ms"] == packed.config["retention.bytes"] == "-1"
    changelog = topic.changelog_spec("c", 5)
    assert (changelog.partitions, changelog.replication) == (5, -1)
    assert changelog.config["cleanup.policy"] == "compact"
    assert int(changelog.config["segment.bytes"]) <= 64 * 1024 * 1024
    packed.config["retention.ms"] = "1"
    assert topic.packed_spec("q", 1).config["retention.ms"] == "-1"


def test_names_are_labels_and_never_identity():
    env = environment()
    from_topic(env).map(str).name("parse it").key_by(by).sum(1).name("the total").print().name("show")
    plan = compiled(env)
    assert uids(plan) == ["map-1", "key_by-1", "sum-1", "print-1"]
    assert [step.name for step in plan.stage("sum-1").steps()] == ["the total", "show"]


def test_collected_results_have_a_topic_of_one_partition():
    env = environment()
    plans = []

    class Keeping:
        def launch(self, job):
            plans.append(job.plan(Settings(application_id="app")))
            return JobExecutionResult(job.job_id, 0)

    with use(Keeping()):
        results = from_topic(env, bounded=True).map(str).execute_and_collect()
    with pytest.raises(JobError, match="the job ended before it began to run"):
        next(results)
    (plan,) = plans
    assert plan.internal_topics == (("app-collect-1-collect", "packed", 1),)
    assert [(result.topic, result.step) for result in plan.collected] == [("app-collect-1-collect", "collect-1")]


# Tasks' own operators


def test_every_task_gets_its_own_operators():
    env = environment()
    stream = from_topic(env).map(str)
    stream.filter(bool).print()
    stream.print()
    (stage,) = compiled(env).stages
    first, made = stage.make_chain()
    other, _ = stage.make_chain()
    assert isinstance(first, MapOperator)
    assert isinstance(first.out, Tee)
    assert isinstance(first.out.outs[0], FilterOperator)
    assert isinstance(first.out.outs[1].out, End)
    assert other is not first
    assert [operator.step for operator in made] == ["print-1", "filter-1", "print-2", "map-1"]
    assert made[-1] is first


def test_a_chain_that_begins_with_branches_begins_with_a_tee():
    env = environment()
    stream = from_topic(env)
    stream.print()
    stream.print()
    first, made = compiled(env).stages[0].make_chain()
    assert isinstance(first, Tee)
    assert len(made) == 2
