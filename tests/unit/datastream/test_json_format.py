"""JSON in and out, with and without a declared type."""

import array
import dataclasses
import datetime
import json
import math
import pickle
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.composite_type import ExternalTypeInfo
from kstreampy.common.time import Instant
from kstreampy.common.time_type import LocalTimeTypeInfo
from kstreampy.common.typeinfo import Types
from kstreampy.common.types import Row, RowKind
from kstreampy.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
)
from kstreampy.errors import JobError

D = datetime
ORDER = Types.ROW_NAMED(["id", "name", "amount"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])


def reader(info):
    return JsonRowDeserializationSchema.builder().type_info(info).build()


def writer(info):
    return JsonRowSerializationSchema.builder().with_type_info(info).build()


def one(info):
    return Types.ROW_NAMED(["v"], [info])


@dataclasses.dataclass
class Order:
    id: int
    note: str | None = None


# ---- rows in


def test_rows_by_field_name():
    schema = reader(ORDER)
    row = schema.deserialize(b'{"name": "x", "more": [1], "amount": 2, "id": 5}')
    assert row == Row("id", "name", "amount")(5, "x", 2.0)
    assert type(row.amount) is float
    assert schema.deserialize(b'{"name": null}') == Row("id", "name", "amount")(None, None, None)
    assert schema.deserialize(b"null") is None
    assert schema.get_produced_type() == ORDER
    assert schema.decoder()(b"{}") == schema.deserialize(b"{}")


READ = [
    (Types.STRING(), '"x"', "x"),
    (Types.STRING(), "5", "5"),
    (Types.STRING(), "true", "true"),
    (Types.STRING(), '{"a":[1]}', '{"a":[1]}'),
    (Types.CHAR(), '"x"', "x"),
    (Types.BOOLEAN(), "true", True),
    (Types.BOOLEAN(), '"FALSE"', False),
    (Types.BYTE(), "128", -128),
    (Types.SHORT(), "32767", 32767),
    (Types.INT(), '"42"', 42),
    (Types.INT(), "3.0", 3),
    (Types.LONG(), "9223372036854775807", 2**63 - 1),
    (Types.FLOAT(), "0.1", 0.10000000149011612),
    (Types.DOUBLE(), '"1.5"', 1.5),
    (Types.DOUBLE(), "1", 1.0),
    (Types.BIG_INT(), "123456789012345678901234567890", 123456789012345678901234567890),
    (Types.BIG_DEC(), "0.1000000000000000000000001", Decimal("0.1000000000000000000000001")),
    (Types.BIG_DEC(), '"1.10"', Decimal("1.10")),
    (Types.BIG_DEC(), "7", Decimal(7)),
    (Types.INSTANT(), '"1970-01-01T00:00:01.5Z"', Instant(1, 500_000_000)),
    (Types.SQL_DATE(), '"2024-02-29"', D.date(2024, 2, 29)),
    (Types.SQL_TIME(), '"12:00:01Z"', D.time(12, 0, 1)),
    (Types.SQL_TIME(), '"12:00:01"', D.time(12, 0, 1)),
    (Types.SQL_TIMESTAMP(), '"2024-02-29T12:00:00+02:00"', D.datetime(2024, 2, 29, 10)),
    (Types.SQL_TIMESTAMP(), '"2024-02-29T12:00:00"', D.datetime(2024, 2, 29, 12)),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), '"2024-02-29"', D.date(2024, 2, 29)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"YWI="', b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), "[1,255]", b"\x01\xff"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), "[1,2]", [1, 2]),
    (Types.BASIC_ARRAY(Types.STRING()), '["a",null]', ["a", None]),
    (Types.OBJECT_ARRAY(Types.SQL_DATE()), '["2024-02-29"]', [D.date(2024, 2, 29)]),
    (Types.LIST(Types.SHORT()), "[-32768]", [-32768]),
    (Types.MAP(Types.INT(), Types.STRING()), '{"1":"a"}', {1: "a"}),
    (Types.TUPLE([Types.STRING(), Types.SQL_DATE()]), '["a","2024-02-29"]', ("a", D.date(2024, 2, 29))),
    (one(Types.INT()), '{"v":1}', Row(v=1)),
    (Types.PICKLED_BYTE_ARRAY(), '{"v":[1]}', {"v": [1]}),
    (ExternalTypeInfo(Types.BIG_DEC()), "0.10", Decimal("0.10")),
]


