"""Windows as they are drawn: what may be said, what is refused, and what comes out of jobs on the in-memory log."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from kstreampy.common import Row, Time, Types, WatermarkStrategy
from kstreampy.datastream import AllWindowedStream, DataStream, OutputTag, WindowedStream
from kstreampy.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from kstreampy.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, results

TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[2])
ROWS = [("a", 3, 1), ("b", 5, 2), ("a", 1, 8), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]
"""(key, number, time in ms)"""
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def rows(values: Any = ROWS, type_info: Any = None) -> DataStream:
    return environment().from_collection(values, type_info).assign_timestamps_and_watermarks(TIMED)


def windows(assigner: Any = TEN, values: Any = ROWS) -> WindowedStream:
    return rows(values).key_by(lambda value: value[0]).window(assigner)


def all_windows(assigner: Any = TEN) -> AllWindowedStream:
    return rows().window_all(assigner)


class Seen(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, [value[1] for value in inputs]


class SeenAll(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.start, [value[1] for value in inputs]


class Processed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, [value[1] for value in elements]


class ProcessedAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, [value[1] for value in elements]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


BY_KEY = [("a", 0, [3, 1]), ("a", 10, [7]), ("a", 20, [2]), ("b", 0, [5]), ("b", 10, [5])]


def test_apply_and_process() -> None:
    assert sorted(results(windows().apply(Seen()))) == BY_KEY
    assert sorted(results(windows().process(Processed()))) == BY_KEY


def test_all_elements_together() -> None:
    expected = [(0, [3, 5, 1]), (10, [7, 5]), (20, [2])]
    assert results(all_windows().apply(SeenAll())) == expected
    assert results(all_windows().process(ProcessedAll())) == expected


def test_all_elements_of_a_keyed_stream_together() -> None:
    stream = rows().key_by(lambda value: value[0]).window_all(TEN)
    assert [(start, sorted(found)) for start, found in results(stream.apply(SeenAll()))] == [
        (0, [1, 3, 5]),
        (10, [5, 7]),
        (20, [2]),
    ]


def add(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1], max(one[2], other[2])


def test_reduce() -> None:
    assert sorted(results(windows().reduce(add))) == [
        ("a", 2, 29),
        ("a", 4, 8),
        ("a", 7, 12),
        ("b", 5, 2),
        ("b", 5, 14),
    ]
    assert results(all_windows().reduce(add)) == [("a", 9, 8), ("a", 12, 14), ("a", 2, 29)]


class Adding(ReduceFunction):
    def reduce(self, value1, value2):
        return add(value1, value2)


def test_reduce_with_a_window_function_is_given_one_value() -> None:
    expected = [("a", 0, [4]), ("a", 10, [7]), ("a", 20, [2]), ("b", 0, [5]), ("b", 10, [5])]
    assert sorted(results(windows().reduce(add, Seen()))) == expected
    assert sorted(results(windows().reduce(Adding(), Processed()))) == expected
    assert results(all_windows().reduce(add, SeenAll())) == [(0, [9]), (10, [12]), (20, [2])]
    assert results(all_windows().reduce(add, ProcessedAll())) == [(0, [9]), (10, [12]), (20, [2])]


class Label(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield from [f"{key}{context.window().start}={element}" for element in elements]


def test_aggregate() -> None:
    means = Types.TUPLE([Types.LONG(), Types.LONG()])
    assert sorted(results(windows().aggregate(Mean(), accumulator_type=means, output_type=Types.DOUBLE()))) == [
        2.0,
        2.0,
        5.0,
        5.0,
        7.0,
    ]
    assert sorted(results(windows().aggregate(Mean(), Label()))) == [
        "a0=2.0",
        "a10=7.0",
        "a20=2.0",
        "b0=5.0",
        "b10=5.0",
    ]
    assert results(all_windows().aggregate(Mean())) == [3.0, 6.0, 2.0]


def test_results_are_brought_to_their_type() -> None:
    kind = Types.ROW_NAMED(["key", "start"], [Types.STRING(), Types.INT()])

    class Pairs(WindowFunction):
        def apply(self, key, window, inputs):
            yield key, window.start

    found = results(windows().apply(Pairs(), kind))
    assert Row(key="a", start=0) in found
    typed = windows().apply(Pairs(), kind)
    assert typed.get_type() == kind


def test_the_type_of_reduce_is_that_of_the_stream() -> None:
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    stream = rows(ROWS, kind).key_by(lambda value: value[0]).window(TEN)
    assert stream.get_input_type() == kind
    assert stream.reduce(add).get_type() == kind
    assert sorted(results(stream.reduce(lambda one, two: list(add(one, two))))) == sorted(results(stream.reduce(add)))
    assert stream.reduce(add, Seen()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert stream.sum(1).get_type() == kind
    with pytest.raises(TypeError, match=r"^aggregate, accumulator type: expected a TypeInformation"):
        stream.aggregate(Mean(), accumulator_type=int)
    assert stream.get_execution_environment() is stream.sum(1).get_execution_environment()


@pytest.mark.parametrize("assigner", [TEN, EventTimeSessionWindows.with_gap(Time.milliseconds(30))])
def test_what_reduce_keeps_is_of_the_type_of_the_stream(assigner: Any) -> None:
    """So the function sees it so at the third element too."""
    kind = Types.ROW_NAMED(["key", "n", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])
    stream = rows([("a", 1, 1), ("a", 2, 2), ("a", 3, 3)], kind).key_by(lambda row: row.key).window(assigner)
    reduced = stream.reduce(lambda one, other: (one.key, one.n + other.n, one.at))
    assert list(map(tuple, results(reduced))) == [("a", 6, 1)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda w: w.sum(1), [("a", 4, 1), ("b", 5, 2), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]),
        (lambda w: w.min(1), [("a", 1, 1), ("b", 5, 2), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]),
        (lambda w: w.max(1), [("a", 3, 1), ("b", 5, 2), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]),
        (lambda w: w.min_by(1), [("a", 1, 8), ("b", 5, 2), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]),
        (lambda w: w.max_by(1), [("a", 3, 1), ("b", 5, 2), ("a", 7, 12), ("b", 5, 14), ("a", 2, 29)]),
    ],
)
def test_by_field(call: Any, expected: list[Any]) -> None:
    assert sorted(results(call(windows()))) == sorted(expected)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda w: w.sum(1), [("a", 20, 1)]),
        (lambda w: w.min_by(1), [("a", 3, 1)]),
        (lambda w: w.max_by(1), [("b", 7, 2)]),
        (lambda w: w.max_by(1, first=False), [("c", 7, 3)]),
        (lambda w: w.min_by("*"), [("a", 3, 1)]),
    ],
)
def test_by_field_of_all(call: Any, expected: list[Any]) -> None:
    ties = [("a", 3, 1), ("b", 7, 2), ("c", 7, 3), ("d", 3, 4)]
    assert results(call(rows(ties).window_all(TEN))) == expected


def test_sessions() -> None:
    found = sorted(results(windows(EventTimeSessionWindows.with_gap(Time.milliseconds(7))).apply(Seen())))
    assert found == [("a", 1, [3, 1, 7]), ("a", 29, [2]), ("b", 2, [5]), ("b", 14, [5])]


def test_an_element_out_of_order_joins_sessions_before_the_first_watermark() -> None:
    values = [("a", 1, 0), ("a", 2, 8), ("a", 3, 4)]
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Time.seconds(1)).with_timestamp_assigner(
        lambda value, _: value[2]
    )
    stream = environment().from_collection(values).assign_timestamps_and_watermarks(strategy)
    sessions = stream.key_by(lambda value: value[0]).window(EventTimeSessionWindows.with_gap(5))
    assert results(sessions.apply(Seen())) == [("a", 0, [1, 2, 3])]


class WindowOf(WindowFunction):
    def apply(self, key, window, inputs):
        yield window.max_timestamp(), "".join(value[0] for value in inputs)


class WindowAll(AllWindowFunction):
    def apply(self, window, inputs):
        yield window.max_timestamp(), "".join(value[0] for value in inputs)


def letters(text: str) -> DataStream:
    return environment().from_collection([(letter, 1, at) for at, letter in enumerate(text)])


def test_count_windows() -> None:
    everything = GlobalWindow.get().max_timestamp()
    keyed = letters("abcdefgh").key_by(lambda value: 0)
    assert results(keyed.count_window(3).apply(WindowOf())) == [(everything, "abc"), (everything, "def")]
    assert results(letters("abcdefgh").count_window_all(3).apply(WindowAll())) == [
        (everything, "abc"),
        (everything, "def"),
    ]
    assert results(letters("abcdefgh").count_window_all(3).sum(1)) == [("a", 3, 0), ("d", 3, 3)]


def test_sliding_count_windows_give_what_there_is_yet() -> None:
    """Java's: every second element the last 5."""
    keyed = letters("abcdefgh").key_by(lambda value: 0)
    assert [found for _, found in results(keyed.count_window(5, 2).apply(WindowOf()))] == [
        "ab",
        "abcd",
        "bcdef",
        "defgh",
    ]
    assert [found for _, found in results(letters("abcdef").count_window_all(3, 2).apply(WindowAll()))] == [
        "ab",
        "bcd",
        "def",
    ]


