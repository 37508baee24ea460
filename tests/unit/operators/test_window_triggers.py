"""Triggers at work in an operator: what fires when, what is purged, what is left in the end."""

from __future__ import annotations

import pytest

from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DeltaTrigger,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeoutTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.errors import KStreamError
from tests.unit.operators.windowing import Step, concat, spec

TEN = TumblingEventTimeWindows.of(10)
FIRST = TimeWindow(0, 10)
EVERYTHING = GlobalWindow.get()


def feed(windows: Step, letters: str, start: int = 0) -> list[str]:
    """One element each, 1 ms apart; what every one of them fired, as words."""
    return ["".join(values) for at, letter in enumerate(letters, start) for _, _, values in windows.element(letter, at)]


def words(found) -> list[str]:
    return ["".join(values) for _, _, values in found]


def test_a_count_fires_and_keeps_what_it_fired() -> None:
    windows = Step(spec(TEN, CountTrigger.of(2)))
    assert feed(windows, "abcde") == ["ab", "abcd"]
    assert windows.watermark(9) == []
    assert windows.kept() == []


def test_a_purging_count_begins_anew() -> None:
    windows = Step(spec(TEN, PurgingTrigger.of(CountTrigger.of(2))))
    assert feed(windows, "abcde") == ["ab", "cd"]
    assert windows.watermark(9) == []
    assert windows.kept() == []


def test_counts_are_per_key_and_window() -> None:
    windows = Step(spec(SlidingEventTimeWindows.of(10, 5), CountTrigger.of(2)))
    found = windows.elements([("a", 1, "x"), ("b", 2, "y"), ("c", 6, "x"), ("d", 7, "y"), ("e", 11, "x")])
    assert found == [
        ("x", FIRST, ["a", "c"]),
        ("y", FIRST, ["b", "d"]),
        ("x", TimeWindow(5, 15), ["c", "e"]),
    ]


def test_a_window_emptied_by_a_purge_fires_nothing() -> None:
    windows = Step(spec(TEN, PurgingTrigger.of(ContinuousEventTimeTrigger.of(3))))
    windows.element("a", 1)
    assert words(windows.watermark(3)) == ["a"]
    assert windows.watermark(6) == []
    windows.element("b", 7)
    assert words(windows.watermark(9)) == ["b"]
    assert windows.kept() == []


def test_continuous_event_time() -> None:
    """At the multiples of 4 after the first element, and at the window's end."""
    windows = Step(spec(TEN, ContinuousEventTimeTrigger.of(4)))
    windows.element("a", 1)
    assert windows.watermark(3) == []
    assert words(windows.watermark(4)) == ["a"]
    windows.element("b", 5)
    assert words(windows.watermark(7)) == []
    assert words(windows.watermark(8)) == ["ab"]
    assert windows.stamps == [9]
    assert words(windows.watermark(20)) == ["ab"]
    assert windows.kept() == []


def test_continuous_event_time_in_one_jump() -> None:
    windows = Step(spec(TEN, ContinuousEventTimeTrigger.of(4)))
    windows.element("a", 1)
    assert words(windows.watermark(20)) == ["a", "a", "a"]
    assert windows.kept() == []


def test_continuous_processing_time() -> None:
    windows = Step(spec(TumblingProcessingTimeWindows.of(100), ContinuousProcessingTimeTrigger.of(30)))
    windows.time(7)
    windows.element("a")
    assert words(windows.time(30)) == ["a"]
    windows.element("b")
    assert words(windows.time(95)) == ["ab", "ab"]
    assert words(windows.time(99)) == ["ab"]
    assert windows.kept() == []


def test_delta() -> None:
    """Fires when the distance to the element that fired last is above 3."""
    windows = Step(spec(GlobalWindows.create(), DeltaTrigger.of(3, lambda old, new: abs(new - old))))
    assert [values for n in (1, 4, 5, 8, 9, 13, 12, 9) for _, _, values in windows.element(n, n)] == [
        [1, 4, 5],
        [1, 4, 5, 8, 9],
        [1, 4, 5, 8, 9, 13],
        [1, 4, 5, 8, 9, 13, 12, 9],
    ]


