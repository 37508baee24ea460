"""Side outputs in the graph: where they hang, what leads to them, cuts behind them, and their picture."""

import json
import re

import pytest

from kstreampy.common import OutputTag, Types
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, ProcessFunction
from kstreampy.errors import JobError
from kstreampy.graph.node import SideNode
from kstreampy.graph.source import PackedInput
from kstreampy.operators.keyed import SumOperator
from kstreampy.operators.keyed_function import ProcessOperator
from kstreampy.operators.operator import End, Split, Tee
from kstreampy.operators.sink import PrintOperator
from kstreampy.operators.stateless import CoerceOperator, MapOperator
from tests.unit.graph.drawing import compiled, environment, from_topic, shape, stateful_uids, to_topic, uids

LATE = OutputTag("late")
ODD = OutputTag("odd", Types.STRING())


class Process(ProcessFunction):
    def process_element(self, value, ctx):
        return None


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        return None


def by(value):
    return value[0]


def processed(env, output_type=None):
    return from_topic(env).process(Process(), output_type)


def test_a_side_output_hangs_on_its_step():
    env = environment()
    main = processed(env)
    main.print()
    main.get_side_output(LATE).map(str).print()
    assert shape(compiled(env)) == {"source-1": [["process", "print", {"late": [["map", "print"]]}]]}


def test_it_hangs_before_the_main_results_are_brought_to_their_type():
    env = environment()
    main = processed(env, Types.LONG())
    main.print()
    main.get_side_output(LATE).print()
    assert shape(compiled(env)) == {"source-1": [["process", ["type", "print"], {"late": ["print"]}]]}


def test_its_values_are_brought_to_the_tags_type():
    env = environment()
    side = processed(env).name("split").get_side_output(ODD)
    side.print()
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["process", {"odd": [["type", "print"]]}]]}
    assert side.get_type() == Types.STRING()
    step = next(step for step in plan.stages[0].steps() if step.kind == "type")
    assert step.name == "split, side output 'odd' as String"


def test_only_a_side_output_that_leads_to_a_sink_is_in_the_plan():
    env = environment()
    main = processed(env)
    main.get_side_output(LATE)
    main.get_side_output(ODD).map(str)
    main.print()
    assert shape(compiled(env)) == {"source-1": [["process", "print"]]}


def test_a_job_that_ends_only_in_a_side_output_runs():
    env = environment()
    main = processed(env)
    main.map(str)
    main.get_side_output(LATE).sink_to(to_topic())
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["process", {"late": ["sink"]}]]}
    assert plan.needs_kafka()


def test_asked_for_twice_it_is_one_output_with_two_followers():
    env = environment()
    main = processed(env)
    main.get_side_output(ODD).print()
    main.get_side_output(OutputTag("odd", Types.STRING())).map(str).print()
    assert shape(compiled(env)) == {"source-1": [["process", {"odd": [["type", "print", ["map", "print"]]]}]]}


def test_side_outputs_behind_side_outputs():
    env = environment()
    first = processed(env).get_side_output(LATE)
    second = first.process(Process())
    second.get_side_output(LATE).print()
    second.get_side_output(ODD).print()
    assert shape(compiled(env)) == {
        "source-1": [["process", {"late": [["process", {"late": ["print"], "odd": [["type", "print"]]}]]}]]
    }


def test_one_tag_on_two_operators_is_two_outputs():
    env = environment()
    first = processed(env)
    second = first.process(Process())
    first.get_side_output(LATE).print("first")
    second.get_side_output(OutputTag("late", Types.LONG())).print("second")
    assert shape(compiled(env)) == {
        "source-1": [["process", ["process", {"late": [["type", "print"]]}], {"late": ["print"]}]]
    }


def test_key_by_behind_a_side_output_cuts():
    env = environment()
    main = processed(env)
    main.print()
    main.get_side_output(ODD).key_by(by).sum(1).uid("total").print()
    plan = compiled(env)
    assert shape(plan) == {
        "source-1": [["process", "print", {"odd": [["type", "route"]]}]],
        "total": [["sum", "print"]],
    }
    first, second = plan.stages
    assert second.input.origin == PackedInput("app-total-repartition", Types.STRING(), ("source-1",))
    assert first.topics_out() == ["app-total-repartition"]


