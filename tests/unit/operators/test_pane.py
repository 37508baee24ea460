"""The fast operator of the common windows: which steps it does, boundaries, copies, errors, state."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, RecordError
from kstreampy.eventtime.calendar_window import CalendarEventTimeWindows
from kstreampy.eventtime.count_trigger import CountTrigger
from kstreampy.eventtime.evictor import CountEvictor
from kstreampy.eventtime.session_assigner import EventTimeSessionWindows
from kstreampy.eventtime.time_assigner import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from kstreampy.eventtime.time_trigger import EventTimeTrigger
from kstreampy.eventtime.window import TimeWindow
from kstreampy.operators.field import Field
from kstreampy.operators.function import AggregateFunction
from kstreampy.operators.keyed import extreme_by, extreme_of
from kstreampy.operators.pane import PaneOperator, can_use_panes
from kstreampy.operators.pane_fold import SumAggregation, fold_of
from kstreampy.operators.pane_sliding import SharedPanes
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_choice import window_operator
from kstreampy.operators.window_function import (
    AllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from kstreampy.operators.window_spec import AggregateAggregation, ReduceAggregation
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.state.budget import CacheBudget
from kstreampy.state.descriptor import ValueStateDescriptor
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from tests.unit.operators.standin import Collecting, FailingAt, context
from tests.unit.operators.windowing import Recording, Step, concat, spec

TUMBLING = TumblingEventTimeWindows.of(10)
SLIDING = SlidingEventTimeWindows.of(10, 5)


def summed(assigner: Any = TUMBLING, position: Any = 1, **changes: Any) -> Step:
    return Step(spec(assigner, aggregate=SumAggregation(Field(position)), **changes), PaneOperator)


class Average(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Bag(AggregateFunction):
    """Accumulator and result are one list, changed in place."""

    def create_accumulator(self) -> Any:
        return []

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_a += acc_b
        return acc_a


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        (result,) = elements
        window = context.window()
        yield key, window.start, window.end, result, context.current_watermark()


# Which steps it does


class MyWindows(TumblingEventTimeWindows):
    """A user's own."""


@pytest.mark.parametrize(
    ("assigner", "changes", "can"),
    [
        (TUMBLING, {}, True),
        (SLIDING, {}, True),
        (CalendarEventTimeWindows.days("Europe/Berlin"), {}, True),
        (TUMBLING, {"trigger": EventTimeTrigger()}, True),
        (TUMBLING, {"allowed_lateness_ms": 5, "late_tag_id": "late"}, True),
        (TUMBLING, {"function": Describe()}, True),
        (TUMBLING, {"function": Recording()}, False),
        (TUMBLING, {"trigger": CountTrigger.of(2)}, False),
        (TUMBLING, {"evictor": CountEvictor.of(2)}, False),
        (TUMBLING, {"reduce": None}, False),
        (MyWindows.of(10), {}, False),
        (TumblingEventTimeWindows.of(10, 0, WindowStagger.RANDOM), {}, False),
        (TumblingProcessingTimeWindows.of(10), {}, False),
        (EventTimeSessionWindows.with_gap(10), {}, False),
    ],
)
def test_which_steps_use_panes(assigner: Any, changes: dict[str, Any], can: bool) -> None:
    drawn = spec(assigner, **{"reduce": concat, **changes})
    assert can_use_panes(drawn) is can
    assert isinstance(window_operator("step", "uid", drawn), PaneOperator) is can


# Firing and lateness


@pytest.mark.parametrize(("watermark", "fires"), [(8, False), (9, True), (10, True)])
def test_a_window_fires_when_the_watermark_comes_to_its_last_millisecond(watermark: int, fires: bool) -> None:
    step = summed()
    step.element(("a", 1), 0)
    step.element(("a", 2), 9)
    step.element(("a", 4), 10)
    assert step.watermark(watermark) == ([("a", 3)] if fires else [])
    assert step.stamps == ([9] if fires else [])


