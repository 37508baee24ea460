"""Declared types: what they print, when they are equal, what they do to values."""

import array
import dataclasses
import datetime
import math
import pickle
import struct
from collections import namedtuple
from decimal import Decimal
from typing import Annotated, Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common import typeinfo
from kstreampy.common.time import Instant
from kstreampy.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    Types,
)
from kstreampy.common.types import Row, RowKind

D = datetime
UTC = D.timezone.utc
EAST = D.timezone(D.timedelta(hours=2))
NAMED = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])
LOCAL = LocalTimeTypeInfo.TimeType

EVERY_TYPE = [
    *(BasicTypeInfo(basic) for basic in BasicType),
    *(Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PICKLED_BYTE_ARRAY()),
    *(LocalTimeTypeInfo(kind) for kind in LOCAL),
    *(Types.ROW([Types.INT(), Types.STRING()]), NAMED, Types.TUPLE([Types.INT()]), Types.TUPLE([])),
    *(Types.LIST(Types.INT()), Types.MAP(Types.STRING(), Types.INT()), Types.OBJECT_ARRAY(NAMED)),
    *(
        Types.BASIC_ARRAY(Types.STRING()),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ),
    ExternalTypeInfo(Types.INT()),
]


class Text(str):
    pass


class Scalar:
    """What a numpy scalar looks like."""

    dtype = "int64"
    ndim = 0

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


@dataclasses.dataclass
class Pair:
    a: str
    b: int


PairTuple = namedtuple("PairTuple", "a b")

COERCIONS = [
    (Types.STRING(), "x", "x"),
    (Types.STRING(), Text("x"), "x"),
    (Types.CHAR(), "x", "x"),
    (Types.BOOLEAN(), True, True),
    (Types.BOOLEAN(), 1, True),
    (Types.BOOLEAN(), Scalar(False), False),
    (Types.BYTE(), 127, 127),
    (Types.BYTE(), 128, -128),
    (Types.BYTE(), -129, 127),
    (Types.SHORT(), 43878, -21658),
    (Types.INT(), 2**31, -(2**31)),
    (Types.INT(), 2**32 + 5, 5),
    (Types.INT(), True, 1),
    (Types.INT(), 3.0, 3),
    (Types.INT(), Scalar(7), 7),
    (Types.LONG(), 2**63, -(2**63)),
    (Types.LONG(), -(2**63), -(2**63)),
    (Types.LONG(), 2**63 - 1, 2**63 - 1),
    (Types.FLOAT(), 0.1, 0.10000000149011612),
    (Types.FLOAT(), 1e300, math.inf),
    (Types.FLOAT(), 1, 1.0),
    (Types.DOUBLE(), 0.1, 0.1),
    (Types.DOUBLE(), 3, 3.0),
    (Types.DOUBLE(), Decimal("1.5"), 1.5),
    (Types.BIG_INT(), 2**100, 2**100),
    (Types.BIG_DEC(), Decimal("1.10"), Decimal("1.10")),
    (Types.BIG_DEC(), 0.1, Decimal("0.1")),
    (Types.BIG_DEC(), 3, Decimal(3)),
    (Types.INSTANT(), Instant(1, 2), Instant(1, 2)),
    (Types.INSTANT(), D.datetime(1970, 1, 1, 2, 0, 1, tzinfo=EAST), Instant(1, 0)),
    (Types.SQL_DATE(), D.date(2024, 2, 29), D.date(2024, 2, 29)),
    (Types.SQL_DATE(), D.datetime(2024, 2, 29, 5), D.date(2024, 2, 29)),
    (Types.SQL_TIME(), D.time(1, 2, 3, 4), D.time(1, 2, 3, 4)),
    (Types.SQL_TIME(), D.time(1, 0, tzinfo=EAST), D.time(23, 0)),
    (Types.SQL_TIMESTAMP(), D.datetime(2024, 1, 1, 2), D.datetime(2024, 1, 1, 2)),
    (Types.SQL_TIMESTAMP(), D.datetime(2024, 1, 1, 2, tzinfo=EAST), D.datetime(2024, 1, 1)),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), D.date(2024, 1, 1), D.date(2024, 1, 1)),
    (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), D.time(1), D.time(1)),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), D.datetime(2024, 1, 1), D.datetime(2024, 1, 1)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1, -1, 256], b"\x01\xff\x00"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), array.array("q", [1, 2**31]), [1, -(2**31)]),
    (Types.BASIC_ARRAY(Types.STRING()), ("a", None), ["a", None]),
    (Types.OBJECT_ARRAY(Types.SQL_DATE()), [D.datetime(2024, 1, 1)], [D.date(2024, 1, 1)]),
    (Types.LIST(Types.SHORT()), (43878, 1), [-21658, 1]),
    (Types.MAP(Types.STRING(), Types.BYTE()), {"a": 128}, {"a": -128}),
    (Types.TUPLE([Types.STRING(), Types.INT()]), ["a", 2**31], ("a", -(2**31))),
    (Types.TUPLE([Types.STRING(), Types.INT()]), Row("a", 1), ("a", 1)),
    (Types.ROW([Types.STRING(), Types.INT()]), ("a", 1), Row(f0="a", f1=1)),
    (Types.ROW([Types.STRING(), Types.INT()]), Row(x="a", y=1), Row(f0="a", f1=1)),
    (NAMED, ["a", 1], Row(a="a", b=1)),
    (NAMED, {"b": 1, "a": "x", "more": 2}, Row(a="x", b=1)),
    (NAMED, {"b": 1}, Row(a=None, b=1)),
    (NAMED, Pair("x", 1), Row(a="x", b=1)),
    (NAMED, PairTuple("x", 1), Row(a="x", b=1)),
    (NAMED, Row("x", 1), Row(a="x", b=1)),
    (NAMED, Row("b", "a")(1, "x"), Row(a="x", b=1)),
    (NAMED, Row.of_kind(RowKind.DELETE, "x", 1), Row.of_kind(RowKind.DELETE, a="x", b=1)),
    (
        Types.ROW([NAMED, Types.LIST(NAMED)]),
        (("x", 1), [("y", 2)]),
        Row(f0=Row(a="x", b=1), f1=[Row(a="y", b=2)]),
    ),
    (ExternalTypeInfo(Types.BYTE()), 128, -128),
]


