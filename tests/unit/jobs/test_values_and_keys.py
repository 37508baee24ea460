"""Whole jobs in memory: keys and values of every kind go through shuffles, state and sinks as what they are."""

import datetime
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import pytest

from kstreampy.common import Row, RowKind, Types
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError


def stream_of(values, type_info=None):
    return StreamExecutionEnvironment.get_execution_environment().from_collection(values, type_info)


def results(stream):
    with stream.execute_and_collect() as found:
        return list(found)


class Colour(Enum):
    RED = "r"


@dataclass(frozen=True)
class Place:
    x: int
    tags: tuple


class Pair(NamedTuple):
    a: int
    b: object


VALUES = [
    None,
    0,
    1,
    -1,
    2**63,
    -(2**80),
    0.0,
    1.0,
    -1.5,
    float("inf"),
    True,
    False,
    "",
    "é🎈\n",
    b"",
    b"\x00\xff",
    (),
    (1, "a", None, (2.0,)),
    [],
    [1, [2, [3]]],
    {},
    {"a": 1, "b": [None]},
    {1: "int key", (1, 2): "tuple key", None: 0},
    set(),
    {1, 2},
    frozenset({"x"}),
    Row(1, None),
    Row(a=1, b="x"),
    Row.of_kind(RowKind.DELETE, 1),
    Place(1, ("t",)),
    Pair(1, [2]),
    Colour.RED,
    Decimal("1.10"),
    uuid.UUID(int=7),
    datetime.date(2020, 2, 29),
    datetime.time(1, 2, 3, 4),
    datetime.datetime(2020, 1, 1, 1, 1, 1, 999_999),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    datetime.timedelta(days=-1, microseconds=1),
]

KEYS = [
    value
    for value in VALUES
    if value is not None and not isinstance(value, (dict, set)) and not (isinstance(value, Pair))
]


def same(found, expected):
    assert found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize("declared", [None, Types.PICKLED_BYTE_ARRAY()], ids=["self-describing", "pickled"])
def test_values_go_through_a_shuffle_as_they_are(declared):
    stream = stream_of(list(enumerate(VALUES))).map(lambda v: v)
    if declared is not None:
        stream = stream.map(lambda v: v, declared)
    found = dict(results(stream.key_by(lambda v: v[0] % 3).map(lambda v: v)))
    same([found[n] for n in range(len(VALUES))], VALUES)


def test_values_are_kept_in_state_as_they_are():
    """Every value waits in state for the next record of its key, over a checkpoint or not."""

    class Last(KeyedProcessFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, value, ctx):
            if value[1] == "ask":
                yield value[0], self.last.value()
            else:
                self.last.update(value[1])

    asked = [(n, value) for n, value in enumerate(VALUES)] + [(n, "ask") for n in range(len(VALUES))]
    found = dict(results(stream_of(asked).key_by(lambda v: v[0]).process(Last())))
    same([found[n] for n in range(len(VALUES))], VALUES)


def test_reduce_keeps_values_of_every_kind():
    pairs = [(n, value) for n, value in enumerate(VALUES) for _ in range(2)]
    found = results(stream_of(pairs).key_by(lambda v: v[0]).reduce(lambda a, b: b))
    assert len(found) == 2 * len(VALUES)
    same([value for _, value in sorted(found, key=lambda pair: pair[0])], [value for _, value in pairs])


