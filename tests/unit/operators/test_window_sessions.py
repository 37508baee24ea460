"""Windows that merge: sessions, in any order, early, late and bridged. The gap is 10 ms."""

from __future__ import annotations

from itertools import permutations

import pytest

from kstreampy.common import Types
from kstreampy.datastream.functions import AggregateFunction
from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MergingWindowAssigner,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    TimeWindow,
    TimeWindowSerializer,
    Trigger,
    TriggerResult,
)
from kstreampy.errors import RecordError
from kstreampy.eventtime.window import decode_window, encode_window
from kstreampy.operators.window_function import ProcessWindowFunction, WindowFunction
from kstreampy.operators.window_merging import MergingWindowOperator
from kstreampy.operators.window_session import SessionWindowOperator
from kstreampy.operators.window_set import Session, Sessions, SessionsCodec, WindowSetCodec
from kstreampy.operators.window_spec import AggregateAggregation
from kstreampy.state.descriptor import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from tests.unit.operators.windowing import Recording, Step, concat, spec

SESSIONS = EventTimeSessionWindows.with_gap(10)


@pytest.fixture(params=[MergingWindowOperator, SessionWindowOperator])
def sessions(request: pytest.FixtureRequest):
    def make(assigner=SESSIONS, **changes) -> Step:
        return Step(spec(assigner, **changes), request.param)

    return make


@pytest.mark.parametrize(("second", "merged"), [(9, True), (10, True), (11, False)])
def test_elements_exactly_the_gap_apart_are_one_session(sessions, second: int, merged: bool) -> None:
    windows = sessions()
    windows.elements([("a", 0, "k"), ("b", second, "k")])
    found = windows.watermark(100)
    if merged:
        assert found == [("k", TimeWindow(0, second + 10), ["a", "b"])]
        assert windows.stamps == [second + 9]
    else:
        assert found == [("k", TimeWindow(0, 10), ["a"]), ("k", TimeWindow(11, 21), ["b"])]
    assert windows.kept() == []


def test_an_element_bridges_two_sessions(sessions) -> None:
    windows = sessions()
    windows.elements([("a", 0, "k"), ("b", 20, "k"), ("c", 40, "k"), ("d", 10, "k")])
    assert windows.watermark(100) == [("k", TimeWindow(0, 30), ["a", "b", "d"]), ("k", TimeWindow(40, 50), ["c"])]
    assert windows.kept() == []


def test_keys_have_sessions_of_their_own(sessions) -> None:
    windows = sessions()
    windows.elements([("a", 0, "x"), ("b", 5, "y"), ("c", 8, "x")])
    assert windows.watermark(100) == [("y", TimeWindow(5, 15), ["b"]), ("x", TimeWindow(0, 18), ["a", "c"])]


@pytest.mark.parametrize("reduce", [None, concat])
def test_every_permutation_gives_the_same_sessions(sessions, reduce) -> None:
    times = {"a": 0, "b": 9, "c": 19, "d": 31, "e": 33, "f": 60}
    for order in permutations(times):
        windows = sessions(reduce=reduce, function=Recording())
        windows.elements([(letter, times[letter], "k") for letter in order])
        found = [(window, sorted("".join(values))) for _, window, values in windows.watermark(100)]
        assert found == [
            (TimeWindow(0, 29), ["a", "b", "c"]),
            (TimeWindow(31, 43), ["d", "e"]),
            (TimeWindow(60, 70), ["f"]),
        ], order
        assert windows.kept() == []


@pytest.mark.parametrize("order", list(permutations([(0, "a"), (8, "b"), (4, "c"), (21, "d")])))
def test_every_permutation_over_watermarks_that_leave_time(sessions, order) -> None:
    """With enough lateness, the last word on each session is the same in whatever order it came together."""
    windows = sessions(allowed_lateness_ms=1_000, function=Recording())
    last: dict[int, object] = {}
    for number, (time, letter) in enumerate(order):
        for _, window, values in [*windows.element(letter, time), *windows.watermark(10 * number)]:
            last = {start: found for start, found in last.items() if not window.start <= start < window.end}
            last[window.start] = window, sorted(values)
    for _, window, values in windows.watermark(500):
        last[window.start] = window, sorted(values)
    assert last == {0: (TimeWindow(0, 18), ["a", "b", "c"]), 21: (TimeWindow(21, 31), ["d"])}


