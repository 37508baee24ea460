"""Windows of so many elements, and the global window."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.eventtime.count_assigner import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from kstreampy.eventtime.global_window import EndOfStreamTrigger, GlobalWindows, NeverTrigger
from kstreampy.eventtime.window import CountWindow, GlobalWindow
from kstreampy.eventtime.window_serializer import CountWindowSerializer, GlobalWindowSerializer
from tests.unit.eventtime.stage import FP, C, Clock, F, Stage


def ids(assigner: Any, elements: int) -> list[list[int]]:
    key = Clock()
    return [[window.id for window in assigner.assign_windows("x", 0, key)] for _ in range(elements)]


def test_tumbling() -> None:
    assert ids(CountTumblingWindowAssigner.of(3), 7) == [[0], [0], [0], [1], [1], [1], [2]]


def test_sliding() -> None:
    assert ids(CountSlidingWindowAssigner.of(3, 2), 6) == [[0], [0], [1, 0], [1], [2, 1], [2]]
    assert ids(CountSlidingWindowAssigner.of(2, 3), 6) == [[0], [0], [], [1], [1], []]


def test_each_key_counts_for_itself() -> None:
    assigner = CountTumblingWindowAssigner.of(2)
    mine, yours = Clock(), Clock()
    assert [assigner.assign_windows("x", 0, key)[0].id for key in (mine, mine, yours, mine, yours)] == [0, 0, 0, 1, 0]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 60))
def test_every_sliding_window_is_found(size: int, slide: int, elements: int) -> None:
    expected = [
        [window for window in range(elements, -1, -1) if window * slide <= number < window * slide + size]
        for number in range(elements)
    ]
    assert ids(CountSlidingWindowAssigner.of(size, slide), elements) == expected


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 60))
def test_by_default_full_windows_fire_once_and_leave_nothing(size: int, slide: int, elements: int) -> None:
    assigner = CountSlidingWindowAssigner.of(size, slide)
    stage, key = Stage(assigner.get_default_trigger()), Clock()
    fired = [
        (window.id, number)
        for number in range(elements)
        for window in assigner.assign_windows(number, 0, key)
        if stage.element(number, 0, window) is FP
    ]
    full = [window for window in range(elements) if window * slide + size <= elements]
    assert sorted(fired) == [(window, window * slide + size - 1) for window in full]
    left = [window for (window, _), store in stage.states.items() if store.kept is not None]
    assert not {window.id for window in left if isinstance(window, CountWindow)} & set(full)


@pytest.mark.parametrize("make", [CountTumblingWindowAssigner.of, lambda n: CountSlidingWindowAssigner.of(n, 1)])
def test_a_size_of_at_least_one(make: Any) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        make(0)
    with pytest.raises(TypeError, match="must be an int"):
        make(1.5)


def test_a_slide_of_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CountSlidingWindowAssigner.of(2, 0)


def test_they_are_not_of_event_time() -> None:
    for assigner in (CountTumblingWindowAssigner.of(1), CountSlidingWindowAssigner.of(1, 1)):
        assert not assigner.is_event_time()
        assert isinstance(assigner.get_window_serializer(), CountWindowSerializer)
    assert repr(CountSlidingWindowAssigner.of(4, 2)) == "CountSlidingWindowAssigner(4, 2)"
    assert repr(CountTumblingWindowAssigner.of(4)) == "CountTumblingWindowAssigner(4)"


def test_the_global_window_has_everything_and_never_fires() -> None:
    assigner = GlobalWindows.create()
    assert list(assigner.assign_windows("x", -(2**63), Clock())) == [GlobalWindow.get()]
    assert not assigner.is_event_time()
    assert isinstance(assigner.get_window_serializer(), GlobalWindowSerializer)
    stage = Stage(assigner.get_default_trigger(None))
    assert isinstance(stage.trigger, NeverTrigger)
    assert stage.element("x", 0, GlobalWindow()) is C
    assert stage.trigger.on_event_time(0, GlobalWindow(), stage) is C
    assert stage.trigger.on_processing_time(0, GlobalWindow(), stage) is C
    stage.close(GlobalWindow())
    assert stage.is_empty()
    assert not stage.trigger.can_merge()
    assert repr(assigner) == "GlobalWindows()"


def test_the_end_of_the_stream_fires_the_global_window() -> None:
    stage = Stage(GlobalWindows.create_with_end_of_stream_trigger().get_default_trigger())
    assert isinstance(stage.trigger, EndOfStreamTrigger)
    assert stage.element("x", 0, GlobalWindow()) is C
    assert stage.element("y", 1, GlobalWindow()) is C
    assert stage.advance(2**63 - 2) == []
    assert stage.advance(2**63 - 1) == [(2**63 - 1, F)]
    assert stage.trigger.on_event_time(5, GlobalWindow(), stage) is C
