"""What Flink says of timers, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

import pytest

from kstreampy.common import Types
from kstreampy.datastream import KeyedBroadcastProcessFunction, KeyedProcessFunction, ProcessFunction
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.errors import JobError
from tests.unit.api.job import Job, first

DOMAINS = ["event", "processing"]


class Timers(KeyedProcessFunction):
    """An element is (key, calls): each call is a method of the timer service without `_timer`, and its time.

    Gives (key, time that fired, `ctx.timestamp()`, domain, watermark).
    """

    def process_element(self, value, ctx):
        for call, time in value[1]:
            getattr(ctx.timer_service(), f"{call}_timer")(time)

    def on_timer(self, timestamp, ctx):
        service = ctx.timer_service()
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.time_domain().name, service.current_watermark()


def timers(stream):
    return stream.key_by(first).process(Timers()).uid("timers")


def registered(*times: int, domain: str = "event") -> list[tuple[str, int]]:
    return [(f"register_{domain}_time", time) for time in times]


def deleted(*times: int, domain: str = "event") -> list[tuple[str, int]]:
    return [(f"delete_{domain}_time", time) for time in times]


def test_registering_twice_is_a_no_op_and_so_is_deleting_what_is_not_there() -> None:
    with Job(timers) as job:
        job.send(("a", registered(5, 5, 7) + deleted(6)), 0)
        job.send(("a", registered(5)), 0)
        assert job.harness.timers("timers") == [(5, "a"), (7, "a")]
        job.send(("a", deleted(7, 7)), 0)
        assert [fired[1] for fired in job.watermark(10)] == [5]


def test_timers_are_per_key() -> None:
    with Job(timers) as job:
        job.send(("a", registered(5)), 0)
        job.send(("b", registered(5) + deleted(5)), 0)
        assert [fired[:2] for fired in job.watermark(5)] == [("a", 5)]


def test_event_and_processing_timers_at_the_same_time_are_different_timers() -> None:
    with Job(timers) as job:
        job.send(("a", registered(5) + registered(5, domain="processing")), 0)
        assert [fired[3] for fired in job.watermark(5)] == ["EVENT_TIME"]
        assert [fired[3] for fired in job.advance_time(5)] == ["PROCESSING_TIME"]


@pytest.mark.parametrize(("watermark", "fires"), [(4, False), (5, True), (6, True)])
def test_event_time_timers_fire_when_their_time_is_not_after_the_watermark(watermark: int, fires: bool) -> None:
    with Job(timers) as job:
        job.send(("a", registered(5)), 0)
        assert bool(job.watermark(watermark)) is fires


def test_they_fire_in_the_order_of_time_across_keys_and_see_the_new_watermark() -> None:
    with Job(timers) as job:
        job.send(("a", registered(30, 10)), 0)
        job.send(("b", registered(20, 40)), 0)
        fired = job.watermark(35)
        assert [row[:2] for row in fired] == [("a", 10), ("b", 20), ("a", 30)]
        assert {row[4] for row in fired} == {35}


@pytest.mark.parametrize("time", [9, 10])
def test_a_timer_at_or_before_the_watermark_fires_at_the_next_advance(time: int) -> None:
    with Job(timers) as job:
        job.watermark(10)
        assert job.send(("a", registered(time)), 0) == []
        assert [row[1] for row in job.watermark(11)] == [time]


def test_one_registered_within_on_timer_at_or_before_the_watermark_fires_in_the_same_loop() -> None:
    class Again(Timers):
        def on_timer(self, timestamp, ctx):
            if timestamp > 7:
                ctx.timer_service().register_event_time_timer(timestamp - 1)
            yield timestamp

    with Job(lambda s: s.key_by(first).process(Again())) as job:
        job.send(("a", registered(10)), 0)
        assert job.watermark(10) == [10, 9, 8, 7]


def test_processing_time_timers_fire_when_their_time_has_come_and_past_ones_at_once() -> None:
    with Job(timers, start_time_ms=100) as job:
        assert job.send(("a", registered(105, domain="processing")), 0) == []
        assert job.advance_time(4) == []
        assert [row[1] for row in job.advance_time(1)] == [105]
        assert [row[1] for row in job.send(("a", registered(3, domain="processing")), 0)] == [3]


def test_after_a_restore_overdue_ones_fire_at_the_start() -> None:
    with Job(timers) as job:
        job.send(("a", registered(5, 50, domain="processing")), 0)
        job.harness.restart()
        job.harness.clock.move_to(20)
        assert [row[1] for row in job.given()] == [5]
        assert job.harness.timers("timers", "processing") == [(50, "a")]


def test_in_on_timer_the_key_is_the_timers_and_the_timestamp_is_the_timers_time_in_both_domains() -> None:
    with Job(timers) as job:
        for key in ("a", "b"):
            job.send((key, registered(5) + registered(9, domain="processing")), 3)
        assert sorted(row[:3] for row in job.watermark(5)) == [("a", 5, 5), ("b", 5, 5)]
        assert sorted(row[:3] for row in job.advance_time(9)) == [("a", 9, 9), ("b", 9, 9)]


def test_results_of_event_timers_have_the_timers_timestamp_and_those_of_processing_timers_none() -> None:
    with Job(timers) as job:
        job.send(("a", registered(5) + registered(9, domain="processing")), 3)
        job.sources[0].watermark(6)
        assert [timestamp for _, timestamp in job.records()] == [5]
        job.harness.advance_time(9)
        assert [timestamp for _, timestamp in job.records()] == [None]


@pytest.mark.parametrize("domain", DOMAINS)
def test_only_keyed_operators_may_set_timers(domain: str) -> None:
    class Unkeyed(ProcessFunction):
        process_element = Timers.process_element

    with (
        Job(lambda s: s.process(Unkeyed())) as job,
        pytest.raises(JobError, match="timers is only supported on a keyed stream"),
    ):
        job.send(("a", registered(5, domain=domain)), 0)


def test_in_keyed_broadcast_process_function_only_the_keyed_side_and_on_timer_may() -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.STRING())

    class Rules(KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)

        def process_broadcast_element(self, value, ctx):
            yield hasattr(ctx, "timer_service"), hasattr(ctx, "get_current_key")

        def on_timer(self, timestamp, ctx):
            if timestamp == 5:
                ctx.timer_service().register_event_time_timer(8)
            yield ctx.get_current_key(), timestamp

    def draw(stream, broadcast):
        return stream.key_by(first).connect(broadcast.broadcast(rules)).process(Rules())

    with Job(draw, sources=2) as job:
        assert job.send("rule", 0, source=1) == [(False, False)]
        job.send(("a", 0), 0)
        job.watermark(20, source=1)
        assert job.watermark(10) == [("a", 5), ("a", 8)]


@pytest.mark.parametrize("domain", DOMAINS)
def test_timers_are_part_of_the_checkpoint(domain: str) -> None:
    with Job(timers) as job:
        job.send(("a", registered(5, 7, domain=domain)), 0)
        job.send(("a", deleted(7, domain=domain)), 0)
        job.harness.crash()
        assert job.harness.timers("timers", "event" if domain == "event" else "processing") == [(5, "a")]
        fired = job.watermark(10) if domain == "event" else job.advance_time(10)
        assert [row[1] for row in fired] == [5]
        job.harness.crash()
        assert job.given() == []
