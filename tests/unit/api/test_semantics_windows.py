"""What Flink says of assignment, firing, clean-up and lateness of windows, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import OutputTag
from kstreampy.datastream.functions import ProcessWindowFunction, WindowFunction
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.errors import JobError, RecordError
from tests.unit.api.job import Job, first

TEN = TumblingEventTimeWindows.of(10)
LATE = OutputTag("late")
DROPPED = "kstreampy_records_late_dropped_total"


class Seen(WindowFunction):
    """(start of the window, letters of its elements)."""

    def apply(self, key, window, inputs):
        yield getattr(window, "start", None), "".join(value[1] for value in inputs)


def windows(assigner: Any = TEN, trigger: Any = None, lateness: int = 0, late: bool = False) -> Any:
    def draw(stream):
        windowed = stream.key_by(first).window(assigner)
        if trigger is not None:
            windowed = windowed.trigger(trigger)
        if lateness:
            windowed = windowed.allowed_lateness(lateness)
        if late:
            windowed = windowed.side_output_late_data(LATE)
        result = windowed.apply(Seen()).uid("windows")
        return {"main": result, "late": result.get_side_output(LATE)} if late else result

    return draw


def put(job: Job, letters: str, *timestamps: int) -> list[Any]:
    for letter, timestamp in zip(letters, timestamps, strict=True):
        job.sources[0].send(("k", letter), timestamp)
    return job.given()


def dropped(job: Job) -> float:
    return sum(value for name, value in job.harness.metrics().items() if name.startswith(DROPPED))


# Assignment


@pytest.mark.parametrize(("offset", "starts"), [(0, [-10, 0, 0, 10]), (3, [-17, -7, 3, 3])])
def test_a_window_starts_on_the_grid_also_before_the_epoch(offset: int, starts: list[int]) -> None:
    with Job(windows(TumblingEventTimeWindows.of(10, offset))) as job:
        for letter, timestamp in zip("abcd", (-9, 0, 9, 10), strict=True):
            job.sources[0].send((letter, letter), timestamp)
        assert sorted(job.watermark(1000), key=lambda found: found[1]) == list(zip(starts, "abcd", strict=True))


def test_sliding_assigns_every_start_after_the_timestamp_less_the_size() -> None:
    with Job(windows(SlidingEventTimeWindows.of(10, 5))) as job:
        put(job, "ab", 10, 14)
        assert job.watermark(1000) == [(5, "ab"), (10, "ab")]


def test_if_the_slide_is_above_the_size_some_elements_fall_in_no_window() -> None:
    with Job(windows(SlidingEventTimeWindows.of(2, 5))) as job:
        put(job, "abcde", 0, 1, 2, 4, 5)
        assert job.watermark(1000) == [(0, "ab"), (5, "e")]


@pytest.mark.parametrize("offset", [10, -10])
def test_an_offset_must_be_less_than_the_size_or_the_slide(offset: int) -> None:
    with pytest.raises(ValueError, match=str(abs(offset))):
        TumblingEventTimeWindows.of(10, offset)
    with pytest.raises(ValueError, match=str(abs(offset))):
        SlidingEventTimeWindows.of(20, 10, offset)


def test_an_element_without_timestamp_fails_an_event_time_assigner() -> None:
    with Job(windows()) as job, pytest.raises(RecordError, match=r"Record has Long.MIN_VALUE timestamp"):
        job.send(("k", "a"))


def test_processing_time_assigners_use_the_operators_clock_not_the_element() -> None:
    with Job(windows(TumblingProcessingTimeWindows.of(10)), start_time_ms=25) as job:
        assert put(job, "a", 1_000_000) == []
        assert job.advance_time(5) == [(20, "a")]


def test_the_global_window_is_never_late_and_its_default_trigger_never_fires() -> None:
    with Job(windows(GlobalWindows.create(), CountTrigger.of(2))) as job:
        put(job, "a", 5)
        job.watermark(10**15)
        assert put(job, "b", 1) == [(None, "ab")]
    with Job(windows(GlobalWindows.create())) as job:
        put(job, "ab", 5, 6)
        assert job.end() == []
        assert job.harness.ended


# Firing, clean-up, lateness


@pytest.mark.parametrize(("watermark", "letters"), [(13, ["ab"]), (14, []), (15, [])])
def test_a_window_takes_nothing_once_its_end_less_1_plus_lateness_is_at_the_watermark(watermark, letters) -> None:
    with Job(windows(lateness=5)) as job:
        put(job, "a", 1)
        job.watermark(watermark)
        assert [found[1] for found in put(job, "b", 9)] == letters


@pytest.mark.parametrize(("timestamp", "told"), [(5, 1), (6, 0)])
def test_an_element_that_no_window_took_is_late_by_its_own_timestamp_or_vanishes_uncounted(timestamp, told) -> None:
    assigner = SlidingEventTimeWindows.of(2, 8)
    with Job(windows(assigner, lateness=5)) as job:
        job.watermark(10)
        assert put(job, "a", timestamp) == []
        assert dropped(job) == told
    with Job(windows(assigner, lateness=5, late=True)) as job:
        job.watermark(10)
        put(job, "a", timestamp)
        assert job.records("late") == [(("k", "a"), timestamp)] * told
        assert dropped(job) == 0


def test_an_allowed_lateness_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="The allowed lateness cannot be negative"):
        Job(lambda s: s.key_by(first).window(TEN).allowed_lateness(-1).apply(Seen()))


def test_every_late_but_accepted_element_fires_again_at_once() -> None:
    with Job(windows(lateness=5)) as job:
        put(job, "a", 1)
        assert job.watermark(9) == [(0, "a")]
        assert put(job, "b", 2) == [(0, "ab")]
        assert put(job, "c", 3) == [(0, "abc")]
        assert job.watermark(100) == []


def test_with_a_purging_trigger_each_late_firing_has_only_that_element() -> None:
    with Job(windows(trigger=PurgingTrigger.of(EventTimeTrigger.create()), lateness=5)) as job:
        put(job, "a", 1)
        assert job.watermark(9) == [(0, "a")]
        assert put(job, "b", 2) == [(0, "b")]


def test_lateness_means_nothing_in_processing_time() -> None:
    with Job(windows(TumblingProcessingTimeWindows.of(10), lateness=100)) as job:
        put(job, "a", 0)
        assert job.advance_time(10) == [(0, "a")]
        put(job, "b", 0)
        assert job.advance_time(10) == [(10, "b")]


class Counting(ProcessWindowFunction):
    """(firings of this window so far, of this key so far, letters)."""

    FIRINGS = ValueStateDescriptor("firings", Types.LONG())
    CLEARED = OutputTag("cleared")

    def process(self, key, context, elements):
        counts = []
        for store in (context.window_state(), context.global_state()):
            state = store.get_state(self.FIRINGS)
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield (*counts, "".join(value[1] for value in elements))

    def clear(self, context):
        firings = context.window_state().get_state(self.FIRINGS)
        context.output(self.CLEARED, (context.window().start, firings.value()))
        firings.clear()


def test_purge_clears_the_contents_and_not_the_users_per_window_state_and_clear_runs_at_the_clean_up() -> None:
    def draw(stream):
        trigger = PurgingTrigger.of(CountTrigger.of(2))
        result = stream.key_by(first).window(TEN).trigger(trigger).process(Counting())
        return {"main": result, "cleared": result.get_side_output(Counting.CLEARED)}

    with Job(draw) as job:
        assert put(job, "abcd", 1, 2, 3, 4) == [(1, 1, "ab"), (2, 2, "cd")]
        assert job.given("cleared") == []
        job.watermark(9)
        assert job.given("cleared") == [(0, 2)]
        assert put(job, "ef", 11, 12) == [(1, 3, "ef")]


def test_firing_with_no_contents_emits_nothing() -> None:
    with Job(windows(trigger=PurgingTrigger.of(ContinuousEventTimeTrigger.of(4)))) as job:
        put(job, "a", 1)
        assert job.watermark(4) == [(0, "a")]
        assert job.watermark(8) == []


def test_every_firing_bears_the_windows_max_timestamp_early_and_late_ones_too() -> None:
    with Job(windows(trigger=ContinuousEventTimeTrigger.of(4), lateness=5)) as job:
        job.sources[0].send(("k", "a"), 1)
        job.sources[0].watermark(4)
        job.sources[0].watermark(9)
        job.sources[0].send(("k", "b"), 2)
        # at 4, at 8, at its end, and for the late element
        assert [timestamp for _, timestamp in job.records()] == [9, 9, 9, 9]


def test_a_count_trigger_fires_at_n_begins_anew_and_never_purges() -> None:
    with Job(windows(trigger=CountTrigger.of(2))) as job:
        assert put(job, "abcde", 1, 2, 3, 4, 5) == [(0, "ab"), (0, "abcd")]


def test_a_continuous_trigger_fires_at_multiples_and_at_the_windows_end() -> None:
    with Job(windows(trigger=ContinuousEventTimeTrigger.of(4))) as job:
        put(job, "a", 1)
        assert [bool(job.watermark(watermark)) for watermark in (3, 4, 7, 8, 9, 12)] == [
            False, True, False, True, True, False,
        ]  # fmt: skip


def test_a_delta_trigger_compares_with_the_element_that_fired_last() -> None:
    trigger = DeltaTrigger.of(2, lambda old, new: ord(new[1]) - ord(old[1]), Types.PICKLED_BYTE_ARRAY())
    with Job(windows(GlobalWindows.create(), trigger)) as job:
        assert put(job, "acdf", 1, 2, 3, 4) == [(None, "acd")]
        assert put(job, "g", 5) == [(None, "acdfg")]


def test_a_processing_timeout_fires_where_the_nested_trigger_did_not_and_for_any_event_time_callback() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), 100)
    with Job(windows(trigger=trigger)) as job:
        put(job, "a", 1)
        assert job.advance_time(99) == []
        assert job.advance_time(1) == [(0, "a")]
    with Job(windows(GlobalWindows.create(), trigger)) as job:
        assert put(job, "abc", 1, 2, 3) == [(None, "abc")]
        assert job.advance_time(1000) == []


@pytest.mark.parametrize(
    "trigger",
    [DeltaTrigger.of(1, lambda old, new: 1), ProcessingTimeoutTrigger.of(EventTimeTrigger.create(), 5)],
    ids=repr,
)
def test_a_merging_assigner_needs_a_trigger_that_can_merge(trigger: Any) -> None:
    assert not trigger.can_merge()
    with pytest.raises(TypeError, match="cannot be used with a trigger that does not support merging"):
        Job(windows(EventTimeSessionWindows.with_gap(5), trigger))


def test_per_window_state_is_forbidden_for_merging_windows() -> None:
    def draw(stream):
        return stream.key_by(first).window(EventTimeSessionWindows.with_gap(5)).process(Counting())

    with Job(draw) as job:
        put(job, "a", 1)
        with pytest.raises((JobError, RecordError), match="Per-window state is not allowed when using merging windows"):
            job.watermark(100)
