"""Jobs with windows: against plain Python, against each other, one behind the other, and killed again and again."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import DataStreamUtils, OutputTag, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from kstreampy.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from kstreampy.testing import JobHarness
from tests.unit.jobs.crashes import committed, trouble

LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))


class General(EventTimeTrigger):
    """The default trigger under another name, so that the general operators are used."""


class Seen(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.max_timestamp(), sorted(value[1] for value in inputs)


class Numbered(ProcessWindowFunction):
    """Numbers the firings of each key, and of each window."""

    FIRINGS = ValueStateDescriptor("firings", Types.LONG())

    def process(self, key, context, elements):
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.FIRINGS)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield key, context.window().max_timestamp(), *counts, sorted(value[1] for value in elements)

    def clear(self, context):
        context.window_state().get_state(self.FIRINGS).clear()


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def rows(seed: int, count: int = 400) -> list[tuple[str, int, int]]:
    dice = random.Random(seed)
    return [
        (f"k{dice.randrange(8)}", dice.randrange(100), number * 10 - dice.randrange(200)) for number in range(count)
    ]


def by_time(env: StreamExecutionEnvironment, values: list[Any]) -> Any:
    kind = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(200).with_timestamp_assigner(lambda value, _: value[2])
    return env.from_collection(values, kind).assign_timestamps_and_watermarks(strategy)


def results(draw: Any, values: list[Any], **settings: Any) -> list[Any]:
    with JobHarness(**settings) as harness:
        output = harness.collect(draw(by_time(harness.env, values)))
        harness.run()
        assert harness.ended
        return sorted(((record.timestamp, record.value) for record in output), key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_tumbling_windows_are_what_plain_python_says(seed: int) -> None:
    values = rows(seed)
    expected = defaultdict(list)
    for key, number, time in values:
        expected[key, time // 50 * 50 + 49].append(number)
    found = results(lambda s: s.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(50)).apply(Seen()), values)
    assert found == in_order((key, end, sorted(numbers)) for (key, end), numbers in expected.items())


def in_order(found: Any) -> list[Any]:
    """As `results` gives them: each with its window's timestamp."""
    return sorted(((value[1], value) for value in found), key=repr)


@pytest.mark.parametrize("seed", range(3))
def test_sessions_are_what_plain_python_says(seed: int) -> None:
    values = rows(seed)
    by_key = defaultdict(list)
    for key, number, time in values:
        by_key[key].append((time, number))
    expected = []
    for key, found in by_key.items():
        session: list[tuple[int, int]] = []
        for time, number in [*sorted(found), (10**9, 0)]:
            if session and time > session[-1][0] + 60:
                expected.append((key, session[-1][0] + 59, sorted(n for _, n in session)))
                session = []
            session.append((time, number))
    sessions = EventTimeSessionWindows.with_gap(60)
    for trigger in (EventTimeTrigger(), General()):
        found = results(lambda s, t=trigger: s.key_by(lambda v: v[0]).window(sessions).trigger(t).apply(Seen()), values)
        assert found == in_order(expected)


CALLS = {
    "reduce": lambda w: w.reduce(lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2]))),
    "reduce and apply": lambda w: w.reduce(lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2])), Seen()),
    "aggregate": lambda w: w.aggregate(Mean()),
    "sum": lambda w: w.sum(1).map(lambda value: value[:2]),
    "max": lambda w: w.max(1).map(lambda value: value[:2]),
    "min_by": lambda w: w.min_by(2),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(50, 7),
        SlidingEventTimeWindows.of(60, 20),
        SlidingEventTimeWindows.of(50, 30),
        SlidingEventTimeWindows.of(20, 50),
        EventTimeSessionWindows.with_gap(40),
    ],
    ids=str,
)
def test_every_operator_gives_the_results_of_the_general_one(call: str, assigner: Any) -> None:
    """Under the default trigger another operator does the work than under any other. Panes that windows share are combined
    in the order of time, not of arrival, so the fields that are not summed may be another element's."""

    def draw(stream: Any, trigger: Any) -> Any:
        windows = stream.key_by(lambda value: value[0]).window(assigner)
        return CALLS[call](windows.trigger(trigger) if trigger is not None else windows)

    values = rows(11)
    general = results(lambda stream: draw(stream, General()), values)
    assert len(general) > 50
    assert results(lambda stream: draw(stream, None), values) == general


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(50), SlidingEventTimeWindows.of(60, 20)], ids=str)
@pytest.mark.parametrize("lateness", [0, 30])
@pytest.mark.parametrize("seed", range(3))
def test_late_records_are_the_same_for_every_operator(assigner: Any, lateness: int, seed: int) -> None:
    """Also what fires early, late and again, and where everything lies in time."""
    found = []
    for trigger in (None, General()):
        with JobHarness(seed=seed) as harness:
            source = harness.source("rows")
            stream = harness.env.from_source(source, source.watermarks(), "rows")
            windows = stream.key_by(lambda value: value[0]).window(assigner).allowed_lateness(lateness)
            sums = (windows if trigger is None else windows.trigger(trigger)).side_output_late_data(LATE).sum(1)
            outputs = harness.collect(sums.map(lambda value: value[:2])), harness.collect(sums.get_side_output(LATE))
            for number, value in enumerate(rows(seed, 150)):
                source.send(value, timestamp=value[2])
                if number % 10 == 9:
                    source.watermark(number * 10 - 100)
                    harness.run()
            source.end()
            harness.run()
            found.append([sorted((r.timestamp, r.value) for r in output) for output in outputs])
    assert found[0] == found[1]
    assert all(found[0])


