"""Session windows: what an element opens, and what is merged."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.eventtime.session_assigner import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.window import TimeWindow
from tests.unit.eventtime.stage import Clock
from tests.unit.eventtime.test_window import Found


class ByLength(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return len(element)


def test_an_element_opens_its_time_and_the_gap() -> None:
    assert EventTimeSessionWindows.with_gap(Time.seconds(1)).assign_windows("x", -5, Clock()) == [TimeWindow(-5, 995)]
    assert ProcessingTimeSessionWindows.with_gap(10).assign_windows("x", -5, Clock(7)) == [TimeWindow(7, 17)]


@pytest.mark.parametrize("extractor", [ByLength(), len, lambda element: datetime.timedelta(milliseconds=len(element))])
def test_a_dynamic_gap(extractor: Any) -> None:
    in_event_time = EventTimeSessionWindows.with_dynamic_gap(extractor)
    in_processing_time = ProcessingTimeSessionWindows.with_dynamic_gap(extractor)
    assert in_event_time.assign_windows("abc", 5, Clock()) == [TimeWindow(5, 8)]
    assert in_processing_time.assign_windows("abc", 5, Clock(7)) == [TimeWindow(7, 10)]
    assert type(in_event_time) is DynamicEventTimeSessionWindows
    assert type(in_processing_time) is DynamicProcessingTimeSessionWindows


@pytest.mark.parametrize("gap", [0, -1])
def test_a_gap_must_be_more_than_nothing(gap: int) -> None:
    with pytest.raises(ValueError, match="EventTimeSessionWindows parameters must satisfy 0 < size"):
        EventTimeSessionWindows.with_gap(gap)
    with pytest.raises(ValueError, match="ProcessingTimeSessionWindows parameters must satisfy 0 < size"):
        ProcessingTimeSessionWindows.with_gap(gap)
    dynamic = DynamicEventTimeSessionWindows.with_dynamic_gap(lambda _: gap)
    with pytest.raises(ValueError, match="Dynamic session time gap must satisfy 0 < gap"):
        dynamic.assign_windows("x", 0, Clock())
    dynamic_processing = DynamicProcessingTimeSessionWindows.with_dynamic_gap(lambda _: gap)
    with pytest.raises(ValueError, match="Dynamic session time gap must satisfy 0 < gap"):
        dynamic_processing.assign_windows("x", 0, Clock())


@pytest.mark.parametrize("extractor", [5, None, ByLength])
def test_what_is_no_extractor(extractor: Any) -> None:
    with pytest.raises(TypeError, match="SessionWindowTimeGapExtractor"):
        EventTimeSessionWindows.with_dynamic_gap(extractor)


def test_an_element_without_timestamp() -> None:
    for assigner in (EventTimeSessionWindows.with_gap(5), EventTimeSessionWindows.with_dynamic_gap(len)):
        with pytest.raises(ValueError, match=r"Record has Long.MIN_VALUE timestamp"):
            assigner.assign_windows("x", -(2**63), Clock())


@pytest.mark.parametrize(
    ("assigner", "in_event_time"),
    [
        (EventTimeSessionWindows.with_gap(5), True),
        (EventTimeSessionWindows.with_dynamic_gap(len), True),
        (ProcessingTimeSessionWindows.with_gap(5), False),
        (ProcessingTimeSessionWindows.with_dynamic_gap(len), False),
    ],
)
def test_they_merge_and_have_a_trigger_that_can(assigner: Any, in_event_time: bool) -> None:
    assert isinstance(assigner, MergingWindowAssigner)
    assert assigner.is_event_time() is in_event_time
    trigger = assigner.get_default_trigger(None)
    assert type(trigger) is (EventTimeTrigger if in_event_time else ProcessingTimeTrigger)
    assert trigger.can_merge()
    found = Found()
    assigner.merge_windows([TimeWindow(0, 5), TimeWindow(5, 10), TimeWindow(11, 16)], found)
    assert found.merges == [({TimeWindow(0, 5), TimeWindow(5, 10)}, TimeWindow(0, 10))]


@pytest.mark.parametrize(("distance", "sessions"), [(4, 1), (5, 1), (6, 2)])
def test_elements_one_gap_apart_are_one_session(distance: int, sessions: int) -> None:
    assigner = EventTimeSessionWindows.with_gap(5)
    windows = [assigner.assign_windows("x", at, Clock())[0] for at in (0, distance)]
    found = Found()
    assigner.merge_windows(windows, found)
    assert len(found.merges) == 2 - sessions


def test_how_they_are_shown() -> None:
    assert repr(EventTimeSessionWindows.with_gap(5)) == "EventTimeSessionWindows(5)"
    assert repr(ProcessingTimeSessionWindows.with_dynamic_gap(len)) == "DynamicProcessingTimeSessionWindows()"