@pytest.mark.parametrize(("info", "text", "expected"), READ, ids=lambda item: f"{item!r:.40}")
def test_reading_declared_types(info, text, expected):
    value = reader(one(info)).deserialize(f'{{"v": {text}}}'.encode()).v
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("info", [info for info, _, _ in READ], ids=repr)
def test_null_is_none_for_every_type(info):
    assert reader(one(info)).deserialize(b'{"v": null}') == Row(v=None)


def test_whole_numbers_beside_decimals():
    info = Types.ROW_NAMED(["a", "b", "c"], [Types.BIG_DEC(), Types.INT(), Types.DOUBLE()])
    row = reader(info).deserialize(b'{"a": 0.1, "b": 2.0, "c": 0.5}')
    assert list(row) == [Decimal("0.1"), 2, 0.5]
    assert [type(value) for value in row] == [Decimal, int, float]


BAD = [
    (one(Types.INT()), b'{"v": "x"}', "field 'v': .*'x'"),
    (one(Types.INT()), b'{"v": 1.5}', "field 'v': a float.*Integer"),
    (one(Types.INT()), b'{"v": 2147483648}', "field 'v': 2147483648 is beyond what Integer can hold"),
    (one(Types.LONG()), b'{"v": "9223372036854775808"}', "field 'v': 9223372036854775808 is beyond what Long can hold"),
    (one(Types.LIST(Types.SHORT())), b'{"v": [43878]}', "field 'v': 43878 is beyond what Short can hold"),
    (one(Types.BYTE()), b'{"v": 256}', "field 'v': 256 is beyond what Byte can hold"),
    (one(Types.BYTE()), b'{"v": -129}', "field 'v': -129 is beyond what Byte can hold"),
    (one(Types.INT()), b'{"v": [1]}', "field 'v': a list.*Integer"),
    (Types.ROW_NAMED(["v", "d"], [Types.LONG(), Types.BIG_DEC()]), b'{"v": 1e999999999}', "more than 400 digits"),
    (one(Types.BOOLEAN()), b'{"v": "yes"}', "neither true nor false"),
    (one(Types.BIG_DEC()), b'{"v": "x"}', "no number"),
    (one(Types.SQL_DATE()), b'{"v": "yesterday"}', "field 'v'.*yesterday"),
    (one(Types.PRIMITIVE_ARRAY(Types.BYTE())), b'{"v": "!!"}', "field 'v'"),
    (one(Types.LIST(Types.INT())), b'{"v": {}}', "field 'v': a dict"),
    (one(Types.MAP(Types.STRING(), Types.INT())), b'{"v": []}', "field 'v': a list"),
    (one(Types.TUPLE([Types.INT()])), b'{"v": [1, 2]}', "field 'v': a list"),
    (one(one(Types.INT())), b'{"v": {"v": "x"}}', "field 'v': field 'v'"),
    (ORDER, b"[1, 2]", "a list cannot be made a row"),
    (ORDER, b'{"id": }', r"\(byte 7\)"),
    (ORDER, b'{"id": 1', r"\(byte 8\)"),
    (ORDER, b"", r"\(byte 0\)"),
    (ORDER, b'{"a": "\xff"}', r"\(byte 7\)"),
]


@pytest.mark.parametrize(("info", "data", "message"), BAD, ids=repr)
def test_bad_json_says_where(info, data, message):
    with pytest.raises(ValueError, match=message):
        reader(info).deserialize(data)
    lenient = JsonRowDeserializationSchema.builder().type_info(info).ignore_parse_errors().build()
    assert lenient.deserialize(data) is None


def test_missing_fields():
    strict = JsonRowDeserializationSchema.builder().type_info(ORDER).fail_on_missing_field().build()
    assert strict.deserialize(b'{"id": 1, "name": null, "amount": 2}').amount == 2.0
    with pytest.raises(ValueError, match="missing field 'amount'"):
        strict.deserialize(b'{"id": 1, "name": "x"}')
    nested = JsonRowDeserializationSchema.builder().type_info(one(ORDER)).fail_on_missing_field().build()
    with pytest.raises(ValueError, match="field 'v': missing field 'name'"):
        nested.deserialize(b'{"v": {"id": 1, "amount": 2}}')


def test_builders_name_the_missing_call():
    builder = JsonRowDeserializationSchema.builder
    for make, message in (
        (lambda: builder().build(), r"call type_info\("),
        (lambda: builder().type_info(Types.STRING()), "expected a row type"),
        (
            lambda: builder().type_info(ORDER).ignore_parse_errors().fail_on_missing_field().build(),
            "contradict",
        ),
        (lambda: builder().json_schema(None), "None"),
        (lambda: JsonRowSerializationSchema.builder().build(), r"call with_type_info\("),
        (lambda: JsonRowSerializationSchema.builder().with_type_info(None), "expected a row type"),
    ):
        with pytest.raises(JobError, match=message):
            make()