@pytest.mark.parametrize("trigger", [None, General()])
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(50), EventTimeSessionWindows.with_gap(50)], ids=str)
def test_every_operator_counts_the_same_dropped_records(assigner: Any, trigger: Any) -> None:
    """Of each window that ends at 49, one element at the last millisecond that is taken, and one after it."""
    with JobHarness(key_groups=1) as harness:
        source = harness.source("rows")
        stream = harness.env.from_source(source, source.watermarks(), "rows")
        windows = stream.key_by(lambda value: value[0]).window(assigner).allowed_lateness(10)
        output = harness.collect((windows if trigger is None else windows.trigger(trigger)).sum(1).uid("sums"))
        source.watermark(58)
        source.send(("in time", 1, 0), timestamp=0)
        harness.run()
        source.watermark(59)
        source.send(("late", 1, 0), timestamp=0)
        source.send(("late", 1, -1), timestamp=-1)
        source.end()
        harness.run()
        assert [value[0] for value in output.values()] == ["in time"]
        assert harness.metrics()['kstreampy_records_late_dropped_total{stage="sums"}'] == 2


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(50), EventTimeSessionWindows.with_gap(50)], ids=str)
@pytest.mark.parametrize("trigger", [None, General()])
def test_a_window_of_a_key_that_is_not_seen_again_closes_after_a_loss_of_everything(
    assigner: Any, trigger: Any
) -> None:
    with JobHarness() as harness:
        source = harness.source("rows")
        stream = harness.env.from_source(source, source.watermarks(), "rows")
        windows = stream.key_by(lambda value: value[0]).window(assigner)
        output = harness.collect((windows if trigger is None else windows.trigger(trigger)).sum(1).uid("sums"))
        source.send(("gone", 1, 0), timestamp=0)
        harness.run()
        harness.lose_disk()
        source.send(("other", 1, 1_000), timestamp=1_000)
        source.watermark(999)
        harness.run()
        assert output.values() == [("gone", 1, 0)]