def test_a_time_out_fires_what_the_count_did_not() -> None:
    windows = Step(spec(GlobalWindows.create(), PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), 50))))
    assert feed(windows, "abc") == ["abc"]
    windows.element("d")
    windows.time(20)
    windows.element("e")
    assert windows.time(49) == []
    assert words(windows.time(50)) == ["de"]
    assert feed(windows, "fgh") == ["fgh"]
    assert windows.time(1_000) == []
    assert windows.kept() == []


def test_a_time_out_that_is_reset_by_each_element() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(9), 50, reset_timer_on_new_record=True)
    windows = Step(spec(GlobalWindows.create(), PurgingTrigger.of(trigger)))
    windows.element("a")
    windows.time(40)
    windows.element("b")
    assert windows.time(89) == []
    assert words(windows.time(90)) == ["ab"]


def test_an_event_time_trigger_on_windows_of_processing_time() -> None:
    """Its timer goes when the clock cleans the window up."""
    windows = Step(spec(TumblingProcessingTimeWindows.of(10), EventTimeTrigger()))
    windows.element("a", 3)
    assert words(windows.watermark(9)) == ["a"]
    windows.element("b", 4)
    assert words(windows.time(20)) == []
    assert windows.kept() == []
    windows.element("c", 25)
    windows.time(40)
    assert windows.kept() == []


def test_a_processing_time_trigger_on_windows_of_event_time() -> None:
    windows = Step(spec(TEN, ProcessingTimeTrigger()))
    windows.element("a", 3)
    assert words(windows.time(9)) == ["a"]
    assert windows.stamps == [9]
    assert windows.watermark(9) == []
    assert windows.kept() == []


def test_count_windows_of_flink() -> None:
    """`count_window(3)` and its results' timestamps: those of the elements that fired."""
    windows = Step(spec(GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)), reduce=concat))
    assert [(value, windows.stamps) for letter in "abcdefg" for value in windows.element(letter, 7)] == [
        ("abc", [7]),
        ("def", [7]),
    ]
    windows.element("x", 1, "other")
    windows.watermark(2**63 - 1)
    assert windows.taken() == []


def test_a_timer_that_fires_the_global_window_gives_its_time() -> None:
    windows = Step(spec(GlobalWindows.create(), ContinuousProcessingTimeTrigger.of(30)))
    windows.element("a", 7)
    assert windows.time(35) == [("k", EVERYTHING, ["a"])]
    assert windows.stamps == [30]


def test_pyflinks_tumbling_count_windows() -> None:
    windows = Step(spec(CountTumblingWindowAssigner.of(3)))
    for letter in "abcdefg":
        windows.element(letter, 5, "x")
    windows.elements([(letter, 9, "y") for letter in "ABC"])
    found = windows.elements([("h", 6, "x"), ("i", 7, "x")])
    assert found == [("x", CountWindow(2), ["g", "h", "i"])]
    assert windows.stamps == [7]
    assert all(b"contents" not in key for key in windows.kept())


def test_pyflinks_sliding_count_windows_fire_only_full_ones() -> None:
    windows = Step(spec(CountSlidingWindowAssigner.of(4, 2)))
    assert feed(windows, "abcdefgh") == ["abcd", "cdef", "efgh"]


class Script(Trigger):
    """Says what the element says."""

    cleared: list[TimeWindow] = []  # shared by the copies of all tasks, on purpose

    def on_element(self, element, timestamp, window, ctx):
        return element[1]

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def clear(self, window, ctx):
        self.cleared.append(window)