# ---- rows out

WRITTEN = [
    (Types.STRING(), "é", '"é"'),
    (Types.SHORT(), 43878, "-21658"),
    (Types.BIG_INT(), 2**70, str(2**70)),
    (Types.BIG_DEC(), Decimal("1.10"), "1.10"),
    (Types.DOUBLE(), 1, "1.0"),
    (Types.BOOLEAN(), True, "true"),
    (Types.SQL_DATE(), D.date(2024, 2, 29), '"2024-02-29"'),
    (Types.SQL_TIME(), D.time(12, 0, 1), '"12:00:01"'),
    (Types.SQL_TIMESTAMP(), D.datetime(2024, 2, 29, 12), '"2024-02-29T12:00:00Z"'),
    (
        LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME),
        D.datetime(2024, 2, 29),
        '"2024-02-29T00:00:00"',
    ),
    (Types.INSTANT(), Instant(-1, 500_000_000), '"1969-12-31T23:59:59.5Z"'),
    (Types.INSTANT(), Instant(0, 0), '"1970-01-01T00:00:00Z"'),
    (Types.INSTANT(), Instant(0, 1000), '"1970-01-01T00:00:00.000001Z"'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", '"YWI="'),
    (Types.LIST(Types.SQL_TIMESTAMP()), [D.datetime(2024, 1, 1), None], '["2024-01-01T00:00:00Z",null]'),
    (Types.LIST(Types.INT()), (), "[]"),
    (
        Types.MAP(Types.INT(), Types.SQL_TIMESTAMP()),
        {1: D.datetime(2024, 1, 1)},
        '{"1":"2024-01-01T00:00:00Z"}',
    ),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1}, '{"a":1}'),
    (Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()]), (1, None), "[1,null]"),
    (one(Types.SQL_TIMESTAMP()), (D.datetime(2024, 1, 1),), '{"v":"2024-01-01T00:00:00Z"}'),
    (ExternalTypeInfo(one(Types.INT())), (1,), '{"v":1}'),
]


@pytest.mark.parametrize(("info", "value", "text"), WRITTEN, ids=lambda item: f"{item!r:.40}")
def test_writing_declared_types(info, value, text):
    data = writer(one(info)).serialize(Row(v=value))
    assert data == f'{{"v":{text}}}'.encode()
    assert reader(one(info)).deserialize(data) == one(info).coerce(Row(v=value)), "and it comes back"
    assert writer(one(info)).encoder()(Row(v=None)) == b'{"v":null}'


def test_what_coerces_to_a_row_is_written_in_the_types_order():
    schema = writer(ORDER)
    expected = b'{"id":1,"name":"x","amount":2.5}'
    for value in (
        Row(1, "x", 2.5),
        Row(amount=2.5, id=1, name="x"),
        Row.of_kind(RowKind.DELETE, 1, "x", 2.5),
        (1, "x", 2.5),
        {"name": "x", "amount": 2.5, "id": 1},
    ):
        assert schema.serialize(value) == expected
    with pytest.raises(TypeError, match=r"field 'id': a str.*Long"):
        schema.serialize(("a", "x", 1.0))


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
)
def test_rows_come_back(number, text, real):
    row = Row("id", "name", "amount")(number, text, real)
    assert reader(ORDER).deserialize(writer(ORDER).serialize(row)) == row


# ---- without a type


