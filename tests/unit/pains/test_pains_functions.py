"""What hurts users of other tools in the functions they write (P08, P38, P39, P54, P55, P60): a harness that checks nothing, work
that is taken as done though it failed, and processes that end well though they did not."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.memory import MemoryBroker
from kstreampy.common import DeserializationSchema, WatermarkStrategy
from kstreampy.datastream import (
    CoMapFunction,
    DataStream,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.functions import KeySelector, ProcessWindowFunction
from kstreampy.datastream.window import CountTumblingWindowAssigner
from kstreampy.errors import BrokerUnavailable, KStreamError, RecordError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.process import run_process
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from tests.unit.api.job import Job, first
from tests.unit.runtime.jobs import compiled, sink, source, user_and_amount
from tests.unit.runtime.scene import Scene

# Functions of every shape (P60)


class Object:
    """Callable, and a generator."""

    def __call__(self, value: int) -> Iterator[int]:
        yield value + 100
        yield value + 200


class Method(FlatMapFunction):
    def flat_map(self, value: int) -> Iterable[int]:
        yield value + 100
        yield value + 200


class Step(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterable[int]:
        yield value + 100
        yield value + 200


def plain(value: int) -> list[int]:
    return [value + 100, value + 200]


def with_more(more: int, value: int) -> list[int]:
    return [value + more, value + 2 * more]


@pytest.mark.parametrize(
    "draw",
    [
        lambda numbers: numbers.flat_map(Object()),
        lambda numbers: numbers.flat_map(Method()),
        lambda numbers: numbers.flat_map(Method().flat_map),
        lambda numbers: numbers.flat_map(plain),
        lambda numbers: numbers.flat_map(functools.partial(with_more, 100)),
        lambda numbers: numbers.flat_map(lambda value: iter([value + 100, value + 200])),
        lambda numbers: numbers.process(Step()),
    ],
    ids=["object", "class", "method", "plain", "partial", "lambda", "process"],
)
def test_the_harness_shows_results_and_not_what_was_sent(draw: Callable[[DataStream], DataStream]) -> None:
    """P60: functions of every shape. What a test compares is what the operator made, so that a wrong result fails."""
    with Job(draw) as job:
        assert job.send(1) == [101, 201]
        assert job.send(2) == [102, 202]


def test_a_wrong_result_fails_a_test_with_the_harness() -> None:
    """P60, a mutation: the same test over a function that is wrong."""

    def test_doubles(function: Callable[[int], int]) -> None:
        with Job(lambda numbers: numbers.map(function)) as job:
            assert job.send(3) == [6]

    test_doubles(lambda value: value * 2)
    for wrong in (lambda value: value, lambda value: value * 3, lambda _: None):
        with pytest.raises(AssertionError):
            test_doubles(wrong)


async def coroutine(value: Any) -> Any:
    return value


async def generator(value: Any) -> AsyncIterator[Any]:
    yield value


class AsyncObject:
    async def __call__(self, value: Any) -> Any:
        return value


class AsyncFilter(FilterFunction):
    async def filter(self, value: Any) -> bool:  # type: ignore[override]
        return False


class AsyncMap(MapFunction):
    async def map(self, value: Any) -> Any:
        return value


class AsyncReduce(ReduceFunction):
    async def reduce(self, value1: Any, value2: Any) -> Any:
        return value1


class AsyncKey(KeySelector):
    async def get_key(self, value: Any) -> Any:
        return value


class AsyncSink(SinkFunction):
    async def invoke(self, value: Any, context: SinkFunction.Context) -> None:  # type: ignore[override]
        raise AssertionError("nobody awaits it")


class AsyncSide(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    async def map2(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("draw", "method"),
    [
        (lambda values: values.filter(coroutine), "filter"),
        (lambda values: values.filter(AsyncFilter()), "filter"),
        (lambda values: values.filter(AsyncObject()), "filter"),
        (lambda values: values.filter(functools.partial(coroutine)), "filter"),
        (lambda values: values.map(coroutine), "map"),
        (lambda values: values.map(AsyncMap()), "map"),
        (lambda values: values.flat_map(generator), "flat_map"),
        (lambda values: values.key_by(coroutine).map(first), "get_key"),
        (lambda values: values.key_by(AsyncKey()).map(first), "get_key"),
        (lambda values: values.key_by(first).reduce(AsyncReduce()), "reduce"),
        (lambda values: values.key_by(first).filter(AsyncFilter()), "filter"),
        (lambda values: values.connect(values).map(AsyncSide()), "map2"),
        (lambda values: (values.add_sink(AsyncSink()), values)[1], "invoke"),
    ],
)
def test_a_function_that_would_not_be_awaited_is_refused(draw: Callable[[DataStream], DataStream], method: str) -> None:
    """P60: a coroutine is true, so that a filter would let everything through, and a sink would write nothing."""
    with pytest.raises(TypeError, match=rf"{method}: .*is async.*AsyncDataStream"), Job(draw) as job:
        job.send("a")


# A failure anywhere ends the job, and not with 0 (P08, P54, P55)


class OnTimer(KeyedProcessFunction):
    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(5)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        self.fail()


class OnWindow(ProcessWindowFunction):
    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterable[Any]:
        self.fail()
        return elements


class OnOpen(MapFunction):
    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail

    def open(self, runtime_context: Any) -> None:
        self.fail()

    def map(self, value: Any) -> Any:
        return value


class OnInvoke(SinkFunction):
    def __init__(self, fail: Callable[[], None]) -> None:
        self.fail = fail

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.fail()


def in_map(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.map(lambda pair: fail() or pair)


def in_filter(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.filter(lambda _: fail() or True)


def in_key_selector(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.key_by(lambda pair: fail() or pair[0]).sum(1)


def in_reduce(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.key_by(first).reduce(lambda a, b: fail() or a)


def in_timer(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.key_by(first).process(OnTimer(fail))


def in_window(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.key_by(first).window(CountTumblingWindowAssigner.of(2)).process(OnWindow(fail))


def in_open(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    return pairs.map(OnOpen(fail))


def in_sink(pairs: DataStream, fail: Callable[[], None]) -> DataStream:
    pairs.add_sink(OnInvoke(fail))
    return pairs


def raises() -> None:
    raise TypeError("of the user's")


def leaves() -> None:
    raise SystemExit(0)


PLACES = [in_map, in_filter, in_key_selector, in_reduce, in_timer, in_window, in_open, in_sink]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fail", [raises, leaves])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_failure_in_any_function_ends_the_job_and_its_record_comes_again(
    tmp_path: Path,
    place: Callable[[DataStream, Callable[[], None]], DataStream],
    fail: Callable[[], None],
    guarantee: str,
) -> None:
    """P08, P54, P55: also `sys.exit(0)`, also in a timer. The function that has been mended is given the record, and what
    comes out is a clean run's."""
    with Scene(plan_of(lambda pairs: place(pairs, lambda: None)), tmp_path / "clean") as scene:
        clean = run(scene, guarantee)
    assert clean
    is_broken = True

    def fails() -> None:
        if is_broken:
            fail()

    with Scene(plan_of(lambda pairs: place(pairs, fails)), tmp_path / "failed") as scene:
        with pytest.raises((KStreamError, TypeError)) as caught:
            run(scene, guarantee)
        assert getattr(caught.value, "exit_code", 1) != 0
        seen = scene.by_key()
        is_broken = False
        again = run(scene, guarantee)
    if guarantee == "exactly_once":
        assert (seen, again) == ({}, clean)
    else:
        assert {key: set(values) for key, values in again.items()} == {
            key: set(values) for key, values in clean.items()
        }


