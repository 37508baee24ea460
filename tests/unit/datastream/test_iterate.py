"""Iterations: what comes out, that bounded ones end, time in the loop, crashes, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common import Types
from kstreampy.datastream import (
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.iterative_stream import ConnectedIterativeStreams, IterativeStream
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness
from tests.unit.datastream.crashing import results_under_crashes
from tests.unit.datastream.running import environment, results, stream_of
from tests.unit.graph.drawing import compiled, from_topic, to_topic

pytestmark = pytest.mark.filterwarnings("ignore:iterate is deprecated:DeprecationWarning")

Body = Callable[[DataStream], DataStream]

BODIES: dict[str, Body] = {
    "in the head's stage": lambda head: head,
    "behind a placing": lambda head: head.rebalance().map(lambda value: value),
    "by key": lambda head: head.key_by(lambda value: value[0] % 5).process(Seen()).uid("seen"),
    "united": lambda head: head.filter(lambda value: value[1] % 2).union(head.filter(lambda value: value[1] % 2 == 0)),
    "through two stages": lambda head: head.shuffle().map(lambda value: value).global_().map(lambda value: value),
}


class Seen(KeyedProcessFunction):
    """Counts, so that state and what goes around must stay together."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value


def counted_down(stream: DataStream, body: Body = BODIES["in the head's stage"], wait_ms: int = 0) -> DataStream:
    """Of each (id, n, 0): (id, 0, n), having gone around n times."""
    head = stream.iterate(wait_ms).uid("loop")
    step = body(head).map(lambda value: (value[0], value[1] - 1, value[2] + 1) if value[1] else value)
    head.close_with(step.filter(lambda value: value[1] > 0))
    return step.filter(lambda value: value[1] == 0)


def numbers(count: int) -> list[tuple[int, int, int]]:
    return [(number, number % 7, 0) for number in range(count)]


def expected(count: int) -> list[tuple[int, int, int]]:
    return [(number, 0, number % 7) for number in range(count)]


@pytest.mark.parametrize("body", BODIES)
def test_every_record_goes_around_and_the_job_ends(body: str) -> None:
    env = environment()
    env.set_max_parallelism(3)
    assert sorted(results(counted_down(env.from_collection(numbers(40)), BODIES[body]))) == expected(40)


def test_nothing_comes_in() -> None:
    assert results(counted_down(stream_of([]))) == []


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=12), st.sampled_from(sorted(BODIES)))
def test_as_plain_python(pairs: list[tuple[int, int]], body: str) -> None:
    env = environment()
    env.set_max_parallelism(2)
    stream = env.from_collection([(one, many, 0) for one, many in pairs])
    assert sorted(results(counted_down(stream, BODIES[body]))) == sorted((one, 0, many) for one, many in pairs)


def test_growing_feedback() -> None:
    """Each n feeds back n - 1 twice: 2^n zeros come out."""
    env = environment()
    env.set_max_parallelism(2)
    head = env.from_collection([5, 3]).iterate()
    head.close_with(head.filter(lambda value: value > 0).flat_map(lambda value: [value - 1] * 2))
    assert results(head.filter(lambda value: value == 0)) == [0] * (32 + 8)


def test_several_feedbacks() -> None:
    head = stream_of([8]).iterate()
    small = head.filter(lambda value: value in (1, 2)).map(lambda value: value - 1)
    large = head.filter(lambda value: value > 2).map(lambda value: value // 2)
    assert head.close_with(small) is small
    head.close_with(large)
    assert results(head) == [8, 4, 2, 1, 0]


def test_feedback_by_key() -> None:
    head = stream_of([3, 4]).iterate()
    head.close_with(head.filter(lambda value: value > 0).map(lambda value: value - 1).key_by(lambda value: value))
    assert Counter(results(head)) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 1}


def test_two_iterations_one_behind_the_other() -> None:
    env = environment()
    env.set_max_parallelism(2)
    first = counted_down(env.from_collection(numbers(20))).map(lambda value: (value[0], value[2], 0))
    head = first.iterate().uid("second")
    step = head.map(lambda value: (value[0], value[1] - 1, value[2] + 1) if value[1] else value)
    head.close_with(step.filter(lambda value: value[1] > 0).rebalance())
    assert sorted(results(step.filter(lambda value: value[1] == 0))) == expected(20)


def test_another_source_within_the_loop_is_waited_for() -> None:
    """What a stream that is united with the body feeds back goes around too, however late it comes."""
    with JobHarness(key_groups=2) as harness:
        source = harness.source("late")
        env = harness.env
        head = env.from_collection([2]).iterate().uid("loop")
        late = env.from_source(source, source.watermarks(), "late")
        step = head.union(late).map(lambda value: value - 1)
        head.close_with(step.filter(lambda value: value > 0))
        found = harness.collect(step)
        harness.run()
        assert found.values() == [1, 0]
        source.idle()
        harness.run()
        assert not harness.ended
        source.send(3)
        source.end()
        harness.run()
        assert harness.ended
        assert found.values() == [1, 0, 2, 1, 0]


