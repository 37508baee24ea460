"""The check of a row finds what is not as the row says."""

from __future__ import annotations

import pytest

from tests.unit.api.row import check, is_offered, rows

RIGHT = """
TumblingEventTimeWindows  (WindowAssigner)
    __init__(size)
    static of(size, offset=None)
    is_event_time()
TriggerResult  (Enum)
    FIRE
mod_inverse(x)
"""
WRONG = {
    "a class that is not there": "Tumbling",
    "a base that is none": "TumblingEventTimeWindows  (MergingWindowAssigner)",
    "a member that is not there": "TimeWindow\n    overlaps(other)",
    "a constant that is not there": "TriggerResult\n    IGNITE",
    "a parameter of another name": "TimeWindow\n    intersects(another)",
    "parameters in another order": "TimeWindow\n    __init__(end, start)",
    "too many parameters": "TimeWindow\n    max_timestamp(now)",
    "too few parameters": "TimeWindow\n    intersects()",
    "another default": "TumblingEventTimeWindows\n    static of(size, offset=0)",
    "a default that is none": "TimeWindow\n    intersects(other=None)",
    "a method of instances": "TimeWindow\n    static max_timestamp()",
    "a method of the class": "TumblingEventTimeWindows\n    of(size)",
    "variable parameters": "TimeWindow\n    cover(*others)",
    "a constant that is called": "TriggerResult\n    FIRE()",
    "a function of another parameter": "mod_inverse(y)",
}


@pytest.mark.parametrize("row", rows("datastream.window", RIGHT), ids=str)
def test_right_rows_are_right(row) -> None:
    assert is_offered(row)
    check(row)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_wrong_rows_are_found(text: str) -> None:
    row = rows("datastream.window", text)[-1]
    with pytest.raises((AssertionError, AttributeError)):
        check(row)


def test_a_module_that_is_not_there_is_found() -> None:
    [row] = rows("datastream.windows", "TimeWindow")
    assert not is_offered(row)
    with pytest.raises(ModuleNotFoundError):
        check(row)