def test_count_window_results_keep_event_time_usable() -> None:
    """They have the timestamp of the element that fired them, so windows of event time may follow."""
    counted = rows().key_by(lambda value: value[0]).count_window(2).sum(1)
    assert results(counted.key_by(lambda value: 0).window(TEN).apply(Seen())) == [
        (0, 0, [4]),
        (0, 10, [10]),
        (0, 20, [9]),
    ]


@pytest.mark.parametrize(("size", "slide", "error"), [(0, 0, ValueError), (3, -1, ValueError), ("3", 0, TypeError)])
def test_counts_are_checked(size: Any, slide: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        letters("a").count_window_all(size, slide)


@pytest.mark.parametrize("slide", [None, Time.milliseconds(10)])
def test_time_windows_are_deprecated(slide: Any) -> None:
    size = Time.milliseconds(10)
    with pytest.warns(DeprecationWarning, match="time_window is deprecated") as told:
        keyed = rows().key_by(lambda value: value[0]).time_window(size, slide)
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="time_window_all is deprecated") as told:
        together = rows().time_window_all(size, slide)
    assert told[0].filename == __file__
    assert sorted(results(keyed.apply(Seen()))) == BY_KEY
    assert results(together.apply(SeenAll())) == [(0, [3, 5, 1]), (10, [7, 5]), (20, [2])]