def test_a_late_element_is_taken_where_it_joins_a_session_in_flight(sessions) -> None:
    windows = sessions(late_tag_id="late")
    windows.element("a", 20)
    windows.watermark(25)
    assert windows.element("b", 12) == []  # alone it would be [12, 22), which is over
    assert windows.late() == []
    assert windows.watermark(100) == [("k", TimeWindow(12, 30), ["a", "b"])]


@pytest.mark.parametrize(("timestamp", "late"), [(9, True), (10, False)])
def test_a_late_element_alone_is_late(sessions, timestamp: int, late: bool) -> None:
    """Its own session [t, t + 10) is over when t + 9 is not after the watermark."""
    windows = sessions(late_tag_id="late")
    windows.element("a", 100)
    windows.watermark(18)
    windows.element("b", timestamp)
    assert windows.late() == ([("b", timestamp)] if late else [])
    assert len(windows.watermark(1_000)) == (1 if late else 2)
    assert windows.kept() == []


@pytest.mark.parametrize(("watermark", "merges"), [(28, True), (29, False), (30, False)])
def test_a_fired_session_can_be_joined_until_its_clean_up(sessions, watermark: int, merges: bool) -> None:
    """[0, 10) is cleaned up at 9 + 20."""
    windows = sessions(allowed_lateness_ms=20)
    windows.element("a", 0)
    assert windows.watermark(9) == [("k", TimeWindow(0, 10), ["a"])]
    windows.watermark(watermark)
    found = windows.element("b", 10)
    assert found == ([("k", TimeWindow(0, 20), ["a", "b"])] if merges else [("k", TimeWindow(10, 20), ["b"])])


def test_a_late_element_bridges_two_sessions_that_were_emitted(sessions) -> None:
    windows = sessions(allowed_lateness_ms=100)
    windows.elements([("a", 0, "k"), ("b", 18, "k")])
    assert windows.watermark(30) == [("k", TimeWindow(0, 10), ["a"]), ("k", TimeWindow(18, 28), ["b"])]
    assert windows.element("c", 9) == [("k", TimeWindow(0, 28), ["a", "b", "c"])]
    assert windows.stamps == [27]
    assert windows.watermark(126) == []
    assert windows.kept()
    assert windows.watermark(127) == []
    assert windows.kept() == []


def test_a_fired_session_that_goes_on_fires_again_at_its_new_end(sessions) -> None:
    windows = sessions(allowed_lateness_ms=100)
    windows.element("a", 0)
    assert windows.watermark(9) == [("k", TimeWindow(0, 10), ["a"])]
    assert windows.element("b", 8) == []
    assert windows.watermark(16) == []
    assert windows.watermark(17) == [("k", TimeWindow(0, 18), ["a", "b"])]
    assert windows.element("c", 9) == []
    assert windows.watermark(200) == [("k", TimeWindow(0, 19), ["a", "b", "c"])]
    assert windows.kept() == []


def test_one_jump_of_the_watermark_does_all_that_steps_would(sessions) -> None:
    windows = sessions(allowed_lateness_ms=5)
    windows.elements([("a", 0, "x"), ("b", 9, "x"), ("c", 30, "x"), ("d", 4, "y")])
    assert windows.watermark(2**62) == [
        ("y", TimeWindow(4, 14), ["d"]),
        ("x", TimeWindow(0, 19), ["a", "b"]),
        ("x", TimeWindow(30, 40), ["c"]),
    ]
    assert windows.kept() == []


def test_dynamic_gaps(sessions) -> None:
    windows = sessions(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda value: value))
    windows.elements([(10, 0, "k"), (3, 2, "k"), (5, 9, "k"), (100, 50, "k"), (2, 60, "k")])
    assert windows.watermark(1_000) == [
        ("k", TimeWindow(0, 14), [10, 3, 5]),
        ("k", TimeWindow(50, 150), [100, 2]),
    ]


