"""A windowed step whose definition is another one after a restart: its open windows go on as the new one says, or the job is
refused; none are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import DataStream
from kstreampy.datastream.functions import WindowFunction
from kstreampy.datastream.window import (
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from kstreampy.datastream.windowed_stream import WindowedStream
from kstreampy.errors import JobError
from kstreampy.testing import HarnessSource, JobHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TUMBLING, SLIDING = TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)
SESSIONS = EventTimeSessionWindows.with_gap(4)
Define = Callable[[WindowedStream], DataStream]


class General(EventTimeTrigger):
    """The default trigger under another name, so that the general operators are used."""


class Added(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, sum(value[1] for value in inputs)


class Changing:
    """A job over one source, and what it has given so far; `define` draws the windowed step of each version."""

    def __init__(self, assigner: Any, define: Define) -> None:
        self.assigner = assigner
        self.source = HarnessSource("numbers")
        self.harness = JobHarness(self.drawing(define), key_groups=1)
        self.output = self.harness.collect(self.harness.drawn, "results")

    def drawing(self, define: Define) -> Callable[[Any], DataStream]:
        def draw(env: Any) -> DataStream:
            numbers = env.from_source(self.source, self.source.watermarks(), "numbers")
            windows = numbers.map(lambda value: value, PAIR).key_by(lambda value: value[0]).window(self.assigner)
            return define(windows).uid("windows").map(lambda value: value, PAIR)

        return draw

    def give(self, *elements: tuple[int, int], watermark: int) -> list[Any]:
        """Numbers with their times, then a watermark; returns what came of it: (number, timestamp)."""
        for number, time in elements:
            self.source.send(("k", number), time)
        self.source.watermark(watermark)
        before = len(self.output.records())
        self.harness.run()
        return [(record.value[1], record.timestamp) for record in self.output.records()[before:]]

    def change(self, define: Define) -> None:
        self.harness.restart(self.drawing(define))
        self.harness.collect(self.harness.drawn, "results")
        self.harness.run()


def reduced(trigger: Any = None, lateness: int = 0) -> Define:
    def define(windows: WindowedStream) -> DataStream:
        windows = windows.allowed_lateness(lateness)
        return (windows if trigger is None else windows.trigger(trigger)).reduce(lambda a, b: (a[0], a[1] + b[1]))

    return define


def applied(windows: WindowedStream) -> DataStream:
    return windows.apply(Added())


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
@pytest.mark.parametrize(
    ("first", "second"), [(reduced(), applied), (applied, reduced()), (reduced(), reduced(General()))]
)
def test_open_windows_that_would_not_be_found_refuse_the_change(assigner: Any, first: Define, second: Define) -> None:
    job = Changing(assigner, first)
    job.give((1, 3), watermark=4)
    with pytest.raises(JobError, match=r"windows are open that were begun with another .*another uid"):
        job.change(second)


def test_an_assigner_that_merges_does_not_take_over_windows_that_do_not() -> None:
    for first, second in ((TUMBLING, SESSIONS), (SESSIONS, TUMBLING)):
        job = Changing(first, reduced(General()))
        job.give((1, 3), watermark=4)
        job.assigner = second
        with pytest.raises(JobError, match="windows are open that were begun with another assigner"):
            job.change(reduced(General()))


@pytest.mark.parametrize(("first", "second"), [(reduced(), applied), (applied, reduced())])
def test_with_no_window_open_any_change_will_do(first: Define, second: Define) -> None:
    job = Changing(TUMBLING, first)
    assert job.give((1, 3), (2, 4), watermark=9) == [(3, 9)]
    job.change(second)
    assert job.give((4, 13), (8, 14), watermark=19) == [(12, 19)]


@pytest.mark.parametrize("lateness", [0, 5])
@pytest.mark.parametrize(("first", "second"), [(None, General()), (General(), None)])
def test_sessions_go_on_under_another_trigger(lateness: int, first: Any, second: Any) -> None:
    job = Changing(SESSIONS, reduced(first, lateness))
    assert job.give((1, 0), (2, 8), (4, 10), watermark=2) == []
    job.change(reduced(second, lateness))
    assert job.give((8, 2), watermark=4) == []
    assert job.give((16, 20), watermark=5) == [(9, 5)]
    assert job.give(watermark=12) == []
    assert job.give(watermark=13) == [(6, 13)]
    assert job.give(watermark=100) == [(16, 23)]
    assert job.harness.state_keys("windows", "window/set") == []
    assert job.harness.timers("windows") == []


def test_a_session_that_ends_when_another_is_cleaned_up_fires_once() -> None:
    job = Changing(SESSIONS, reduced(General(), 5))
    job.give((1, 0), (2, 5), watermark=4)  # they end at 3 and 8, and the first is cleaned up at 8
    job.change(reduced(None, 5))
    assert job.give(watermark=8) == [(2, 8)]


@pytest.mark.parametrize("trigger", [None, General()])
@pytest.mark.parametrize("time", [1, 2, 3])
def test_a_shorter_lateness_ends_sessions_that_the_longer_one_kept(trigger: Any, time: int) -> None:
    """Elements that would have been part of one are on their own: late, or a session."""
    job = Changing(SESSIONS, reduced(trigger, 50))
    assert job.give((1, 0), (2, 2), watermark=6) == [(3, 5)]
    job.change(reduced(trigger, 0))
    assert job.give((4, time), (8, 4), watermark=7) == [(8, 7)]
    job.give(watermark=60)
    assert job.harness.state_keys("windows", "window/contents") == []


@pytest.mark.parametrize("lateness", [(0, 20), (20, 0)])
def test_another_lateness_leaves_nothing_behind(lateness: tuple[int, int]) -> None:
    before, after = lateness
    job = Changing(TUMBLING, reduced(General(), before))
    job.give((1, 3), watermark=9 if before else 4)
    job.give((1, 13), watermark=12)
    job.change(reduced(General(), after))
    assert job.give(watermark=19) == [(1, 19)]
    assert job.give((2, 14), watermark=20) == ([(3, 19)] if after else [])
    job.give(watermark=60)
    assert job.harness.state_keys("windows", "window/contents") == []
    assert job.harness.timers("windows") == []
