"""Triggers on a stage of plain timers and state: golden runs and models."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.eventtime.continuous_trigger import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from kstreampy.eventtime.count_trigger import CountTrigger, DeltaTrigger
from kstreampy.eventtime.delta import DeltaFunction
from kstreampy.eventtime.nesting_trigger import ProcessingTimeoutTrigger, PurgingTrigger
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import GlobalWindow, TimeWindow, Window
from kstreampy.state.descriptor import ReducingStateDescriptor
from tests.unit.eventtime.stage import FP, C, F, P, Stage

WINDOW = TimeWindow(0, 100)
NOW_FAR = 10_000


def test_trigger_results() -> None:
    assert [(result.name, result.is_fire(), result.is_purge()) for result in TriggerResult] == [
        ("CONTINUE", False, False),
        ("FIRE_AND_PURGE", True, True),
        ("FIRE", True, False),
        ("PURGE", False, True),
    ]


# Once, at the end


def test_event_time_fires_at_the_end_and_for_each_late_element() -> None:
    stage = Stage(EventTimeTrigger.create())
    assert stage.element("a", 5, WINDOW) is C
    assert stage.element("b", 6, WINDOW) is C
    assert stage.advance(98) == []
    assert stage.advance(99) == [(99, F)]
    assert stage.element("late", 7, WINDOW) is F
    assert stage.event == set()
    assert stage.trigger.on_processing_time(99, WINDOW, stage) is C


def test_event_time_ignores_other_timers_of_the_window() -> None:
    stage = Stage(EventTimeTrigger())
    assert stage.trigger.on_event_time(98, WINDOW, stage) is C
    assert stage.trigger.on_event_time(120, WINDOW, stage) is C


def test_event_time_clear_takes_the_timer_back() -> None:
    stage = Stage(EventTimeTrigger())
    stage.element("a", 5, WINDOW)
    stage.close(WINDOW)
    assert stage.is_empty()


@pytest.mark.parametrize(("watermark", "expected"), [(98, [(99, F)]), (99, []), (150, [])])
def test_event_time_merge_does_not_fire_twice(watermark: int, expected: list[Any]) -> None:
    stage = Stage(EventTimeTrigger())
    parts = [TimeWindow(0, 60), TimeWindow(50, 100)]
    for part in parts:
        stage.element("a", part.start, part)
    stage.watermark = watermark
    stage.merge(parts, WINDOW)
    assert stage.advance(1000) == expected


def test_processing_time_fires_at_the_end() -> None:
    stage = Stage(ProcessingTimeTrigger.create())
    assert stage.element("a", 5, WINDOW) is C
    assert stage.tick(98) == []
    assert stage.tick(99) == [(99, F)]
    assert stage.trigger.on_event_time(99, WINDOW, stage) is C
    stage.element("b", 5, WINDOW)
    stage.close(WINDOW)
    assert stage.is_empty()


@pytest.mark.parametrize(("now", "expected"), [(98, [(99, F)]), (99, [])])
def test_processing_time_merge(now: int, expected: list[Any]) -> None:
    stage = Stage(ProcessingTimeTrigger(), now=now)
    stage.merge([TimeWindow(0, 60), TimeWindow(50, 100)], WINDOW)
    assert stage.tick(1000) == expected


# Again and again


def test_continuous_event_time_fires_on_multiples_and_at_the_end() -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(Time.milliseconds(30)))
    assert stage.element("a", 35, WINDOW) is C
    assert stage.element("b", 5, WINDOW) is C
    assert stage.advance(1000) == [(60, F), (90, F), (99, F)]
    assert stage.element("late", 50, WINDOW) is F


def test_continuous_event_time_begins_before_the_epoch_too() -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(30))
    stage.element("a", -35, TimeWindow(-100, 0))
    assert stage.advance(1000) == [(-30, F), (-1, F)]


def test_continuous_event_time_on_the_global_window_ends_with_the_input() -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(30))
    stage.element("a", 5, GlobalWindow())
    assert stage.advance(70) == [(30, F), (60, F)]
    assert stage.advance(2**63 - 1) == [(90, F), (2**63 - 1, F)]


def test_continuous_event_time_merges_to_the_earliest() -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(10))
    parts = [TimeWindow(12, 40), TimeWindow(35, 63)]
    for part in parts:
        stage.element("a", part.start, part)
    whole = TimeWindow(12, 63)
    stage.merge(parts, whole)
    stage.element("b", 35, whole)
    live = [(time, window) for time, window in sorted(stage.event, key=lambda timer: timer[0]) if window == whole]
    assert live == [(20, whole), (62, whole)]
    results = [(time, result) for time, result in stage.advance(100) if result is F]
    assert results == [(20, F), (30, F), (40, F), (50, F), (60, F), (62, F)]


def test_continuous_event_time_clear_leaves_nothing() -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(30))
    stage.element("a", 5, WINDOW)
    stage.advance(30)
    stage.close(WINDOW)
    assert stage.is_empty()


@given(st.lists(st.integers(0, 99), min_size=1, max_size=6), st.integers(1, 150), st.lists(st.integers(-1, 120)))
def test_continuous_event_time_model(times: list[int], interval: int, watermarks: list[int]) -> None:
    stage = Stage(ContinuousEventTimeTrigger.of(interval))
    for time in times:
        stage.element("a", time, WINDOW)
    fired = [time for mark in sorted(watermarks) for time, result in stage.advance(mark) if result is F]
    first = times[0] - times[0] % interval + interval
    expected = sorted({min(first, 99), *range(first, 99, interval), 99})
    assert fired == [time for time in expected if time <= max(watermarks, default=-1)]


def test_continuous_processing_time_fires_on_multiples_and_at_the_end() -> None:
    stage = Stage(ContinuousProcessingTimeTrigger.of(Time.milliseconds(30)), now=35)
    assert stage.element("a", 0, WINDOW) is C
    assert stage.element("b", 0, WINDOW) is C
    assert stage.tick(99) == [(60, F), (90, F), (99, F)]
    stage.close(WINDOW)
    assert stage.is_empty()
    assert stage.trigger.on_event_time(99, WINDOW, stage) is C


def test_continuous_processing_time_on_a_window_of_the_past_goes_on_at_the_interval() -> None:
    stage = Stage(ContinuousProcessingTimeTrigger.of(30), now=NOW_FAR)
    stage.element("a", 5, WINDOW)
    assert stage.tick(NOW_FAR + 100) == [(10_020, F), (10_050, F), (10_080, F)]
    stage.close(WINDOW)
    assert stage.is_empty()


def test_continuous_processing_time_on_the_global_window_has_no_end() -> None:
    stage = Stage(ContinuousProcessingTimeTrigger.of(1000), now=1)
    stage.element("a", 5, GlobalWindow())
    assert stage.tick(3500) == [(1000, F), (2000, F), (3000, F)]


def test_continuous_processing_time_merges_to_the_earliest() -> None:
    stage = Stage(ContinuousProcessingTimeTrigger.of(10), now=12)
    parts = [TimeWindow(12, 40), TimeWindow(35, 63)]
    stage.element("a", 12, parts[0])
    stage.now = 35
    stage.element("a", 35, parts[1])
    whole = TimeWindow(12, 63)
    stage.merge(parts, whole)
    assert (20, whole) in stage.processing


@pytest.mark.parametrize("cls", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_an_interval_is_more_than_nothing(cls: Any) -> None:
    with pytest.raises(ValueError, match="interval must be more than 0"):
        cls.of(0)
    assert repr(cls.of(Time.seconds(1))) == f"{cls.__name__}(1000)"


# By elements


@given(st.integers(1, 8), st.integers(0, 40))
def test_count_fires_for_every_nth_element(count: int, elements: int) -> None:
    stage = Stage(CountTrigger.of(count))
    results = [stage.element("a", 0, WINDOW) for _ in range(elements)]
    assert results == [F if number % count == 0 else C for number in range(1, elements + 1)]


def test_each_window_counts_for_itself() -> None:
    stage = Stage(CountTrigger.of(2))
    other = TimeWindow(100, 200)
    results = [stage.element("a", 0, window) for window in (WINDOW, other, WINDOW, other, other)]
    assert results == [C, C, F, F, C]


def test_counts_are_added_when_windows_merge() -> None:
    stage = Stage(CountTrigger.of(5))
    parts = [TimeWindow(0, 60), TimeWindow(50, 100)]
    for part in (*parts, *parts):
        stage.element("a", 0, part)
    stage.merge(parts, WINDOW)
    assert stage.element("a", 0, WINDOW) is F
    stage.close(WINDOW)
    assert stage.is_empty()


def test_count_clear_and_timers() -> None:
    stage = Stage(CountTrigger.of(3))
    stage.element("a", 0, WINDOW)
    assert stage.trigger.on_event_time(99, WINDOW, stage) is C
    assert stage.trigger.on_processing_time(99, WINDOW, stage) is C
    stage.close(WINDOW)
    assert stage.is_empty()
    assert [stage.element("a", 0, WINDOW) for _ in range(3)] == [C, C, F]


@pytest.mark.parametrize(("count", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_count_is_at_least_one(count: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CountTrigger.of(count)


class Distance(DeltaFunction):
    def get_delta(self, old_data_point: int, new_data_point: int) -> float:
        return abs(new_data_point - old_data_point)


@pytest.mark.parametrize("function", [Distance(), lambda old, new: abs(new - old)])
def test_delta_fires_beyond_the_threshold(function: Any) -> None:
    stage = Stage(DeltaTrigger.of(10, function, Types.LONG()))
    assert [stage.element(value, 0, WINDOW) for value in (1, 11, 12, 2, 1, 23)] == [C, C, F, C, F, F]
    stage.close(WINDOW)
    assert stage.is_empty()


def test_delta_is_told_the_old_and_the_new() -> None:
    stage = Stage(DeltaTrigger.of(0, lambda old, new: new - old))
    assert [stage.element(value, 0, WINDOW) for value in (5, 4, 6, 6)] == [C, C, F, C]


@given(st.lists(st.integers(-20, 20)), st.integers(0, 15))
def test_delta_model(values: list[int], threshold: int) -> None:
    stage = Stage(DeltaTrigger.of(threshold, Distance()))
    results = [stage.element(value, 0, WINDOW) for value in values]
    expected, last = [], None
    for value in values:
        fires = last is not None and abs(value - last) > threshold
        if fires or last is None:
            last = value
        expected.append(F if fires else C)
    assert results == expected


def test_delta_cannot_merge_and_knows_no_time() -> None:
    stage = Stage(DeltaTrigger.of(1, Distance()))
    assert not stage.trigger.can_merge()
    assert stage.trigger.on_event_time(1, WINDOW, stage) is C
    assert stage.trigger.on_processing_time(1, WINDOW, stage) is C
    with pytest.raises(TypeError, match="This trigger does not support merging"):
        stage.merge([WINDOW], WINDOW)
    assert repr(stage.trigger) == "DeltaTrigger(1)"


@pytest.mark.parametrize("function", [None, 5, Distance])
def test_what_is_no_delta_function(function: Any) -> None:
    with pytest.raises(TypeError, match="DeltaFunction"):
        DeltaTrigger.of(1, function)


# Around another trigger


class Scripted(Trigger[Any, Window]):
    """Answers with what it was given, and counts the calls of `clear`."""

    def __init__(self, result: TriggerResult, mergeable: bool = False) -> None:
        self.result = result
        self.mergeable = mergeable
        self.cleared = 0
        self.merged: list[Window] = []

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self.result

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self.result

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return self.result

    def can_merge(self) -> bool:
        return self.mergeable

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        self.merged.append(window)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        self.cleared += 1


@pytest.mark.parametrize(("result", "purging"), [(C, C), (F, FP), (P, P), (FP, FP)])
def test_purging_turns_fire_into_fire_and_purge(result: TriggerResult, purging: TriggerResult) -> None:
    stage = Stage(PurgingTrigger.of(Scripted(result)))
    assert stage.element("a", 0, WINDOW) is purging
    assert stage.trigger.on_event_time(0, WINDOW, stage) is purging
    assert stage.trigger.on_processing_time(0, WINDOW, stage) is purging


@pytest.mark.parametrize("mergeable", [True, False])
def test_purging_merges_and_clears_as_the_nested_one(mergeable: bool) -> None:
    nested = Scripted(C, mergeable)
    stage = Stage(PurgingTrigger.of(nested))
    assert stage.trigger.can_merge() is mergeable
    stage.merge([], WINDOW)
    stage.close(WINDOW)
    assert nested.merged == [WINDOW]
    assert nested.cleared == 1
    assert repr(stage.trigger) == "PurgingTrigger(Scripted())"


def test_nesting_needs_a_trigger() -> None:
    for make in (PurgingTrigger.of, lambda nested: ProcessingTimeoutTrigger.of(nested, 5)):
        with pytest.raises(TypeError, match="must be a Trigger"):
            make(CountTrigger)  # type: ignore[operator]


def test_timeout_fires_when_the_nested_one_does_not() -> None:
    stage = Stage(ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(50)), now=10)
    assert stage.element("a", 0, WINDOW) is C
    stage.now = 30
    assert stage.element("b", 0, WINDOW) is C
    assert stage.tick(59) == []
    assert stage.tick(60) == [(60, F)]
    assert stage.is_empty()
    assert [stage.element("c", 0, WINDOW) for _ in range(3)] == [C, C, F]
    assert stage.is_empty()


def test_timeout_may_count_from_the_last_element() -> None:
    stage = Stage(ProcessingTimeoutTrigger.of(CountTrigger.of(9), 50, True, True), now=10)
    stage.element("a", 0, WINDOW)
    stage.now = 30
    stage.element("b", 0, WINDOW)
    assert stage.tick(79) == []
    assert stage.tick(80) == [(80, F)]


def test_timeout_may_leave_the_nested_state() -> None:
    stage = Stage(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 50, False, False), now=10)
    stage.element("a", 0, WINDOW)
    assert stage.tick(60) == [(60, F)]
    assert [stage.element("b", 0, WINDOW) for _ in range(2)] == [C, F]


def test_timeout_purges_when_the_nested_one_does() -> None:
    stage = Stage(ProcessingTimeoutTrigger.of(Scripted(P), 50))
    assert stage.element("a", 0, WINDOW) is P
    assert stage.tick(50) == [(50, FP)]
    stage = Stage(ProcessingTimeoutTrigger.of(Scripted(C), 50))
    assert stage.trigger.on_event_time(99, WINDOW, stage) is F


def test_timeout_is_cleared_by_a_firing_and_by_clear() -> None:
    nested = Scripted(F)
    stage = Stage(ProcessingTimeoutTrigger.of(nested, 50))
    assert stage.element("a", 0, WINDOW) is F
    assert nested.cleared == 1
    nested.result = C
    stage.element("a", 0, WINDOW)
    assert len(stage.processing) == 1
    stage.close(WINDOW)
    assert nested.cleared == 2
    assert stage.is_empty()
    assert not stage.trigger.can_merge()
    assert repr(stage.trigger) == "TimeoutTrigger(Scripted())"


# The user's own


class OverLimit(Trigger[int, Window]):
    """Fires when the sum of a window's elements is more than 10; the sum is kept when windows merge."""

    def __init__(self) -> None:
        self.total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: int, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        total = ctx.get_partitioned_state(self.total)
        total.add(element)
        return F if total.get() > 10 else C

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return C

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return C

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.total)

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.total).clear()


def test_a_trigger_of_the_users_own_with_state_and_merging() -> None:
    stage = Stage(PurgingTrigger.of(OverLimit()))
    parts = [TimeWindow(0, 60), TimeWindow(50, 100)]
    assert [stage.element(4, 0, part) for part in parts] == [C, C]
    stage.merge(parts, WINDOW)
    assert stage.element(2, 0, WINDOW) is C
    assert stage.element(1, 0, WINDOW) is FP
    stage.close(WINDOW)
    assert stage.is_empty()


def test_a_trigger_without_its_methods_cannot_be_made() -> None:
    class Half(Trigger[Any, Window]):
        def on_element(
            self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext
        ) -> TriggerResult:
            return C

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