def test_a_session_of_the_same_bounds_keeps_its_contents(sessions) -> None:
    """[0, 12) was merged of [0, 10) and [2, 12), and then an element asks for [0, 12) itself."""
    windows = sessions(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda value: value))
    windows.elements([(10, 0, "k"), (10, 2, "k"), (12, 0, "k")])
    assert windows.watermark(1_000) == [("k", TimeWindow(0, 12), [10, 10, 12])]
    assert windows.kept() == []


@pytest.mark.parametrize("gap", [0, -1])
def test_a_dynamic_gap_must_be_above_0(sessions, gap: int) -> None:
    windows = sessions(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda value: value))
    with pytest.raises(RecordError, match="Dynamic session time gap must satisfy 0 < gap"):
        windows.element(gap, 5)


def test_an_element_that_makes_a_session_longer_touches_no_timer() -> None:
    windows = Step(spec(SESSIONS))
    windows.elements([("a", time, "k") for time in range(0, 100, 7)])
    assert len([key for key in windows.kept() if key.startswith(b"\0T")]) == 1


def timers(windows: Step) -> int:
    return len([key for key in windows.kept() if key.startswith(b"\0T")])


def test_a_session_that_begins_before_the_one_before_has_fired_sets_no_timer() -> None:
    windows = Step(spec(SESSIONS))
    windows.elements([("a", 0, "k"), ("b", 20, "k"), ("c", 40, "k")])
    assert timers(windows) == 1
    assert windows.watermark(15) == [("k", TimeWindow(0, 10), ["a"])]
    assert timers(windows) == 1
    assert windows.watermark(100) == [("k", TimeWindow(20, 30), ["b"]), ("k", TimeWindow(40, 50), ["c"])]
    assert windows.kept() == []


def test_a_session_that_begins_when_the_one_before_has_fired_is_not_kept_waiting(sessions) -> None:
    """What is left of the fired one is cleaned up long after the end of the new one."""
    windows = sessions(allowed_lateness_ms=1_000)
    windows.element("a", 0)
    assert windows.watermark(9) == [("k", TimeWindow(0, 10), ["a"])]
    windows.element("b", 20)
    assert windows.watermark(29) == [("k", TimeWindow(20, 30), ["b"])]
    assert windows.watermark(2_000) == []
    assert windows.kept() == []


def test_an_earlier_session_that_is_fired_and_goes_on_is_not_kept_waiting(sessions) -> None:
    windows = sessions(allowed_lateness_ms=1_000)
    windows.elements([("a", 0, "k"), ("b", 40, "k")])
    assert windows.watermark(9) == [("k", TimeWindow(0, 10), ["a"])]
    windows.element("c", 5)
    assert windows.watermark(14) == [("k", TimeWindow(0, 15), ["a", "c"])]
    assert windows.watermark(2_000) == [("k", TimeWindow(40, 50), ["b"])]


def test_an_element_goes_into_any_session_of_its_key(sessions) -> None:
    windows = sessions(DynamicEventTimeSessionWindows(lambda value: int(value[1:])))
    windows.elements([("a10", 0, "k"), ("b10", 30, "k"), ("c10", 60, "k")])
    windows.elements([("d10", 27, "k"), ("e1", 33, "k"), ("f10", 90, "k"), ("g10", 5, "k"), ("h10", 55, "k")])
    assert [(window.start, window.end, values) for _, window, values in windows.watermark(200)] == [
        (0, 15, ["a10", "g10"]),
        (27, 40, ["b10", "d10", "e1"]),
        (55, 70, ["c10", "h10"]),
        (90, 100, ["f10"]),
    ]
    assert windows.kept() == []


def test_an_element_joins_all_sessions_within_its_gap(sessions) -> None:
    windows = sessions(DynamicEventTimeSessionWindows(len), reduce=concat, function=Recording())
    windows.elements([("abc", time, "k") for time in (10, 20, 30, 40, 50)])
    windows.element("-" * 23, 17)
    assert windows.watermark(200) == [
        ("k", TimeWindow(10, 13), ["abc"]),
        ("k", TimeWindow(17, 43), ["abc" * 3 + "-" * 23]),
        ("k", TimeWindow(50, 53), ["abc"]),
    ]
    assert windows.kept() == []


