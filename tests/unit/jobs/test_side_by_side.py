"""Whole jobs that read two topics as they lie: they give what the same jobs give whose inputs are sent by key, and kills, lost
disks and workers that come and go leave no trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kstreampy.common import Duration, OutputTag, Types, WatermarkStrategy
from kstreampy.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from kstreampy.datastream import (
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    DataStreamUtils,
    KeyedCoProcessFunction,
    KeyedStream,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from kstreampy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness, Output
from tests.unit.jobs.crashes import committed, trouble

PARTITIONS = 3
STEPS = 30
KEYS = 7
STEP_MS = 40
END_MS = 10**6
END = "end"
"""The key of a record that brings a partition's time to its end; no other step sees it."""
LATE = (OutputTag("late lefts"), OutputTag("late rights"))

How = Callable[[DataStream], KeyedStream]
Row = tuple[str, int, int]
"""Key, time in ms, number."""


def key_of(row: Row) -> str:
    return row[0]


def in_place(stream: DataStream) -> KeyedStream:
    return DataStreamUtils.reinterpret_as_keyed_stream(stream, key_of)


def by_key(stream: DataStream) -> KeyedStream:
    return stream.key_by(key_of)


class Meet(KeyedCoProcessFunction):
    """50 ms after each record of the first side, all that both sides have up to its time is told. A clock reminds of those of
    the second side."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lefts = runtime_context.get_list_state(ListStateDescriptor("lefts", Types.LONG()))
        self.rights = runtime_context.get_map_state(MapStateDescriptor("rights", Types.LONG(), Types.LONG()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self.lefts.add(value[1])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 50)

    def process_element2(self, value: Row, ctx: KeyedCoProcessFunction.Context) -> None:
        self.rights.put(value[2], value[1])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(10**9 + value[1])

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        if ctx.time_domain().name == "PROCESSING_TIME":
            yield "reminded", ctx.get_current_key(), timestamp, self.count.value()
            return
        until = timestamp - 50
        lefts = sorted(time for time in self.lefts.get() if time <= until)
        rights = sorted((time, number) for number, time in self.rights.items() if time <= until)
        yield "met", ctx.get_current_key(), timestamp, lefts, rights


class Pair(ProcessJoinFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, left: Row, right: Row, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield left, right, ctx.get_timestamp()


class Tag(CoMapFunction):
    def map1(self, value: Row) -> Any:
        return 1, value

    def map2(self, value: Row) -> Any:
        return 2, value


def topic_source(topic: str, *, bounded: bool = False) -> KafkaSource:
    builder = KafkaSource.builder().set_topics(topic).set_value_only_deserializer(JsonDeserializationSchema())
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.build()


def by_time(out_of_order_ms: int = 0) -> WatermarkStrategy:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(out_of_order_ms))
    return strategy.with_timestamp_assigner(lambda value, _: value[1])


OUT_OF_ORDER = by_time(4 * STEP_MS)


def sides(
    env: StreamExecutionEnvironment,
    name: str,
    how: How,
    *,
    bounded: tuple[bool, bool] = (False, False),
    strategies: tuple[WatermarkStrategy, WatermarkStrategy] = (OUT_OF_ORDER, OUT_OF_ORDER),
) -> list[KeyedStream]:
    """The topics left and right, as rows by key: the left one's strategy is assigned behind the source, and some of the
    right one's rows are left out."""
    left, right = (topic_source(topic, bounded=ends) for topic, ends in zip(("left", "right"), bounded, strict=True))
    lefts = env.from_source(left, WatermarkStrategy.no_watermarks(), "left").uid(f"left-{name}")
    lefts = lefts.assign_timestamps_and_watermarks(strategies[0])
    rights = env.from_source(right, strategies[1], "right").uid(f"right-{name}")
    return [
        how(lefts.map(tuple).filter(lambda row: row[0] != END)),
        how(rights.filter(lambda row: row[2] % 5 != 0 and row[0] != END).flat_map(lambda row: [tuple(row)])),
    ]


def draw(harness: JobHarness, how: How, **given: Any) -> list[Output]:
    env = harness.env

    def both(name: str) -> list[KeyedStream]:
        return sides(env, name, how, **given)

    meet, aligned, pairs, tag = map(both, ("meet", "aligned", "pairs", "tag"))
    streams = {
        "meet": meet[0].connect(meet[1]).process(Meet()),
        "aligned": aligned[0].connect(aligned[1]).align_by_time(100).process(Meet()),
        "pairs": pairs[0].interval_join(pairs[1]).between(-60, 90).process(Pair()),
        "tag": tag[0].connect(tag[1]).map(Tag()),
    }
    return [harness.collect(stream.uid(name), name) for name, stream in streams.items()]


