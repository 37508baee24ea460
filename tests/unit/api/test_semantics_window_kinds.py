"""What Flink says of sessions, count windows and evictors, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import OutputTag
from kstreampy.datastream.functions import AggregateFunction, WindowFunction
from kstreampy.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from kstreampy.datastream.window import (
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from kstreampy.errors import JobError, RecordError
from tests.unit.api.job import Job, first

GAP = 5
SESSIONS = EventTimeSessionWindows.with_gap(GAP)
LATE = OutputTag("late")


class Seen(WindowFunction):
    """(kind and number of the window, letters of its elements)."""

    def apply(self, key, window, inputs):
        yield (type(window).__name__, getattr(window, "id", None)), "".join(value[1] for value in inputs)


class Sessions(WindowFunction):
    def apply(self, key, window, inputs):
        yield window.start, window.end, "".join(value[1] for value in inputs)


def sessions(lateness: int = 0, trigger: Any = None) -> Any:
    def draw(stream):
        windowed = stream.key_by(first).window(SESSIONS).allowed_lateness(lateness).side_output_late_data(LATE)
        if trigger is not None:
            windowed = windowed.trigger(trigger)
        result = windowed.apply(Sessions())
        return {"main": result, "late": result.get_side_output(LATE)}

    return draw


def put(job: Job, letters: str, *timestamps: int) -> list[Any]:
    for letter, timestamp in zip(letters, timestamps, strict=True):
        job.sources[0].send(("k", letter), timestamp)
    return job.given()


# Sessions


@pytest.mark.parametrize(("second", "found"), [(5, [(0, 10, "ab")]), (6, [(0, 5, "a"), (6, 11, "b")])])
def test_two_elements_exactly_the_gap_apart_are_one_session(second: int, found: list[Any]) -> None:
    with Job(sessions()) as job:
        put(job, "ab", 0, second)
        assert job.watermark(100) == found


def test_a_gap_must_be_above_0_a_dynamic_one_too() -> None:
    with pytest.raises(ValueError, match="0"):
        EventTimeSessionWindows.with_gap(0)
    dynamic = EventTimeSessionWindows.with_dynamic_gap(lambda value: 0)
    with Job(lambda s: s.key_by(first).window(dynamic).apply(Sessions())) as job:
        job.sources[0].send(("k", "a"), 1)
        with pytest.raises(RecordError, match="Dynamic session time gap must satisfy 0 < gap"):
            job.given()


def test_a_session_that_grows_over_the_watermark_does_not_fire_twice() -> None:
    with Job(sessions(lateness=20)) as job:
        put(job, "a", 0)
        assert job.watermark(4) == [(0, 5, "a")]
        assert put(job, "b", 3) == []
        assert job.watermark(7) == [(0, 8, "ab")]


def test_a_merge_that_does_not_reach_beyond_the_watermark_fires_at_once_and_only_once() -> None:
    with Job(sessions(lateness=20)) as job:
        put(job, "a", 0)
        job.watermark(10)
        assert put(job, "b", 3) == [(0, 8, "ab")]
        assert job.watermark(15) == []


def test_lateness_is_tested_on_the_merged_window() -> None:
    """b's own session [3, 8) would be late at 8; a's live one [5, 10) takes it."""
    with Job(sessions()) as job:
        put(job, "a", 5)
        job.watermark(8)
        put(job, "b", 3)
        assert job.watermark(9) == [(3, 10, "ab")]
        put(job, "c", 3)
        assert job.given("late") == [("k", "c")]


def test_a_late_element_may_bridge_two_emitted_sessions_and_emit_their_union() -> None:
    with Job(sessions(lateness=20)) as job:
        put(job, "ac", 0, 8)
        assert job.watermark(12) == [(0, 5, "a"), (8, 13, "c")]
        assert put(job, "b", 4) == [(0, 13, "acb")]


class Pairs(Trigger):
    """Fires for every second element of a session; its count is merged when it asks for that."""

    COUNT = ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG())
    LAST = ValueStateDescriptor("last", Types.LONG())

    def __init__(self, merged: Any) -> None:
        self.merged = merged

    def on_element(self, element, timestamp, window, ctx):
        count = ctx.get_partitioned_state(self.COUNT)
        count.add(1)
        return TriggerResult.FIRE if count.get() % 2 == 0 else TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    on_processing_time = on_event_time

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        if self.merged is not None:
            ctx.merge_partitioned_state(self.merged)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.COUNT).clear()


def test_trigger_state_merges_only_if_the_trigger_asks_for_it() -> None:
    with Job(sessions(trigger=Pairs(Pairs.COUNT))) as job:
        assert put(job, "abcd", 0, 1, 2, 3) == [(0, 6, "ab"), (0, 8, "abcd")]
    with Job(sessions(trigger=Pairs(None))) as job:
        assert put(job, "abcd", 0, 1, 2, 3) == []


def test_only_merging_kinds_of_trigger_state_can_be_merged() -> None:
    with Job(sessions(trigger=Pairs(Pairs.LAST))) as job:
        job.sources[0].send(("k", "a"), 0)
        job.sources[0].send(("k", "b"), 1)
        with pytest.raises((JobError, RecordError), match=r"merg"):
            job.given()


class Total(AggregateFunction):
    """Its result is no accumulator, so that merging results instead would be seen."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + len(value[1])

    def get_result(self, accumulator):
        return f"{accumulator} letters"

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_accumulators_of_sessions_are_merged() -> None:
    with Job(lambda s: s.key_by(first).window(SESSIONS).aggregate(Total())) as job:
        put(job, "acb", 0, 8, 4)
        assert job.watermark(100) == ["3 letters"]


