"""Which functions may change later what they have returned, so that it has to be copied before the next call."""

from __future__ import annotations

import functools
import json
import logging
import re
from typing import Any

import pytest

from kstreampy.common import OutputTag, Row, Types
from kstreampy.operators.keeping import keeps_objects
from tests.unit.datastream.running import results, stream_of

KEPT: list[Any] = []
NAMES = ("a", ("b", 1))
TABLE = {"a": [1]}
LOG = logging.getLogger(__name__)
DIGITS = re.compile("[0-9]+")
TAG = OutputTag("side")
LONG = Types.LONG()
last: Any = None


def of_a_global(value: int) -> list[int]:
    KEPT.append(value)
    return KEPT


def of_a_function_called(value: int) -> list[int]:
    return of_a_global(value)


def of_an_inner_function(value: int) -> list[int]:
    return next(KEPT for _ in range(1))


def of_a_default(value: int, kept: list[int] = []) -> list[int]:  # noqa: B006  # that is what is tried
    kept.append(value)
    return kept


def of_a_keyword_default(value: int, *, kept: list[int] = []) -> list[int]:  # noqa: B006
    kept.append(value)
    return kept


def of_an_assigned_global(value: int) -> list[int]:
    global last
    last = [value]
    return last  # type: ignore[no-any-return]  # of Any


def of_an_attribute(value: int) -> list[int]:
    of_an_attribute.kept.append(value)  # type: ignore[attr-defined]
    return of_an_attribute.kept  # type: ignore[attr-defined, no-any-return]


of_an_attribute.kept = []  # type: ignore[attr-defined]


@functools.lru_cache
def cached(value: int) -> list[int]:
    return [value]


def of_a_cache(value: int) -> list[int]:
    return cached(value)


def calling_each_other(value: int) -> Any:
    return called_back(value - 1) if value else NAMES


def called_back(value: int) -> Any:
    return calling_each_other(value)


def harmless(value: Any, limit: int = 5, *, tag: OutputTag = TAG) -> Any:
    LOG.debug("%s", value)
    found = DIGITS.match(json.dumps(value))
    return (Row(value, limit), found, NAMES, TAG, LONG, int(value), [calling_each_other(n) for n in range(2)])


HOLDING = [
    of_a_global,
    of_a_function_called,
    of_an_inner_function,
    of_a_default,
    of_a_keyword_default,
    of_an_assigned_global,
    of_an_attribute,
    of_a_cache,
    functools.partial(of_a_default),
    KEPT.__class__.__call__,
    lambda value: TABLE["a"],
]


@pytest.mark.parametrize("function", HOLDING)
def test_what_a_later_call_finds_may_change(function: Any) -> None:
    assert keeps_objects(function)


def test_a_closure_may_change() -> None:
    kept: list[int] = []
    assert keeps_objects(lambda value: kept)


@pytest.mark.parametrize("function", [harmless, calling_each_other, len, int, Row, lambda value: [value]])
def test_other_functions_hold_nothing(function: Any) -> None:
    assert not keeps_objects(function)


@pytest.mark.parametrize("function", [of_a_global, of_a_default, of_an_attribute])
def test_a_step_sees_results_as_they_were_returned(function: Any) -> None:
    KEPT.clear()
    assert results(stream_of([1, 2, 3]).map(function).map(list)) == [[1], [1, 2], [1, 2, 3]]
