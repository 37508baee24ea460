"""copy_value: what is copied, what is not, and that nothing changeable is shared."""

import collections
import copy
import dataclasses
import datetime
import enum
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.common.time import Instant
from kstreampy.common.types import Row, RowKind


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Order:
    id: int
    items: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class SlottedOrder:
    items: list


@dataclasses.dataclass
class Choosy:
    items: list
    copies: int = 0

    def __deepcopy__(self, memo):
        return Choosy(list(self.items), self.copies + 1)


class Plain:
    def __init__(self, items):
        self.items = items


class Bag(list):
    pass


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        *(1, 1.5, "a", b"a", True, None, 2j, ..., range(3), frozenset({1})),
        *(Decimal("1.5"), uuid.UUID(int=1), datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1)),
        *(datetime.time(1), datetime.timedelta(1), Colour.RED, RowKind.DELETE, Instant(1, 2)),
        *((), (1, "a"), (1, (2, (None, Colour.RED))), int, len),
    ],
    ids=repr,
)
def test_what_cannot_change_is_not_copied(value):
    assert copy_value(value) is value


@pytest.mark.parametrize(
    ("value", "inner"),
    [
        ([1, [2]], lambda v: v[1]),
        ({"a": [1]}, lambda v: v["a"]),
        ({1, 2}, None),
        ((1, [2]), lambda v: v[1]),
        (bytearray(b"ab"), None),
        (Row(1, [2]), lambda v: v[1]),
        (Row.of_kind(RowKind.DELETE, a=[1]), lambda v: v.a),
        (Order(1, [2]), lambda v: v.items),
        (SlottedOrder([2]), lambda v: v.items),
        (Point([1], 2), lambda v: v.x),
        (Bag([[1]]), lambda v: v[0]),
        (collections.deque([[1]]), lambda v: v[0]),
        (collections.OrderedDict(a=[1]), lambda v: v["a"]),
        (collections.defaultdict(list, a=[1]), lambda v: v["a"]),
        ({"deep": [{"a": Order(1, [(1, [2])])}]}, lambda v: v["deep"][0]["a"].items[0][1]),
    ],
    ids=repr,
)
def test_what_can_change_is_copied_all_the_way_down(value, inner):
    twin = copy_value(value)
    assert twin == value
    assert type(twin) is type(value)
    assert twin is not value
    if inner is not None:
        assert inner(twin) is not inner(value)


def test_objects_and_their_own_ways():
    thing = Plain([1])
    twin = copy_value(thing)
    assert twin is not thing
    assert twin.items == [1]
    assert twin.items is not thing.items
    assert copy_value(Choosy([1])).copies == 1
    assert copy_value(collections.defaultdict(list)).default_factory is list


def test_a_value_that_contains_itself():
    loop = [1]
    loop.append(loop)
    twin = copy_value(loop)
    assert twin is not loop
    assert twin[1] is twin


def test_the_exact_types_are_published():
    assert {int, float, str, bytes, bool, type(None), Decimal, frozenset} <= IMMUTABLE_TYPES
    assert not {list, dict, set, tuple, Row, bytearray} & IMMUTABLE_TYPES


_atoms = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary(), st.dates())
_values = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.text(), inner),
        st.tuples(inner, inner),
        st.builds(lambda items: Row(*items), st.lists(inner)),
        st.builds(lambda items: Order(1, items), st.lists(inner)),
    ),
    max_leaves=15,
)


@given(_values)
def test_a_copy_is_what_deepcopy_makes(value):
    assert copy_value(value) == copy.deepcopy(value) == value
    assert repr(copy_value(value)) == repr(value)


def test_keys_of_dicts_are_shared_and_their_values_are_not():
    key = Plain([1])  # hashed by identity: a copy of it would not be found
    value = {key: [1], "flat": 2}
    copied = copy_value(value)
    assert copied == value
    assert copied[key] is not value[key]


@pytest.mark.parametrize("last", [[], {}, {1}, bytearray(b"a"), Order(1), ([],)])
def test_a_dict_whose_last_value_can_change_is_copied_deeply(last):
    value = {"a": 1, "b": "text", "c": None, "last": last}
    copied = copy_value(value)
    assert copied == value
    assert copied is not value
    assert copied["last"] is not last
