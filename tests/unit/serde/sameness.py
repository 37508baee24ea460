"""What the tests of this room share: equality that sees types, the classes that are stored, and awkward
values."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from struct import pack
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from kstreampy.common.time import Duration, Instant, Time
from kstreampy.common.types import Row, RowKind


class Colour(Enum):
    RED = "r"
    GREEN = "g"
    CRIMSON = "r"  # noqa: PIE796  # an alias


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, Enum):  # noqa: UP042  # what users have
    ONE = "one"


class Access(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Place(namedtuple("Place", "name at")):
    __slots__ = ()

    def shout(self) -> str:
        return str(self.name).upper()


@dataclass(frozen=True)
class Order:
    id: str
    amount: float
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: Any = None


@dataclass
class Mutable:
    n: int
    items: list[int] = field(default_factory=list)
    inner: Any = None


@dataclass
class Empty:
    pass


@dataclass
class Counted:
    made = 0
    n: int

    def __post_init__(self) -> None:
        type(self).made += 1

    @dataclass(frozen=True)
    class Nested:
        k: str


class Refused(str):
    def __new__(cls, error: ValueError) -> Refused:
        return super().__new__(cls, error)


class Plain:
    pass


class Text(str):
    pass


def named(kind: RowKind = RowKind.INSERT, **values: Any) -> Row:
    row = Row(*values.values())
    row.set_field_names(list(values))
    row.set_row_kind(kind)
    return row


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types at every level, in the same order; NaN equals NaN, 0.0 is not -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return pack(">d", a) == pack(">d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Row):
        names = (a.get_field_names(), a.get_row_kind()) == (b.get_field_names(), b.get_row_kind())
        return names and same(list(a), list(b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return sorted(map(repr, a)) == sorted(map(repr, b))
    if isinstance(a, deque):
        return a.maxlen == b.maxlen and same(list(a), list(b))
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, (datetime, time)):
        zones = type(a.tzinfo) is type(b.tzinfo) and repr(a.tzinfo) == repr(b.tzinfo)
        return zones and a.fold == b.fold and a.replace(tzinfo=None) == b.replace(tzinfo=None)
    if isinstance(a, Decimal):
        return str(a) == str(b)
    return bool(a == b)


def attempt(decode: Callable[[bytes], Any], data: bytes) -> Any:
    """What is decoded, or the message of the ValueError that says why not. Other exceptions pass."""
    try:
        return decode(data)
    except ValueError as error:
        if not str(error):
            raise AssertionError("refused without a word") from error
        return Refused(error)


BERLIN = ZoneInfo("Europe/Berlin")

ATOMS: list[Any] = [
    *(0, 1, -1, 255, 256, 2**31, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64), 10**40, -(10**40)),
    *(True, False, 0.0, -0.0, 1.0, 1.5, 5e-324, 1.7976931348623157e308),
    *(float("inf"), float("-inf"), float("nan")),
    *("", "a", "é", "1", "\0", "\ud800", "a\udfffb", "\ud83d\ude00", "😀", "x" * 300),
    *(b"", b"a", b"1", b"\0", b"\xff\xfe", b"y" * 70000),
    *(date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    *(time(0, 0), time(23, 59, 59, 999999), time(1, 2, fold=1), time(1, 2, tzinfo=UTC)),
    *(
        datetime(1, 1, 1),
        datetime(2024, 2, 29, 12, 30, 59, 123456),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN),
    datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5), "EST")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=-1, microseconds=3))),
    *(timedelta(0), timedelta.min, timedelta.max, timedelta(microseconds=-1)),
    *(Decimal("1.0"), Decimal("1.00"), Decimal("-0"), Decimal("NaN"), Decimal("sNaN7"), Decimal("-Infinity")),
    *(Decimal("1E+400"), UUID(int=0), UUID(int=2**128 - 1)),
    *(Colour.RED, Colour.GREEN, Level.LOW, Word.ONE, Access.READ, Access.READ | Access.WRITE, Access(0)),
    *(Instant(5, 7), Instant(-1, 0), Duration.of_millis(3), Duration(-1), Time.seconds(3)),
]
"""No two of these are the same key, but for 0.0 and -0.0."""

OBJECTS: list[Any] = [
    *((), (1,), (1, "a", None), ((), ((),)), (1, 1.0, True, "1", b"1")),
    *([], [1], [[1, [2.0, None]]], [()]),
    *(
        Point(1),
        Point(1, 2),
        Place("x", (1, 2)),
        Order("a", 1.0, ("x",)),
        Slotted(1, [2]),
        Mutable(1),
        Empty(),
    ),
    Counted.Nested("k"),
    *(
        Row(),
        Row(1, "a"),
        named(a=1, b="x"),
        named(b="x", a=1),
        named(RowKind.DELETE, a=1),
        Row(Row(1), [Row(2)]),
    ),
    *(frozenset(), frozenset({1, "a", (2,)})),
]

CONTAINERS: list[Any] = [
    *({}, {"a": 1}, {"b": 1, "a": 2}, {1: "a", "1": "b", None: 3, 1.5: 4, b"x": 5}, {True: 1}, {(1, 2): [3]}),
    *({"é": {"x": [1, {"y": (1,)}]}}, {"\ud800": 1}, {2**70: 1}, {date(2024, 1, 1): {Colour.RED: 1}}),
    *(set(), {1, "a"}, bytearray(b"ab"), deque([1, (2,)]), deque([1], maxlen=3)),
    *(OrderedDict(b=1, a=2), Counter("abca"), {"plain": None, "list": [None, True, 2**64]}),
    Mutable(2**70, [1], {"deep": [Order("\udc00", -0.0), None]}),
]

VALUES_AND_KEYS: list[Any] = [item for item in ATOMS + OBJECTS if str(item) != "-0.0"]
