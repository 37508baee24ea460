"""Every deprecated row of the seed table: it warns, of the line that calls it, and works."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Duration, Time, Types, WatermarkStrategy
from kstreampy.datastream import (
    AllWindowFunction,
    CoFlatMapFunction,
    ConnectedStreams,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    OutputFormat,
    ProcessFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from kstreampy.datastream.functions import AssignerWithPeriodicWatermarks, AssignerWithPunctuatedWatermarks
from kstreampy.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, results, stream_of

NONE = -(2**63)
ORDERS = [("a", 1), ("b", 2), ("a", 13)]
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEN = Time.milliseconds(10)
BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


def orders() -> DataStream:
    return stream_of(ORDERS)


def keyed() -> KeyedStream:
    return orders().key_by(lambda value: value[0])


def timed() -> DataStream:
    return orders().assign_timestamps_and_watermarks(BY_TIME)


class Key(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield ctx.get_current_key(), value[1]


class Counting(ProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


class Contents(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield key, window.start, [value[1] for value in inputs]


class AllContents(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.start, [value[1] for value in inputs]


class Periodic(AssignerWithPeriodicWatermarks):
    def __init__(self) -> None:
        self.latest: int | None = None

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self.latest = int(value[1])
        return self.latest

    def get_current_watermark(self) -> int | None:
        return self.latest


class Punctuated(AssignerWithPunctuatedWatermarks):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])

    def check_and_get_next_watermark(self, last_element: Any, extracted_timestamp: int) -> int | None:
        return extracted_timestamp if last_element[0] == "b" else None


class Large(CoFlatMapFunction):
    """Sums of more than 10, of what came by either input."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
        )

    def flat_map1(self, value: Any) -> Iterable[Any]:
        self.sum.add(value[1])
        if self.sum.get() > 10:
            yield value[0], self.sum.get()

    def flat_map2(self, value: Any) -> Iterable[Any]:
        return self.flat_map1(value)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield left[1], right[1]


def told() -> AbstractContextManager[Any]:
    return pytest.warns(
        DeprecationWarning, match="deprecated|use KeyedProcessFunction|all keyed state can be asked for"
    )


def totals(connect: Callable[[ConnectedStreams], ConnectedStreams]) -> DataStream:
    env = environment()
    first, second = env.from_collection([("a", 1)]), env.from_collection([("a", 10), ("b", 20)])
    return connect(first.connect(second)).flat_map(Large())


def looped() -> DataStream:
    head = stream_of([3]).iterate(0)
    step = head.map(lambda value: value - 1)
    head.close_with(step.filter(lambda value: value > 0))
    return step


def joined(lower: Any, upper: Any) -> DataStream:
    stream = timed().key_by(lambda value: value[0])
    return stream.interval_join(stream).between(lower, upper).process(Pairs())


BY_KEY = [("a", 0, [1]), ("a", 10, [13]), ("b", 0, [2])]
SLIDING = [("a", -5, [1]), ("a", 0, [1]), ("a", 5, [13]), ("a", 10, [13]), ("b", -5, [2]), ("b", 0, [2])]
TUPLE_KEYS = [(("a",), 1), (("a",), 13), (("b",), 2)]
SUMS = [("a", 11), ("b", 20)]

DRAWN: dict[str, tuple[Callable[[], DataStream], list[Any]]] = {
    "key_by(int)": (lambda: orders().key_by(0).process(Key()), TUPLE_KEYS),
    "key_by(int, int)": (
        lambda: orders().key_by(0, 1).process(Key()),
        [(("a", 1), 1), (("a", 13), 13), (("b", 2), 2)],
    ),
    "key_by(str)": (lambda: orders().key_by("f0").process(Key()), TUPLE_KEYS),
    "KeyedStream.key_by(int)": (lambda: keyed().key_by(0).process(Key()), TUPLE_KEYS),
    "KeyedStream.key_by(str)": (lambda: keyed().key_by("f0").process(Key()), TUPLE_KEYS),
    "process(ProcessFunction)": (lambda: keyed().process(Counting()), [("a", 1), ("a", 2), ("b", 1)]),
    "process(ProcessFunction, type)": (lambda: keyed().process(Counting(), PAIR), [("a", 1), ("a", 2), ("b", 1)]),
    "time_window(size)": (
        lambda: timed().key_by(lambda value: value[0]).time_window(TEN).apply(Contents()),
        BY_KEY,
    ),
    "time_window(size, slide)": (
        lambda: timed().key_by(lambda value: value[0]).time_window(TEN, Time.milliseconds(5)).apply(Contents()),
        SLIDING,
    ),
    "time_window_all(size)": (lambda: timed().time_window_all(TEN).apply(AllContents()), [(0, [1, 2]), (10, [13])]),
    "time_window_all(size, slide)": (
        lambda: timed().time_window_all(TEN, TEN).apply(AllContents()),
        [(0, [1, 2]), (10, [13])],
    ),
    "periodic assigner": (
        lambda: stream_windows(orders().assign_timestamps_and_watermarks(Periodic())),
        BY_KEY,
    ),
    "punctuated assigner": (
        lambda: stream_windows(orders().assign_timestamps_and_watermarks(Punctuated())),
        BY_KEY,
    ),
    "iterate(wait)": (looped, [0, 1, 2]),
    "partition_custom(partitioner, int)": (
        lambda: orders().partition_custom(lambda key, count: key % count, 1),
        ORDERS,
    ),
    "partition_custom(partitioner, str)": (
        lambda: orders().partition_custom(lambda key, count: key % count, "f1"),
        ORDERS,
    ),
    "between(Time, Time)": (
        lambda: joined(Time.milliseconds(0), Time.milliseconds(12)),
        [(1, 1), (1, 13), (2, 2), (13, 13)],
    ),
    "ConnectedStreams.key_by(int, int)": (lambda: totals(lambda both: both.key_by(0, 0)), SUMS),
    "ConnectedStreams.key_by(int[], int[])": (lambda: totals(lambda both: both.key_by([0], [0])), SUMS),
    "ConnectedStreams.key_by(str, str)": (lambda: totals(lambda both: both.key_by("f0", "f0")), SUMS),
    "ConnectedStreams.key_by(str[], str[])": (lambda: totals(lambda both: both.key_by(["f0"], ["f0"])), SUMS),
}