@pytest.mark.parametrize(("info", "value", "expected"), COERCIONS, ids=lambda item: f"{item!r:.40}")
def test_coercion(info, value, expected):
    result = info.coerce(value)
    assert result == expected
    assert type(result) is type(expected)
    assert repr(result) == repr(expected)
    assert info.coercer()(result) == expected, "coercing twice changes nothing"


def test_every_class_of_types_is_coerced_above():
    tried = {type(info) for info, _, _ in COERCIONS} | {type(Types.PICKLED_BYTE_ARRAY())}
    concrete = {
        cls
        for name in typeinfo.__all__
        if isinstance(cls := getattr(typeinfo, name), type) and issubclass(cls, typeinfo.TypeInformation)
    }
    assert concrete - {typeinfo.TypeInformation} == tried


REFUSALS = [
    (Types.STRING(), 1, "int.*String"),
    (Types.STRING(), b"x", "bytes.*String"),
    (Types.CHAR(), "xy", "str.*Char"),
    (Types.BOOLEAN(), "true", "str.*Boolean"),
    (Types.INT(), "1", "str.*Integer"),
    (Types.INT(), 1.5, "float.*Integer"),
    (Types.LONG(), math.nan, "float.*Long"),
    (Types.DOUBLE(), "1", "str.*Double"),
    (Types.DOUBLE(), 10**400, "int.*Double"),
    (Types.BIG_DEC(), "1", "str.*BigDecimal"),
    (Types.BIG_INT(), 0.5, "float.*BigInteger"),
    (Types.INSTANT(), 5, "int.*Instant"),
    (Types.SQL_DATE(), "2024-01-01", "str.*date"),
    (Types.SQL_TIME(), 5, "int.*time"),
    (Types.SQL_TIMESTAMP(), D.date(2024, 1, 1), "date.*timestamp"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "x", "str.*bytes"),
    (Types.LIST(Types.INT()), "x", "str.*ListTypeInfo<Integer>"),
    (Types.LIST(Types.INT()), [1, "x"], "field 1: a str.*Integer"),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": "x"}, "field 'a': a str.*Integer"),
    (Types.MAP(Types.STRING(), Types.INT()), {1: 1}, "int.*String"),
    (Types.MAP(Types.STRING(), Types.INT()), [1], "list.*MapTypeInfo"),
    (Types.TUPLE([Types.INT()]), (1, 2), "2 values for the 1 fields"),
    (Types.TUPLE([Types.INT()]), {1: 2}, "dict.*TupleTypeInfo"),
    (NAMED, ("a", "b"), "field 'b': a str.*Integer"),
    (NAMED, ("a",), "1 values for the 2 fields"),
    (NAMED, Row(a="x", c=1), "no fields.*b"),
    (NAMED, 5, "int.*RowTypeInfo"),
    (NAMED, "ab", "str.*RowTypeInfo"),
    (Types.ROW([NAMED]), (("a", "b"),), "field 'f0': field 'b'"),
]


