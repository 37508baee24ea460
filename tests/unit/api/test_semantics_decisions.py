"""Where Flink surprises, and what was decided for kstreampy: one test per decision that has no test with its sentence."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Duration, Row, Types, WatermarkStrategy
from kstreampy.datastream import (
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    ProcessFunction,
    RuntimeContext,
)
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.errors import JobError, RecordError
from tests.unit.api.job import Job, first
from tests.unit.datastream.running import environment, results, stream_of


def test_the_state_of_reduce_has_a_name_of_its_own_and_is_found_after_a_change_of_the_job() -> None:
    def draw(stream):
        return stream.key_by(first).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("totals")

    with Job(draw) as job:
        job.send(("a", 1), 0)
        assert job.harness.state("totals", "rolling", "a") == ("a", 1)
        job.harness.restart()
        assert job.send(("a", 2), 0) == [("a", 3)]


class Nones(CoMapFunction):
    def map1(self, value):
        return None

    def map2(self, value):
        return value


def test_none_is_a_result_of_map_on_connected_streams_as_on_one_stream() -> None:
    one = stream_of([1, 2])
    assert results(one.map(lambda value: None)) == [None, None]
    env = environment()
    connected = env.from_collection([1, 2]).connect(env.from_collection([3])).map(Nones())
    assert sorted(results(connected), key=repr) == [3, None, None]


def test_results_of_a_keyed_stream_are_rows_of_key_and_value_in_the_order_of_the_input() -> None:
    keyed = stream_of([("a", 1), ("b", 2), ("a", 3), ("c", 4)]).key_by(first)
    with keyed.execute_and_collect() as found:
        rows = list(found)
    assert rows == [Row(f0=value[0], f1=value) for value in (("a", 1), ("b", 2), ("a", 3), ("c", 4))]


def test_a_program_that_expects_order_across_keys_gets_it_with_one_key_group() -> None:
    env = environment()
    env.set_max_parallelism(1)
    pairs = [(f"key-{number % 7}", number) for number in range(50)]
    assert results(env.from_collection(pairs).key_by(first).map(lambda value: value)) == pairs


def test_with_idleness_and_alignment_do_not_lose_the_assigner_and_from_source_uses_it() -> None:
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(lambda value, _: value)
        .with_idleness(Duration.of_seconds(1))
        .with_watermark_alignment("group", Duration.of_seconds(1))
    )
    with Job(lambda s: s, strategy=strategy) as job:
        job.sources[0].send(42, 5)
        assert job.records() == [(42, 42)]


def test_print_on_a_keyed_stream_keeps_its_identifier(capsys: pytest.CaptureFixture[str]) -> None:
    keyed = stream_of(["value"]).key_by(lambda value: value)
    keyed.print("mine")
    keyed.get_execution_environment().execute()
    assert capsys.readouterr().out.startswith("mine:")


@pytest.mark.parametrize(
    ("type_info", "value", "found"),
    [
        (Types.SHORT(), 43878, -21658),
        (Types.INT(), 2**31, -(2**31)),
        (Types.LONG(), 2**63, -(2**63)),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.ROW([Types.STRING(), Types.LONG()]), ("a", 1), Row(f0="a", f1=1)),
    ],
    ids=repr,
)
def test_values_are_coerced_by_declared_types_at_the_output_of_an_operator(type_info, value, found) -> None:
    [result] = results(stream_of([value]).map(lambda v: v, type_info))
    assert result == found
    assert type(result) is type(found)


def test_global_has_an_underscore() -> None:
    assert results(stream_of([1, 2]).global_().map(lambda value: value)) == [1, 2]


class Echo(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


def _keyed() -> Any:
    return stream_of([("a", 1)]).key_by(first)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: _keyed().time_window(10).reduce(lambda a, b: a), None),
        (lambda: stream_of([("a", 1)]).time_window_all(10).reduce(lambda a, b: a), None),
        (lambda: stream_of([("a", 1)]).key_by(0).sum(1), [("a", 1)]),
        (lambda: stream_of([Row(word="a", n=1)]).key_by("word").sum("n"), [Row(word="a", n=1)]),
        (lambda: _keyed().process(Echo()), [("a", 1)]),
        (lambda: stream_of([("a", 1)]).iterate(), None),
    ],
    ids=["time_window", "time_window_all", "key_by position", "key_by field", "process", "iterate"],
)
def test_what_flink_removed_warns_and_works(call: Any, found: Any) -> None:
    with pytest.warns(DeprecationWarning, match=r"deprecated|use KeyedProcessFunction"):
        stream = call()
    if found is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            assert results(stream) == found


@pytest.mark.parametrize("call", ["write_as_text", "write_as_csv"])
def test_the_old_ways_to_write_warn_and_work(call: str, tmp_path: Path) -> None:
    stream = stream_of([("a", 1)])
    with pytest.warns(DeprecationWarning, match=call):
        getattr(stream, call)(str(tmp_path / "out"))
    stream.get_execution_environment().execute()
    assert (tmp_path / "out").read_text() == ("('a', 1)\n" if call == "write_as_text" else "a,1\n")


class Counting(CoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()

    process_element2 = process_element1


def test_connected_streams_of_which_one_is_keyed_refuse_keyed_state_on_the_other_side() -> None:
    with Job(lambda one, two: one.key_by(first).connect(two).process(Counting()), sources=2) as job:
        assert job.send(("a", 1), 0) == [1]
        assert job.send(("a", 2), 0) == [2]
        job.sources[1].send(("a", 1), 0)
        with pytest.raises((JobError, RecordError), match="key"):
            job.given()


class Timed(Counting):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield from super().process_element1(value, ctx)

    process_element2 = process_element1

    def on_timer(self, timestamp, ctx):
        yield "timer"


class TimedByKey(KeyedCoProcessFunction):
    open = Counting.open
    process_element1 = process_element2 = Counting.process_element1


def test_two_keyed_inputs_take_the_function_without_keys_timers_allowed_and_the_reverse_is_refused() -> None:
    def draw(one: DataStream, two: DataStream) -> DataStream:
        return one.key_by(first).connect(two.key_by(first)).process(Timed())

    with Job(draw, sources=2) as job:
        assert job.send(("a", 1), 0) == [1]
        assert job.send(("a", 1), 0, source=1) == [2]
        job.watermark(9)
        assert job.watermark(9, source=1) == ["timer"]
    with pytest.raises(JobError, match="can only be used when both input streams are of type KeyedStream"):
        Job(lambda one, two: one.connect(two).process(TimedByKey()), sources=2)


def test_results_of_a_full_count_window_can_go_into_windows_of_event_time() -> None:
    """Flink's count windows give their results the end of all time."""

    def draw(stream):
        sums = stream.key_by(first).count_window(2).sum(1)
        return sums.key_by(first).window(TumblingEventTimeWindows.of(10)).sum(1)

    with Job(draw) as job:
        for number, timestamp in ((1, 1), (2, 2), (4, 3), (8, 12)):
            job.sources[0].send(("a", number), timestamp)
        job.given()
        assert job.watermark(100) == [("a", 3), ("a", 12)]
