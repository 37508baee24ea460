"""Window functions: what they are given, their state, their side outputs, their errors, and that nothing is shared."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.output_tag import OutputTag
from kstreampy.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from kstreampy.datastream.state import ListStateDescriptor, ValueStateDescriptor
from kstreampy.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_function import WindowCall
from kstreampy.operators.window_spec import AggregateAggregation, ReduceAggregation
from tests.unit.operators.standin import FailingAt
from tests.unit.operators.windowing import ListingAll, Recording, Step, concat, spec

TEN = TumblingEventTimeWindows.of(10)
FIRST = TimeWindow(0, 10)


def general(assigner: Any, trigger: Any = None, **changes: Any) -> Step:
    return Step(spec(assigner, trigger, **changes), WindowOperator, tags=("late", "side", "cleared"))


def test_functions_without_keys() -> None:
    windows = general(TEN, function=ListingAll())
    windows.elements([("a", 1, 0), ("b", 2, 0)])
    assert windows.watermark(9) == [(FIRST, ["a", "b"])]
    assert windows.keys == []


@pytest.mark.parametrize("function", [PassThroughWindowFunction(), PassThroughAllWindowFunction()])
def test_pass_through(function) -> None:
    windows = general(TEN, function=function)
    windows.elements([("a", 1, 0), ("b", 2, 0)])
    assert windows.watermark(9) == ["a", "b"]
    assert windows.stamps == [9, 9]


class Giving(WindowFunction):
    def __init__(self, results):
        self.results = results

    def apply(self, key, window, inputs):
        return self.results


@pytest.mark.parametrize(("results", "found"), [(None, []), ([], []), (("a", "b"), ["a", "b"]), ("ab", ["a", "b"])])
def test_any_iterable_or_none(results, found) -> None:
    windows = general(TEN, function=Giving(results))
    windows.element("x", 1)
    assert windows.watermark(9) == found


@pytest.mark.parametrize("key", ["k", 7, ("a", 1), b"x", 1.5, ["l"]])
def test_the_key_is_the_users(key) -> None:
    windows = general(TEN, function=Recording())
    windows.element("x", 1, key)
    assert windows.watermark(9) == [(key, FIRST, ["x"])]


class Context(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window(), context.current_watermark(), context.current_processing_time(), list(elements)


class ContextAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window(), context.current_watermark(), context.current_processing_time(), list(elements)


@pytest.mark.parametrize("function", [Context(), ContextAll()])
def test_the_context(function) -> None:
    windows = general(TEN, function=function)
    windows.now = 77
    windows.element("x", 1)
    assert windows.watermark(12) == [(FIRST, 12, 77, ["x"])]


def test_a_reduced_value_is_given_alone() -> None:
    windows = general(TEN, reduce=concat, function=Recording())
    windows.elements([("a", 1, "k"), ("b", 2, "k")])
    assert windows.watermark(9) == [("k", FIRST, ["ab"])]


class Counting(ProcessWindowFunction):
    """(firings of the window, firings of the key)."""

    OF_WINDOW = ValueStateDescriptor("firings", Types.LONG())
    OF_KEY = ValueStateDescriptor("firings", Types.LONG())

    def process(self, key, context, elements):
        found = []
        for store, descriptor in ((context.window_state(), self.OF_WINDOW), (context.global_state(), self.OF_KEY)):
            state = store.get_state(descriptor)
            state.update((state.value() or 0) + 1)
            found.append(state.value())
        yield key, context.window().start, *found

    def clear(self, context):
        context.window_state().get_state(self.OF_WINDOW).clear()


def test_state_per_window_and_per_key() -> None:
    windows = general(TEN, CountTrigger.of(1), function=Counting())
    assert windows.elements([("a", 1, "x"), ("b", 2, "x"), ("c", 12, "x"), ("d", 3, "y"), ("e", 4, "x")]) == [
        ("x", 0, 1, 1),
        ("x", 0, 2, 2),
        ("x", 10, 1, 3),
        ("y", 0, 1, 1),
        ("x", 0, 3, 4),
    ]
    windows.watermark(100)
    assert sorted(windows.kept()) == [b"window-1/firings\x00\x02sx", b"window-1/firings\x00\x02sy"]


class Rich(WindowFunction):
    """Uses state got in `open`, as any function of a keyed stream."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))
        self.opened = runtime_context.get_task_name()

    def apply(self, key, window, inputs):
        self.seen.add_all(inputs)
        yield self.opened, "".join(self.seen.get())

    def close(self):
        closed.append(self)


