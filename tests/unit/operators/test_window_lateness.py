"""When windows fire, end, and refuse elements: to the millisecond. The window in most tests is [0, 10)."""

from __future__ import annotations

import pytest

from kstreampy.datastream.window import (
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.errors import RecordError
from kstreampy.operators.window import WindowOperator
from kstreampy.serde.batch import MAX_WATERMARK
from tests.unit.operators.windowing import Step, concat, spec

TEN = TumblingEventTimeWindows.of(10)
FIRST = TimeWindow(0, 10)


def step(assigner=TEN, trigger=None, **changes) -> Step:
    return Step(spec(assigner, trigger, **changes), WindowOperator)


@pytest.mark.parametrize(("watermark", "fires"), [(8, False), (9, True), (10, True)])
def test_fires_when_the_watermark_comes_to_its_max_timestamp(watermark: int, fires: bool) -> None:
    windows = step()
    windows.element("a", 0)
    windows.element("b", 9)
    found = windows.watermark(watermark)
    assert found == ([("k", FIRST, ["a", "b"])] if fires else [])
    assert windows.stamps == ([9] if fires else [])


@pytest.mark.parametrize(("timestamp", "window"), [(9, 0), (10, 10), (-1, -10), (-10, -10)])
def test_an_element_is_in_the_window_that_starts_at_or_before_it(timestamp: int, window: int) -> None:
    windows = step()
    windows.element("a", timestamp)
    assert windows.watermark(100) == [("k", TimeWindow(window, window + 10), ["a"])]


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize("past", [-1, 0, 1])
def test_a_window_takes_elements_until_its_clean_up(lateness: int, past: int) -> None:
    """The clean-up is at 9 + lateness. An element is late when its own timestamp plus lateness is not after the watermark."""
    windows = step(allowed_lateness_ms=lateness)
    windows.element("a", 3)
    windows.watermark(9 + lateness + past)
    found = windows.element("b", 9)
    if past < 0 and lateness == 0:
        assert found == []
        assert windows.watermark(9) == [("k", FIRST, ["a", "b"])]
    elif past < 0:
        assert found == [("k", FIRST, ["a", "b"])]
        assert windows.stamps == [9]
    else:
        assert found == []
        assert windows.task.late_dropped == 1
        assert windows.kept() == []


@pytest.mark.parametrize(("timestamp", "late"), [(4, True), (5, True), (6, False)])
def test_what_no_window_took_is_late_by_its_own_timestamp(timestamp: int, late: bool) -> None:
    """In windows with gaps between them, an element may be in none; then it is told of only if it is late itself."""
    windows = step(SlidingEventTimeWindows.of(2, 8), allowed_lateness_ms=5, late_tag_id="late")
    windows.watermark(10)
    assert windows.element("a", timestamp) == []
    assert windows.late() == ([("a", timestamp)] if late else [])
    assert windows.task.late_dropped == 0


def test_an_element_taken_by_one_of_its_windows_is_not_late() -> None:
    windows = step(SlidingEventTimeWindows.of(10, 5), late_tag_id="late")
    windows.watermark(9)
    windows.element("a", 7)
    assert windows.late() == []
    assert windows.watermark(100) == [("k", TimeWindow(5, 15), ["a"])]


def test_late_elements_go_to_the_side_output_with_their_timestamps_and_are_not_counted() -> None:
    windows = step(late_tag_id="late")
    windows.watermark(20)
    windows.elements([("a", 3, "k"), ("b", 25, "k"), ("c", 7, "k")])
    assert windows.late() == [("a", 3), ("c", 7)]
    assert windows.task.late_dropped == 0


def test_late_elements_for_a_tag_that_nobody_reads_are_gone() -> None:
    windows = step(late_tag_id="unread")
    windows.watermark(20)
    assert windows.element("a", 3) == []
    assert windows.task.late_dropped == 0


def test_without_a_tag_late_elements_are_counted() -> None:
    windows = step()
    windows.watermark(20)
    windows.elements([("a", 3, "k"), ("b", 5, "other")])
    assert windows.task.late_dropped == 2


def test_every_late_element_fires_again_with_all_of_the_window() -> None:
    windows = step(allowed_lateness_ms=100)
    windows.element("a", 1)
    assert windows.watermark(9) == [("k", FIRST, ["a"])]
    assert windows.element("b", 2) == [("k", FIRST, ["a", "b"])]
    assert windows.element("c", 3) == [("k", FIRST, ["a", "b", "c"])]
    assert windows.stamps == [9]
    assert windows.watermark(108) == []
    assert windows.watermark(109) == []
    assert windows.kept() == []


def test_with_a_purging_trigger_each_late_firing_has_its_element_only() -> None:
    windows = step(trigger=PurgingTrigger.of(EventTimeTrigger()), allowed_lateness_ms=100)
    windows.element("a", 1)
    assert windows.watermark(9) == [("k", FIRST, ["a"])]
    assert windows.element("b", 2) == [("k", FIRST, ["b"])]
    assert windows.element("c", 3) == [("k", FIRST, ["c"])]
    assert windows.watermark(200) == []
    assert windows.kept() == []


def test_a_window_whose_first_element_is_late_but_allowed_fires_at_once_and_is_cleaned_up() -> None:
    windows = step(allowed_lateness_ms=10)
    windows.watermark(15)
    assert windows.element("a", 5) == [("k", FIRST, ["a"])]
    assert windows.kept()
    assert windows.watermark(19) == []
    assert windows.kept() == []


def test_the_main_firing_and_the_clean_up_share_a_timer_without_lateness() -> None:
    windows = step()
    windows.element("a", 1)
    assert len([key for key in windows.kept() if key.startswith(b"\0T")]) == 1
    assert windows.watermark(9) == [("k", FIRST, ["a"])]
    assert windows.kept() == []


def test_lateness_that_goes_beyond_all_time_never_cleans_up() -> None:
    windows = step(allowed_lateness_ms=MAX_WATERMARK)
    windows.element("a", 1)
    windows.watermark(10**15)
    assert windows.element("b", 2) == [("k", FIRST, ["a", "b"])]


def test_the_last_watermark_fires_all_windows_in_the_order_of_time() -> None:
    windows = step()
    windows.elements([("b", 15, "x"), ("c", 95, "k"), ("a", 5, "k")])
    found = windows.watermark(MAX_WATERMARK)
    assert [values for _, _, values in found] == [["a"], ["b"], ["c"]]
    assert windows.stamps == [9, 19, 99]
    assert windows.keys == ["k", "x", "k"]


def test_windows_of_processing_time_follow_the_clock_and_know_no_lateness() -> None:
    windows = step(TumblingProcessingTimeWindows.of(10), allowed_lateness_ms=100)
    windows.element("a")
    windows.watermark(MAX_WATERMARK)
    windows.time(8)
    windows.element("b", 77)
    assert windows.time(9) == [("k", FIRST, ["a", "b"])]
    assert windows.stamps == [9]
    assert windows.kept() == []
    windows.time(25)
    windows.element("c")
    assert windows.time(29) == [("k", TimeWindow(20, 30), ["c"])]


def test_unfinished_windows_of_processing_time_are_not_emitted_at_the_end() -> None:
    windows = step(TumblingProcessingTimeWindows.of(10))
    windows.element("a")
    windows.watermark(MAX_WATERMARK)
    windows.operator.finish()
    assert windows.taken() == []


def test_the_global_window_is_never_late_and_never_fires_by_itself() -> None:
    windows = step(GlobalWindows.create(), late_tag_id="late")
    windows.element("a", 1)
    assert windows.watermark(MAX_WATERMARK) == []
    assert windows.element("b", -5) == []
    assert windows.late() == []


def test_the_end_of_the_stream_may_fire_the_global_window() -> None:
    windows = step(GlobalWindows.create_with_end_of_stream_trigger())
    windows.elements([("a", 1, "k"), ("b", 2, "k")])
    assert windows.watermark(1_000) == []
    ((_, _, values),) = windows.watermark(MAX_WATERMARK)
    assert values == ["a", "b"]


def test_an_element_without_timestamp_is_refused() -> None:
    with pytest.raises(RecordError, match=r"no timestamp marker.*with_timestamp_assigner\(\.\.\.\)") as failed:
        step().elements([("a", 1, "k"), ("b", -(2**63), "k")])
    assert failed.value.index == 1


def test_the_watermark_of_a_step_is_its_own() -> None:
    """What a step before it emits because of a watermark comes before that watermark: it is not late yet."""
    windows = step()
    windows.watermark(5)
    windows.task.watermark = 50  # the task's is set before any step is told
    windows.element("a", 7)
    assert windows.task.late_dropped == 0
    assert windows.watermark(50) == [("k", FIRST, ["a"])]


def test_reduce_gives_one_value_per_window_and_key() -> None:
    windows = Step(spec(TEN, reduce=concat), WindowOperator)
    windows.elements([("a", 1, "x"), ("b", 2, "y"), ("c", 3, "x")])
    assert sorted(windows.watermark(9)) == ["ac", "b"]
    assert sorted(windows.keys) == ["x", "y"]
    assert windows.kept() == []


@pytest.mark.parametrize("lateness", [0, 5])
def test_a_window_without_contents_leaves_nothing_behind(lateness: int) -> None:
    """What is reduced to None is nothing: no result, and the window is cleaned up all the same."""
    windows = step(reduce=lambda one, other: None, allowed_lateness_ms=lateness)
    windows.elements([("a", 1, "k"), ("b", 2, "k"), ("c", 3, "other")])
    assert windows.watermark(9) == ["c"]
    windows.watermark(9 + lateness)
    assert windows.kept() == []