@pytest.mark.parametrize(("info", "value", "message"), REFUSALS, ids=lambda item: f"{item!r:.40}")
def test_what_does_not_fit_is_refused_with_both_types(info, value, message):
    with pytest.raises(TypeError, match=message):
        info.coerce(value)


def test_a_refusal_shortens_the_value():
    with pytest.raises(TypeError) as caught:
        Types.INT().coerce("x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("info", EVERY_TYPE, ids=repr)
def test_none_stays_none(info):
    assert info.coerce(None) is None
    assert info.to_internal_type(None) is None
    assert info.from_internal_type(None) is None


def test_coercion_leaves_its_input_alone_and_shares_no_container():
    info = Types.ROW([Types.LIST(Types.INT())])
    row = Row(f0=[2**31])
    assert info.coerce(row) == Row(f0=[-(2**31)])
    assert row == Row(f0=[2**31])
    kept = Row(f0=[1])
    assert info.coerce(kept) is not kept
    assert info.coerce(kept).f0 is not kept.f0


def test_pickled_takes_anything():
    thing = object()
    assert Types.PICKLED_BYTE_ARRAY().coerce(thing) is thing


@given(st.integers())
def test_integers_wrap_as_in_java(value):
    for info, bits in ((Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)):
        expected = int.from_bytes((value % 2**bits).to_bytes(bits // 8, "big"), "big", signed=True)
        assert info.coerce(value) == expected


@given(st.floats(allow_nan=False, width=32))
def test_floats_of_32_bits_stay_and_others_round(value):
    assert Types.FLOAT().coerce(value) == value
    other = value / 3
    assert Types.FLOAT().coerce(other) == struct.unpack("f", struct.pack("f", other))[0]


def test_printing_is_pyflinks():
    assert str(NAMED) == repr(NAMED) == "RowTypeInfo(a: String, b: Integer)"
    assert repr(Types.ROW([Types.STRING()])) == "RowTypeInfo(f0: String)"
    assert repr(Types.TUPLE([Types.STRING(), Types.INT()])) == "TupleTypeInfo(String, Integer)"
    assert repr(Types.LIST(Types.LONG())) == "ListTypeInfo<Long>"
    assert repr(Types.MAP(Types.STRING(), Types.BIG_DEC())) == "MapTypeInfo<String, BigDecimal>"
    assert repr(Types.PRIMITIVE_ARRAY(Types.CHAR())) == "PrimitiveArrayTypeInfo<Char>"
    assert repr(Types.PICKLED_BYTE_ARRAY()) == "PickledByteArrayTypeInfo"
    assert repr(Types.SQL_TIMESTAMP()) == "TimestampTypeInfo"
    assert repr(ExternalTypeInfo(Types.INSTANT())) == "ExternalTypeInfo<Instant>"
    assert repr(LocalTimeTypeInfo(LOCAL.LOCAL_DATE)) == "LocalTimeTypeInfo(LocalDate)"


def test_every_type_equals_itself_alone():
    for i, info in enumerate(EVERY_TYPE):
        twin = pickle.loads(pickle.dumps(info))
        assert twin == info
        assert hash(twin) == hash(info)
        assert [j for j, other in enumerate(EVERY_TYPE) if other == info] == [i]


def test_rows_know_their_fields():
    assert RowTypeInfo([Types.STRING(), Types.STRING()]).get_field_names() == ["f0", "f1"]
    assert NAMED.get_field_names() == ["a", "b"]
    assert NAMED.get_field_types() == [Types.STRING(), Types.INT()]
    assert (NAMED.get_field_index("b"), NAMED.get_field_index("x")) == (1, -1)
    assert Types.ROW([Types.INT()]) == RowTypeInfo([Types.INT()]) == Types.ROW_NAMED(["f0"], [Types.INT()])
    assert Types.ROW_NAMED(["a"], [Types.INT()]) != Types.ROW_NAMED(["b"], [Types.INT()])
    assert TupleTypeInfo([Types.INT()]).get_field_types() == [Types.INT()]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Types.ROW([int]), TypeError),
        (lambda: Types.LIST(str), TypeError),
        (lambda: Types.MAP(Types.INT(), int), TypeError),
        (lambda: Types.ROW_NAMED(["a"], []), ValueError),
        (lambda: Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]), ValueError),
        (lambda: Types.ROW_NAMED([1], [Types.INT()]), TypeError),
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), TypeError),
        (lambda: Types.BASIC_ARRAY(NAMED), TypeError),
        (lambda: BasicTypeInfo("String"), TypeError),
    ],
)
def test_wrong_declarations_are_refused(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize("kind", [Types.TUPLE, Types.ROW])
def test_one_type_in_the_place_of_a_list_is_told(kind):
    with pytest.raises(
        TypeError, match=r"^(TUPLE|ROW): expected a list of types such as \[Types\.STRING\(\)\], not Long$"
    ):
        kind(Types.LONG())


def test_immutability():
    immutable = {repr(info) for info in EVERY_TYPE if info.is_immutable}
    assert immutable == {
        *(basic.value for basic in BasicType),
        *("DateTypeInfo", "TimeTypeInfo", "TimestampTypeInfo", "TupleTypeInfo(Integer)", "TupleTypeInfo()"),
        *(f"LocalTimeTypeInfo({kind.value})" for kind in LOCAL),
        *("PrimitiveArrayTypeInfo<Byte>", "ExternalTypeInfo<Integer>"),
    }
    assert not Types.TUPLE([Types.LIST(Types.INT())]).is_immutable


@pytest.mark.parametrize(
    ("info", "value", "internal"),
    [
        (Types.SQL_DATE(), D.date(1970, 1, 2), 1),
        (Types.SQL_TIME(), D.time(0, 0, 1, 5), 1_000_005),
        (Types.SQL_TIMESTAMP(), D.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (Types.SQL_TIMESTAMP(), D.datetime(1969, 12, 31, 23, 59, 59), -1_000_000),
        (Types.INSTANT(), Instant(-1, 5000), -999_995),
        (NAMED, Row.of_kind(RowKind.DELETE, a="x", b=1), (3, "x", 1)),
        (Types.TUPLE([Types.SQL_DATE()]), (D.date(1970, 1, 3),), (2,)),
        (Types.LIST(Types.SQL_DATE()), [D.date(1970, 1, 3)], [2]),
        (Types.MAP(Types.STRING(), Types.SQL_DATE()), {"a": D.date(1970, 1, 3)}, {"a": 2}),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), D.date(1970, 1, 2), 1),
        (ExternalTypeInfo(Types.SQL_DATE()), D.date(1970, 1, 2), 1),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", b"ab"),
    ],
    ids=repr,
)
def test_internal_form_and_back(info, value, internal):
    assert info.to_internal_type(value) == internal
    assert info.from_internal_type(internal) == value


