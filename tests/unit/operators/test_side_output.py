"""Side outputs at an operator: `yield tag, value` and `ctx.output(tag, value)`, what is held, dropped, copied and refused."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common import OutputTag, Types
from kstreampy.errors import RecordError
from kstreampy.operators.function import FlatMapFunction, KeyedProcessFunction, ProcessFunction, settle
from kstreampy.operators.keyed_function import KeyedProcessOperator, ProcessOperator
from kstreampy.operators.operator import Split
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.stateless import FlatMapOperator
from kstreampy.operators.timer import TimedProcessOperator
from kstreampy.serde.batch import Batch
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context, opened

LATE = OutputTag("late")
ODD = OutputTag("odd", Types.LONG())


class Doing:
    def __init__(self, do):
        self.do = do

    def process_element(self, value, ctx):
        return self.do(value, ctx)


class Plain(Doing, ProcessFunction):
    pass


class Keyed(Doing, KeyedProcessFunction):
    pass


def with_yield(tag, value, ctx):
    return [(tag, value)]


def with_output(tag, value, ctx):
    return ctx.output(tag, value)


KINDS = [(ProcessOperator, Plain), (KeyedProcessOperator, Keyed), (KeyedProcessOperator, Plain)]
WAYS = [with_yield, with_output]


def step_of(kind, do, *tags, out=None, sides=None):
    """An open step, what is behind it, and what is behind each of its tags."""
    operator, function = kind
    step = operator("p", "uid", function(do)) if operator is KeyedProcessOperator else operator("p", function(do))
    step.sides = sides or {tag.tag_id: Collecting() for tag in tags}
    return step, opened(step, out=out), step.sides


@pytest.mark.parametrize("send", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_go_to_their_tag_with_their_records_timestamp(kind, send):
    def do(value, ctx):
        if value % 2:
            yield from send(ODD, value * 10, ctx) or ()
        yield value

    step, out, sides = step_of(kind, do, ODD)
    step.process(batch(1, 2, 3, keys=["a", "b", "a"], stamps=[10, NONE, 30], headers=[[("h", b"x")]] * 3))
    assert (out.values, out.timestamps) == ([1, 2, 3], [10, NONE, 30])
    assert (sides["odd"].values, sides["odd"].timestamps) == ([10, 30], [10, 30])
    (sent,) = sides["odd"].batches
    assert (sent.keys, sent.headers) == (None, None)


@pytest.mark.parametrize("send", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_without_timestamp_sends_values_without_one(kind, send):
    step, _, sides = step_of(kind, lambda v, ctx: send(LATE, v, ctx), LATE)
    step.process(batch("x", keys=["a"], stamps=[NONE]))
    assert sides["late"].timestamps == [NONE]


@pytest.mark.parametrize("send", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_asked_for_is_dropped_and_never_in_the_main_stream(kind, send):
    def do(value, ctx):
        yield from send(LATE, value, ctx) or ()
        yield from send(ODD, -value, ctx) or ()
        yield value

    for asked in ((), (ODD,)):
        step, out, sides = step_of(kind, do, *asked)
        step.process(batch(1, 2, keys=["a", "b"]))
        assert out.values == [1, 2]
        assert {tag: side.values for tag, side in sides.items()} == ({"odd": [-1, -2]} if asked else {})


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_may_send_only_to_the_side(kind):
    step, out, sides = step_of(kind, lambda v, ctx: ctx.output(LATE, v), LATE)
    step.process(batch(1, 2, keys=["a", "b"]))
    assert out.batches == []
    assert sides["late"].values == [1, 2]


def test_nothing_sent_is_no_batch():
    step, _, sides = step_of(KINDS[0], lambda v, ctx: [v], LATE)
    step.process(batch(1))
    assert sides["late"].batches == []


def test_tags_of_one_id_are_one_output():
    step, _, sides = step_of(
        KINDS[0], lambda v, ctx: [(OutputTag("odd"), v), (OutputTag("odd", Types.STRING()), v)], ODD
    )
    step.process(batch(5))
    assert sides["odd"].values == [5, 5]


class Log(Collecting):
    def __init__(self, name, log):
        super().__init__()
        self.name = name
        self.log = log

    def process(self, given):
        super().process(given)
        self.log.append((self.name, given.values))

    def advance(self, watermark):
        self.log.append((self.name, watermark))


@pytest.mark.parametrize("kind", KINDS)
def test_of_one_batch_main_results_go_first_then_tags_by_their_first_value(kind):
    def do(value, ctx):
        if value == 2:
            yield LATE, value
        yield ODD, value
        ctx.output(LATE, value + 0.5)
        yield value

    log = []
    sides = {"odd": Log("odd", log), "late": Log("late", log)}
    step, _, _ = step_of(kind, do, out=Log("main", log), sides=sides)
    step.process(batch(1, 2, keys=["a", "b"]))
    step.process(batch(2, keys=["a"]))
    assert log == [
        ("main", [1, 2]),
        ("odd", [1, 2]),
        ("late", [1.5, 2, 2.5]),
        ("main", [2]),
        ("late", [2, 2.5]),
        ("odd", [2]),
    ]


@pytest.mark.parametrize("send", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_object_that_is_changed_later_was_sent_as_it_was(kind, send):
    kept = []

    def do(value, ctx):
        kept.append(value)
        yield from send(LATE, kept, ctx) or ()
        yield from send(LATE, (value, kept), ctx) or ()
        yield kept
        kept.append("later")

    step, out, sides = step_of(kind, do, LATE)
    step.process(batch(1, 2, keys=["a", "a"]))
    assert sides["late"].values == [[1], (1, [1]), [1, "later", 2], (2, [1, "later", 2])]
    assert out.values == [[1], [1, "later", 2]]
    sides["late"].values[0].append("spoilt")
    assert out.values[0] == [1]
    assert kept == [1, "later", 2, "later"]


class Fact(NamedTuple):
    what: object
    tag: object


@pytest.mark.parametrize("value", [(1, LATE), [LATE, 1], Fact(1, 2), ((LATE, 1),), {"tag": LATE}, (), (None, None)])
def test_only_a_pair_that_begins_with_a_tag_is_a_side_output(value):
    step, out, sides = step_of(KINDS[0], lambda v, ctx: [value], LATE)
    step.process(batch(0))
    assert out.values == [value]
    assert sides["late"].values == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("pair", "count"), [((LATE,), 0), ((LATE, 1, 2), 2)])
def test_a_tag_with_no_value_or_several_is_an_error_of_the_record(kind, pair, count):
    step, _, _ = step_of(kind, lambda v, ctx: [pair] if v else None)
    with pytest.raises(RecordError, match=rf"takes one value, but OutputTag\('late'\) came with {count}") as caught:
        step.process(batch(0, 1, keys=["a", "b"]))
    assert caught.value.index == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tag", ["late", None, OutputTag])
def test_a_tag_that_is_none_is_an_error_of_the_record(kind, tag):
    step, _, _ = step_of(kind, lambda v, ctx: ctx.output(tag, v), LATE)
    with pytest.raises(RecordError, match="named by an OutputTag, not by"):
        step.process(batch(1, keys=["a"]))


def test_flat_map_has_no_side_outputs_and_says_so():
    class Splitting(FlatMapFunction):
        def flat_map(self, value):
            yield LATE, value

    step = FlatMapOperator("f", Splitting())
    opened(step)
    with pytest.raises(TypeError, match="only process functions have side outputs"):
        settle([(LATE, 1)], [].append)
    with pytest.raises(RecordError, match=r"only process functions.*use process"):
        step.process(batch(1))


# Failures


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_behind_a_side_output_names_the_record_that_sent_the_value(kind):
    def do(value, ctx):
        for number in range(value):
            yield LATE, (value, number)
        yield "main"

    step, _, _ = step_of(kind, do, sides={"late": FailingAt((3, 1))})
    with pytest.raises(RecordError) as caught:
        step.process(batch(2, 0, 1, 3, keys=list("abcd")))
    assert caught.value.index == 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_failed_batch_held_is_not_sent_later(kind):
    def do(value, ctx):
        ctx.output(LATE, value)
        if value == "bad":
            raise ValueError

    step, _, sides = step_of(kind, do, LATE)
    with pytest.raises(RecordError):
        step.process(batch("a", "bad", keys=["a", "b"]))
    step.process(batch("c", keys=["c"]))
    assert sides["late"].values == ["c"]


def test_a_failure_in_the_main_stream_sends_nothing_to_the_side():
    step, _, sides = step_of(KINDS[0], lambda v, ctx: [(LATE, v), v], LATE, out=FailingAt(2))
    with pytest.raises(RecordError):
        step.process(batch(1, 2))
    assert sides["late"].batches == []


# Timers


class Reminding(KeyedProcessFunction):
    """Sets the timers that a value names, in its domain, and tells of each in all three ways when it fires."""

    def process_element(self, value, ctx):
        domain, times = value
        service = ctx.timer_service()
        register = {"event": service.register_event_time_timer, "processing": service.register_processing_time_timer}
        for time in times:
            register[domain](time)

    def on_timer(self, timestamp, ctx):
        ctx.output(LATE, [ctx.get_current_key(), timestamp])
        yield ODD, timestamp
        yield OutputTag("nobody"), timestamp
        yield timestamp


@pytest.mark.parametrize("domain", ["event", "processing"])
def test_a_timer_sends_with_its_own_time_main_results_first_and_all_before_the_watermark_goes_on(domain):
    log = []
    sides = {"odd": Log("odd", log), "late": Log("late", log)}
    step = TimedProcessOperator("p", "uid", Reminding())
    step.sides = sides
    main = Log("main", log)
    opened(step, context(watermark=0), out=Split(main, sides))
    step.process(batch((domain, [30, 10]), (domain, [20, 99]), keys=["a", "b"], stamps=[1, 2]))
    assert log == []
    if domain == "event":
        step.advance(50)
    else:
        step.wake(50)
    assert log == [
        ("main", [10, 20, 30]),
        ("late", [["a", 10], ["b", 20], ["a", 30]]),
        ("odd", [10, 20, 30]),
        *([(name, 50) for name in ("main", "odd", "late")] if domain == "event" else []),
    ]
    assert sides["odd"].timestamps == sides["late"].timestamps == [10, 20, 30]
    assert main.timestamps == ([10, 20, 30] if domain == "event" else [NONE] * 3)


def test_a_record_after_timers_sends_with_its_own_timestamp():
    class Both(Reminding):
        def process_element(self, value, ctx):
            super().process_element(value, ctx)
            ctx.output(ODD, "record")

    step = TimedProcessOperator("p", "uid", Both())
    step.sides = {"odd": Collecting()}
    opened(step, context(watermark=0))
    step.process(batch(("event", [10]), keys=["a"], stamps=[1]))
    step.advance(10)
    step.process(batch(("event", []), keys=["b"], stamps=[2]))
    assert (step.sides["odd"].values, step.sides["odd"].timestamps) == (["record", 10, "record"], [1, 10, 2])


# By itself, and the split behind it


def test_timers_have_no_record_in_hand():
    sides = {"late": FailingAt("x")}
    held = SideOutputs(sides)
    held.begin()
    held.add(LATE, "a", 7)
    held.add(LATE, "x", 8)
    with pytest.raises(RecordError) as caught:
        held.emit()
    assert caught.value.index == 0
    held.emit()
    assert sides["late"].batches == []


@given(st.lists(st.lists(st.sampled_from(["main", "odd", "late", "nobody"]), max_size=6), max_size=8), st.booleans())
def test_any_mixture_arrives_whole_and_in_order(plan, is_keyed):
    def do(value, ctx):
        for number, where in enumerate(plan[value]):
            if where == "main":
                yield value, number
            elif number % 2:
                yield OutputTag(where), (value, number)
            else:
                ctx.output(OutputTag(where), (value, number))

    step, out, sides = step_of(KINDS[1 if is_keyed else 0], do, ODD, LATE)
    values = list(range(len(plan)))
    step.process(Batch(values, [value * 10 for value in values], ["k"] * len(plan)))
    for name, found in {"main": out, **sides}.items():
        expected = [(v, n) for v, wheres in enumerate(plan) for n, where in enumerate(wheres) if where == name]
        assert found.values == expected
        assert found.timestamps == [v * 10 for v, _ in expected]


def test_a_split_sends_records_down_the_main_branch_and_all_else_down_every_branch():
    main, side = Collecting(), Collecting()
    split = Split(main, {"late": side})
    split.process(batch(1))
    split.advance(5)
    split.tick()
    split.flush()
    split.finish()
    split.close()
    assert (main.values, side.values) == ([1], [])
    assert main.calls == side.calls == [("advance", 5), "tick", "flush", "finish", "close"]
