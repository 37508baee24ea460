"""What windows that are not panes add up: `sum` over every shape of value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kstreampy.common import Row
from kstreampy.datastream.window import CountTrigger, EventTimeSessionWindows, SlidingEventTimeWindows
from kstreampy.errors import RecordError
from kstreampy.operators.field import Field
from kstreampy.operators.pane_fold import SumAggregation
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_merging import MergingWindowOperator
from kstreampy.operators.window_session import SessionWindowOperator
from tests.unit.operators.windowing import Step, spec

SESSIONS = EventTimeSessionWindows.with_gap(10)


def summed(position: Any, cls: Any = SessionWindowOperator, assigner: Any = SESSIONS, **changes: Any) -> Step:
    return Step(spec(assigner, aggregate=SumAggregation(Field(position)), **changes), cls)


@dataclass
class Point:
    x: int
    y: str


class Mine(dict[str, Any]):
    pass


SHAPES: dict[str, tuple[Any, list[Any], Any]] = {
    "dicts": ("n", [{"n": 1, "u": "a"}, {"n": 2, "u": "b"}, {"n": 4}], {"n": 7, "u": "a"}),
    "dicts of lists": ("n", [{"n": [1]}, {"n": [2]}, {"n": [4]}], {"n": [1, 2, 4]}),
    "dicts by int": (0, [{0: 1}, {0: 2}, {0: 4}], {0: 7}),
    "nested dicts": ("a.n", [{"a": {"n": 1}}, {"a": {"n": 2}}, {"a": {"n": 4}}], {"a": {"n": 7}}),
    "dicts of our own": ("n", [Mine(n=1), Mine(n=2), Mine(n=4)], Mine(n=7)),
    "a dict, then others": ("n", [{"n": 1}, Mine(n=2), Row(n=4)], {"n": 7}),
    "a dict, then an object": ("x", [{"x": 1}, Point(2, "a"), {"x": 4}], {"x": 7}),
    "another, then dicts": ("n", [Row(n=1), {"n": 2}, {"n": 4}], Row(n=7)),
    "pairs": (1, [("a", 1), ("b", 2), ("c", 4)], ("a", 7)),
    "tuples by name": ("f0", [(1, "a"), (2, "b"), (4, "c")], (7, "a")),
    "lists": (0, [[1, "a"], [2, "b"], [4, "c"]], [7, "a"]),
    "rows": ("n", [Row(n=1, u="a"), Row(n=2, u="b"), Row(n=4, u="c")], Row(n=7, u="a")),
    "objects": ("x", [Point(1, "a"), Point(2, "b"), Point(4, "c")], Point(7, "a")),
    "numbers": (0, [1, 2, 4], 7),
    "numbers themselves": ("*", [1, 2, 4], 7),
}


@pytest.mark.parametrize("cls", [SessionWindowOperator, MergingWindowOperator])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_sum_of_every_shape(shape: str, cls: Any) -> None:
    position, values, total = SHAPES[shape]
    before = repr(values)
    windows = summed(position, cls)
    windows.elements([(values[0], 0, "k"), (values[1], 5, "k")])
    windows.elements([(values[2], 9, "k")])
    (found,) = windows.watermark(100)
    assert found == total
    assert type(found) is type(total)
    assert repr(values) == before  # what came in is not changed
    assert windows.kept() == []


def test_what_was_emitted_stays_as_it_was_when_its_session_goes_on() -> None:
    windows = summed("n", allowed_lateness_ms=100)
    windows.element({"n": 1}, 0)
    (first,) = windows.watermark(9)
    (second,) = windows.element({"n": 2}, 0)
    (third,) = windows.element({"n": 4}, 0)
    assert (first, second, third) == ({"n": 1}, {"n": 3}, {"n": 7})


def test_sessions_that_are_bridged_are_added_up() -> None:
    windows = summed("n")
    values = [{"n": 1, "u": "a"}, {"n": 2, "u": "b"}, {"n": 4, "u": "c"}, {"n": 8, "u": "d"}]
    windows.elements([(value, time, "k") for value, time in zip(values, (20, 0, 10, 9), strict=True)])
    assert windows.watermark(100) == [{"n": 15, "u": "b"}]
    assert [value["n"] for value in values] == [1, 2, 4, 8]


def test_windows_that_share_an_element_each_have_their_own_sum() -> None:
    windows = summed("n", WindowOperator, SlidingEventTimeWindows.of(10, 5), trigger=CountTrigger.of(2))
    shared = {"n": 1}
    assert windows.elements([(shared, 6, "k"), ({"n": 2}, 1, "k"), ({"n": 4}, 12, "k")]) == [{"n": 3}, {"n": 5}]
    assert shared == {"n": 1}


def test_the_value_without_the_field_is_named() -> None:
    with pytest.raises(RecordError, match=r"KeyError: 'n'.*on the value {'m': 2}") as failed:
        summed("n").elements([({"n": 1}, 0, "k"), ({"m": 2}, 5, "k")])
    assert failed.value.index == 1
