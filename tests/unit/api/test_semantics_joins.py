"""What Flink says of interval joins, window joins, co-groups and connected streams, sentence by sentence, as whole jobs
show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import CoGroupFunction, JoinFunction, KeyedCoProcessFunction, OutputTag, ProcessJoinFunction
from kstreampy.datastream.co_grouped_streams import CoGroupedStreams
from kstreampy.datastream.joined_streams import JoinedStreams
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.errors import RecordError
from tests.unit.api.job import Job, first

LEFT, RIGHT = OutputTag("left"), OutputTag("right")
STAMPS = OutputTag("stamps")
TEN = TumblingEventTimeWindows.of(10)


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        stamps = (ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())
        ctx.output(STAMPS, stamps)
        yield left[1], right[1]


def joined(lower: int, upper: int, *excluded: str) -> Any:
    def draw(left, right):
        join = left.key_by(first).interval_join(right.key_by(first)).between(lower, upper)
        for name in excluded:
            getattr(join, name)()
        result = join.side_output_left_late_data(LEFT).side_output_right_late_data(RIGHT).process(Pair()).uid("join")
        sides = {tag.tag_id: result.get_side_output(tag) for tag in (LEFT, RIGHT, STAMPS)}
        return {"main": result, **sides}

    return draw


def interval_join(lower: int, upper: int, *excluded: str) -> Job:
    return Job(joined(lower, upper, *excluded), sources=2)


def both(job: Job, watermark: int) -> list[Any]:
    for source in job.sources:
        source.watermark(watermark)
    return job.given()


@pytest.mark.parametrize(
    ("excluded", "found"),
    [
        ((), [8, 9, 10, 11, 12, 13]),
        (("lower_bound_exclusive",), [9, 10, 11, 12, 13]),
        (("upper_bound_exclusive",), [8, 9, 10, 11, 12]),
    ],
)
def test_an_interval_join_pairs_what_is_between_the_bounds_and_exclusive_ends_move_them_by_1_ms(excluded, found):
    with interval_join(-2, 3, *excluded) as job:
        job.send(("k", "left"), 10)
        for time in range(5, 16):
            job.sources[1].send(("k", time), time)
        assert sorted(right for _, right in job.given()) == found


def test_the_result_of_a_pair_has_the_later_timestamp_and_so_have_its_side_outputs() -> None:
    with interval_join(-5, 5) as job:
        job.sources[0].send(("k", "a"), 10)
        job.sources[1].send(("k", "b"), 12)
        job.sources[1].send(("k", "c"), 7)
        assert sorted(job.records("main")) == [(("a", "b"), 12), (("a", "c"), 10)]
        assert sorted(job.records("stamps")) == [((10, 7, 10), 10), ((10, 12, 12), 12)]


@pytest.mark.parametrize(("timestamp", "late"), [(19, True), (20, False)])
def test_an_element_is_late_when_it_is_before_the_watermark_and_then_it_never_joins(timestamp: int, late: bool) -> None:
    with interval_join(-5, 5) as job:
        job.send(("k", "right"), 21, source=1)
        both(job, 20)
        found = job.send(("k", "left"), timestamp)
        assert found == ([] if late else [("left", "right")])
        assert job.records("left") == ([(("k", "left"), timestamp)] if late else [])
        job.send(("k", "second"), timestamp, source=1)
        assert job.given("right") == ([("k", "second")] if late else [])


def test_the_watermark_of_a_join_is_the_least_of_both_inputs() -> None:
    with interval_join(-5, 5) as job:
        job.send(("k", "right"), 10, source=1)
        job.watermark(100)
        assert job.send(("k", "left"), 9) == [("left", "right")]


def test_each_side_is_kept_as_long_as_it_may_still_meet_the_other() -> None:
    """Left ones to their time and the upper bound, right ones to theirs and the negative lower bound."""
    with interval_join(-3, 5) as job:
        job.send(("k", "left"), 10)
        both(job, 15)
        assert job.send(("k", "right"), 15, source=1) == [("left", "right")]
        job.send(("k", "early"), 20, source=1)
        both(job, 23)
        assert job.send(("k", "last"), 23) == [("last", "early")]


def test_an_interval_join_needs_timestamps() -> None:
    with interval_join(-3, 5) as job:
        job.sources[0].send(("k", "left"))
        with pytest.raises(RecordError, match="interval stream joins need to have timestamps"):
            job.given()


class Concat(JoinFunction):
    def join(self, first, second):
        return first[1] + second[1]


class Groups(CoGroupFunction):
    def co_group(self, first, second):
        yield "".join(value[1] for value in first), "".join(value[1] for value in second)


def windowed(call: str, function: Any) -> Job:
    def draw(left, right):
        return getattr(left, call)(right).where(first).equal_to(first).window(TEN).apply(function)

    return Job(draw, sources=2)


def fill(job: Job) -> None:
    for source, values in enumerate(([("k", "a", 1), ("k", "b", 2), ("x", "c", 3)], [("k", "d", 5), ("k", "e", 12)])):
        for key, letter, timestamp in values:
            job.sources[source].send((key, letter), timestamp)


def test_a_window_join_is_the_inner_product_per_key_and_window_at_the_windows_end_less_1() -> None:
    with windowed("join", Concat()) as job:
        fill(job)
        for source in job.sources:
            source.watermark(100)
        assert sorted(job.records()) == [("ad", 9), ("bd", 9)]


def test_a_co_group_is_called_when_at_least_one_side_has_elements() -> None:
    with windowed("co_group", Groups()) as job:
        fill(job)
        for source in job.sources:
            source.watermark(100)
        assert sorted(job.records()) == [(("", "e"), 19), (("ab", "d"), 9), (("c", ""), 9)]


def test_window_joins_have_no_side_output_for_late_data() -> None:
    assert not hasattr(JoinedStreams.WithWindow, "side_output_late_data")
    assert not hasattr(CoGroupedStreams.WithWindow, "side_output_late_data")


class Shared(KeyedCoProcessFunction):
    """Both sides count in one state; a timer tells of the watermark."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1])
        yield value[0], self.count.value()

    process_element2 = process_element1

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp


def connected(one, two):
    return one.connect(two).key_by(first, first).process(Shared())


def test_keyed_state_of_a_key_is_seen_from_both_inputs() -> None:
    with Job(connected, sources=2) as job:
        assert job.send(("k", 5), 0) == [("k", 1)]
        assert job.send(("k", 5), 0, source=1) == [("k", 2)]
        assert job.send(("other", 5), 0, source=1) == [("other", 1)]


def test_the_watermark_of_connected_streams_is_the_least_and_max_only_when_both_ended() -> None:
    with Job(connected, sources=2) as job:
        job.send(("k", 5), 0)
        job.send(("k", 50), 0)
        assert job.watermark(100) == []
        assert job.watermark(10, source=1) == [("timer", 5)]
        job.sources[0].end()
        assert job.given() == []
        job.sources[1].end()
        assert job.given() == [("timer", 50)]
