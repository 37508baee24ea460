"""The virtual clock, timers of both domains, watermarks, idleness and windows under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.common.time import Duration, Time
from kstreampy.datastream import KeyedProcessFunction, RuntimeContext
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from kstreampy.errors import JobError
from kstreampy.testing import HarnessSource, JobHarness, Output, VirtualClock
from tests.unit.testing.jobs import orders


class TestClock:
    def test_stands_still(self) -> None:
        clock = VirtualClock(5)
        assert (clock(), clock(), clock.monotonic()) == (5, 5, 0.005)

    def test_moves_only_on(self) -> None:
        clock = VirtualClock()
        clock.advance(Duration.of_seconds(2))
        clock.move_to(2000)
        assert clock.now_ms == 2000
        with pytest.raises(ValueError, match="time does not go back"):
            clock.move_to(1999)
        with pytest.raises(ValueError, match="time does not go back"):
            clock.advance(-1)


class Reminder(KeyedProcessFunction):
    """Says each value `delay` ms later, with the time at which it does."""

    def __init__(self, domain: str, delay: int) -> None:
        self.domain = domain
        self.delay = delay

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        self.last.update(value)
        timers = ctx.timer_service()
        if self.domain == "event":
            timers.register_event_time_timer((ctx.timestamp() or 0) + self.delay)
        else:
            timers.register_processing_time_timer(timers.current_processing_time() + self.delay)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield timestamp, ctx.timer_service().current_processing_time(), self.last.value()


def reminders(harness: JobHarness, domain: str, delay: int = 100) -> tuple[HarnessSource, Output]:
    source = harness.source("words")
    words = harness.env.from_source(source, source.watermarks(), "words")
    said = words.key_by(lambda word: word[0]).process(Reminder(domain, delay)).uid("reminders")
    return source, harness.collect(said)


class TestProcessingTime:
    def test_timers_fire_only_as_time_is_advanced(self) -> None:
        with JobHarness(start_time_ms=1000) as harness:
            words, said = reminders(harness, "processing")
            words.send("apple")
            harness.run()
            harness.run()
            assert (said.values(), harness.timers("reminders", "processing")) == ([], [(1100, "a")])
            harness.advance_time(99)
            assert said.values() == []
            harness.advance_time(1)
            assert said.values() == [(1100, 1100, "apple")]
            assert harness.timers("reminders", "processing") == []

    def test_each_at_its_time(self) -> None:
        """However far time is advanced at once."""
        with JobHarness() as harness:
            words, said = reminders(harness, "processing")
            for word in ("apple", "bear", "cat"):
                words.send(word)
                harness.advance_time(30)
            assert harness.now_ms == 90
            harness.advance_time(Duration.of_minutes(1))
            assert sorted(said.values()) == [(100, 100, "apple"), (130, 130, "bear"), (160, 160, "cat")]
            assert harness.now_ms == 60_090

    def test_a_timer_that_sets_another(self) -> None:
        class Ticking(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
                ctx.timer_service().register_processing_time_timer(10)

            def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
                yield timestamp
                ctx.timer_service().register_processing_time_timer(timestamp + 10)

        with JobHarness() as harness:
            source = harness.source("numbers")
            stream = harness.env.from_source(source, source.watermarks(), "numbers")
            ticks = harness.collect(stream.key_by(lambda n: n).process(Ticking()))
            source.send(1)
            harness.advance_time(35)
            assert ticks.values() == [10, 20, 30]

    def test_over_a_crash(self) -> None:
        with JobHarness() as harness:
            words, said = reminders(harness, "processing")
            words.send_all(["apple", "bear"])
            harness.run()
            harness.lose_disk()
            harness.clock.advance(500)
            harness.run()
            assert sorted(said.values()) == [(100, 500, "apple"), (100, 500, "bear")]

    @pytest.mark.parametrize("wrong", [-1, Time.seconds(-1)])
    def test_time_does_not_go_back(self, wrong: Any) -> None:
        with JobHarness() as harness:
            reminders(harness, "processing")
            with pytest.raises(ValueError, match="does not go back"):
                harness.advance_time(wrong)


class TestEventTime:
    def test_timers_fire_by_watermark(self) -> None:
        with JobHarness(start_time_ms=7) as harness:
            words, said = reminders(harness, "event")
            words.send("apple", timestamp=50)
            words.watermark(149)
            harness.advance_time(60_000)
            assert (said.values(), harness.timers("reminders")) == ([], [(150, "a")])
            assert (harness.watermark("words"), harness.watermark("reminders")) == (149, 149)
            words.watermark(150)
            harness.run()
            assert said.records()[0].value == (150, 60_007, "apple")
            assert said.records()[0].timestamp == 150

    def test_marks_come_between_the_values(self) -> None:
        """Each is seen by itself, in its place, however much is sent before the job runs."""
        with JobHarness() as harness:
            words, said = reminders(harness, "event", delay=0)
            for number in range(5):
                words.send(f"a{number}", timestamp=number)
                words.watermark(number)
            harness.run()
            assert [value for _, _, value in said.values()] == [f"a{number}" for number in range(5)]

    def test_never_back(self) -> None:
        with JobHarness() as harness:
            words, _ = reminders(harness, "event")
            words.watermark(100)
            words.watermark(50)
            harness.run()
            harness.crash()
            words.send("x", timestamp=1)
            harness.run()
            assert harness.watermark("reminders") == 100

    def test_the_end(self) -> None:
        with JobHarness() as harness:
            words, said = reminders(harness, "event")
            words.send("apple", timestamp=50)
            words.end()
            harness.run()
            assert said.values() == [(150, 0, "apple")]
            assert harness.ended
            with pytest.raises(JobError, match="has ended"):
                words.send("more")

    def test_before_the_first_mark(self) -> None:
        with JobHarness() as harness:
            reminders(harness, "event")
            harness.run()
            assert harness.watermark("reminders") is None
            with pytest.raises(JobError, match=r"no operator or stage 'remindrs' in this job: .*'reminders'"):
                harness.watermark("remindrs")

    def test_marks_of_a_source_with_a_strategy_of_its_own(self) -> None:
        with JobHarness() as harness:
            source = harness.source("numbers")
            strategy = WatermarkStrategy.for_monotonous_timestamps()
            harness.collect(harness.env.from_source(source, strategy, "numbers"))
            for tell in (lambda: source.watermark(1), source.idle):
                with pytest.raises(JobError, match=r"from_source\(source, source.watermarks\(\), 'numbers'\)"):
                    tell()
            source.send(1, timestamp=10)
            harness.run()
            assert harness.watermark("numbers") == 9

    def test_two_sources_of_one_name(self) -> None:
        with JobHarness() as harness:
            harness.source("a")
            with pytest.raises(JobError, match="named 'a' already"):
                harness.source("a")


class TestIdleness:
    def job(self, harness: JobHarness, strategy: WatermarkStrategy) -> None:
        harness.env.from_source(orders(), strategy, "orders").key_by(lambda order: order["customer"]).max("amount").uid(
            "largest"
        ).print()
        for partition, timestamp in ((0, 1000), (1, 5)):
            harness.topic("orders").send({"customer": "a", "amount": 1}, timestamp=timestamp, partition=partition)
        harness.run()

    def test_a_silent_partition_holds_the_watermark_back(self) -> None:
        with JobHarness(partitions=2, settings={"idle_timeout_ms": 5000}) as harness:
            strategy = WatermarkStrategy.for_monotonous_timestamps()
            self.job(harness, strategy.with_idleness(Duration.of_seconds(2)))
            assert harness.watermark("largest") == 4
            harness.topic("orders").send({"customer": "a", "amount": 1}, timestamp=2000, partition=0)
            harness.advance_time(1999)
            assert harness.watermark("largest") == 4
            harness.topic("orders").send({"customer": "a", "amount": 1}, timestamp=3000, partition=0)
            harness.advance_time(1)
            assert harness.watermark("largest") == 2999

    def test_a_source_that_says_it_is_idle(self) -> None:
        with JobHarness() as harness:
            source = harness.source("numbers")
            stream = harness.env.from_source(source, source.watermarks(), "numbers")
            harness.collect(stream)
            source.send(1, timestamp=1)
            source.watermark(1)
            harness.run()
            source.idle()
            harness.run()
            (task,) = [task for name, task in harness._simulation.workers[0].tasks.items() if name == "source-1/0"]
            assert task.idle
            harness.crash()
            harness.run()
            source.send(2, timestamp=2)
            source.watermark(2)
            harness.run()
            (task,) = [task for name, task in harness._simulation.workers[0].tasks.items() if name == "source-1/0"]
            assert not task.idle
            assert harness.watermark("numbers") == 2


def counted(harness: JobHarness, assigner: Any, name: str = "clicks") -> tuple[HarnessSource, Output]:
    source = harness.source(name)
    clicks = harness.env.from_source(source, source.watermarks(), name)
    ones = clicks.map(lambda page: (page, 1))
    windows = ones.key_by(lambda pair: pair[0]).window(assigner)
    counts = windows.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
    return source, harness.collect(counts, name)


class TestWindows:
    def test_event_time(self) -> None:
        with JobHarness() as harness:
            clicks, counts = counted(harness, TumblingEventTimeWindows.of(Time.seconds(10)))
            for page, timestamp in (("home", 1), ("home", 9_999), ("news", 10_000)):
                clicks.send(page, timestamp=timestamp)
            clicks.watermark(9_998)
            harness.run()
            assert counts.take_values() == []
            clicks.watermark(9_999)
            harness.run()
            assert [(record.value, record.timestamp) for record in counts.take()] == [(("home", 2), 9_999)]
            clicks.end()
            harness.run()
            assert counts.take_values() == [("news", 1)]

    def test_processing_time(self) -> None:
        with JobHarness(start_time_ms=5_000) as harness:
            clicks, counts = counted(harness, TumblingProcessingTimeWindows.of(Time.seconds(10)))
            clicks.send("home")
            harness.run()
            harness.advance_time(4_000)
            clicks.send("home")
            harness.run()
            assert counts.values() == []
            harness.advance_time(1_000)
            assert counts.values() == [("home", 2)]

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize(
        "assigner",
        [TumblingEventTimeWindows.of(Time.seconds(1)), EventTimeSessionWindows.with_gap(Time.milliseconds(150))],
    )
    def test_a_crash_in_the_middle_of_open_windows(self, seed: int, assigner: Any) -> None:
        clean = self.counts(assigner, seed, crash=False)
        assert len(clean) > 10
        assert self.counts(assigner, seed, crash=True) == clean

    def counts(self, assigner: Any, seed: int, *, crash: bool) -> Any:
        with JobHarness(workers=2, seed=seed) as harness:
            clicks, counts = counted(harness, assigner)
            for number in range(60):
                clicks.send(f"page {number * 7 % 4}", timestamp=number * 97)
                if number % 9 == 0:
                    clicks.watermark(number * 97 - 300)
                if number % 20 == 10:
                    if crash:
                        harness.crash_at("commit", 2, worker=number // 20 % 2)
                        harness.crash_at("store", 1, worker=1 - number // 20 % 2)
                    harness.run()
                if crash and number == 45:
                    harness.lose_disk(0)
                    harness.rebalance()
            clicks.end()
            harness.run()
            assert (harness.crashes > 0) is crash
            return sorted((record.timestamp, record.value) for record in counts)


class SeenAt(KeyedProcessFunction):
    """Each value with the watermark that it met."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timer_service().current_watermark()


def met(harness: JobHarness) -> tuple[HarnessSource, Output]:
    source = harness.source("numbers")
    numbers = harness.env.from_source(source, source.watermarks(), "numbers")
    return source, harness.collect(numbers.key_by(lambda number: 0).process(SeenAt()))


class TestMarks:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("calls", range(4, 9))
    def test_come_through_before_what_follows_also_over_a_crash(self, calls: int, seed: int) -> None:
        with JobHarness(seed=seed) as harness:
            source, seen = met(harness)
            source.watermark(0)
            harness.run()
            for number in range(1, 5):
                source.send(number)
                source.watermark(number)
            harness.crash_at("flush", calls)
            harness.run()
            assert seen.values() == [(1, 0), (2, 1), (3, 2), (4, 3)]

    def test_come_through_before_what_follows_when_nothing_is_committed_meanwhile(self) -> None:
        with JobHarness() as harness:
            source, seen = met(harness)
            source.watermark(5)
            source.send(1)
            harness.run(commit=False)
            harness.run()
            assert seen.values() == [(1, 5)]