class Steps(CoMapFunction):
    def map1(self, value: int) -> tuple[int, int]:
        return value, 0

    def map2(self, value: str) -> tuple[int, int]:
        number, count = value.split(":")
        return int(number) - 1, int(count) + 1


def test_feedback_of_another_type() -> None:
    head = stream_of([3, 0, 1], Types.LONG()).iterate().with_feedback_type(Types.STRING())
    assert isinstance(head, ConnectedIterativeStreams)
    assert (head.get_type1(), head.get_type2()) == (Types.LONG(), Types.STRING())
    both = head.map(Steps())
    left = both.filter(lambda pair: pair[0] > 0).map(lambda pair: f"{pair[0]}:{pair[1]}", Types.STRING())
    assert head.close_with(left) is left
    assert sorted(results(both.filter(lambda pair: pair[0] == 0))) == [(0, 0), (0, 1), (0, 3)]


def windowed(harness: JobHarness) -> tuple[Any, Any]:
    source = harness.source("numbers")
    stream = harness.env.from_source(source, source.watermarks(), "numbers")
    head = stream.iterate().uid("loop")
    step = head.map(lambda value: value - 1)
    head.close_with(step.filter(lambda value: value > 0))
    windows = step.key_by(lambda value: "all").window(TumblingEventTimeWindows.of(10))
    return source, harness.collect(windows.reduce(lambda one, two: one + two).uid("sums"))


def test_what_goes_around_when_the_input_ends_is_not_late() -> None:
    with JobHarness(key_groups=1) as harness:
        source, sums = windowed(harness)
        source.send(4, timestamp=5)
        source.end()
        harness.run()
        assert harness.ended
        assert sums.values() == [3 + 2 + 1 + 0]
        assert harness.metrics()['kstreampy_records_late_dropped_total{stage="sums"}'] == 0


def test_watermarks_of_the_input_go_through_and_those_fed_back_do_not() -> None:
    with JobHarness(key_groups=1) as harness:
        source, sums = windowed(harness)
        source.send(1, timestamp=5)
        source.watermark(12)
        harness.run()
        assert harness.watermark("loop") == harness.watermark("sums") == 12
        assert sums.values() == [0]


class AtTheEnd(KeyedProcessFunction):
    """Feeds back once more when event time has come to its end, at a time that no watermark but the last comes to."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        if value < 100:
            ctx.timer_service().register_event_time_timer(2**62)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield 103


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_timers_at_the_end_feed_back_once_more(guarantee: Any) -> None:
    with JobHarness(key_groups=2, guarantee=guarantee) as harness:
        head = harness.env.from_collection([2, 1]).iterate().uid("loop")
        timed = head.key_by(lambda value: 0).process(AtTheEnd()).uid("timed")
        head.close_with(timed.filter(lambda value: value % 100 > 0).map(lambda value: value - 1))
        found = harness.collect(timed)
        harness.run()
        assert harness.ended
        assert Counter(found.values()) == Counter([2, 1, 0, 1, 0, 103, 102, 101, 100])


class Later(KeyedProcessFunction):
    """Feeds back after 50 ms of processing time."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        time = ctx.timer_service()
        time.register_processing_time_timer(time.current_processing_time() + 50)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield ctx.get_current_key() - 1


def test_it_waits_for_what_timers_feed_back_as_long_as_it_is_told() -> None:
    with JobHarness(key_groups=2) as harness:
        head = harness.env.from_collection([3]).iterate(60).uid("loop")
        later = head.key_by(lambda value: value).process(Later()).uid("later")
        head.close_with(later.filter(lambda value: value > 0))
        found = harness.collect(later)
        for _ in range(30):
            harness.advance_time(10)
            if harness.ended:
                break
        assert found.values() == [2, 1, 0]
        assert harness.ended
        assert harness.now_ms == 100 + 60


def test_an_unbounded_iteration_does_not_end() -> None:
    with JobHarness(key_groups=2) as harness:
        head = from_topic(harness.env).map(int).iterate().uid("loop")
        step = head.map(lambda value: value - 1)
        head.close_with(step.filter(lambda value: value > 0))
        found = harness.collect(step)
        harness.topic("orders", value="str").send("3")
        harness.run()
        assert found.values() == [2, 1, 0]
        harness.topic("orders", value="str").send("1")
        harness.run()
        assert found.values() == [2, 1, 0, 0]
        assert not harness.ended


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("seed", range(5))
def test_exactly_once_over_crashes(body: str, seed: int) -> None:
    def draw(env: StreamExecutionEnvironment) -> DataStream:
        return counted_down(env.from_collection(numbers(30)), BODIES[body])

    assert sorted(results_under_crashes(draw, seed)) == expected(30)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("seed", range(5))
def test_at_least_once_loses_nothing_over_crashes(body: str, seed: int) -> None:
    def draw(env: StreamExecutionEnvironment) -> DataStream:
        return counted_down(env.from_collection(numbers(30)), BODIES[body])

    found = results_under_crashes(draw, seed, guarantee="at-least-once")
    assert set(found) == set(expected(30))


