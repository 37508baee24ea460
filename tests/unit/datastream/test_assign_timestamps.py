"""`assign_timestamps_and_watermarks`: behind a source it is the source's, in mid-stream a step; and strategies of every kind
through whole jobs."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.common.watermark_generator import TimestampAssigner, WatermarkGenerator
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, ProcessFunction
from kstreampy.errors import JobError, RecordError
from kstreampy.graph.source import ConnectorInput, TopicInput
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from tests.unit.datastream.running import environment, results, stream_of
from tests.unit.graph.drawing import compiled, from_topic, shape, to_topic

ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


def second(value: Any, _: int) -> int:
    return int(value[1])


BY_SECOND = ASCENDING.with_timestamp_assigner(second)


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


class EndTimer(KeyedProcessFunction):
    """A timer per key at the record's time, which says what it was and which watermark fired it."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timer_service().current_watermark()


# Where it stands in the plan


@pytest.mark.parametrize("own", [None, WatermarkStrategy.no_watermarks()])
def test_directly_behind_a_source_it_is_the_sources(own):
    env = environment()
    source = from_topic(env)
    if own is None:
        source._node.strategy = None
    source.assign_timestamps_and_watermarks(BY_SECOND).uid("time").map(str).sink_to(to_topic())
    (stage,) = compiled(env).stages
    assert isinstance(stage.input.origin, TopicInput)
    assert stage.input.strategy == BY_SECOND
    assert [step.kind for step in stage.steps()] == ["map", "sink"]


def test_behind_a_source_that_is_not_kafka_it_works_per_split_where_it_is_read():
    stream = stream_of([("a", 1)]).assign_timestamps_and_watermarks(BY_SECOND)
    stream.map(str).sink_to(to_topic())
    reading, behind = compiled(stream.get_execution_environment()).stages
    assert isinstance(reading.input.origin, ConnectorInput)
    assert (reading.input.strategy, behind.input.strategy) == (BY_SECOND, None)
    assert [step.kind for step in behind.steps()] == ["map", "sink"]


def test_a_source_with_a_strategy_of_its_own_keeps_it():
    env = environment()
    source = from_topic(env)
    source._node.strategy = ASCENDING
    source.assign_timestamps_and_watermarks(BY_SECOND).sink_to(to_topic())
    plan = compiled(env)
    assert plan.stages[0].input.strategy == ASCENDING
    assert shape(plan) == {"source-1": [["timestamps_and_watermarks", "sink"]]}


def test_a_source_that_others_use_too_stays_without():
    env = environment()
    source = from_topic(env)
    source.assign_timestamps_and_watermarks(BY_SECOND).sink_to(to_topic())
    source.map(str).sink_to(to_topic())
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["timestamps_and_watermarks", "sink"], ["map", "sink"]]}
    assert plan.stages[0].input.strategy == WatermarkStrategy.no_watermarks()


def test_two_in_a_row_are_one_for_the_source_and_a_step():
    env = environment()
    first = from_topic(env).assign_timestamps_and_watermarks(ASCENDING)
    first.assign_timestamps_and_watermarks(BY_SECOND).sink_to(to_topic())
    plan = compiled(env)
    assert plan.stages[0].input.strategy == ASCENDING
    assert shape(plan) == {"source-1": [["timestamps_and_watermarks", "sink"]]}


def test_it_does_not_name_the_stage_nor_keep_state():
    """It can be added to a job that runs: its watermark is part of the task's progress."""
    env = environment()
    from_topic(env).map(str).assign_timestamps_and_watermarks(ASCENDING).sink_to(to_topic())
    (stage,) = compiled(env).stages
    assert (stage.uid, stage.stateful) == ("source-1", False)


def test_alignment_needs_a_source():
    aligned = BY_SECOND.with_watermark_alignment("group", 1000)
    env = environment()
    from_topic(env).assign_timestamps_and_watermarks(aligned).sink_to(to_topic())
    assert compiled(env).stages[0].input.strategy == aligned
    env = environment()
    from_topic(env).map(str).assign_timestamps_and_watermarks(aligned).name("again").sink_to(to_topic())
    with pytest.raises(JobError, match="again: with_watermark_alignment holds back sources"):
        compiled(env)