def test_the_gap_is_asked_for_once_per_element_with_its_key_as_the_current_one(sessions) -> None:
    asked = []

    def gap(value):
        asked.append((value, windows.task.scope.token))
        return 10

    class Gaps(DynamicEventTimeSessionWindows):
        def __deepcopy__(self, memo):
            return self

    windows = sessions(Gaps(gap))
    windows.elements([("a", 0, "x"), ("b", 5, "y"), ("c", 8, "x")])
    assert asked == [("a", "x"), ("b", "y"), ("c", "x")]
    assert windows.task.scope.token is None


@pytest.mark.parametrize("assigner", [SESSIONS, DynamicEventTimeSessionWindows(lambda value: 1 / 0)])
def test_an_element_without_a_time_is_named(sessions, assigner) -> None:
    windows = sessions(assigner)
    with pytest.raises(RecordError, match=r"no timestamp marker.*on the value 'b'") as failed:
        windows.elements([("b", -(2**63), "k")])
    assert failed.value.index == 0


def test_the_element_whose_gap_cannot_be_found_is_named(sessions) -> None:
    windows = sessions(DynamicEventTimeSessionWindows(lambda value: 10 // value))
    with pytest.raises(RecordError, match=r"ZeroDivisionError.*on the value 0") as failed:
        windows.elements([(1, 0, "k"), (1, 5, "k"), (0, 7, "k")])
    assert failed.value.index == 2


def test_the_element_that_cannot_be_reduced_is_named(sessions) -> None:
    windows = sessions(reduce=concat)
    with pytest.raises(RecordError, match=r"TypeError.*on the value 2") as failed:
        windows.elements([("a", 0, "k"), ("b", 5, "k"), ("c", 5, "x"), (2, 7, "k")])
    assert failed.value.index == 3


class Failing(WindowFunction):
    def apply(self, key, window, inputs):
        return [1 / value for value in inputs]


def test_an_error_when_time_fires_a_session_names_it(sessions) -> None:
    windows = sessions(function=Failing())
    windows.elements([(2, 0, "x"), (0, 40, "x"), (0, 42, "x"), (2, 60, "x")])
    with pytest.raises(
        RecordError, match=r"ZeroDivisionError: .*Failing.*, for TimeWindow\(start=40, end=52\) of the key 'x'"
    ):
        windows.watermark(100)


class FailingToClear(Recording):
    def clear(self, context):
        raise LookupError("lost")


def test_an_error_when_a_session_is_cleaned_up_names_it(sessions) -> None:
    windows = sessions(function=FailingToClear(), allowed_lateness_ms=5)
    windows.elements([("a", 0, "x"), ("b", 40, "x")])
    with pytest.raises(RecordError, match=r"LookupError: lost .*for TimeWindow\(start=0, end=10\) of the key 'x'"):
        windows.watermark(39)


def test_a_lateness_without_an_end_keeps_sessions(sessions) -> None:
    windows = sessions(allowed_lateness_ms=2**63 - 1)
    windows.element("a", 0)
    assert windows.watermark(50) == [("k", TimeWindow(0, 10), ["a"])]
    assert windows.element("b", 5) == [("k", TimeWindow(0, 15), ["a", "b"])]
    assert windows.watermark(2**63 - 1) == []
    assert any(b"window/set" in key for key in windows.kept())


def test_a_late_session_within_a_lateness_without_an_end_fires_at_once(sessions) -> None:
    windows = sessions(allowed_lateness_ms=2**63 - 1)
    windows.watermark(50)
    assert windows.element("a", 0) == [("k", TimeWindow(0, 10), ["a"])]


class Numbering(ProcessWindowFunction):
    """(firing, count of the key's firings so far, in state that all of its windows share)."""

    COUNT = ValueStateDescriptor("count", Types.LONG())

    def process(self, key, context, elements):
        count = context.global_state().get_state(self.COUNT)
        count.update((count.value() or 0) + 1)
        yield list(elements), count.value()


def test_the_key_is_the_current_one_when_a_late_element_fires_a_session(sessions) -> None:
    windows = sessions(allowed_lateness_ms=100, function=Numbering())
    windows.watermark(50)
    found = windows.elements([("a", 0, "x"), ("b", 1, "y"), ("c", 2, "x"), ("d", 30, "y")])
    assert found == [(["a"], 1), (["b"], 1), (["a", "c"], 2), (["d"], 2)]


def test_sessions_of_processing_time() -> None:
    windows = Step(spec(ProcessingTimeSessionWindows.with_gap(10)))
    windows.element("a")
    windows.time(8)
    windows.element("b")
    assert windows.time(16) == []
    assert windows.time(17) == [("k", TimeWindow(0, 18), ["a", "b"])]
    assert windows.kept() == []


def test_continuous_firings_of_a_session_go_on_when_it_is_merged() -> None:
    windows = Step(spec(SESSIONS, ContinuousEventTimeTrigger.of(6)))
    windows.elements([("a", 0, "k"), ("b", 5, "k")])
    assert windows.watermark(6) == [("k", TimeWindow(0, 15), ["a", "b"])]
    windows.element("c", 10)
    assert windows.watermark(12) == [("k", TimeWindow(0, 20), ["a", "b", "c"])]
    assert windows.watermark(100) == [("k", TimeWindow(0, 20), ["a", "b", "c"])] * 2  # at 18 and at its end, 19
    assert windows.kept() == []


def test_counts_of_merged_sessions_are_added_up() -> None:
    windows = Step(spec(SESSIONS, PurgingTrigger.of(CountTrigger.of(4))))
    windows.elements([("a", 0, "k"), ("b", 20, "k"), ("c", 21, "k")])
    assert windows.element("d", 10) == [("k", TimeWindow(0, 31), ["a", "b", "c", "d"])]
    assert windows.watermark(100) == []
    assert windows.kept() == []


class Average(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        acc_a[0] += acc_b[0]
        acc_a[1] += acc_b[1]
        return acc_a


def test_accumulators_are_merged_not_results(sessions) -> None:
    windows = sessions(aggregate=AggregateAggregation(Average()))
    windows.elements([(1, 0, "k"), (3, 20, "k"), (4, 22, "k"), (8, 10, "k")])
    assert windows.watermark(100) == [4.0]


def test_clear_is_called_for_the_session_that_ends_not_for_those_that_were_merged(sessions) -> None:
    windows = Step(spec(SESSIONS, function=Recording()), type(sessions().operator), tags=("cleared",))
    windows.elements([("a", 0, "k"), ("b", 20, "k"), ("c", 10, "k")])
    windows.watermark(100)
    assert windows.late("cleared") == [(TimeWindow(0, 30), 29)]


class Week(MergingWindowAssigner):
    """Merges everything of a week of 100 ms into a window of the week's last 10 ms: a merged window may end in the past."""

    def __init__(self, event_time=True):
        self.event_time = event_time

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 50)]

    def merge_windows(self, windows, callback):
        windows = sorted(windows)
        if len(windows) > 1:
            callback.merge(windows, TimeWindow(windows[0].start, windows[0].start + 20))

    def get_default_trigger(self, env=None):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return self.event_time


def test_a_merge_result_in_the_past_is_refused() -> None:
    windows = Step(spec(Week()))
    windows.element("a", 0)
    windows.watermark(30)
    with pytest.raises(RecordError, match="cannot become earlier than the current watermark by merging") as failed:
        windows.element("b", 40)
    assert "Current watermark: 30 window: TimeWindow(start=0, end=20)" in str(failed.value)


def test_a_merge_result_in_the_past_of_the_clock_is_refused() -> None:
    windows = Step(spec(Week(event_time=False)))
    windows.element("a", 0)
    windows.now = 19
    with pytest.raises(RecordError, match="cannot become earlier than the current processing time by merging"):
        windows.element("b", 40)


class Keeping(Trigger):
    """Has state of three kinds that merge, and one that does not."""

    LIST = ListStateDescriptor("list", Types.STRING())
    SUM = ReducingStateDescriptor("sum", concat, Types.STRING())
    VALUE = ValueStateDescriptor("value", Types.STRING())

    def __init__(self, merge_value=False):
        self.merge_value = merge_value

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(self.LIST).add(element)
        ctx.get_partitioned_state(self.SUM).add(element)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        kept = "".join(ctx.get_partitioned_state(self.LIST).get()), ctx.get_partitioned_state(self.SUM).get()
        assert sorted(kept[0]) == sorted(kept[1]), kept
        self.clear(window, ctx)
        return TriggerResult.FIRE if len(kept[0]) >= 3 else TriggerResult.PURGE

    def on_processing_time(self, time, window, ctx):
        raise AssertionError("no such timer")

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.LIST)
        ctx.merge_partitioned_state(self.SUM)
        if self.merge_value:
            ctx.merge_partitioned_state(self.VALUE)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.LIST).clear()
        ctx.get_partitioned_state(self.SUM).clear()


