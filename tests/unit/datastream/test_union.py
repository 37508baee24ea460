"""`union`: several stages, one stage, itself; types, time, sinks, and what follows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common import OutputTag, Types, WatermarkStrategy
from kstreampy.datastream import (
    DataStream,
    DataStreamUtils,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness
from tests.unit.datastream.crashing import results_under_crashes
from tests.unit.datastream.running import environment, results, stream_of
from tests.unit.graph.drawing import compiled, from_topic, shape, to_topic

NUMBERS = Types.LONG()


def test_streams_of_two_sources() -> None:
    env = environment()
    found = results(env.from_collection([1, 2]).union(env.from_collection([3]), env.from_collection([4, 5])))
    assert sorted(found) == [1, 2, 3, 4, 5]


def test_no_other_stream_is_the_stream_itself() -> None:
    assert results(stream_of([1, 2]).union()) == [1, 2]


def test_a_stream_united_with_itself_gives_each_record_twice() -> None:
    numbers = stream_of([1, 2, 3])
    assert Counter(results(numbers.union(numbers))) == {1: 2, 2: 2, 3: 2}


def test_united_with_itself_three_times_over() -> None:
    numbers = stream_of([1, 2])
    twice = numbers.union(numbers)
    four = twice.union(twice)
    assert Counter(results(four.union(four))) == {1: 8, 2: 8}


def test_a_keyed_steps_results_and_its_side_output() -> None:
    """Only the former bear a key, which says nothing behind the union."""
    tag = OutputTag("twice")

    class Both(KeyedProcessFunction):
        def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
            yield value
            yield tag, 2 * value

    main = stream_of([1, 2, 3]).key_by(lambda value: value % 2).process(Both())
    found = results(main.union(main.get_side_output(tag)).rebalance().map(lambda value: value))
    assert sorted(found) == [1, 2, 2, 3, 4, 6]


def test_branches_of_one_stage_come_together_in_one_step() -> None:
    env = environment()
    numbers = from_topic(env)
    united = numbers.filter(len).union(numbers.filter(bool), numbers)
    united.key_by(len).reduce(max).uid("total").sink_to(to_topic())
    plan = compiled(env)
    behind = ["union", "route"]
    assert shape(plan) == {
        "source-1": [["filter", behind], ["filter", behind], behind],
        "total": [["reduce", "sink"]],
    }
    text = plan.explain("text")
    assert text.count("union union-1  (see above)") == 2
    assert text.count("→ app-total-repartition") == 1
    assert plan.explain("mermaid").count("union: union-1") == plan.explain("dot").count("union: union-1") == 1


def test_streams_of_two_stages_need_no_topic_more() -> None:
    env = environment()
    united = from_topic(env, "a").union(from_topic(env, "b").filter(len))
    united.key_by(len).reduce(max).uid("total").sink_to(to_topic())
    plan = compiled(env)
    assert [name for name, _, _ in plan.internal_topics] == ["app-total-repartition", "app-total-changelog"]
    origin = plan.stage("total").input.origin
    assert len(origin.all_senders()) == 2  # type: ignore[union-attr]


def test_the_result_is_not_keyed() -> None:
    env = environment()
    keyed = env.from_collection([1, 2]).key_by(lambda value: value)
    united = keyed.union(env.from_collection([3]).key_by(lambda value: value))
    assert type(united) is DataStream
    with pytest.raises(TypeError, match="ProcessFunction is required"):
        united.process(_Seen())  # type: ignore[arg-type]
    assert sorted(results(united)) == [1, 2, 3]


class _Seen(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None: ...


def test_types_must_be_equal() -> None:
    env = environment()
    numbers = env.from_collection([1], NUMBERS)
    words = env.from_collection(["a"], Types.STRING())
    with pytest.raises(JobError, match=r"^Cannot union streams of different types: Long and String$"):
        numbers.union(words)
    with pytest.raises(JobError, match="Cannot union streams of different types"):
        numbers.union(env.from_collection([2]))
    assert numbers.union(env.from_collection([2], NUMBERS)).get_type() == NUMBERS


def test_only_streams_of_one_environment() -> None:
    with pytest.raises(TypeError, match="union takes DataStreams, not 'words'"):
        stream_of([1]).union("words")  # type: ignore[arg-type]
    with pytest.raises(JobError, match="different environments"):
        stream_of([1]).union(stream_of([2]))


ODD = OutputTag("odd", NUMBERS)


class _Halves(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Any:
        yield (ODD, value) if value % 2 else value


def test_side_outputs_unite_with_their_main_stream() -> None:
    main = stream_of([1, 2, 3, 4]).process(_Halves(), NUMBERS)
    assert sorted(results(main.union(main.get_side_output(ODD)))) == [1, 2, 3, 4]


def test_side_outputs_of_a_step_behind_a_union() -> None:
    env = environment()
    main = env.from_collection([1, 2]).union(env.from_collection([3, 4])).process(_Halves(), NUMBERS)
    assert sorted(results(main.get_side_output(ODD))) == [1, 3]


def test_a_union_has_no_side_outputs_itself() -> None:
    with pytest.raises(JobError, match="only operators have side outputs"):
        stream_of([1]).union().get_side_output(ODD)


def test_results_behind_a_union_are_coerced() -> None:
    env = environment()
    united = env.from_collection([1]).union(env.from_collection([2]))
    assert sorted(results(united.map(lambda value: value + 2**32, Types.INT()))) == [1, 2]


def test_changes_in_place_are_seen_by_one_branch_only() -> None:
    def mark(value: dict[str, int]) -> dict[str, int]:
        value["n"] += 100
        return value

    numbers = stream_of([{"n": 1}, {"n": 2}])
    found = results(numbers.map(mark).union(numbers).map(mark))
    assert sorted(value["n"] for value in found) == [101, 102, 201, 202]


def test_keys_in_place_behind_a_union_of_several_stages_are_refused() -> None:
    env = environment()
    united = from_topic(env, "a").union(from_topic(env, "b"))
    DataStreamUtils.reinterpret_as_keyed_stream(united, len).sum(0).sink_to(to_topic())
    with pytest.raises(JobError, match=r"reinterpret_as_keyed_stream .* behind a union .*Use key_by"):
        compiled(env)


def test_keys_in_place_behind_a_union_within_a_stage() -> None:
    numbers = stream_of([1, 2, 1])
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(numbers.union(numbers), lambda value: value)
    assert sorted(results(keyed.sum(0))) == [1, 2, 2, 3, 4, 4]


def test_a_stage_is_not_named_after_a_step_that_others_have_too() -> None:
    env = environment()
    united = from_topic(env, "a").union(from_topic(env, "b"))
    united.full_window_partition().reduce(max).uid("most").sink_to(to_topic())
    plan = compiled(env)
    assert len({stage.uid for stage in plan.stages}) == 2
    assert "most" not in {stage.uid for stage in plan.stages}
    assert all(stage.stateful and "most" in stage.shared for stage in plan.stages)


def test_a_placing_before_a_union_takes_place() -> None:
    env = environment()
    whole = env.from_collection(range(20)).global_()
    united = whole.union(env.from_collection([100]))
    assert sorted(results(united)) == [*range(20), 100]
    env = environment()
    from_topic(env).global_().union(from_topic(env, "b")).sink_to(to_topic())
    assert list(shape(compiled(env)).values())[-1] == [["pass", ["union", "sink"]]]


def _windowed(harness: JobHarness) -> tuple[Any, Any, Any]:
    first, second = harness.source("first"), harness.source("second")
    env = harness.env
    united = env.from_source(first, first.watermarks(), "first").union(
        env.from_source(second, second.watermarks(), "second").map(lambda value: value)
    )
    counted = united.key_by(lambda value: "all").window(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: a + b)
    return first, second, harness.collect(counted.uid("counted"))


def test_the_watermark_is_the_least_of_all() -> None:
    with JobHarness() as harness:
        first, second, counted = _windowed(harness)
        first.send(1, timestamp=3)
        first.watermark(20)
        harness.run()
        assert counted.values() == []
        assert harness.watermark("counted") is None
        second.send(10, timestamp=9)
        second.watermark(12)
        harness.run()
        assert counted.values() == [11]
        assert harness.watermark("counted") == 12
        second.idle()
        harness.run()
        assert harness.watermark("counted") == 20


def test_a_branch_with_time_of_its_own_holds_the_union_back() -> None:
    late = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_assigner(lambda value, _: value)
    with JobHarness() as harness:
        source = harness.source("numbers")
        numbers = harness.env.from_source(source, source.watermarks(), "numbers")
        slow = numbers.map(lambda value: value).assign_timestamps_and_watermarks(late)
        times = harness.collect(numbers.union(slow).process(_Time()))
        source.send(50, timestamp=50)
        source.watermark(50)
        harness.advance_time(200)
        source.send(60, timestamp=60)
        harness.run()
        assert times.values() == [(50, -(2**63)), (50, -(2**63)), (60, 39), (60, 39)]
        harness.crash()
        source.send(70, timestamp=70)
        harness.run()
        assert times.values()[-2:] == [(70, 49), (70, 49)]


class _Time(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timer_service().current_watermark()


def test_files_of_tasks_in_several_stages_do_not_collide(tmp_path: Path) -> None:
    from kstreampy_connectors.files import FileSink  # a package of its own

    env = environment()
    env.from_collection([{"n": 1}]).union(env.from_collection([{"n": 2}])).sink_to(FileSink.json_lines(tmp_path)).uid(
        "s"
    )
    env.execute()
    found = sorted(path.read_text() for path in tmp_path.glob("part-*"))
    assert found == ['{"n":1}\n', '{"n":2}\n']


def test_collecting_behind_a_union_is_one_result() -> None:
    env = environment()
    united = env.from_collection([1]).union(env.from_collection([2]))
    assert sorted(results(united)) == [1, 2]


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=3), st.lists(st.integers(0, 5), max_size=4)
)
def test_any_union_is_the_sum_of_its_parts(sources: list[list[int]], more: list[int]) -> None:
    env = environment()
    streams = [env.from_collection(values) for values in sources]
    united, expected = streams[0], Counter(sources[0])
    for pick in more:
        index = pick % len(streams)
        streams.append(united)
        other, values = streams[index], sources[index]
        sources.append(sorted(expected.elements()))
        united = united.union(other.map(lambda value: value) if pick % 2 else other)
        expected += Counter(values)
    assert Counter(results(united)) == expected


@pytest.mark.parametrize("seed", range(8))
def test_exactly_once_over_crashes(seed: int) -> None:
    values = list(range(60))

    def draw(env: StreamExecutionEnvironment) -> DataStream:
        first, second = env.from_collection(values), env.from_collection([100 + value for value in values])
        doubled = first.map(lambda value: value).union(first, second.rebalance().map(lambda value: value))
        return doubled.key_by(lambda value: value % 7).reduce(lambda a, b: a + b).uid("sums")

    found = results_under_crashes(draw, seed)
    assert len(found) == 180
    for key in range(7):
        last = sum(2 * v for v in values if v % 7 == key) + sum(v + 100 for v in values if (v + 100) % 7 == key)
        assert last in found