@pytest.mark.parametrize(("watermark", "late"), [(13, False), (14, True), (15, True)])
def test_an_element_is_late_when_the_allowed_time_is_over(watermark: int, late: bool) -> None:
    step = summed(allowed_lateness_ms=5, late_tag_id="late")
    step.element(("a", 1), 3)
    assert step.watermark(9) == [("a", 1)]
    assert step.watermark(watermark) == []
    assert step.element(("a", 2), 4) == ([] if late else [("a", 3)])
    assert step.late() == ([(("a", 2), 4)] if late else [])
    assert step.task.late_dropped == 0


def test_late_elements_without_a_side_output_are_counted() -> None:
    step = summed()
    step.watermark(9)
    step.elements([(("a", 1), 3, "k"), (("a", 1), 12, "k"), (("a", 1), 9, "k")])
    assert step.task.late_dropped == 2
    assert step.watermark(MAX_WATERMARK) == [("a", 1)]


def test_an_element_between_windows_vanishes_and_is_late_only_if_it_is_old() -> None:
    step = summed(SlidingEventTimeWindows.of(5, 10))
    step.watermark(6)
    step.elements([(("a", 1), 6, "k"), (("a", 1), 7, "k"), (("a", 1), 12, "k")])
    assert step.task.late_dropped == 1
    assert step.watermark(MAX_WATERMARK) == [("a", 1)]


def test_late_elements_keep_the_order_in_which_they_came_and_have_no_keys() -> None:
    step = summed(late_tag_id="late")
    step.watermark(100)
    step.elements([(("a", n), stamp, "k") for n, stamp in enumerate([35, 2, 41, 1])])
    assert step.late() == [(("a", 0), 35), (("a", 1), 2), (("a", 2), 41), (("a", 3), 1)]


def test_a_record_error_of_the_late_side_names_the_record() -> None:
    step = summed(late_tag_id="late")
    step.watermark(100)
    step.operator.sides["late"] = FailingAt(("a", 2))  # type: ignore[index]
    with pytest.raises(RecordError) as raised:
        step.elements([(("a", 1), 200, "k"), (("a", 2), 5, "k")])
    assert raised.value.index == 1


def test_windows_fire_in_the_order_of_their_ends_with_keys_as_they_came() -> None:
    step = summed()
    step.elements([((key, 1), stamp, key) for key, stamp in [("z", 15), ("b", 3), ("a", 14), ("c", 2), ("b", 4)]])
    assert step.watermark(30) == [("b", 2), ("c", 1), ("z", 1), ("a", 1)]
    assert step.stamps == [9, 9, 19, 19]
    assert step.keys == ["b", "c", "z", "a"]


def test_a_sliding_window_has_only_the_keys_that_are_in_it() -> None:
    step = summed(SLIDING)
    step.elements([(("a", 1), 2, "a"), (("b", 2), 7, "b"), (("a", 4), 12, "a")])
    assert step.watermark(4) == [("a", 1)]
    assert sorted(step.watermark(9)) == [("a", 1), ("b", 2)]
    assert sorted(step.watermark(14)) == [("a", 4), ("b", 2)]
    assert step.watermark(19) == [("a", 4)]
    assert step.watermark(MAX_WATERMARK) == []
    assert step.kept() == []


def test_a_late_element_fires_each_of_its_fired_windows_once_more() -> None:
    step = summed(SLIDING, allowed_lateness_ms=20)
    step.element(("a", 1), 6)
    assert step.watermark(14) == [("a", 1), ("a", 1)]
    assert step.elements([(("a", 2), 8, "k"), (("a", 4), 11, "k")]) == [("a", 3), ("a", 3), ("a", 7)]
    assert step.stamps == [9, 14, 14]
    assert step.watermark(19) == [("a", 4)]


def test_the_end_of_the_input_fires_everything() -> None:
    step = summed(allowed_lateness_ms=1000)
    step.elements([(("a", 1), -5, "k"), (("a", 1), 5_000_000_000_000, "k")])
    assert step.watermark(MAX_WATERMARK) == [("a", 1), ("a", 1)]
    assert step.stamps == [-1, 5_000_000_000_009]
    assert step.kept() == []


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CalendarEventTimeWindows.days("UTC")], ids=repr)
def test_an_element_without_a_timestamp_is_refused_as_flink_does(assigner: Any) -> None:
    step = summed(assigner)
    with pytest.raises(RecordError, match=r"Record has Long\.MIN_VALUE timestamp") as raised:
        step.elements([(("a", 1), 5, "k"), (("a", 2), NO_TIMESTAMP, "k")])
    assert raised.value.index == 1


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CalendarEventTimeWindows.days("UTC")], ids=repr)
def test_a_timestamp_at_the_end_of_time_is_refused_with_its_record(assigner: Any) -> None:
    step = summed(assigner)
    with pytest.raises(RecordError) as raised:
        step.elements([(("a", 2), MAX_WATERMARK, "k"), (("a", 1), 5, "k")])
    assert raised.value.index == 0