def test_a_triggers_own_state_is_merged_where_it_asks() -> None:
    windows = Step(spec(SESSIONS, Keeping()))
    windows.elements([("a", 0, "k"), ("b", 20, "k"), ("c", 10, "k"), ("d", 50, "k")])
    assert windows.watermark(100) == [("k", TimeWindow(0, 30), ["a", "b", "c"])]
    assert windows.kept() == []


def test_only_state_that_merges_can_be_merged() -> None:
    windows = Step(spec(SESSIONS, Keeping(merge_value=True)))
    with pytest.raises(Exception, match="does not refer to a mergeable state"):
        windows.elements([("a", 0, "k"), ("b", 5, "k")])


def test_the_bytes_of_windows_in_flight() -> None:
    codec = WindowSetCodec(lambda window: window.encode(), lambda data: data.decode())
    windows = {"a": b"", "b" * 1000: b"(x", "": b"c" * 70_000}
    assert codec.decode(codec.encode(windows)) == windows
    assert codec.encode_each([windows, {}]) == [codec.encode(windows), codec.encode({})]
    assert codec.decode_many(codec.encode_many([windows, {}])) == [windows, {}]
    with pytest.raises(ValueError, match="not windows in flight"):
        codec.decode(b"\x02")
    with pytest.raises(ValueError, match="end too early"):
        codec.decode(codec.encode(windows)[:-1])


