"""What Flink says of timestamps and watermarks, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Duration, ExecutionConfig, Types, WatermarkStrategy
from kstreampy.common.watermark_strategy import WatermarkGenerator
from kstreampy.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from kstreampy.datastream.functions import WindowFunction
from kstreampy.datastream.window import EventTimeSessionWindows, TumblingProcessingTimeWindows
from kstreampy.testing import JobHarness
from tests.unit.api.job import Job, first

MIN, MAX = -(2**63), 2**63 - 1
BY_NUMBER = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])


class Alarm(KeyedProcessFunction):
    """Sets a timer at value[1], and gives the time at which it fires."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield timestamp


def alarms(stream):
    return stream.key_by(first).process(Alarm()).uid("alarms")


class Spans(WindowFunction):
    def apply(self, key, window, inputs):
        yield window.start, window.end, len(list(inputs))


@pytest.mark.parametrize(("bound", "fires_at"), [(0, 99), (5, 94)])
def test_bounded_out_of_orderness_emits_the_latest_less_the_bound_less_one(bound: int, fires_at: int) -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound))
    with Job(alarms, strategy=strategy) as job:
        job.send(("k", fires_at), 0)
        job.send(("k", fires_at + 1), 0)
        assert job.send(("k", 1000), 100) == [fires_at]


def test_monotonous_is_bounded_with_a_bound_of_0() -> None:
    with Job(alarms, strategy=WatermarkStrategy.for_monotonous_timestamps()) as job:
        job.send(("k", 99), 0)
        job.send(("k", 100), 0)
        assert job.send(("k", 1000), 100) == [99]


def test_the_first_output_of_a_generator_is_min_and_never_underflows() -> None:
    class Output(list):
        emit_watermark = list.append

    output = Output()
    generator = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1)).create_generator()
    assert generator is not None
    generator.on_periodic_emit(output)  # type: ignore[arg-type]
    assert output in ([], [MIN])


def test_a_negative_bound_is_rejected() -> None:
    with pytest.raises(ValueError, match="-1"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))


def test_the_interval_of_periodic_watermarks_is_200_ms() -> None:
    assert ExecutionConfig().get_auto_watermark_interval() == 200


