"""Objects as JSON shows them."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy
import pytest

from kstreampy.common.time import Instant
from kstreampy.common.types import Row
from kstreampy.serde.json_form import plain


class Colour(Enum):
    RED = "red"


@dataclass
class Place:
    name: str
    at: tuple[int, int]


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**80, 2**80),
        ((1, "a"), [1, "a"]),
        ({"a": (1, 2)}, {"a": [1, 2]}),
        ({1: "a"}, [[1, "a"]]),
        ({"a": 1, 2: 3}, [["a", 1], [2, 3]]),
        ({(1, 2): {"x": b"\x00"}}, [[[1, 2], {"x": "AA=="}]]),
        ({3}, [3]),
        (b"\xff", "/w=="),
        (Decimal("1.50"), "1.50"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 1, 2, 3), "2024-02-29T01:02:03"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Row(1, "a"), [1, "a"]),
        (Row(a=1, b=(2,)), {"a": 1, "b": [2]}),
        (Place("x", (1, 2)), {"name": "x", "at": [1, 2]}),
        ([Place("x", (1, 2))], [{"name": "x", "at": [1, 2]}]),
        (numpy.int64(4), 4),
        (numpy.array([1, 2]), [1, 2]),
        (Odd(), "odd"),
        ([Odd()], ["odd"]),
        (Place("x", (Odd(), 1)), None),  # type: ignore[arg-type]
    ],
)
def test_plain(value: Any, shown: Any) -> None:
    found = plain(value)
    assert json.loads(json.dumps(found)) == found
    if shown is not None or value is None:
        assert found == shown
        assert type(found) is type(shown)


def test_an_instant_is_a_time() -> None:
    assert plain(Instant(0, 0)).startswith("1970-01-01T00:00:00")