class Counting(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value[0], ctx.get_current_key(), count


@pytest.mark.parametrize("in_place", [True, False])
def test_keys_of_every_kind_are_apart_and_come_back_as_what_they_were(in_place):
    records = [(n, key) for _ in range(2) for n, key in enumerate(KEYS)]
    stream = stream_of(records)
    by_key = lambda v: v[1]  # noqa: E731
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(stream, by_key) if in_place else stream.key_by(by_key)
    found = sorted(results(keyed.process(Counting())), key=lambda row: (row[0], row[2]))
    assert [(n, count) for n, _, count in found] == [(n, count) for n in range(len(KEYS)) for count in (1, 2)]
    same([key for _, key, _ in found[::2]], KEYS)


def test_five_keys_that_python_takes_for_fewer():
    records = [(key, 1) for key in (1, 1.0, True, "1", b"1")] * 3
    found = results(stream_of(records).key_by(lambda v: v[0]).sum(1))
    for kind in (int, float, bool, str, bytes):
        assert [n for key, n in found if type(key) is kind] == [1, 2, 3]


def test_tuples_lists_and_rows_of_the_same_items_are_three_keys():
    records = [((1, 2), 1), ([1, 2], 1), (Row(1, 2), 1)] * 2
    found = results(stream_of(records).key_by(lambda v: v[0]).sum(1))
    for kind in (tuple, list, Row):
        assert [n for key, n in found if type(key) is kind] == [1, 2]


def test_nan_is_one_key_and_zero_has_no_sign():
    records = [(float("nan"), 1), (-float("nan"), 1), (math.nan, 1)]
    assert [n for _, n in results(stream_of(records).key_by(lambda v: v[0]).sum(1))] == [1, 2, 3]
    records = [(0.0, 1), (-0.0, 1)]
    assert [n for _, n in results(stream_of(records).key_by(lambda v: v[0]).sum(1))] == [1, 2]


@pytest.mark.parametrize("key", [None, {"a": 1}, {1}, object, bytearray(b"x")])
def test_what_cannot_be_a_key_fails_the_job_and_names_the_step(key):
    stream = stream_of([1, 2]).key_by(lambda v: key if v == 2 else v).sum()
    with pytest.raises(RecordError, match=r"key_by-1: TypeError.*on the value 2") as caught:
        results(stream)
    assert caught.value.step == "key_by-1"
    assert any("record 1" in note for note in caught.value.__notes__)


def test_a_missing_key_can_be_given_a_value():
    records = [(None, 1), ("a", 2), (None, 3)]
    found = results(stream_of(records).key_by(lambda v: "missing" if v[0] is None else v[0]).sum(1))
    assert sorted(n for _, n in found) == [1, 2, 4]


def test_none_values_pass_every_step():
    stream = stream_of([None, 1, None]).map(lambda v: v).filter(lambda v: True).flat_map(lambda v: [v])
    assert results(stream.key_by(lambda v: 0).map(lambda v: v)) == [None, 1, None]


def test_values_of_a_mebibyte():
    text = "é" * (1 << 19)
    records = [("a", text), ("b", b"\xff" * (1 << 20)), ("a", text)]
    found = results(stream_of(records).key_by(lambda v: v[0]).map(lambda v: v))
    assert sorted(found, key=lambda v: v[0]) == [records[0], records[2], records[1]]


def test_a_state_value_that_is_too_large_names_key_and_limit():
    records = [("a", "x" * (16 << 20))]
    with pytest.raises(JobError, match=r"state 'sum-1/rolling': the value of key 'a' takes .* bytes, more than"):
        results(stream_of(records).key_by(lambda v: v[0]).sum(1))


def test_a_large_key():
    key = "k" * 100_000
    assert [n for _, n in results(stream_of([(key, 1)] * 2).key_by(lambda v: v[0]).sum(1))] == [1, 2]


def test_a_value_without_a_known_form_needs_a_declared_type():
    class Own:
        def __init__(self, n):
            self.n = n

    with pytest.raises(JobError, match="a Own cannot be sent to the next stage"):
        results(stream_of([1]).map(Own).key_by(lambda v: v.n).map(lambda v: v.n))


def test_many_keys_over_many_batches():
    records = [(n % 997, 1) for n in range(5_000)]
    found = results(stream_of(records).key_by(lambda v: v[0]).sum(1))
    assert len(found) == 5_000
    for key in range(997):
        of_key = [n for k, n in found if k == key]
        assert of_key == list(range(1, len(of_key) + 1))