def run(scene: Scene, guarantee: str) -> dict[str, list[str]]:
    """What is written by a process that runs the plan over two records to its end."""
    if scene.end("in") == 0:
        scene.feed([("u", "u:1", 0), ("u", "u:2", 0)])
    settings = Settings(application_id="app", guarantee=guarantee)
    run_process(scene.plan, settings, lambda: MemoryBroker(scene.cluster), StopSignal())
    return scene.by_key()


def plan_of(draw: Callable[[DataStream], DataStream]) -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment()
    bounded = source().set_bounded(KafkaOffsetsInitializer.latest()).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: 1)
    numbers = env.from_source(bounded, strategy, "numbers").uid("numbers")
    draw(numbers.map(user_and_amount)).sink_to(sink())
    return compiled(env)


# What is no fault of the record (P38, P39)


class Registry(DeserializationSchema):
    """Asks a registry that is away for a while when it comes to the second record."""

    def __init__(self, error: Callable[[str], Exception], times: int) -> None:
        self.error = error
        self.left = [times]

    def deserialize(self, message: bytes) -> str:
        if message == b"u:2" and self.left[0] > 0:
            self.left[0] -= 1
            raise self.error("the registry is away")
        return message.decode()

    def __deepcopy__(self, memo: Any) -> Registry:
        return self


def read_with(schema: DeserializationSchema) -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment()
    built = KafkaSource.builder().set_topics("in").set_starting_offsets(KafkaOffsetsInitializer.earliest())
    read = built.set_value_only_deserializer(schema).build()
    env.from_source(read, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(user_and_amount).sink_to(
        sink()
    )
    return compiled(env)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_registry_that_is_away_loses_no_record(tmp_path: Path, guarantee: str) -> None:
    """P39: what may pass is tried again with the same record, as often as it takes; the next one is not read meanwhile."""
    with Scene(read_with(Registry(BrokerUnavailable, 3)), tmp_path, partitions=1, guarantee=guarantee) as scene:
        worker = scene.start()
        scene.turns(2)
        scene.feed([(None, f"u:{number}", 0) for number in (1, 2, 3)])
        scene.turns(10)
        assert worker.rejoins == 3
        assert scene.by_key() == {"u": ["1", "2", "3"]}


def test_a_record_that_cannot_be_decoded_is_no_registry_that_is_away(tmp_path: Path) -> None:
    """P38: it fails the job with its place, is not tried again, and is there at the next start."""
    with Scene(read_with(Registry(ValueError, 2)), tmp_path, partitions=1) as scene:
        worker = scene.start()
        scene.turns(2)
        scene.feed([(None, f"u:{number}", 0) for number in (1, 2, 3)])
        for _ in range(2):
            with pytest.raises(RecordError, match="ValueError: the registry is away") as caught:
                scene.turns(3)
            assert "at topic 'in', partition 0, offset 1" in caught.value.__notes__
            assert scene.by_key() == {}
            worker.fail()
            scene.time_out_dead()
            worker.start()
        scene.turns(6)
        assert worker.rejoins == 0
        assert scene.by_key() == {"u": ["1", "2", "3"]}