def is_side_by_side(harness: JobHarness, *uids: str) -> bool:
    stages = harness._simulation.plan.stages
    return all(len(stage.input.sources()) == 2 for stage in stages if stage.uid in uids)


class Feed:
    """Rows in an order of their own, none of them late; the same for the same seed."""

    def __init__(self, harness: JobHarness, seed: int) -> None:
        self.script = random.Random(seed)
        self.topics = [harness.topic("left"), harness.topic("right")]
        self.number = 0

    def step(self, step: int) -> None:
        for topic in self.topics:
            for _ in range(self.script.randrange(5)):
                self.number += 1
                key, time = f"k{self.script.randrange(KEYS)}", self.script.randrange(4 * STEP_MS)
                topic.send([key, step * STEP_MS + time, self.number], key=key)

    def end(self) -> None:
        """Of the time of every partition."""
        for topic in self.topics:
            for partition in range(PARTITIONS):
                topic.send([END, END_MS, 0], key=END, partition=partition)


def play(seed: int, how: How, *, kills: bool = False, state_store: Any = "memory") -> list[list[Any]]:
    dice = random.Random(seed)
    with JobHarness(workers=2, seed=seed, key_groups=4, partitions=PARTITIONS, state_store=state_store) as harness:
        outputs = draw(harness, how)
        feed = Feed(harness, seed)
        assert is_side_by_side(harness, "meet", "aligned", "pairs", "tag") is (how is in_place)
        for step in range(STEPS):
            feed.step(step)
            if kills:
                trouble(harness, dice, workers_come_and_go=True)
            harness.advance_time(feed.script.choice((0, 10, 50)))
        for _ in range(3):  # a crash that is still to come may be behind the last record, before its time was told
            feed.end()
            harness.run()
        harness.advance_time(10**9 + END_MS)
        assert {harness.watermark(uid) for uid in ("meet", "aligned", "pairs", "tag")} == {END_MS - 4 * STEP_MS - 1}
        if kills:
            assert harness.crashes >= 10
        return [committed(output) for output in outputs]


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_the_job_whose_inputs_are_sent_by_key(seed: int) -> None:
    found = play(seed, in_place)
    assert all(len(results) >= 20 for results in found)
    assert found == play(seed, by_key)


@pytest.mark.parametrize("seed", range(10, 14))
def test_equal_to_a_clean_run(seed: int) -> None:
    assert play(seed, in_place, kills=True) == play(seed, in_place)


def test_equal_on_rocksdb() -> None:
    assert play(100, in_place, kills=True, state_store="rocks") == play(100, in_place)


def pairs_of(rows: dict[str, list[Row]], lower: int, upper: int) -> list[tuple[Row, Row]]:
    return sorted(
        (left, right)
        for left in rows["left"]
        for right in rows["right"]
        if left[0] == right[0] and lower <= right[1] - left[1] <= upper
    )


def test_a_join_by_the_definition() -> None:
    """All partitions have keys, and no pair is missed or made twice."""
    rows: dict[str, list[Row]] = {"left": [], "right": []}
    with JobHarness(partitions=PARTITIONS, workers=2, seed=3) as harness:
        left, right = sides(harness.env, "pairs", in_place)
        output = harness.collect(left.interval_join(right).between(-60, 90).process(Pair()).uid("pairs"))
        chance = random.Random(3)
        for number in range(400):
            topic, row = chance.choice(("left", "right")), (f"k{chance.randrange(20)}", chance.randrange(3000), number)
            harness.topic(topic).send(list(row), key=row[0])
            if topic == "left" or number % 5:
                rows[topic].append(row)
        harness.run()
        found = sorted((left, right) for left, right, _ in output.values())
        assert found == pairs_of(rows, -60, 90)
        assert len(found) > 20
        filled = [log.end for log in harness._simulation.cluster.topic("left").logs]
        assert len(filled) == PARTITIONS
        assert all(filled)