def stream_windows(stream: DataStream) -> DataStream:
    """By windows that end with the input at the latest."""
    return stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(TEN)).apply(Contents())


@pytest.mark.parametrize("row", DRAWN)
def test_it_warns_and_works(row: str) -> None:
    draw, expected = DRAWN[row]
    with told() as caught:
        stream = draw()
    assert {warning.filename for warning in caught} == {__file__}
    assert sorted(results(stream)) == sorted(expected)


class Appending(OutputFormat):
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, task_number: int, num_tasks: int) -> None:
        self.file = self.path.open("w")

    def write_record(self, record: Any) -> None:
        self.file.write(f"{record[0]}{record[1]} ")

    def close(self) -> None:
        self.file.close()


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda stream, path: stream.write_as_text(path), "('a', 1)\n('b', 2)\n('a', 13)\n"),
        (lambda stream, path: stream.write_as_csv(path), "a,1\nb,2\na,13\n"),
        (lambda stream, path: stream.write_using_output_format(Appending(path)), "a1 b2 a13 "),
    ],
)
def test_writing_warns_and_works(write: Callable[[DataStream, Path], Any], text: str, tmp_path: Path) -> None:
    stream = orders()
    with told() as caught:
        write(stream, tmp_path / "out")
    assert {warning.filename for warning in caught} == {__file__}
    stream.get_execution_environment().execute()
    assert (tmp_path / "out").read_text() == text


@pytest.mark.parametrize(
    ("descriptor", "state", "kept"),
    [
        (None, "orders", ("a", 13)),
        (ValueStateDescriptor("last", PAIR), "last", ("a", 13)),
        (ReducingStateDescriptor("sum", lambda one, other: (one[0], one[1] + other[1]), PAIR), "sum", ("a", 14)),
    ],
)
def test_queryable_state_warns_and_works(descriptor: Any, state: str, kept: Any) -> None:
    def job(env: StreamExecutionEnvironment) -> None:
        stream = env.from_collection(ORDERS).key_by(lambda value: value[0])
        with told() as caught:
            stream.as_queryable_state("orders", descriptor)
        assert {warning.filename for warning in caught} == {__file__}

    with JobHarness(job) as harness:
        harness.run()
        assert harness.state("queryable-orders", state, "a") == kept


def test_what_takes_their_places_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joined(Duration.of_millis(0), 12)
        keyed().process(Key())
        orders().partition_custom(lambda key, count: 0, lambda value: value[1])
        totals(lambda both: both.key_by(lambda value: value[0], lambda value: value[0]))


class Seen(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        yield value[1], ctx.timestamp(), ctx.timer_service().current_watermark()


@pytest.mark.parametrize("behind_a_source", [True, False])
@pytest.mark.parametrize(("assigner", "watermarks"), [(Periodic(), [NONE, 1, 2]), (Punctuated(), [NONE, NONE, 2])])
def test_assigners_give_times_and_watermarks(assigner: Any, watermarks: list[int], behind_a_source: bool) -> None:
    """Each record is read alone, so its own watermark is there before the next one comes."""
    with JobHarness() as harness:
        source = harness.source("orders")
        stream = harness.env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        if not behind_a_source:
            stream = stream.map(lambda value: value)
        with told():
            timed_stream = stream.assign_timestamps_and_watermarks(assigner)
        output = harness.collect(timed_stream.process(Seen()))
        for value in ORDERS:
            source.send(value)
            harness.run()
            harness.advance_time(1_000)
        seen = output.values()
    assert [(number, timestamp) for number, timestamp, _ in seen] == [(1, 1), (2, 2), (13, 13)]
    assert [watermark for _, _, watermark in seen] == watermarks
