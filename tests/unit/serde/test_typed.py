"""Codecs of declared types: nothing is changed, nothing is misread."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sameness import Order, Plain, Point, attempt, named, same

from kstreampy.common.time import Instant
from kstreampy.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from kstreampy.common.types import Row, RowKind
from kstreampy.serde import column, value
from kstreampy.serde.typed import SELF_DESCRIBING, codec_for

INT64 = st.integers(-(2**63), 2**63 - 1)
ROW = Types.ROW_NAMED(["id", "at", "parts"], [Types.STRING(), Types.INSTANT(), Types.LIST(Types.TUPLE([Types.LONG()]))])
rows = st.builds(
    lambda kind, a, b, c: named(kind, id=a, at=b, parts=c),
    st.sampled_from(RowKind),
    st.none() | st.text(),
    st.none() | st.builds(Instant, INT64, st.integers(0, 999_999_999)),
    st.none() | st.lists(st.none() | st.tuples(st.none() | INT64)),
)
FITTING: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), st.text()),
    (Types.CHAR(), st.text(max_size=1)),
    *((kind(), st.integers(-128, 127)) for kind in (Types.BYTE, Types.SHORT, Types.INT, Types.LONG)),
    (Types.LONG(), INT64),
    (Types.BIG_INT(), st.integers()),
    (Types.FLOAT(), st.floats(width=32)),
    (Types.DOUBLE(), st.floats()),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BIG_DEC(), st.decimals()),
    (Types.INSTANT(), st.builds(Instant, INT64, st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), st.datetimes()),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), st.dates()),
    (ExternalTypeInfo(Types.STRING()), st.text()),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    (Types.PRIMITIVE_ARRAY(Types.INT()), st.lists(st.none() | INT64)),
    (Types.BASIC_ARRAY(Types.STRING()), st.lists(st.none() | st.text())),
    (Types.OBJECT_ARRAY(ROW), st.lists(st.none() | rows)),
    (Types.LIST(Types.SQL_DATE()), st.lists(st.none() | st.dates())),
    (Types.MAP(Types.STRING(), Types.LONG()), st.dictionaries(st.none() | st.text(), st.none() | INT64)),
    (
        Types.MAP(Types.TUPLE([Types.LONG()]), Types.INSTANT()),
        st.dictionaries(st.none() | st.tuples(INT64), st.none() | st.builds(Instant, INT64, st.just(5))),
    ),
    (Types.TUPLE([]), st.just(())),
    (
        Types.TUPLE([Types.STRING(), Types.DOUBLE()]),
        st.tuples(st.none() | st.text(), st.none() | st.floats()),
    ),
    (Types.ROW([Types.LONG()]), st.builds(lambda a: named(f0=a), st.none() | INT64)),
    (ROW, rows),
    (Types.PICKLED_BYTE_ARRAY(), st.sampled_from([{1}, Order("a", 1.0), (1, [2]), Decimal("1.0")])),
    (Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.LONG()]), st.tuples(st.just({1}), INT64)),
]


@pytest.mark.parametrize(("info", "kind"), FITTING, ids=lambda part: repr(part)[:50])
def test_values_of_the_type_come_back(info: TypeInformation, kind: st.SearchStrategy[Any]) -> None:
    codec = codec_for(info)

    @given(st.lists(st.none() | kind, max_size=5))
    def check(values: list[Any]) -> None:
        assert same(codec.decode_many(codec.encode_many(values)), values)
        for item in values:
            assert same(codec.decode(codec.encode(item)), item)

    check()


@pytest.mark.parametrize(("info", "kind"), FITTING, ids=lambda part: repr(part)[:50])
def test_none_and_the_empty_column_are_written_as_the_type(info: TypeInformation, kind: Any) -> None:
    codec = codec_for(info)
    assert codec.decode(codec.encode(None)) is None
    assert codec.decode_many(codec.encode_many([])) == []
    assert codec.encode(None)[:1] != value.TAG


NOT_FITTING: list[tuple[TypeInformation, Any]] = [
    (Types.STRING(), 1),
    (Types.STRING(), "\ud800"),
    (Types.LONG(), True),
    (Types.LONG(), 1.0),
    (Types.LONG(), 2**64),
    (Types.DOUBLE(), 1),
    (Types.BOOLEAN(), 1),
    (Types.SQL_DATE(), datetime(2024, 1, 1)),
    (Types.SQL_TIMESTAMP(), datetime(2024, 1, 1, tzinfo=UTC)),
    (Types.SQL_TIMESTAMP(), datetime(2024, 1, 1, fold=1)),
    (Types.SQL_TIME(), time(1, tzinfo=UTC)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"a")),
    (Types.LIST(Types.LONG()), (1, 2)),
    (Types.LIST(Types.LONG()), [1, "a"]),
    (Types.MAP(Types.STRING(), Types.LONG()), {1: 2}),
    (Types.MAP(Types.STRING(), Types.LONG()), {"a": 2.0}),
    (Types.TUPLE([Types.LONG(), Types.LONG()]), [1, 2]),
    (Types.TUPLE([Types.LONG(), Types.LONG()]), (1, 2, 3)),
    (Types.TUPLE([Types.LONG(), Types.LONG()]), Point(1, 2)),
    (Types.TUPLE([Types.LIST(Types.LONG())]), ([1, (2,)],)),
    (Types.ROW([Types.LONG()]), Row(1)),
    (Types.ROW([Types.LONG()]), named(f0="a")),
    (Types.ROW([Types.LONG()]), (1,)),
]


@pytest.mark.parametrize(("info", "item"), NOT_FITTING, ids=lambda part: repr(part)[:50])
def test_a_value_that_is_not_exactly_of_the_type_is_not_changed(info: TypeInformation, item: Any) -> None:
    codec = codec_for(info)
    assert same(codec.decode(codec.encode(item)), item)
    assert codec.encode(item)[:1] == value.TAG
    for values in ([item], [None, item]):
        assert same(codec.decode_many(codec.encode_many(values)), values)


def test_a_shape_that_fitted_once_does_not_let_others_through() -> None:
    codec = codec_for(Types.TUPLE([Types.LONG(), Types.LIST(Types.LONG())]))
    nested: list[Any] = [(1, [1]), (1, ["a"]), (1, [1]), (True, [1])]
    for item in nested:
        assert same(codec.decode(codec.encode(item)), item)
    flat = codec_for(Types.TUPLE([Types.LONG(), Types.STRING()]))
    plain: list[Any] = [(1, "a"), (1, "b"), (1, 2), (None, "c"), (None, None), (1.0, "c")]
    for item in plain:
        assert same(flat.decode(flat.encode(item)), item)


INFOS = [info for info, _ in FITTING if not isinstance(info, (ExternalTypeInfo, LocalTimeTypeInfo))]


def test_what_one_type_has_written_no_other_reads() -> None:
    written = {repr(info): info for info in INFOS}
    prefixes: set[bytes] = set()
    for writer in written.values():
        data, many = codec_for(writer).encode(None), codec_for(writer).encode_many([])
        assert data[:-1] == many[:-1]
        if "Array" in repr(writer) and "Byte" not in repr(writer):
            continue  # arrays are lists
        assert data not in prefixes, writer
        prefixes.add(data)
        for reader in written.values():
            other = codec_for(reader)
            if codec_for(reader).encode(None) == data:
                continue
            with pytest.raises(ValueError, match=r"was written as .* and is now read as"):
                other.decode(data)
            with pytest.raises(ValueError, match=r"was written as .* and is now read as"):
                other.decode_many(many)
        with pytest.raises(ValueError, match="is now read without a declared type"):
            SELF_DESCRIBING.decode(data)
        with pytest.raises(ValueError, match="is now read without a declared type"):
            SELF_DESCRIBING.decode_many(many)


def test_names_of_fields_are_part_of_the_type() -> None:
    types = [Types.LONG(), Types.LONG()]
    data = codec_for(Types.ROW_NAMED(["a", "b"], types)).encode(named(a=1, b=2))
    with pytest.raises(ValueError, match=r"written as ROW and is now read as ROW\(b: LONG, a: LONG\).*another uid"):
        codec_for(Types.ROW_NAMED(["b", "a"], types)).decode(data)


def test_a_type_may_be_declared_later() -> None:
    for info, item in [(Types.LONG(), 5), (ROW, Row(1)), (Types.PICKLED_BYTE_ARRAY(), [1])]:
        assert codec_for(info).decode(value.encode(item)) == item
        assert codec_for(info).decode_many(column.encode_many([item])) == [item]


def test_without_a_type_or_with_a_foreign_one_values_describe_themselves() -> None:
    class Foreign(TypeInformation):
        def coercer(self) -> Any:
            return lambda item: item

        def _identity(self) -> tuple[Any, ...]:
            return ()

    for info in (None, Foreign(), Types.LIST(Foreign()), Types.TUPLE([Types.LONG(), Foreign()])):
        codec = codec_for(info)
        assert codec is SELF_DESCRIBING
        assert codec.decode(codec.encode((1, [2]))) == (1, [2])
        assert codec.decode_many(codec.encode_many([(1, [2])])) == [(1, [2])]
    assert codec_for(Types.MAP(Foreign(), Types.LONG())) is SELF_DESCRIBING


def test_only_pickled_byte_array_unpickles() -> None:
    data = codec_for(Types.PICKLED_BYTE_ARRAY()).encode(Plain())
    assert type(codec_for(Types.PICKLED_BYTE_ARRAY()).decode(data)) is Plain
    for info in [
        None,
        Types.STRING(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.LIST(Types.PICKLED_BYTE_ARRAY()),
    ]:
        with pytest.raises(ValueError, match="PICKLED_BYTE_ARRAY"):
            codec_for(info).decode(data)
    with pytest.raises(ValueError, match="no codec of kstreampy"):
        codec_for(Types.PICKLED_BYTE_ARRAY()).decode(pickle.dumps(1))


def test_stored_forms_never_change() -> None:
    assert codec_for(Types.STRING()).encode("a") == b"\x10\xa1a"
    assert codec_for(Types.LONG()).encode_many([1, None]) == b"\x15\x92\1\xc0"
    assert codec_for(Types.SQL_DATE()).encode(date(2024, 1, 2)) == b"\x1d\xaa2024-01-02"
    assert codec_for(Types.TUPLE([Types.LONG()])).encode((1,)) == b"\x23\5\x50\x91\1"
    assert codec_for(Types.ROW([Types.LONG()])).encode(named(RowKind.DELETE, f0=1)) == b"\x24\x2f\x84\x92\3\1"


def test_one_value_is_not_read_as_a_column() -> None:
    for codec in (SELF_DESCRIBING, codec_for(Types.LONG())):
        with pytest.raises(ValueError, match="read as a column"):
            codec.decode_many(value.encode(1))
        with pytest.raises(ValueError, match="read as a column"):
            codec.decode(column.encode_many([1]))


@pytest.mark.parametrize("info", [None, *INFOS], ids=lambda info: repr(info)[:50])
def test_damaged_bytes_raise_value_error_only(info: TypeInformation | None) -> None:
    codec = codec_for(info)
    prefix = codec.encode(None)[:-1]
    if info is not None and "Pickled" in repr(info):
        prefix = b"\x15"  # what follows a pickle's tag is trusted by declaration

    @given(st.binary(max_size=20) | st.binary(max_size=20).map(lambda data: prefix + data))
    def check(data: bytes) -> None:
        for decode in (codec.decode, codec.decode_many):
            attempt(decode, data)  # any other exception fails the test

    check()