PLACES = {TimeWindow(5, 15): b"(one", TimeWindow(-(2**63), -7): b"(" + b"x" * 300, TimeWindow(20, 2**63 - 1): b"(three"}


def test_the_bytes_of_sessions_are_those_of_windows_in_flight() -> None:
    general, own = WindowSetCodec(encode_window, decode_window), SessionsCodec()
    ordered = {window: PLACES[window] for window in sorted(PLACES)}
    sessions = own.decode(general.encode(PLACES))
    assert [(session.window(), session.token) for session in sessions] == list(ordered.items())
    assert own.encode(sessions) == general.encode(ordered)
    assert dict(sessions.items()) == PLACES
    both = [sessions, Sessions()]
    assert own.encode_each(both) == general.encode_each([ordered, {}])
    assert [dict(found.items()) for found in own.decode_many(own.encode_many(both))] == [ordered, {}]
    with pytest.raises(ValueError, match="not windows in flight"):
        own.decode(b"\x02")


def test_bounds_of_a_session_that_do_not_fit_are_named() -> None:
    sessions = Sessions([Session(0, 2**63, b"(one")])
    with pytest.raises(ValueError, match=r"TimeWindow\(start=0, end=9223372036854775808\).*must be ints that fit"):
        SessionsCodec().encode(sessions)


def test_an_element_that_changes_no_session_leaves_the_windows_in_flight_as_they_are() -> None:
    windows = Step(spec(DynamicEventTimeSessionWindows(len), reduce=concat), SessionWindowOperator)
    assert isinstance(windows.operator, SessionWindowOperator)
    sets = windows.operator.sets
    windows.elements([("abcdef", 0, "k"), ("abcdef", 20, "k")])
    sets.dirty.clear()
    windows.elements([("x", 2, "k"), ("y", 22, "k"), ("z", 25, "k")])
    assert sets.dirty == set()
    windows.elements([("abcdef", 1, "k"), ("late", 100, "x")])
    assert sets.dirty == {"k", "x"}
    assert windows.watermark(100) == ["abcdefxabcdef", "abcdefyz"]