def test_workers_come_and_go_while_it_ends() -> None:
    def draw(env: StreamExecutionEnvironment) -> DataStream:
        return counted_down(env.from_collection(numbers(60)), BODIES["by key"])

    for seed in range(5):
        with JobHarness(draw, key_groups=3, seed=seed) as harness:
            found = harness.collect(harness.drawn)
            for number in range(25):
                with harness._acting():
                    harness._simulation.bring_up()
                    harness._simulation.round(commit=True)
                if number in (8, 16):
                    harness.add_worker()
                    harness.rebalance()
            harness.lose_disk(0)
            harness.run()
            assert harness.ended
            assert sorted(found.values()) == expected(60)


def test_the_plan_shows_it() -> None:
    env = environment()
    counted_down(from_topic(env, bounded=True).map(int), BODIES["by key"]).sink_to(to_topic())
    plan = compiled(env)
    text = plan.explain("text")
    assert "app-loop-repartition-1, app-loop-feedback (from stage source-1, fed back by stage seen)" in text
    assert [stage.loop for stage in plan.stages] == [None, "loop", "loop"]
    assert plan.bounded
    purposes = {entry["name"]: entry["purpose"] for entry in json.loads(plan.explain("json"))["topics"]}
    assert (purposes["app-loop-repartition-1"], purposes["app-loop-feedback"]) == ("repartition", "feedback")
    assert all(stage.stateful for stage in plan.stages[1:])
    assert "app-loop-feedback" in plan.explain("mermaid")


def test_what_never_ends_within_the_loop_keeps_all_of_it() -> None:
    env = environment()
    head = from_topic(env, bounded=True).iterate().uid("loop")
    step = head.union(from_topic(env, "more")).rebalance().map(str).uid("step")
    head.close_with(step)
    step.sink_to(to_topic())
    plan = compiled(env)
    assert {stage.uid: stage.bounded for stage in plan.stages} == {
        "source-1": True,
        "loop": False,
        "source-2": False,
        "step": False,
    }
    assert plan.stage("source-2").loop is None


def test_it_is_deprecated_and_unclosed_ones_are_refused() -> None:
    with pytest.warns(DeprecationWarning, match="iterate is deprecated"):
        head = stream_of([1]).iterate()
    assert isinstance(head, IterativeStream)
    with pytest.raises(JobError, match="Iteration 'iterate-1' does not have any feedback edges"):
        results(head)
    with pytest.raises(ValueError, match="at least 0 ms"):
        stream_of([1]).iterate(-1)


def test_feedback_must_come_of_the_iteration() -> None:
    env = environment()
    head = env.from_collection([1]).iterate()
    other = env.from_collection([1]).iterate()
    words = "^Cannot close an iteration with a feedback DataStream that does not originate from said iteration"
    for stranger in (env.from_collection([2]), other.map(str), other):
        with pytest.raises(JobError, match=words):
            head.close_with(stranger)
    with pytest.raises(JobError, match=words):
        head.with_feedback_type(Types.STRING()).close_with(other.map(str))
    with pytest.raises(TypeError, match="close_with takes a DataStream"):
        head.close_with("feedback")  # type: ignore[arg-type]


def test_types_must_fit() -> None:
    head = stream_of([1], Types.LONG()).iterate()
    with pytest.raises(JobError, match=r"Cannot close an iteration of Long with .* String: use with_feedback_type"):
        head.close_with(head.map(str, Types.STRING()))
    with pytest.raises(JobError, match="a feedback type of String with a DataStream of Long"):
        head.with_feedback_type(Types.STRING()).close_with(head.map(int, Types.LONG()))
    with pytest.raises(TypeError, match="takes a TypeInformation"):
        head.with_feedback_type(str)  # type: ignore[arg-type]


def test_what_an_iteration_cannot_do() -> None:
    head = stream_of([1]).iterate()
    with pytest.raises(JobError, match="full_window_partition cannot be called on an iteration"):
        head.full_window_partition()
    with pytest.raises(JobError, match=r"^Cannot change the input partitioning of an iteration head directly\."):
        head.with_feedback_type(Types.LONG()).key_by(lambda value: value, lambda value: value)


def test_one_within_another_is_refused() -> None:
    env = environment()
    outer = from_topic(env).iterate().uid("outer")
    inner = outer.map(str).iterate().uid("inner")
    inner.close_with(inner.filter(bool))
    outer.close_with(inner.map(str))
    inner.sink_to(to_topic())
    with pytest.raises(JobError, match="the iterations 'outer' and 'inner' feed back into each other"):
        compiled(env)


def test_a_keyed_stream_may_be_iterated() -> None:
    head = stream_of([2]).key_by(lambda value: value).iterate()
    head.close_with(head.filter(lambda value: value > 0).map(lambda value: value - 1))
    assert results(head) == [2, 1, 0]