closed: list[Rich] = []


def test_a_rich_function() -> None:
    closed.clear()
    function = Rich()
    windows = general(TEN, function=function)
    windows.elements([("a", 1, "x"), ("b", 2, "y"), ("c", 12, "x")])
    assert windows.watermark(100) == [("the windows", "a"), ("the windows", "b"), ("the windows", "ac")]
    windows.operator.close()
    windows.operator.close()
    assert len(closed) == 1
    assert closed[0] is not function
    assert windows.main.calls[-1] == "close"


class RichReduce(ReduceFunction):
    def open(self, runtime_context):
        self.calls = runtime_context.get_state(ValueStateDescriptor("calls", Types.LONG()))

    def reduce(self, value1, value2):
        self.calls.update((self.calls.value() or 0) + 1)
        return value1 + value2 + str(self.calls.value())


def test_a_rich_reduce_function() -> None:
    windows = general(TEN, reduce=RichReduce())
    windows.elements([("a", 1, "x"), ("b", 2, "x"), ("c", 3, "y"), ("d", 3, "x")])
    assert windows.watermark(100) == ["ab1d2", "c"]


@pytest.mark.parametrize("assigner", [EventTimeSessionWindows.with_gap(5), ProcessingTimeSessionWindows.with_gap(5)])
def test_windows_that_merge_have_no_state_of_their_own(assigner) -> None:
    windows = Step(spec(assigner, CountTrigger.of(1), function=Counting()))
    with pytest.raises(JobError, match=r"Per-window state is not allowed when using merging windows\."):
        windows.element("a", 1)


SIDE = OutputTag("side")