@pytest.mark.parametrize("trigger", [None, General()])
def test_windows_behind_windows_in_one_chain_lose_nothing(trigger: Any) -> None:
    """What the first step emits because of a watermark is on time for the second, which has not seen it yet."""

    def draw(stream: Any) -> Any:
        first = stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(10))
        sums = (first if trigger is None else first.trigger(trigger)).sum(1)
        again = DataStreamUtils.reinterpret_as_keyed_stream(sums, lambda value: value[0])
        second = again.window(TumblingEventTimeWindows.of(50))
        return (second if trigger is None else second.trigger(trigger)).sum(1).map(lambda value: value[:2])

    values = rows(5)
    expected: dict[Any, int] = defaultdict(int)
    for key, number, time in values:
        expected[key, time // 50] += number
    assert results(draw, values) == sorted(
        ((at * 50 + 49, (key, total)) for (key, at), total in expected.items()), key=repr
    )


def test_windows_behind_windows_over_a_shuffle() -> None:
    def draw(stream: Any) -> Any:
        sums = stream.key_by(lambda value: value[0]).window(TumblingEventTimeWindows.of(10)).sum(1)
        return sums.window_all(TumblingEventTimeWindows.of(50)).sum(1).map(lambda value: value[1])

    values = rows(6)
    expected: dict[int, int] = defaultdict(int)
    for _, number, time in values:
        expected[time // 50] += number
    assert results(draw, values, workers=2) == sorted(
        ((at * 50 + 49, total) for at, total in expected.items()), key=repr
    )


# Killed again and again


def everything(harness: JobHarness, only: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """All kinds of windows over one source, or `only` some."""
    source = harness.source("rows")
    keyed = harness.env.from_source(source, source.watermarks(), "rows").key_by(lambda value: value[0])
    tumbling = keyed.window(TumblingEventTimeWindows.of(200))
    late = tumbling.allowed_lateness(50).side_output_late_data(LATE).process(Numbered())
    sessions = keyed.window(EventTimeSessionWindows.with_gap(60))
    merging = keyed.window(EventTimeSessionWindows.with_gap(60)).allowed_lateness(40).trigger(General())
    anything = keyed.window(GlobalWindows.create())
    by_clock = keyed.window(ProcessingTimeSessionWindows.with_gap(150))
    streams = {
        "process": late,
        "late": late.get_side_output(LATE),
        "continuous": keyed.window(TumblingEventTimeWindows.of(200))
        .trigger(ContinuousEventTimeTrigger.of(70))
        .apply(Seen()),
        "sliding": keyed.window(SlidingEventTimeWindows.of(150, 50)).trigger(General()).apply(Seen()),
        "evicted": keyed.window(TumblingEventTimeWindows.of(300))
        .trigger(CountTrigger.of(2))
        .evictor(TimeEvictor.of(100))
        .apply(Seen()),
        "sessions": sessions.apply(Seen()),
        "merging": merging.aggregate(Mean()),
        "counted": keyed.count_window(3).sum(1),
        "sliding count": anything.trigger(CountTrigger.of(2)).evictor(CountEvictor.of(5)).apply(Seen()),
        "by clock": by_clock.apply(Seen()),
        "early": keyed.window(GlobalWindows.create())
        .trigger(PurgingTrigger.of(ContinuousProcessingTimeTrigger.of(300)))
        .apply(Seen()),
    }
    outputs = {}
    for name, stream in streams.items():
        if only and name not in only:
            continue
        uid = name.replace(" ", "-")
        outputs[name] = harness.collect(stream if name == "late" else stream.uid(uid), uid)
    return source, outputs


def play(seed: int, *, kills: bool, only: tuple[str, ...] = (), **settings: Any) -> dict[str, list[Any]]:
    script, dice = random.Random(seed), random.Random(seed)
    with JobHarness(workers=2, key_groups=2, seed=seed, **settings) as harness:
        source, outputs = everything(harness, only)
        for step in range(30):
            for _ in range(script.randrange(4)):
                time = max(step * 40 - script.choice((0, 0, 20, 60, 250)), 0)
                key, number = f"k{script.randrange(4)}", script.randrange(100)
                source.send((key, number, time), timestamp=time)
            if script.random() < 0.5:
                source.watermark(step * 40 - 50)
            if kills:
                trouble(harness, dice)
            harness.advance_time(script.choice((0, 10, 50, 200)))
        source.end()
        harness.run()
        if kills:
            assert harness.crashes >= 10
        return {name: committed(output) for name, output in outputs.items()}


@pytest.mark.parametrize("seed", range(3))
def test_killed_in_open_windows_of_every_kind_it_is_equal_to_a_clean_run(seed: int) -> None:
    clean = play(seed, kills=False)
    assert all(clean.values()), {name: len(found) for name, found in clean.items()}
    killed = play(seed, kills=True)
    for name in clean:
        assert killed[name] == clean[name], name


def test_killed_on_rocksdb() -> None:
    only = "process", "merging", "evicted"
    assert play(50, kills=True, only=only, state_store="rocks") == play(50, kills=False, only=only)


def one_stage(harness: JobHarness) -> list[Any]:
    """Two windows in the chain of their source, so that no shuffle lies between them and it."""
    builder = KafkaSource.builder().set_topics("rows").set_value_only_deserializer(JsonDeserializationSchema())
    source = builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).build()
    stream = harness.env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "rows")
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(stream, lambda value: value[0])
    assigners = TumblingEventTimeWindows.of(200), EventTimeSessionWindows.with_gap(60)
    return [
        harness.collect(keyed.window(assigner).apply(Seen()).uid(f"windows-{number}"))
        for number, assigner in enumerate(assigners)
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_windows_in_the_chain_of_their_source(seed: int, guarantee: Any) -> None:
    """At-least-once, results may come twice, each of them one of the clean run's: the state of one stage is exact."""

    def run(kills: bool) -> list[list[Any]]:
        script, dice = random.Random(seed), random.Random(seed)
        with JobHarness(workers=2, seed=seed, guarantee=guarantee, partitions=2) as harness:
            outputs = one_stage(harness)
            topic = harness.topic("rows")
            for step in range(40):
                for _ in range(script.randrange(4)):
                    key, number = script.randrange(4), script.randrange(100)
                    topic.send([f"k{key}", number], timestamp=step * 40, partition=key % 2)
                if kills:
                    trouble(harness, dice)
                harness.advance_time(script.choice((0, 10, 50, 200)))
            for partition in range(2):
                topic.send(["end", 0], timestamp=10_000, partition=partition)
            harness.advance_time(1_000)
            if kills:
                assert harness.crashes >= 10
            return [[(r.timestamp, repr(r.value)) for r in output] for output in outputs]

    clean = [sorted(found) for found in run(kills=False)]
    assert all(len(found) > 20 for found in clean)
    killed = run(kills=True)
    if guarantee == "exactly-once":
        assert [sorted(found) for found in killed] == clean
    else:
        assert [sorted(set(found)) for found in killed] == clean