def test_plain_values():
    schema = JsonDeserializationSchema()
    assert schema.deserialize(b'{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}
    assert schema.decoder()(b"[1]") == [1]
    assert schema.get_produced_type() is None
    for data, place in (
        (b'{"a": x}', "byte 6"),
        (b'{"a": 1', "byte 7"),
        (b"", "byte 0"),
        (b'["\xff"]', "byte 2"),
    ):
        with pytest.raises(ValueError, match=place):
            schema.deserialize(data)
        with pytest.raises(ValueError, match=r"JSON|truncated|UTF-8"):
            schema.decoder()(data)


def test_into_a_class():
    schema = JsonDeserializationSchema(Order)
    assert schema.deserialize(b'{"id": 5}') == Order(5)
    with pytest.raises(ValueError, match=r"\$.id"):
        schema.deserialize(b'{"id": "x"}')
    assert pickle.loads(pickle.dumps(schema)).decoder()(b'{"id": 5}') == Order(5)
    assert JsonDeserializationSchema(list[int]).get_produced_type() == Types.LIST(Types.LONG())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, "é", None, True]}, '{"a":[1,2.5,"é",null,true]}'),
        ((1, "a"), '[1,"a"]'),
        ({1: 2}, '{"1":2}'),
        (Row(1, "a"), '[1,"a"]'),
        (Row(b=1, a=Row(c=2)), '{"a":{"c":2},"b":1}'),
        ([Row(a=1), {"x": Row(2)}], '[{"a":1},{"x":[2]}]'),
        (Order(1, "x"), '{"id":1,"note":"x"}'),
        (Decimal("1.10"), "1.10"),
        (Decimal("0.1000000000000000000000001"), "0.1000000000000000000000001"),
        (2**70, str(2**70)),
        (D.datetime(2024, 2, 29, 12, tzinfo=D.timezone.utc), '"2024-02-29T12:00:00Z"'),
        (D.datetime(2024, 2, 29, 12), '"2024-02-29T12:00:00"'),
        (D.date(2024, 2, 29), '"2024-02-29"'),
        (Instant(0, 1), '{"seconds":0,"nanos":1}'),
        (b"ab", '"YWI="'),
        (array.array("q", [1, 2]), "[1,2]"),
        (math.nan, "null"),
        (None, "null"),
    ],
    ids=repr,
)
def test_writing_plain_values(value, text):
    schema = JsonSerializationSchema()
    assert schema.serialize(value) == schema.encoder()(value) == text.encode()


def test_what_cannot_be_written():
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        JsonSerializationSchema().serialize([object()])


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@given(_json)
def test_plain_values_come_back(value):
    data = JsonSerializationSchema().serialize(value)
    assert JsonDeserializationSchema().deserialize(data) == value
    assert json.loads(data) == value


def test_schemas_pickle():
    for schema in (reader(ORDER), JsonDeserializationSchema()):
        twin = pickle.loads(pickle.dumps(schema))
        assert twin.deserialize(b'{"id": 1}') == schema.deserialize(b'{"id": 1}')
    for schema in (writer(ORDER), JsonSerializationSchema()):
        assert pickle.loads(pickle.dumps(schema)).serialize(Row(1, "x", 0.5)) == schema.serialize(Row(1, "x", 0.5))
    lenient = JsonRowDeserializationSchema.builder().type_info(ORDER).ignore_parse_errors().build()
    assert pickle.loads(pickle.dumps(lenient)).deserialize(b"x") is None


# ---- JSON Schema

SCHEMA = {
    "type": "object",
    "definitions": {"place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["null", "string"]},
        "ok": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "hour": {"type": "string", "format": "time"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "place": {"$ref": "#/definitions/place"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    },
}


def test_row_types_of_json_schemas():
    schema = JsonRowDeserializationSchema.builder().json_schema(json.dumps(SCHEMA)).build()
    place = Types.ROW_NAMED(["x"], [Types.BIG_DEC()])
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["id", "name", "ok", "at", "day", "hour", "raw", "place", "tags", "pair"],
        [
            *(Types.BIG_INT(), Types.STRING(), Types.BOOLEAN(), Types.SQL_TIMESTAMP(), Types.SQL_DATE()),
            *(
                Types.SQL_TIME(),
                Types.PRIMITIVE_ARRAY(Types.BYTE()),
                place,
                Types.OBJECT_ARRAY(Types.STRING()),
            ),
            Types.TUPLE([Types.STRING(), Types.BIG_INT()]),
        ],
    )
    row = schema.deserialize(b'{"id": 1, "place": {"x": 0.10}, "pair": ["a", 2]}')
    assert (row.id, row.place, row.pair) == (1, Row(x=Decimal("0.10")), ("a", 2))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ('{"type": "string"}', "must describe an object"),
        ('{"type": "object"}', "without 'properties'"),
        ('{"type": "object", "properties": {"a": {}}}', "#/properties/a has type None"),
        (
            '{"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}',
            "#/properties/a has type",
        ),
        ('{"type": "object", "properties": {"a": {"type": "array"}}}', "without 'items'"),
        ('{"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}', "which is not there"),
        ('{"type": "object", "properties": {"a": {"$ref": "other.json"}}}', "same document"),
        ('{"type": "object", "properties": {"a": {"$ref": "#"}}}', "refers to itself"),
        ('{"type": "object", "properties": {"a": 5}}', "must be an object"),
    ],
)
def test_json_schemas_that_cannot_be_read(schema, message):
    with pytest.raises(JobError, match=message):
        JsonRowDeserializationSchema.builder().json_schema(schema)


def test_msgspec_errors_are_value_errors():
    assert issubclass(msgspec.DecodeError, ValueError)