def test_an_empty_batch_is_nothing() -> None:
    step = summed()
    step.operator.process(Batch([], [], []))
    assert step.watermark(MAX_WATERMARK) == []


def test_a_day_of_new_york_is_right_when_clocks_change() -> None:
    step = summed(CalendarEventTimeWindows.days("America/New_York"), function=Describe())
    start = 1_615_698_000_000  # 2021-03-14 00:00 there, a day of 23 hours
    hours = [start + hour * 3_600_000 for hour in range(-1, 24)]
    step.elements([(("a", 1), stamp, "k") for stamp in hours])
    found = step.watermark(MAX_WATERMARK)
    assert [(end - begin) // 3_600_000 for _, begin, end, _, _ in found] == [24, 23, 24]
    assert [result for _, _, _, result, _ in found] == [("a", 1), ("a", 23), ("a", 1)]


# Aggregations


@pytest.mark.parametrize(
    ("position", "values", "expected"),
    [
        (1, [("a", 1), ("b", 2), ("c", 3)], ("a", 6)),
        (1, [("a", 1, "x"), ("b", 2, "y")], ("a", 3, "x")),
        (2, [("a", "x", 1), ("b", "y", 2)], ("a", "x", 3)),
        (0, [1, 2, 3], 6),
        ("*", [1.5, 2.5], 4.0),
        (0, [1, 2.5], 3.5),
        (0, [True, True], 2),
        ("n", [{"k": "a", "n": 1}, {"k": "b", "n": 2}], {"k": "a", "n": 3}),
        ("o.n", [{"o": {"n": 1}}, {"o": {"n": 2}}], {"o": {"n": 3}}),
        (1, [("a", 1), ["b", 2], ("c", 4)], ("a", 7)),
        (1, [["a", 1], ("b", 2), ("c", 4)], ["a", 7]),
        (1, [("a", [1]), ("b", [2])], ("a", [1, 2])),
    ],
)
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
@pytest.mark.parametrize("one_batch", [True, False])
def test_sums_of_every_shape(position: Any, values: list[Any], expected: Any, assigner: Any, one_batch: bool) -> None:
    step = summed(assigner, position)
    rows = [(value, 3 * number, "k") for number, value in enumerate(values)]
    for batch in [rows] if one_batch else [[row] for row in rows]:
        step.elements(batch)
    found = step.watermark(MAX_WATERMARK)
    result = found[step.stamps.index(9)]
    assert result == expected
    assert type(result) is type(expected)


def test_minus_zero_stays_minus_zero() -> None:
    step = summed(position=0)
    step.elements([(-0.0, 1, "k"), (-0.0, 2, "k")])
    (result,) = step.watermark(MAX_WATERMARK)
    assert str(result) == "-0.0"


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_min_and_max_keep_the_first_and_min_by_and_max_by_the_best(assigner: Any) -> None:
    values = [("a", 5), ("b", 2), ("c", 2), ("d", 9), ("e", 9)]
    expected = {
        extreme_of(Field(1), largest=False): ("a", 2),
        extreme_of(Field(1), largest=True): ("a", 9),
        extreme_by(Field(1), largest=False, first=True): ("b", 2),
        extreme_by(Field(1), largest=False, first=False): ("c", 2),
        extreme_by(Field(1), largest=True, first=True): ("d", 9),
        extreme_by(Field(1), largest=True, first=False): ("e", 9),
    }
    for combine, result in expected.items():
        step = Step(spec(assigner, aggregate=ReduceAggregation(combine, may_change=False)), PaneOperator)
        step.elements([(value, 2 * number, "k") for number, value in enumerate(values)])
        assert step.watermark(9)[-1] == result


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_reduce_and_aggregate(assigner: Any) -> None:
    step = Step(spec(assigner, reduce=lambda a, b: a + b), PaneOperator)
    step.elements([(n, n, key) for n in range(10) for key in "ab"])
    assert sorted(step.watermark(9)[-2:]) == [45, 45]
    step = Step(spec(assigner, aggregate=AggregateAggregation(Average())), PaneOperator)
    step.elements([(n, n, "k") for n in range(10)])
    assert step.watermark(9)[-1] == 4.5


def test_panes_are_combined_in_the_order_of_time() -> None:
    step = Step(spec(SlidingEventTimeWindows.of(6, 2), reduce=lambda a, b: a + b), PaneOperator)
    step.elements([(name, stamp, "k") for name, stamp in [("e", 4), ("a", 0), ("c", 2), ("A", 1), ("E", 5)]])
    assert step.watermark(5)[-1] == "aAceE"


def test_a_merge_that_is_there_only_because_it_has_to_be_is_not_needed() -> None:
    class Unmerged(Average):
        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            raise NotImplementedError("only session windows merge")

    class Silent(Average):
        def merge(self, acc_a: Any, acc_b: Any) -> Any: ...

    class Own(Average):
        merge = AggregateFunction.merge

    class SilentOfNone(Average):
        def create_accumulator(self) -> Any:
            return None

        def add(self, value: Any, accumulator: Any) -> Any:
            return super().add(value, accumulator or (0, 0))

        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            return None

    for function in (Unmerged(), Silent(), Own(), SilentOfNone()):
        step = Step(spec(SLIDING, aggregate=AggregateAggregation(function)), PaneOperator)
        assert not isinstance(step.operator.firing, SharedPanes)  # type: ignore[attr-defined]
        step.elements([(n, n, "k") for n in range(15)])
        assert step.watermark(MAX_WATERMARK) == [2.0, 4.5, 9.5, 12.0]


def test_a_fresh_accumulator_may_be_none() -> None:
    class OfNone(Average):
        def create_accumulator(self) -> Any:
            return None

        def add(self, value: Any, accumulator: Any) -> Any:
            return super().add(value, accumulator or (0, 0))

        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            return acc_b if acc_a is None else super().merge(acc_a, acc_b)

    step = Step(spec(SLIDING, aggregate=AggregateAggregation(OfNone())), PaneOperator)
    assert isinstance(step.operator.firing, SharedPanes)  # type: ignore[attr-defined]
    step.elements([(n, n, "k") for n in range(15)])
    assert step.watermark(MAX_WATERMARK) == [2.0, 4.5, 9.5, 12.0]


class Unmergeable(ReduceAggregation):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.merge = None  # type: ignore[assignment]

    def own_copy(self) -> Unmergeable:
        return Unmergeable(self.function)


def test_overlapping_windows_without_merge_do_not_share_what_changes() -> None:
    def extend(a: list[str], b: list[str]) -> list[str]:
        a += b
        return a

    step = Step(spec(SLIDING, aggregate=Unmergeable(extend)), PaneOperator)
    step.elements([(["x"], 7, "k"), (["y"], 8, "k"), (["z"], 12, "k")])
    assert step.watermark(MAX_WATERMARK) == [["x", "y"], ["x", "y", "z"], ["z"]]


def test_an_accumulator_of_none_is_no_accumulator() -> None:
    step = Step(spec(TUMBLING, reduce=lambda a, b: None if b == 0 else a + b), PaneOperator)
    step.elements([(1, 1, "a"), (0, 2, "a"), (5, 3, "a"), (1, 1, "b"), (0, 2, "b")])
    assert step.watermark(9) == [5]
    assert step.keys == ["a"]


def test_a_sliding_window_merges_at_most_three_times_per_key_and_pane() -> None:
    merges = 0

    def add(a: int, b: int) -> int:
        nonlocal merges
        merges += 1
        return a + b

    step = Step(spec(SlidingEventTimeWindows.of(60, 1), reduce=add), PaneOperator)
    for now in range(600):
        step.element(1, now)
        step.watermark(now)
    assert merges <= 3 * 600


# Copies


def test_what_is_emitted_is_not_what_is_kept() -> None:
    step = Step(spec(SLIDING, aggregate=AggregateAggregation(Bag()), allowed_lateness_ms=50), PaneOperator)
    step.element("x", 7)
    (first,) = step.watermark(9)
    first.append("changed by what follows")
    (second,) = step.watermark(14)
    assert second == ["x"]
    again = step.element("y", 8)
    assert again == [["x", "y"], ["x", "y"]]
    again[0].append("changed")
    assert step.element("z", 9) == [["x", "y", "z"], ["x", "y", "z"]]


def test_a_dict_that_goes_on_growing_is_not_the_one_that_was_emitted() -> None:
    step = summed(position="n", allowed_lateness_ms=50)
    step.main.may_change_values = False
    step.main.keeps_values = True
    step.element({"n": 1}, 7)
    (first,) = step.watermark(9)
    (second,) = step.element({"n": 2}, 8)
    assert (first, second) == ({"n": 1}, {"n": 3})


def test_the_values_of_the_batch_are_not_changed() -> None:
    values = [{"n": 1}, {"n": 2}]
    step = summed(position="n")
    step.elements([(value, 1, "k") for value in values])
    step.watermark(9)
    assert values == [{"n": 1}, {"n": 2}]


def test_a_function_that_keeps_its_accumulator_changes_nothing_that_was_emitted() -> None:
    class Keeper(Bag):
        kept: Any = None

        def get_result(self, accumulator: Any) -> Any:
            if self.kept is not None:
                self.kept.append("late change")
            Keeper.kept = accumulator
            return accumulator

    step = Step(spec(TUMBLING, aggregate=AggregateAggregation(Keeper())), PaneOperator)
    step.elements([("x", 1, "a"), ("y", 11, "a")])
    results = step.watermark(30)
    assert results == [["x"], ["y"]]


class Taking(Bag):
    """Takes its result out of the accumulator."""

    def get_result(self, accumulator: Any) -> Any:
        return accumulator.pop(0)


@pytest.mark.parametrize("cls", [PaneOperator, WindowOperator])
def test_what_is_taken_from_an_accumulator_stays_in_the_one_that_is_kept(cls: Any) -> None:
    step = Step(spec(TUMBLING, aggregate=AggregateAggregation(Taking()), allowed_lateness_ms=50), cls)
    step.elements([("x", 1, "a"), ("y", 2, "a")])
    assert [step.watermark(9), step.element("z", 3, "a"), step.element("z", 4, "a")] == [["x"], ["x"], ["x"]]


@pytest.mark.parametrize("cls", [PaneOperator, WindowOperator])
def test_what_is_taken_for_a_window_function_stays_as_well(cls: Any) -> None:
    taking = AggregateAggregation(Taking())
    step = Step(spec(TUMBLING, aggregate=taking, allowed_lateness_ms=50, function=Describe()), cls)
    step.elements([("x", 1, "a"), ("y", 2, "a")])
    fired = [*step.watermark(9), *step.element("z", 3, "a"), *step.element("z", 4, "a")]
    assert [result for _, _, _, result, _ in fired] == ["x", "x", "x"]


# Window functions


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
def test_a_window_function_is_given_the_one_result(assigner: Any) -> None:
    step = Step(spec(assigner, reduce=lambda a, b: a + b, function=Describe()), PaneOperator)
    pair = ("a", 1)
    step.elements([(1, 1, pair), (2, 2, pair), (4, 3, "b")])
    found = [row for row in step.watermark(9) if row[2] == 10]
    assert sorted(found, key=repr) == [("b", 0, 10, 4, 9), (("a", 1), 0, 10, 3, 9)]


def test_a_window_function_may_give_none_or_many_and_side_outputs() -> None:
    class Many(WindowFunction):
        def apply(self, key, window, inputs):
            (total,) = inputs
            if total == 1:
                return None
            return [window] * total

    step = Step(spec(TUMBLING, reduce=lambda a, b: a + b, function=Many()), PaneOperator)
    step.elements([(1, 1, "a"), (2, 1, "b"), (0, 1, "c")])
    assert step.watermark(9) == [TimeWindow(0, 10)] * 2
    assert (step.stamps, step.keys) == ([9, 9], ["b", "b"])


def test_windows_of_all_elements_show_no_key_and_give_none_on() -> None:
    class All(AllWindowFunction):
        def apply(self, window, inputs):
            yield window, list(inputs)

    step = Step(spec(TUMBLING, reduce=concat, function=All()), PaneOperator)
    step.elements([("x", 1, 0), ("y", 2, 0)])
    assert step.watermark(9) == [(TimeWindow(0, 10), ["xy"])]
    assert step.keys == []
    plain = Step(spec(TUMBLING, reduce=concat, is_keyed=False), PaneOperator)
    plain.element("x", 1, 0)
    assert plain.watermark(9) == ["x"]
    assert plain.keys == []


def test_state_of_the_window_and_of_the_key() -> None:
    class Counting(ProcessWindowFunction):
        def process(self, key, context, elements):
            descriptor = ValueStateDescriptor("count", Types.LONG())
            counts = []
            for store in (context.window_state(), context.global_state()):
                state = store.get_state(descriptor)
                state.update((state.value() or 0) + 1)
                counts.append(state.value())
            yield key, *counts

    step = Step(spec(TUMBLING, reduce=concat, function=Counting(), allowed_lateness_ms=100), PaneOperator)
    step.elements([("x", 1, "a"), ("x", 1, "b"), ("x", 11, "a")])
    assert step.watermark(19) == [("a", 1, 1), ("b", 1, 1), ("a", 1, 2)]
    assert step.element("y", 2, "a") == [("a", 2, 3)]
    assert step.task.scope.token is None


# Errors


def test_an_error_of_the_function_names_the_record_in_the_batch() -> None:
    def refuses(a: int, b: int) -> int:
        if b == 13:
            raise ValueError("unlucky")
        return a + b

    step = Step(spec(TUMBLING, reduce=refuses), PaneOperator)
    with pytest.raises(
        RecordError, match=r"the windows: ValueError: unlucky in .*refuses \(.*on the value 13"
    ) as raised:
        step.elements([(1, 11, "k"), (2, 1, "k"), (3, 12, "k"), (13, 2, "k"), (13, 3, "k")])
    assert raised.value.index == 3


def test_an_error_for_a_late_element_names_its_record() -> None:
    class Refuses(WindowFunction):
        def apply(self, key, window, inputs):
            (total,) = inputs
            if total == 7:
                raise ValueError("seven")
            yield total

    step = Step(spec(SLIDING, reduce=lambda a, b: a + b, function=Refuses(), allowed_lateness_ms=50), PaneOperator)
    step.element(1, 7)
    step.watermark(20)
    with pytest.raises(RecordError, match="seven") as raised:
        step.elements([(100, 50, "k"), (2, 8, "k"), (4, 7, "k")])
    assert raised.value.index == 2


def test_what_follows_names_the_late_element_that_it_fails_on() -> None:
    step = summed(allowed_lateness_ms=50)
    step.element(("a", 1), 7)
    step.watermark(9)
    failing = FailingAt(("a", 7))
    step.operator.out = failing
    step.operator.results.output._out = failing  # type: ignore[attr-defined]
    with pytest.raises(RecordError) as raised:
        step.elements([(("a", 2), 3, "k"), (("a", 100), 15, "k"), (("a", 4), 3, "k")])
    assert raised.value.index == 2


def test_an_error_when_a_window_fires_names_window_and_key() -> None:
    class Fails(Average):
        def get_result(self, accumulator: Any) -> Any:
            raise ZeroDivisionError("oh")

    step = Step(spec(TUMBLING, aggregate=AggregateAggregation(Fails())), PaneOperator)
    step.element(1, 1, "me")
    with pytest.raises(RecordError, match=r"ZeroDivisionError: oh in .*Fails.* ends at 10 ms of the key 'me'"):
        step.watermark(9)


# State over restarts


class Task:
    """A step over one store, to be committed and opened again."""

    def __init__(self, drawn: Any) -> None:
        self.store = Kept()
        self.open(drawn, NO_TIMESTAMP)

    def open(self, drawn: Any, watermark: int) -> None:
        self.state = KeyedState(self.store, CacheBudget(1 << 24))
        self.task = context(state=self.state, watermark=watermark)
        self.operator = PaneOperator("windows", "w", drawn)
        self.out = Collecting()
        self.operator.out = self.out
        self.operator.open(self.task)

    def commit(self) -> int:
        dirty = self.state.take_dirty()
        meta = TaskMeta(1, states=self.state.types).encode()
        self.state.committed(dirty, LocalMeta("t", 1, 0, True, meta))
        return len(dirty)


class Kept(MemoryStore):
    def close(self) -> None: ...


def test_open_windows_are_found_after_a_restart_by_the_watermark_alone() -> None:
    drawn = spec(TUMBLING, reduce=lambda a, b: a + b)
    task = Task(drawn)
    task.operator.process(Batch([1, 2, 4], [1, 2, 11], ["a", "b", "a"]))
    task.commit()
    task.open(drawn, 5)
    task.operator.advance(9)
    assert sorted(zip(task.out.keys, task.out.values, strict=True)) == [("a", 1), ("b", 2)]
    task.operator.process(Batch([8], [12], ["a"]))
    task.operator.advance(MAX_WATERMARK)
    assert task.out.values[2:] == [12]
    task.commit()
    assert task.store.is_empty()


def test_windows_that_fired_before_a_restart_do_not_fire_again() -> None:
    drawn = spec(SLIDING, reduce=lambda a, b: a + b, allowed_lateness_ms=100)
    task = Task(drawn)
    task.operator.process(Batch([1], [7], ["a"]))
    task.operator.advance(9)
    assert task.out.values == [1]
    task.commit()
    task.open(drawn, 9)
    task.operator.advance(10)
    assert task.out.values == []
    task.operator.advance(14)
    assert task.out.values == [1]
    task.operator.process(Batch([2], [8], ["a"]))
    assert task.out.values == [1, 3, 3]


def test_other_windows_over_the_same_state_are_refused() -> None:
    task = Task(spec(TUMBLING, reduce=concat))
    task.operator.process(Batch(["x"], [7], ["a"]))
    task.commit()
    for assigner in (TumblingEventTimeWindows.of(20), TumblingEventTimeWindows.of(10, 5), SLIDING):
        with pytest.raises(JobError, match=r"state 'w/window/panes' is .*tumbling 10 ms, offset 0 ms.*another name"):
            task.open(spec(assigner, reduce=concat), NO_TIMESTAMP)
    task.open(spec(TumblingEventTimeWindows.of(Time.milliseconds(10)), reduce=concat), NO_TIMESTAMP)


def test_a_shorter_lateness_lets_go_of_what_the_longer_one_kept() -> None:
    task = Task(spec(TUMBLING, reduce=concat, allowed_lateness_ms=1000))
    task.operator.process(Batch(["x"], [7], ["a"]))
    task.operator.advance(50)
    task.commit()
    task.open(spec(TUMBLING, reduce=concat), 50)
    task.operator.advance(51)
    assert task.out.values == []
    task.commit()
    assert task.store.is_empty()


def test_functions_are_opened_and_closed_with_the_task() -> None:
    calls = []

    class Opened(Average):
        def open(self, runtime_context: Any) -> None:
            calls.append(("open", runtime_context.get_task_name()))

        def close(self) -> None:
            calls.append("close")

        def __deepcopy__(self, memo: Any) -> Any:
            return self

    step = Step(spec(TUMBLING, aggregate=AggregateAggregation(Opened())), PaneOperator)
    step.operator.close()
    assert calls == [("open", "the windows"), "close"]
    assert step.main.calls[-1] == "close"


def test_sum_says_which_field_and_is_its_own_copy() -> None:
    aggregation = SumAggregation(Field("n"))
    assert aggregation.own_copy().field.position == "n"
    assert fold_of(aggregation).merge is not None


@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING])
def test_a_sum_of_lists_changes_no_list(assigner: Any) -> None:
    """Not those that came in, nor those of a pane that is merged into several windows."""
    values = [{"n": [1]}, {"n": [2]}, {"n": [3]}]
    step = summed(assigner, "n")
    step.elements([(values[0], 5, "k"), (values[1], 6, "k")])
    step.elements([(values[2], 11, "k")])
    sums = [value["n"] for value in step.watermark(100)]
    assert sums == ([[1, 2], [3]] if assigner is TUMBLING else [[1, 2], [1, 2, 3], [3]])
    assert values == [{"n": [1]}, {"n": [2]}, {"n": [3]}]