@pytest.mark.parametrize("wrong", [None, 5, ASCENDING.create_generator(), WatermarkStrategy])
def test_anything_but_a_strategy_is_refused(wrong):
    with pytest.raises(TypeError, match="takes a WatermarkStrategy"):
        stream_of([1]).assign_timestamps_and_watermarks(wrong)


def test_the_type_stays():
    stream = stream_of([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    again = stream.map(lambda v: v, output_type=stream.get_type()).assign_timestamps_and_watermarks(BY_SECOND)
    assert again.get_type() == stream.get_type()
    assert again.get_name() == "timestamps_and_watermarks"


# What it does

PAIRS = [("a", 3000), ("b", 1000), ("a", 2000)]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        assert record_timestamp == NO_TIMESTAMP
        return value[1]


@pytest.mark.parametrize("mid_stream", [False, True])
@pytest.mark.parametrize("assigner", [Second(), second, lambda value, ts: value[1]], ids=["class", "def", "lambda"])
def test_records_get_their_time(assigner, mid_stream):
    stream = stream_of(PAIRS)
    if mid_stream:
        stream = stream.map(lambda value: value)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(assigner).with_idleness(1000)
    timed = stream.assign_timestamps_and_watermarks(strategy).process(Times())
    assert results(timed) == [(pair, pair[1], NO_TIMESTAMP) for pair in PAIRS]


@pytest.mark.parametrize("mid_stream", [False, True])
def test_the_end_fires_every_timer_in_order_of_time(mid_stream):
    stream = stream_of(PAIRS)
    if mid_stream:
        stream = stream.map(lambda value: value)
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(second)
    timers = stream.assign_timestamps_and_watermarks(strategy).key_by(lambda pair: pair[0]).process(EndTimer())
    fired = results(timers)
    assert sorted(fired) == [("a", 2000, MAX_WATERMARK), ("a", 3000, MAX_WATERMARK), ("b", 1000, MAX_WATERMARK)]
    assert [one[1] for one in fired if one[0] == "a"] == [2000, 3000]


class Marks(WatermarkGenerator):
    """The watermark is in the data: a pair (None, watermark)."""

    def on_event(self, event, timestamp, output):
        if event[0] is None:
            output.emit_watermark(event[1])

    def on_periodic_emit(self, output): ...


def test_punctuated_watermarks_fire_timers_before_the_end():
    """Behind their batch of records; over a shuffle a watermark may be overtaken by a later one in the same message."""
    values = [("a", 1000), (None, 1500), ("a", 2000)]
    strategy = WatermarkStrategy.for_generator(Marks).with_timestamp_assigner(second)
    stream = stream_of(values).map(lambda value: value).assign_timestamps_and_watermarks(strategy)
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(
        stream.filter(lambda pair: pair[0] is not None), lambda pair: pair[0]
    )
    assert results(keyed.process(EndTimer())) == [("a", 1000, 1500), ("a", 2000, MAX_WATERMARK)]


def test_behind_a_stream_by_key_the_result_is_not_keyed():
    keyed = stream_of(PAIRS).key_by(lambda pair: pair[0])
    again = keyed.assign_timestamps_and_watermarks(BY_SECOND)
    assert type(again).__name__ == "DataStream"
    assert sorted(results(again.process(Times()).map(lambda told: told[:2]))) == sorted((p, p[1]) for p in PAIRS)


def test_an_assigner_that_fails_is_named():
    with pytest.raises(RecordError, match=r"again \(timestamp\): TypeError: the timestamp assigner must give int"):
        results(
            stream_of([("a", "soon")])
            .map(lambda value: value)
            .assign_timestamps_and_watermarks(ASCENDING.with_timestamp_assigner(lambda value, _: value[1]))
            .name("again")
        )


def test_periodic_watermarks_may_be_switched_off_in_the_configuration():
    env = environment()
    env.get_config().set_auto_watermark_interval(0)
    stream = env.from_collection(PAIRS).assign_timestamps_and_watermarks(BY_SECOND)
    timers = stream.key_by(lambda pair: pair[0]).process(EndTimer())
    assert sorted(results(timers)) == [
        ("a", 2000, MAX_WATERMARK),
        ("a", 3000, MAX_WATERMARK),
        ("b", 1000, MAX_WATERMARK),
    ]