def test_main_and_side_may_go_to_stages_of_their_own():
    env = environment()
    main = from_topic(env, bounded=True).key_by(by).process(Keyed()).uid("split")
    main.key_by(by).sum(1).uid("good").print()
    main.get_side_output(LATE).key_by(by).sum(1).uid("bad").print()
    plan = compiled(env)
    assert shape(plan)["split"] == [["process", "route", {"late": ["route"]}]]
    assert plan.stage("split").topics_out() == ["app-good-repartition", "app-bad-repartition"]
    assert [plan.stage(uid).input.origin.senders for uid in ("good", "bad")] == [("split",), ("split",)]
    assert plan.bounded


def test_state_behind_a_side_output_is_the_stages():
    env = environment()
    side = processed(env).get_side_output(LATE)
    DataStreamUtils.reinterpret_as_keyed_stream(side, by).sum(1).uid("total").print()
    (stage,) = compiled(env).stages
    assert (stage.uid, stage.stateful, stateful_uids(stage)) == ("total", True, ["total"])


def test_results_of_a_side_output_can_be_collected():
    env = environment()
    side = processed(env).get_side_output(LATE)
    side._add(_collect(side))
    plan = compiled(env)
    assert [result.topic for result in plan.collected] == ["app-collect-collect"]
    assert plan.stages[0].topics_out() == ["app-collect-collect"]


def _collect(stream):
    from kstreampy.graph.node import CollectNode

    return CollectNode("collect", (stream._input(),), uid="collect")


def test_a_side_output_moves_no_derived_uid():
    def drawn(with_side):
        env = environment()
        main = processed(env)
        if with_side:
            main.get_side_output(ODD).print().uid("seen")
        main.key_by(by).sum(1).print()
        return [uid for uid in uids(compiled(env)) if uid not in ("seen", "side_output-1")]

    assert drawn(True) == drawn(False)


# The chain


def test_the_split_is_directly_behind_the_step_and_every_operator_opens_once_from_last_to_first():
    env = environment()
    main = processed(env, Types.LONG())
    main.map(str).print()
    side = main.get_side_output(ODD)
    side.print()
    side.map(str).print()
    first, made = compiled(env).stages[0].make_chain()
    assert isinstance(first, ProcessOperator)
    split = first.out
    assert isinstance(split, Split)
    assert isinstance(split.main, CoerceOperator)
    assert isinstance(split.main.out, MapOperator)
    typed = first.sides["odd"]
    assert isinstance(typed, CoerceOperator)
    assert isinstance(typed.out, Tee)
    assert split.outs == [split.main, typed]
    kinds = [CoerceOperator, PrintOperator, MapOperator, PrintOperator, CoerceOperator, MapOperator, PrintOperator]
    assert sorted(type(operator).__name__ for operator in made) == sorted(
        kind.__name__ for kind in [*kinds, ProcessOperator]
    )
    assert len({id(operator) for operator in made}) == len(made) == 8
    for operator in made[:-1]:
        followers = operator.out.outs if isinstance(operator.out, Tee) else [operator.out]
        assert all(isinstance(f, End) or made.index(f) < made.index(operator) for f in followers)
    assert made[-1] is first


def test_a_step_with_side_outputs_only_has_an_end_in_the_main_branch():
    env = environment()
    processed(env).get_side_output(LATE).print()
    first, _ = compiled(env).stages[0].make_chain()
    assert isinstance(first.out.main, End)


def test_a_step_without_side_outputs_has_no_split():
    env = environment()
    from_topic(env).key_by(by).sum(1).print()
    first, _ = compiled(env).stages[1].make_chain()
    assert isinstance(first, SumOperator)
    assert not isinstance(first.out, Tee)
    assert first.sides == {}


# What is refused


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (OutputTag("x", Types.LONG()), OutputTag("x", Types.STRING())),
        (OutputTag("x"), OutputTag("x", Types.STRING())),
        (OutputTag("x", Types.LONG()), OutputTag("x")),
        (OutputTag("x", [Types.LONG()]), OutputTag("x", [Types.LONG(), Types.LONG()])),
    ],
)
def test_one_id_with_two_types_on_one_operator_is_refused(first, second):
    main = processed(environment())
    main.get_side_output(first)
    with pytest.raises(JobError, match="A side output with a matching id was already requested with a different type"):
        main.get_side_output(second)