def test_sql_types_by_their_other_name():
    assert SqlTimeTypeInfo.DATE() == Types.SQL_DATE()
    assert SqlTimeTypeInfo.TIME() == Types.SQL_TIME()
    assert SqlTimeTypeInfo.TIMESTAMP() == Types.SQL_TIMESTAMP()
    assert BasicTypeInfo.STRING_TYPE_INFO() == Types.STRING()


@pytest.mark.parametrize(
    ("hint", "info"),
    [
        (int, Types.LONG()),
        (str, Types.STRING()),
        (float, Types.DOUBLE()),
        (bool, Types.BOOLEAN()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (Decimal, Types.BIG_DEC()),
        (D.date, Types.SQL_DATE()),
        (Instant, Types.INSTANT()),
        (Types.INT(), Types.INT()),
        (tuple[str, int], Types.TUPLE([Types.STRING(), Types.LONG()])),
        (list[int], Types.LIST(Types.LONG())),
        (dict[str, list[float]], Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE()))),
        (Optional[int], Types.LONG()),  # noqa: UP045
        (int | None, Types.LONG()),
        (Annotated[str, "x"], Types.STRING()),
        (int | str, None),
        (tuple[int, ...], None),
        (tuple, None),
        (list, None),
        (list[Any], None),
        (dict[str, Pair], None),
        (Pair, None),
        (Any, None),
        (None, None),
        (D.datetime, None),
        ("int", None),
        (set[int], None),
    ],
    ids=repr,
)
def test_types_of_hints(hint, info):
    assert Types.of(hint) == info