def test_drawing_windows_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        windows().allowed_lateness(5).trigger(CountTrigger.of(1)).evictor(CountEvictor.of(1)).sum(1)


def test_triggers_and_evictors() -> None:
    found = results(windows().trigger(CountTrigger.of(1)).evictor(CountEvictor.of(1)).apply(Seen()))
    assert sorted(found) == sorted((key, time // 10 * 10, [number]) for key, number, time in ROWS)


def test_a_windowed_step_is_an_operator_with_name_and_uid() -> None:
    stream = windows().sum(1).name("totals").uid("totals-1")
    assert stream.get_name() == "totals"
    assert windows().sum(1).get_name() == "window"
    assert all_windows().sum(1).get_name() == "window_all"


def test_side_outputs_of_windows() -> None:
    tag = OutputTag("side", Types.STRING())

    class Siding(ProcessWindowFunction):
        def process(self, key, context, elements):
            context.output(tag, f"{key}{context.window().start}")
            yield tag, "yielded"
            yield key

    main = windows().process(Siding())
    side = main.get_side_output(tag)
    assert sorted(results(side.map(lambda value: value))) == ["a0", "a10", "a20", "b0", "b10", *["yielded"] * 5]


def test_late_data_is_a_side_output_of_the_result() -> None:
    late_tag = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    with JobHarness() as harness:
        source = harness.source("rows")
        stream = harness.env.from_source(source, source.watermarks(), "rows")
        sums = stream.key_by(lambda value: value[0]).window(TEN).side_output_late_data(late_tag).sum(1)
        main, late = harness.collect(sums), harness.collect(sums.get_side_output(late_tag))
        source.send(("a", 1, 5), timestamp=5)
        source.send(("a", 2, 15), timestamp=15)
        source.watermark(9)
        harness.run()
        assert main.values() == [("a", 1, 5)]
        source.send(("a", 3, 6), timestamp=6)
        source.send(("a", 4, 16), timestamp=16)
        source.end()
        harness.run()
        assert main.values() == [("a", 1, 5), ("a", 6, 15)]
        assert [(record.value, record.timestamp) for record in late] == [(("a", 3, 6), 6)]


def test_dropped_late_records_are_counted() -> None:
    with JobHarness() as harness:
        source = harness.source("rows")
        stream = harness.env.from_source(source, source.watermarks(), "rows")
        harness.collect(stream.key_by(lambda value: value[0]).window(EventTimeSessionWindows.with_gap(5)).apply(Seen()))
        source.watermark(100)
        harness.run()
        for number in range(3):
            source.send(("a", number, 6), timestamp=6)
        source.send(("a", 3, 97), timestamp=97)
        harness.run()
        counted = {name: value for name, value in harness.metrics().items() if "late_dropped_total" in name}
        assert sum(counted.values()) == 3, counted


# What is refused


@pytest.mark.parametrize("assigner", [None, 10, TumblingEventTimeWindows, TimeWindow(0, 1)])
def test_a_window_assigner_is_required(assigner: Any) -> None:
    with pytest.raises(TypeError, match="window takes a WindowAssigner"):
        windows(assigner)
    with pytest.raises(TypeError, match="window_all takes a WindowAssigner"):
        all_windows(assigner)


def test_what_is_set_is_checked() -> None:
    with pytest.raises(TypeError, match="a Trigger is required"):
        windows().trigger(CountTrigger)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an Evictor is required"):
        windows().evictor(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"The allowed lateness cannot be negative\."):
        windows().allowed_lateness(-1)
    with pytest.raises(TypeError):
        windows().allowed_lateness(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes an OutputTag"):
        windows().side_output_late_data("late")  # type: ignore[arg-type]


def test_windows_that_merge_need_a_trigger_that_can() -> None:
    sessions = windows(EventTimeSessionWindows.with_gap(10))
    with pytest.raises(
        TypeError, match=r"A merging window assigner cannot be used with a trigger that does not support merging\."
    ):
        sessions.trigger(DeltaTrigger.of(1, lambda one, other: 1))


class NoMerge(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator


def test_windows_that_merge_need_an_aggregation_that_can() -> None:
    with pytest.raises(JobError, match=r"merges windows, so NoMerge .* needs a merge"):
        windows(EventTimeSessionWindows.with_gap(10)).aggregate(NoMerge())
    assert sorted(results(windows().aggregate(NoMerge()))) == [2, 4, 5, 5, 7]
    assert sorted(results(windows(SlidingEventTimeWindows.of(20, 10)).aggregate(NoMerge())))
    evicted = windows(EventTimeSessionWindows.with_gap(7)).evictor(CountEvictor.of(2)).aggregate(NoMerge())
    assert sorted(results(evicted)) == [2, 5, 5, 8]


@pytest.mark.parametrize(
    "call",
    [
        lambda: windows().apply(Processed()),
        lambda: windows().process(Seen()),
        lambda: windows().apply(SeenAll()),
        lambda: windows().apply(Seen),
        lambda: windows().apply(lambda key, window, inputs: []),
        lambda: all_windows().apply(Seen()),
        lambda: all_windows().process(Processed()),
        lambda: windows().reduce(add, SeenAll()),
        lambda: windows().reduce(5),
        lambda: windows().reduce(Mean()),
        lambda: windows().aggregate(add),
        lambda: windows().aggregate(Mean),
        lambda: windows().sum(1.5),
    ],
)
def test_another_kind_of_function_is_refused_when_it_is_drawn(call: Any) -> None:
    with pytest.raises(TypeError):
        call()


def test_the_plan_shows_the_windows() -> None:
    stream = windows(TumblingProcessingTimeWindows.of(10)).trigger(CountTrigger.of(3)).evictor(CountEvictor.of(2))
    stream.allowed_lateness(5).reduce(add, Seen()).print()
    plan = stream.get_execution_environment().get_execution_plan()
    for part in ("TumblingProcessingTimeWindows(10", "CountTrigger(3)", "CountEvictor(2)", "lateness 5 ms", "Seen"):
        assert part in plan


class Told(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window(), len(list(elements))


def test_a_result_may_hold_its_window():
    """Also on its way to another stage, and in its state, without a declared type."""
    told = windows().process(Told())
    latest = told.key_by(lambda value: value[0]).reduce(lambda one, other: max(one, other, key=lambda value: value[1]))
    assert sorted(results(latest)) == [
        ("a", TimeWindow(0, 10), 2),
        ("a", TimeWindow(10, 20), 1),
        ("a", TimeWindow(20, 30), 1),
        ("b", TimeWindow(0, 10), 1),
        ("b", TimeWindow(10, 20), 1),
    ]
    whole = rows().key_by(lambda value: value[0]).window(GlobalWindows.create_with_end_of_stream_trigger())
    assert sorted(results(whole.process(Told())))[0] == ("a", GlobalWindow.get(), 4)
    counted = rows().key_by(lambda value: value[0]).window(CountTumblingWindowAssigner.of(2)).apply(Numbered())
    assert sorted(results(counted), key=repr)[0] == ("a", CountWindow(0))


class Numbered(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, window)]
