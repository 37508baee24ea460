"""Evictors at work: what the function sees, and what the window keeps."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from kstreampy.datastream.functions import AggregateFunction
from kstreampy.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    Evictor,
    GlobalWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)
from kstreampy.operators.window_spec import AggregateAggregation
from tests.unit.operators.windowing import Step, concat, spec

EACH = CountTrigger.of(1)


def seen(evictor: Evictor, elements: list[tuple[Any, int]], trigger: Any = EACH, **changes: Any) -> list[Any]:
    """What the function saw at each firing."""
    windows = Step(spec(GlobalWindows.create(), trigger, evictor=evictor, **changes))
    return [found for value, time in elements for found in windows.element(value, time)]


def letters(text: str) -> list[tuple[str, int]]:
    return list(zip(text, range(len(text)), strict=True))


def values(found: list[Any]) -> list[str]:
    return ["".join(values) for _, _, values in found]


def test_count_before() -> None:
    assert values(seen(CountEvictor.of(2), letters("abcd"))) == ["a", "ab", "bc", "cd"]


def test_count_after() -> None:
    assert values(seen(CountEvictor.of(2, True), letters("abcde"))) == ["a", "ab", "abc", "bcd", "cde"]


def test_sliding_count_windows_of_flink() -> None:
    """`count_window(4, 2)`: every second element, the last 4 or as many as there are."""
    assert values(seen(CountEvictor.of(4), letters("abcdefg"), CountTrigger.of(2))) == ["ab", "abcd", "cdef"]


def test_time_before() -> None:
    """Keeps what is less than 10 ms older than the newest; 10 ms exactly is too old."""
    elements = [("a", 0), ("b", 9), ("c", 10), ("d", 5), ("e", 15)]
    assert values(seen(TimeEvictor.of(10), elements)) == ["a", "ab", "bc", "bcd", "bce"]


def test_time_after() -> None:
    elements = [("a", 0), ("b", 9), ("c", 10), ("d", 5)]
    assert values(seen(TimeEvictor.of(10, True), elements)) == ["a", "ab", "abc", "bcd"]


def test_time_does_nothing_without_timestamps() -> None:
    none = -(2**63)
    assert values(seen(TimeEvictor.of(10), [("a", none), ("b", none), ("c", 50)])) == ["a", "ab", "abc"]


def test_delta_before() -> None:
    """Keeps what is less than 5 from the last."""
    found = seen(DeltaEvictor.of(5, lambda one, last: abs(last - one)), [(1, 0), (5, 0), (6, 0), (20, 0), (16, 0)])
    assert [values for _, _, values in found] == [[1], [1, 5], [5, 6], [20], [20, 16]]


def test_the_window_keeps_what_is_left_until_it_ends() -> None:
    windows = Step(spec(TumblingEventTimeWindows.of(10), EACH, evictor=CountEvictor.of(1)))
    windows.elements([("a", 1, "k"), ("b", 2, "k")])
    assert len([key for key in windows.kept() if b"contents\x00\x18" in key]) == 1
    windows.watermark(9)
    assert windows.kept() == []


def test_reduce_is_computed_from_what_is_left() -> None:
    assert seen(CountEvictor.of(2), letters("abcd"), reduce=concat) == ["a", "ab", "bc", "cd"]


class Words(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value]

    def get_result(self, accumulator):
        return "-".join(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_aggregate_is_computed_from_what_is_left() -> None:
    words = AggregateAggregation(Words())
    assert seen(CountEvictor.of(2), letters("abc"), aggregate=words) == ["a", "a-b", "b-c"]


def test_where_nothing_is_left_the_function_is_called_with_nothing() -> None:
    found = seen(CountEvictor.of(0), letters("ab"))
    assert [values for _, _, values in found] == [[], []]


def test_where_nothing_is_left_reduce_gives_none_and_aggregate_its_empty_result() -> None:
    assert seen(CountEvictor.of(0), letters("ab"), reduce=concat) == [None, None]
    assert seen(CountEvictor.of(0), letters("ab"), aggregate=AggregateAggregation(Words())) == ["", ""]


class Odd(Evictor):
    """Takes the second away before, and the first afterwards; looks at the time."""

    def __init__(self):
        self.calls = []

    def evict_before(self, elements, size, window, evictor_context):
        assert size == len(elements)
        assert evictor_context.get_current_processing_time() == 0
        assert evictor_context.get_current_watermark() == -(2**63)
        if size > 1:
            del elements[1]

    def evict_after(self, elements, size, window, evictor_context):
        assert size == len(elements)
        if size > 2:
            del elements[0]
        elements.reverse()  # in whatever order it leaves them, the window's stays


def test_an_evictor_of_the_users_own() -> None:
    assert values(seen(Odd(), letters("abcde"))) == ["a", "a", "a", "a", "a"]
    assert values(seen(Odd(), letters("abcde"), CountTrigger.of(2))) == ["a", "ad"]


def test_what_the_function_does_to_an_element_changes_nothing_that_is_kept() -> None:
    from kstreampy.datastream.functions import WindowFunction

    class Changing(WindowFunction):
        def apply(self, key, window, inputs):
            for value in inputs:
                value.append("!")
            yield [list(value) for value in inputs]

    windows = Step(spec(GlobalWindows.create(), EACH, evictor=CountEvictor.of(2), function=Changing()))
    found = [found for letter in "abc" for found in windows.element([letter], 1)]
    assert found == [[["a", "!"]], [["a", "!"], ["b", "!"]], [["b", "!"], ["c", "!"]]]


def test_none_is_an_element_like_any_other() -> None:
    found = seen(CountEvictor.of(2), [(None, 0), ("a", 1), (None, 2)])
    assert [values for _, _, values in found] == [[None], [None, "a"], ["a", None]]


@dataclass
class Order:
    amount: int


def test_elements_without_a_declared_type_are_kept_by_the_names_of_their_fields() -> None:
    """As those of other windows: a field may be added, and nothing is unpickled."""
    windows = Step(spec(GlobalWindows.create(), CountTrigger.of(100), evictor=CountEvictor.of(4)))
    windows.element(Order(1), 0)
    stored = [data for key, data in windows.state.take_dirty().entries if data is not None and b"contents" in key]
    assert any(b"Order" in data for data in stored)
    assert all(pickle.PROTO + bytes([pickle.HIGHEST_PROTOCOL]) not in data for data in stored)