class TestTheEnd:
    @staticmethod
    def fill(harness: JobHarness, *rows: Row) -> None:
        for topic in ("left", "right"):
            for row in rows:
                harness.topic(topic).send(list(row), key=row[0])

    def job(self, harness: JobHarness, how: How, bounded: tuple[bool, bool]) -> Output:
        meet = sides(harness.env, "meet", how, bounded=bounded, strategies=(by_time(), by_time()))
        output = harness.collect(meet[0].connect(meet[1]).process(Meet()).uid("meet"))
        self.fill(harness, *((f"k{number}", number * 10, number) for number in range(1, 20)))
        return output

    @pytest.mark.parametrize("how", [in_place, by_key])
    def test_a_bounded_job_ends_by_itself(self, how: How) -> None:
        with JobHarness(partitions=PARTITIONS, workers=2) as harness:
            output = self.job(harness, how, (True, True))
            harness.run()
            assert harness.ended
            met = [value for value in output.values() if value[0] == "met"]
            assert len(met) == 19
            assert all(len(rights) == (int(key[1:]) % 5 != 0) for _, key, _, _, rights in met)

    def test_with_one_topic_empty(self) -> None:
        with JobHarness(partitions=PARTITIONS) as harness:
            left, right = sides(harness.env, "meet", in_place, bounded=(True, True))
            output = harness.collect(left.connect(right).process(Meet()).uid("meet"))
            harness.topic("left").send(["k", 5, 1], key="k")
            harness.run()
            assert harness.ended
            assert output.values() == [("met", "k", 55, [5], [])]

    def test_what_comes_behind_the_end_is_not_read(self) -> None:
        with JobHarness(partitions=PARTITIONS, seed=2) as harness:
            output = self.job(harness, in_place, (True, True))
            harness.crash_at("commit", 1, side="after")
            harness.run(commit=False)
            before = len(output)
            self.fill(harness, ("k1", 10**5, 99))
            harness.run()
            assert harness.ended
            assert len(output) - before <= 19
            assert not [value for value in output.values() if value[0] == "met" and 10**5 in value[3]]

    @pytest.mark.parametrize("how", [in_place, by_key])
    @pytest.mark.parametrize("bounded", [(True, False), (False, True)])
    def test_one_that_ends_does_not_hold_the_other(self, how: How, bounded: tuple[bool, bool]) -> None:
        with JobHarness(partitions=PARTITIONS, workers=2) as harness:
            output = self.job(harness, how, bounded)
            harness.run()
            assert not harness.ended
            self.fill(harness, *((f"k{number}", 1000, 100 + number) for number in range(1, 20)))
            for topic in ("left", "right"):
                for partition in range(PARTITIONS):
                    harness.topic(topic).send([END, END_MS, 0], key=END, partition=partition)
            harness.run()
            assert not harness.ended
            assert harness.watermark("meet") == END_MS - 1
            if how is in_place:
                assert {harness.watermark(name) for name in ("left", "right", "left-meet")} == {END_MS - 1}
            met = [value for value in output.values() if value[0] == "met"]
            assert len(met) == (19 if bounded[0] else 38)
            harness.crash()
            harness.run()
            assert len(output.values()) == len(met)


class TestLate:
    @pytest.mark.parametrize("how", [in_place, by_key])
    def test_records_behind_the_least_watermark_go_to_the_side(self, how: How) -> None:
        with JobHarness(partitions=1) as harness:
            left, right = sides(harness.env, "pairs", how, strategies=(by_time(), by_time()))
            join = left.interval_join(right).between(-10, 10)
            join = join.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
            pairs = join.process(Pair()).uid("pairs")
            outputs = [harness.collect(pairs, "pairs")]
            outputs += [harness.collect(pairs.get_side_output(tag), str(n)) for n, tag in enumerate(LATE)]
            topics = harness.topic("left"), harness.topic("right")

            def send(side: int, time: int, number: int) -> None:
                topics[side].send(["k", time, number], key="k")
                harness.run()

            send(0, 1000, 1)
            send(0, 100, 2)  # the other side has told no time yet
            send(1, 500, 3)
            assert harness.watermark("pairs") == 499
            send(0, 498, 4)
            send(0, 499, 6)
            send(1, 400, 7)
            harness.crash()
            send(1, 498, 8)
            send(1, 499, 9)
            send(0, 490, 11)
            assert sorted((left[2], right[2]) for left, right, _ in outputs[0].values()) == [(6, 3), (6, 9)]
            assert [[value[2] for value in output.values()] for output in outputs[1:]] == [[4, 11], [7, 8]]
            assert [record.timestamp for record in outputs[1]] == [498, 490]


class AtOnce(WatermarkGenerator):
    """Time is told with each record."""

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


AT_ONCE = WatermarkStrategy.for_generator(AtOnce).with_timestamp_assigner(lambda value, _: value[1])


class Ahead(CoProcessFunction):
    """How much further the first side has been read than the second, as it stands at each record."""

    def __init__(self) -> None:
        self.furthest = [0, 0]

    def process_element1(self, value: Row, ctx: CoProcessFunction.Context) -> Iterator[int]:
        self.furthest[0] = max(self.furthest[0], value[1])
        yield self.furthest[0] - self.furthest[1]

    def process_element2(self, value: Row, ctx: CoProcessFunction.Context) -> Iterator[int]:
        self.furthest[1] = max(self.furthest[1], value[1])
        yield self.furthest[0] - self.furthest[1]