def test_also_in_a_later_job_of_the_same_environment():
    env = environment()
    main = processed(env)
    main.get_side_output(ODD).print()
    env.take_job(None)
    with pytest.raises(JobError, match="already requested"):
        main.get_side_output(OutputTag("odd"))
    main.get_side_output(ODD).map(str).print()
    assert shape(compiled(env)) == {"source-1": [["process", {"odd": [["type", ["map", "print"]]]}]]}


@pytest.mark.parametrize("tag", ["late", None, OutputTag])
def test_a_tag_must_be_one(tag):
    with pytest.raises(TypeError, match="get_side_output takes an OutputTag, not"):
        processed(environment()).get_side_output(tag)


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (lambda env: from_topic(env), "source"),
        (lambda env: processed(env).key_by(by), "key_by"),
        (lambda env: processed(env).get_side_output(LATE), "side_output"),
    ],
)
def test_streams_that_are_no_operators_result_have_none(stream, kind):
    with pytest.raises(JobError, match=rf"get_side_output\('late'\) on a {kind}: only operators"):
        stream(environment()).get_side_output(LATE)


@pytest.mark.parametrize("step", [lambda s: s.map(str), lambda s: s.filter(bool), lambda s: s.flat_map(list)])
def test_asking_a_step_that_never_sends_any_is_worth_a_warning(step):
    env = environment()
    step(processed(env)).get_side_output(LATE).print()
    (warning,) = compiled(env).warnings()
    assert re.search(r"sends nothing to side outputs, so 'late' stays empty: call get_side_output on what", warning)
    env = environment()
    processed(env).get_side_output(LATE).print()
    assert compiled(env).warnings() == []


def test_a_drawing_knows_its_side_outputs():
    env = environment()
    main = processed(env)
    main.get_side_output(ODD)
    (node,) = [node for node in env.graph.nodes if isinstance(node, SideNode)]
    assert (node.tag, node.type_info, node.inputs) == (ODD, Types.STRING(), (main._node,))


# The picture


def drawn():
    env = environment()
    main = from_topic(env).uid("in").process(Process()).name("split")
    main.print().name("show")
    main.get_side_output(OutputTag('a "b"\\<c>', Types.LONG())).sink_to(to_topic())
    main.get_side_output(LATE).key_by(by).sum(1).uid("total").print().name("counted")
    return compiled(env)


GOLDEN = """\
  └─ process split  Process (FILE)
     ├─ print show
     ├─ side output 'a "b"\\\\<c>'
     │  └─ type split, side output 'a "b"\\\\<c>' as Long
     │     └─ sink sink-1  topic totals
     └─ side output 'late'
        └─ route key_by-1 → app-total-repartition  by (FILE)
"""


def test_text_draws_side_branches_under_their_tag():
    text = re.sub(r"\(\S+test_side_outputs\.py:\d+\)", "(FILE)", drawn().explain("text"))
    assert GOLDEN in text


def test_json_has_sides_by_tag():
    (process,) = json.loads(drawn().explain("json"))["stages"][0]["operators"]
    assert [link["kind"] for link in process["next"]] == ["print"]
    assert {tag: [link["kind"] for link in links] for tag, links in process["sides"].items()} == {
        'a "b"\\<c>': ["type"],
        "late": ["route"],
    }
    assert process["sides"]['a "b"\\<c>'][0]["next"][0]["topic"] == "totals"


def test_mermaid_labels_the_edge():
    lines = drawn().explain("mermaid").splitlines()
    assert '  s0_0 -.->|"a #quot;b#quot;\\#lt;c#gt;"| s0_2' in lines
    assert '  s0_0 -.->|"late"| s0_4' in lines
    assert '    s0_4["route: key_by-1"]' in lines
    assert "  s0_0 --> s0_1" in lines


def test_dot_labels_the_edge():
    lines = drawn().explain("dot").splitlines()
    assert '  s0_0 -> s0_2 [label="a \\"b\\"\\\\<c>", style=dashed];' in lines
    assert '  s0_0 -> s0_4 [label="late", style=dashed];' in lines