def test_aggregates_must_implement_merge() -> None:
    class Without(Total):
        merge = AggregateFunction.merge

    with pytest.raises(JobError, match="needs a merge"):
        Job(lambda s: s.key_by(first).window(SESSIONS).aggregate(Without()))


# Count windows


def letters(found: list[Any]) -> list[str]:
    return [letter for _, letter in found]


def test_count_window_fires_and_clears_on_every_nth_element_and_never_emits_the_tail() -> None:
    with Job(lambda s: s.key_by(first).count_window(2).apply(Seen())) as job:
        assert letters(put(job, "abcde", 1, 2, 3, 4, 5)) == ["ab", "cd"]
        assert job.end() == []
        assert job.harness.ended


def test_count_window_with_a_slide_fires_with_the_last_up_to_size_elements() -> None:
    with Job(lambda s: s.key_by(first).count_window(2, 1).apply(Seen())) as job:
        assert letters(put(job, "abc", 1, 2, 3)) == ["a", "ab", "bc"]


def test_the_assigner_of_sliding_count_windows_fires_only_full_windows() -> None:
    assigner = CountSlidingWindowAssigner.of(2, 1)
    with Job(lambda s: s.key_by(first).window(assigner).apply(Seen())) as job:
        assert letters(put(job, "abc", 1, 2, 3)) == ["ab", "bc"]


def test_the_function_is_given_a_global_window_and_by_the_assigner_a_count_window() -> None:
    with Job(lambda s: s.key_by(first).count_window(1).apply(Seen())) as job:
        assert [window for window, _ in put(job, "a", 1)] == [("GlobalWindow", None)]
    with Job(lambda s: s.key_by(first).window(CountTumblingWindowAssigner.of(1)).apply(Seen())) as job:
        assert [window for window, _ in put(job, "ab", 1, 2)] == [("CountWindow", 0), ("CountWindow", 1)]


def test_results_of_count_windows_have_the_timestamp_of_the_element_that_fired_them() -> None:
    """Flink's own have the end of all time, which makes later event-time windows useless."""
    with Job(lambda s: s.key_by(first).count_window(2).apply(Seen())) as job:
        job.sources[0].send(("k", "a"), 7)
        job.sources[0].send(("k", "b"), 3)
        assert [timestamp for _, timestamp in job.records()] == [3]


# Evictors


def test_a_count_evictor_keeps_the_last_n_and_what_is_left_replaces_the_contents() -> None:
    def draw(stream):
        windowed = stream.key_by(first).window(GlobalWindows.create()).trigger(CountTrigger.of(3))
        return windowed.evictor(CountEvictor.of(2)).apply(Seen())

    with Job(draw) as job:
        assert letters(put(job, "abcdef", 1, 2, 3, 4, 5, 6)) == ["bc", "ef"]


def evicting(evictor: Evictor[Any, Any], count: int = 3) -> Any:
    def draw(stream):
        windowed = stream.key_by(first).window(GlobalWindows.create()).trigger(CountTrigger.of(count))
        return windowed.evictor(evictor).apply(Seen())

    return draw


def test_evict_after_runs_behind_the_function() -> None:
    with Job(evicting(CountEvictor.of(1, True))) as job:
        assert letters(put(job, "abcdef", 1, 2, 3, 4, 5, 6)) == ["abc", "cdef"]


def test_a_time_evictor_drops_what_is_at_least_its_size_older_than_the_latest() -> None:
    with Job(evicting(TimeEvictor.of(10))) as job:
        assert letters(put(job, "abc", 90, 91, 100)) == ["bc"]


def test_a_time_evictor_does_nothing_if_the_first_element_has_no_timestamp() -> None:
    with Job(evicting(TimeEvictor.of(10), 2)) as job:
        job.sources[0].send(("k", "a"))
        job.sources[0].send(("k", "b"), 100)
        assert letters(job.given()) == ["ab"]


def test_a_delta_evictor_drops_what_is_not_nearer_than_the_threshold_to_the_last() -> None:
    with Job(evicting(DeltaEvictor.of(2, lambda old, new: ord(new[1]) - ord(old[1])))) as job:
        assert letters(put(job, "abc", 1, 2, 3)) == ["bc"]


class Nothing(Evictor):
    def evict_before(self, elements, size, window, ctx):
        elements.clear()

    def evict_after(self, elements, size, window, ctx):
        pass


def test_if_everything_is_evicted_the_function_is_still_called() -> None:
    def windowed(stream):
        return stream.key_by(first).window(TumblingEventTimeWindows.of(10)).evictor(Nothing())

    for draw, given in (
        (lambda s: windowed(s).apply(Sessions()), [(0, 10, "")]),
        (lambda s: windowed(s).reduce(lambda a, b: a), [None]),
        (lambda s: windowed(s).aggregate(Total()), ["0 letters"]),
    ):
        with Job(draw) as job:
            put(job, "ab", 1, 2)
            assert job.watermark(9) == given