class TestAligned:
    """The left topic has all its rows, the right one gets them bit by bit."""

    @staticmethod
    def job(
        harness: JobHarness, drift: int | None, strategy: WatermarkStrategy = AT_ONCE, bounded: bool = False
    ) -> Output:
        streams = sides(harness.env, "ahead", in_place, strategies=(strategy, strategy), bounded=(False, bounded))
        connected = streams[0].connect(streams[1])
        if drift is not None:
            connected = connected.align_by_time(drift)
        return harness.collect(connected.process(Ahead()).uid("ahead"))

    @staticmethod
    def feed(harness: JobHarness, topic: str, times: range) -> None:
        for time in times:
            harness.topic(topic).send(["k", time, 1], key="k")
            harness.run()

    @pytest.mark.parametrize("strategy", [AT_ONCE, by_time()])
    @pytest.mark.parametrize("drift", [None, 50])
    def test_the_side_that_is_ahead_waits(self, drift: int | None, strategy: WatermarkStrategy) -> None:
        with JobHarness() as harness:
            output = self.job(harness, drift, strategy)
            self.feed(harness, "right", range(1))
            self.feed(harness, "left", range(10, 300, 10))
            assert len(output.values()) == 30 if drift is None else 6 <= len(output.values()) <= 8
            self.feed(harness, "right", range(10, 300, 10))
            assert len(output.values()) == 59

    def test_what_was_fetched_meanwhile_is_read_again(self) -> None:
        """All of it is there from the start: nothing is lost, and nothing twice."""
        with JobHarness(seed=7) as harness:
            output = self.job(harness, 50)
            for time in range(0, 2000, 10):
                for topic in ("left", "right"):
                    harness.topic(topic).send(["k", time, 1], key="k")
            harness.run()
            assert len(output.values()) == 400

    @pytest.mark.parametrize("how", ["idle", "end"])
    def test_one_that_is_idle_or_at_its_end_is_not_waited_for(self, how: str) -> None:
        strategy = AT_ONCE.with_idleness(Duration.of_millis(500))
        with JobHarness() as harness:
            output = self.job(harness, 50, strategy, bounded=how == "end")
            if how == "idle":
                self.feed(harness, "right", range(1))
            self.feed(harness, "left", range(10, 300, 10))
            if how == "idle":
                assert len(output.values()) < 10
                harness.advance_time(1_000)
            assert len(output.values()) == (30 if how == "idle" else 29)

    def test_it_waits_over_a_crash_and_a_rebalance(self) -> None:
        with JobHarness(workers=2) as harness:
            output = self.job(harness, 50)
            self.feed(harness, "right", range(1))
            self.feed(harness, "left", range(10, 300, 10))
            before = len(output.values())
            assert before < 10
            for happens in (harness.crash, harness.rebalance):
                happens()
                self.feed(harness, "right", range(20, 30, 10))
                read = len(output.values())
                self.feed(harness, "left", range(300, 1000, 10))
                assert len(output.values()) == read
            self.feed(harness, "right", range(1000, 1010, 10))
            assert len(output.values()) == 30 + 2 * 70 + 3


def test_topics_that_do_not_match_are_refused() -> None:
    """P46: records of one key would meet in no task."""
    with JobHarness(partitions=PARTITIONS) as harness:
        draw(harness, in_place)
        harness.create_topic("right", 5)
        with pytest.raises(JobError, match=r"must be equally many \(left: 3, right: 5\)"):
            harness.run()


def test_idle_partitions_do_not_hold_time() -> None:
    """Of either topic: one that says nothing for its timeout."""
    with JobHarness(partitions=PARTITIONS) as harness:
        idling = by_time().with_idleness(Duration.of_seconds(5))
        left, right = sides(harness.env, "meet", in_place, strategies=(idling, idling))
        output = harness.collect(left.connect(right).process(Meet()).uid("meet"))
        for time in (100, 1000):
            harness.topic("left").send(["k", time, 1], key="k")
        harness.run()
        assert output.values() == []
        harness.advance_time(6_000)
        assert output.values() == [("met", "k", 150, [100], [])]


def test_a_strategy_in_mid_stream_tells_its_inputs_time() -> None:
    """The first source tells no time, and its stream does; the second one's source does."""
    with JobHarness(key_groups=1) as harness:
        lefts = harness.env.from_source(topic_source("left"), WatermarkStrategy.no_watermarks(), "left")
        rights = harness.env.from_source(topic_source("right"), by_time(), "right").map(tuple)
        timed = lefts.map(tuple).assign_timestamps_and_watermarks(by_time())
        output = harness.collect(in_place(timed).connect(in_place(rights)).process(Meet()).uid("meet"))
        for topic in ("left", "right"):
            for time in (100, 1000):
                harness.topic(topic).send(["k", time, time], key="k")
        harness.run()
        assert harness.watermark("meet") == 999
        assert output.values() == [("met", "k", 150, [100], [(100, 100)])]