class Siding(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.output(SIDE, ("output", key))
        yield SIDE, ("yield", key)
        yield "main"
        yield OutputTag("unread"), "dropped"


def test_side_outputs_carry_the_timestamp_of_the_result() -> None:
    windows = general(TEN, function=Siding())
    windows.element("a", 1)
    assert windows.watermark(50) == ["main"]
    assert windows.late("side") == [(("output", "k"), 9), (("yield", "k"), 9)]


def test_side_outputs_while_an_element_is_taken() -> None:
    windows = general(GlobalWindows.create(), CountTrigger.of(1), function=Siding())
    assert windows.elements([("a", 1, "x"), ("b", 2, "y")]) == ["main", "main"]
    assert [at for _, at in windows.late("side")] == [1, 1, 2, 2]


class WrongOutput(ProcessWindowFunction):
    def process(self, key, context, elements):
        context.output("side", key)


def test_a_side_output_is_named_by_a_tag() -> None:
    windows = general(TEN, function=WrongOutput())
    windows.element("a", 1)
    with pytest.raises(RecordError, match=r"TypeError.*OutputTag"):
        windows.watermark(50)


def test_clear_is_told_the_window_and_may_use_side_outputs() -> None:
    windows = general(TEN, function=Recording(), allowed_lateness_ms=5)
    windows.elements([("a", 1, "x"), ("b", 15, "x")])
    windows.watermark(13)
    assert windows.late("cleared") == []
    windows.watermark(14)
    assert windows.late("cleared") == [(FIRST, 9)]
    windows.watermark(100)
    assert windows.late("cleared") == [(TimeWindow(10, 20), 19)]


def test_clear_at_the_end_of_a_window_of_processing_time() -> None:
    windows = general(TumblingProcessingTimeWindows.of(10), function=Recording())
    windows.element("a")
    windows.time(9)
    assert [window for window, _ in windows.late("cleared")] == [FIRST]


# Nothing is shared


def test_an_element_in_several_windows_is_reduced_in_each_alone() -> None:
    """The function changes its first argument in place."""

    def add(so_far, value):
        so_far["n"] += value["n"]
        return so_far

    windows = general(SlidingEventTimeWindows.of(10, 5), reduce=add)
    windows.elements([({"n": 1}, 6, "k"), ({"n": 10}, 7, "k"), ({"n": 100}, 12, "k")])
    assert windows.watermark(100) == [{"n": 11}, {"n": 111}, {"n": 100}]


def test_a_result_that_is_changed_later_changes_nothing_that_is_kept() -> None:
    windows = general(TEN, CountTrigger.of(1), reduce=lambda a, b: [*a, *b])
    (first,) = windows.element(["a"], 1)
    first.append("!")
    (second,) = windows.element(["b"], 1)
    assert second == ["a", "b"]


class Grabbing(WindowFunction):
    def apply(self, key, window, inputs):
        (value,) = inputs
        value.append("!")
        yield value
        value.append("?")


def test_a_function_may_change_what_it_is_given() -> None:
    windows = general(TEN, CountTrigger.of(1), reduce=lambda a, b: [*a, *b], function=Grabbing())
    assert windows.element(["a"], 1) == [["a", "!"]]
    assert windows.element(["b"], 1) == [["a", "b", "!"]]


class Latest(AggregateFunction):
    """Its result is its accumulator, which it goes on changing."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_an_accumulator_may_be_the_result() -> None:
    windows = general(TEN, CountTrigger.of(1), aggregate=AggregateAggregation(Latest()))
    found = [found for letter in "abc" for found in windows.element(letter, 1)]
    assert found == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_every_task_has_functions_of_its_own() -> None:
    drawn = spec(TEN, aggregate=AggregateAggregation(Latest()), function=Rich())
    one, two = Step(drawn, WindowOperator), Step(drawn, WindowOperator)
    assert one.operator.spec.function.function is not two.operator.spec.function.function
    assert one.operator.spec.aggregate.function is not two.operator.spec.aggregate.function
    assert one.operator.spec.assigner is not drawn.assigner


def test_what_cannot_be_copied_for_a_task_says_so() -> None:
    trigger = CountTrigger.of(1)
    trigger.connection = (letter for letter in "abc")
    with pytest.raises(JobError, match=r"CountTrigger\(1\) cannot be copied for a task"):
        Step(spec(TEN, trigger))


# Errors


class Failing(WindowFunction):
    def apply(self, key, window, inputs):
        return [1 / value for value in inputs]


def test_an_error_while_an_element_is_taken_names_the_record_and_the_line() -> None:
    windows = general(GlobalWindows.create(), CountTrigger.of(1), function=Failing())
    with pytest.raises(RecordError) as failed:
        windows.elements([(2, 1, "k"), (1, 1, "x"), (0, 1, "y")])
    assert failed.value.index == 2
    assert "the windows: ZeroDivisionError: division by zero in Failing.apply" in str(failed.value)
    assert "test_window_functions.py" in str(failed.value)


def test_an_error_when_time_fires_a_window_names_its_key() -> None:
    windows = general(TEN, function=Failing())
    windows.elements([(2, 1, "k"), (0, 1, "y")])
    with pytest.raises(RecordError, match=r"TimeWindow\(start=0, end=10\) of the key 'y'"):
        windows.watermark(9)


def test_an_error_of_reduce_names_the_value() -> None:
    windows = general(TEN, reduce=concat)
    with pytest.raises(RecordError, match=r"TypeError.*on the value 'b'") as failed:
        windows.elements([(1, 1, "k"), ("a", 1, "x"), ("b", 2, "k")])
    assert failed.value.index == 2


def test_an_error_of_what_follows_is_brought_to_the_record_that_fired() -> None:
    windows = general(GlobalWindows.create(), CountTrigger.of(2), reduce=concat)
    windows.operator.output._out = FailingAt("ddd!")
    with pytest.raises(RecordError) as failed:
        windows.elements([("a", 1, "k"), ("dd", 1, "x"), ("b", 1, "k"), ("d!", 1, "x"), ("e", 1, "y")])
    assert failed.value.index == 3


def test_only_window_functions_are_window_functions() -> None:
    for wrong in (None, len, WindowFunction, RichReduce()):
        with pytest.raises(TypeError, match="a window function is required"):
            WindowCall(wrong)
    with pytest.raises(TypeError, match="AggregateFunction is required"):
        AggregateAggregation(concat)
    with pytest.raises(TypeError, match="ReduceFunction"):
        ReduceAggregation(5)


def test_generic_functions_can_be_written_with_their_types() -> None:
    class Typed(WindowFunction[str, str, str, TimeWindow]):
        def apply(self, key: str, window: TimeWindow, inputs: Any) -> list[str]:
            return [key]

    class TypedAll(AllWindowFunction[str, str, TimeWindow]):
        def apply(self, window: TimeWindow, inputs: Any) -> list[str]:
            return ["all"]

    for function, found in ((Typed(), ["k"]), (TypedAll(), ["all"])):
        windows = general(TEN, function=function)
        windows.element("a", 1)
        assert windows.watermark(9) == found