def test_watermarks_are_not_made_per_record_so_a_short_bounded_job_has_none_before_its_end() -> None:
    """0, 8, 4 with a gap of 5 are one session only if no watermark came in between."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([("a", 0), ("a", 8), ("a", 4)]).assign_timestamps_and_watermarks(BY_NUMBER)
    sessions = stream.key_by(first).window(EventTimeSessionWindows.with_gap(5)).apply(Spans())
    with sessions.execute_and_collect() as found:
        assert list(found) == [(0, 13, 3)]


class Backwards(WatermarkGenerator):
    """Emits what each element says, at once."""

    def on_event(self, event, timestamp, output):
        output.emit_watermark(event[2])

    def on_periodic_emit(self, output):
        pass


def test_a_custom_generator_may_emit_for_an_element_and_what_does_not_grow_is_swallowed() -> None:
    class Marks(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timer_service().current_watermark()

    with Job(lambda s: s.key_by(first).process(Marks()), strategy=WatermarkStrategy.for_generator(Backwards)) as job:
        assert job.send(("k", 0, 50), 0) == [MIN]
        assert job.send(("k", 0, 20), 0) == [50]
        assert job.send(("k", 0, 60), 0) == [50]
        assert job.send(("k", 0, 70), 0) == [60]


def test_a_strategy_in_mid_stream_discards_what_came_from_above_but_forwards_max() -> None:
    def draw(stream):
        anew = stream.map(lambda value: value).assign_timestamps_and_watermarks(BY_NUMBER)
        return alarms(anew.map(lambda value: (value[0], value[2])))

    with Job(draw) as job:
        job.send(("k", 10, 500), 0)
        assert job.watermark(10_000) == []
        assert job.send(("k", 501, 9000), 0) == [500]
        assert job.end() == [9000]


def test_the_result_of_a_strategy_has_the_timestamps_that_it_assigned() -> None:
    with Job(lambda s: s.map(lambda value: value).assign_timestamps_and_watermarks(BY_NUMBER)) as job:
        job.sources[0].send(("k", 7), 1000)
        assert job.records() == [(("k", 7), 7)]


def test_at_the_end_of_bounded_input_every_event_time_timer_fires_also_at_max() -> None:
    with Job(alarms) as job:
        for time in (MAX, 5, 10**15):
            assert job.send(("k", time), 0) == []
        assert job.end() == [5, 10**15, MAX]
        assert job.harness.ended


def test_processing_time_timers_that_are_pending_at_the_end_of_input_are_dropped() -> None:
    class Later(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 10)

        def on_timer(self, timestamp, ctx):
            yield timestamp

    with Job(lambda s: s.key_by(first).process(Later())) as job:
        job.send(("k", 0), 0)
        assert job.advance_time(10) == [10]
        job.send(("k", 0), 0)
        assert job.end() == []
        assert job.harness.ended


def test_an_unfinished_window_of_processing_time_is_never_emitted() -> None:
    def draw(stream):
        return stream.key_by(first).window(TumblingProcessingTimeWindows.of(10)).apply(Spans())

    with Job(draw) as job:
        job.send(("k", 0), 0)
        assert job.advance_time(10) == [(0, 10, 1)]
        job.send(("k", 0), 0)
        assert job.end() == []
        assert job.harness.ended


def test_the_watermark_of_several_inputs_is_the_least_and_a_silent_one_holds_everything_back_unless_idle() -> None:
    with Job(lambda one, two: alarms(one.union(two)), sources=2) as job:
        for time in (10, 20, 30):
            job.send(("k", time), 0)
        assert job.watermark(100) == []
        assert job.watermark(15, source=1) == [10]
        assert job.watermark(10, source=1) == []
        assert job.idle(source=1) == [20, 30]


def test_an_input_that_returns_behind_the_output_counts_only_after_catching_up() -> None:
    with Job(lambda one, two: alarms(one.union(two)), sources=2) as job:
        job.send(("k", 20), 0)
        job.watermark(5, source=1)
        job.idle(source=1)
        assert job.watermark(20) == [20]
        job.send(("k", 30), 6, source=1)
        job.watermark(8, source=1)
        assert job.watermark(100) == []
        assert job.watermark(30, source=1) == [30]


def test_after_the_idle_timeout_without_a_record_a_partition_is_ignored_in_the_minimum() -> None:
    source = KafkaSource.builder().set_topics("in").set_value_only_deserializer(JsonDeserializationSchema()).build()
    with JobHarness(key_groups=1, partitions=2) as harness:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(5))
        fired = harness.collect(alarms(harness.env.from_source(source, strategy, "in").uid("in")))
        harness.topic("in").send(["k", 50], timestamp=100, partition=0)
        harness.advance_time(4_000)
        assert fired.values() == []
        harness.advance_time(2_000)
        assert fired.values() == [50]


def test_the_idle_timeout_must_be_above_0() -> None:
    with pytest.raises(ValueError, match="0 ms"):
        WatermarkStrategy.no_watermarks().with_idleness(Duration.of_millis(0))


def test_an_elements_timestamp_is_kafkas_when_there_is_no_assigner() -> None:
    class Stamp(ProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.timestamp()

    source = KafkaSource.builder().set_topics("in").set_value_only_deserializer(JsonDeserializationSchema()).build()
    with JobHarness() as harness:
        stream = harness.env.from_source(source, WatermarkStrategy.no_watermarks(), "in")
        stamps = harness.collect(stream.process(Stamp(), Types.LONG()))
        harness.topic("in").send({}, timestamp=1234)
        harness.run()
        assert stamps.values() == [1234]


def test_an_assigner_is_given_the_records_timestamp_or_min_where_it_has_none() -> None:
    given: list[Any] = []

    def assigner(value, timestamp):
        given.append((value, timestamp))
        return 7

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    with Job(lambda s: s, strategy=strategy) as job:
        job.send("with", 5)
        job.sources[0].send("without")
        assert job.records() == [("without", 7)]
    assert given == [("with", 5), ("without", MIN)]


def test_on_a_watermark_an_operator_is_told_fires_its_timers_and_then_forwards() -> None:
    """The result of a timer reaches the next operator before the watermark does."""

    class Told(Alarm):
        def on_timer(self, timestamp, ctx):
            yield "k", ctx.timer_service().current_watermark()

    class Next(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value[1], ctx.timer_service().current_watermark()

    with Job(lambda s: s.key_by(first).process(Told()).key_by(first).process(Next())) as job:
        job.send(("k", 10), 0)
        job.watermark(5)
        assert job.watermark(30) == [(30, 5)]