def test_each_result() -> None:
    windows = Step(spec(TEN, Script()))
    said = []
    for letter, result in zip("abcdefg", [*TriggerResult, *TriggerResult], strict=False):
        found = windows.element((letter, result), 3)
        said.append((result.name, ["".join(value[0] for value in values) for _, _, values in found]))
    assert said == [
        ("CONTINUE", []),
        ("FIRE_AND_PURGE", ["ab"]),
        ("FIRE", ["c"]),
        ("PURGE", []),
        ("CONTINUE", []),
        ("FIRE_AND_PURGE", ["ef"]),
        ("FIRE", ["g"]),
    ]


def test_clear_is_called_once_at_the_clean_up_and_by_no_purge() -> None:
    Script.cleared.clear()
    windows = Step(spec(TEN, Script(), allowed_lateness_ms=5))
    windows.element(("a", TriggerResult.FIRE_AND_PURGE), 3)
    windows.element(("b", TriggerResult.PURGE), 3)
    windows.watermark(13)
    assert Script.cleared == []
    windows.watermark(14)
    windows.watermark(100)
    assert Script.cleared == [FIRST]
    assert windows.kept() == []


@pytest.mark.parametrize("result", [None, True, "FIRE"])
def test_what_is_no_result_is_refused(result: object) -> None:
    windows = Step(spec(TEN, Script()))
    with pytest.raises(KStreamError, match="is no TriggerResult"):
        windows.element(("a", result), 3)


class Timers(Trigger):
    """Sets the timers that an element names, deletes those with a minus, and fires when one comes."""

    def on_element(self, element, timestamp, window, ctx):
        for time in element:
            if time < 0:
                ctx.delete_event_time_timer(-time)
                ctx.delete_processing_time_timer(-time)
            else:
                ctx.register_event_time_timer(time)
                ctx.register_event_time_timer(time)
                ctx.register_processing_time_timer(1_000 + time)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        assert ctx.get_current_watermark() >= time
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        assert ctx.get_current_processing_time() >= time
        return TriggerResult.FIRE

    def clear(self, window, ctx):
        pass


def test_a_triggers_timers_are_one_per_time_and_domain_and_can_be_deleted() -> None:
    windows = Step(spec(GlobalWindows.create(), Timers()))
    windows.element((4, 7, -7), 0)
    assert len(windows.watermark(3)) == 0
    assert len(windows.watermark(4)) == 1
    assert len(windows.watermark(100)) == 0
    assert len(windows.time(1_004)) == 1
    assert len(windows.time(1_007)) == 1


def test_a_timer_at_or_before_the_watermark_fires_at_the_next_one() -> None:
    windows = Step(spec(GlobalWindows.create(), Timers()))
    windows.watermark(10)
    assert windows.element((4,), 0) == []
    assert len(windows.watermark(11)) == 1


def test_an_overdue_timer_of_processing_time_asks_for_the_next_wake() -> None:
    windows = Step(spec(GlobalWindows.create(), Timers()))
    windows.time(5_000)
    windows.element((4,), 0)
    assert windows.task.wake_at_ms == 1_004
    assert len(windows.time(5_000)) == 1


class LeavingTimersBehind(Timers):
    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp() + 50)
        return TriggerResult.CONTINUE


def test_a_timer_that_outlives_its_window_finds_nothing() -> None:
    windows = Step(spec(TEN, LeavingTimersBehind()))
    windows.element("a", 3)
    assert windows.watermark(100) == [("k", FIRST, ["a"])]  # at the clean-up, 9; nothing is left at 59
    assert windows.kept() == []


class Broken(EventTimeTrigger):
    def on_event_time(self, time, window, ctx):
        raise LookupError("lost")


def test_an_error_of_a_timer_names_step_key_window_and_line() -> None:
    windows = Step(spec(TEN, Broken()))
    windows.element("a", 3, key=("u", 1))
    with pytest.raises(KStreamError) as failed:
        windows.watermark(9)
    message = str(failed.value)
    assert "the windows: LookupError: lost" in message
    assert "Broken.on_event_time" in message
    assert "test_window_triggers.py" in message
    assert "TimeWindow(start=0, end=10) of the key ('u', 1)" in message
