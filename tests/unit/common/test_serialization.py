"""Schemas of plain values, and the record schemas made of them."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from kstreampy.common.typeinfo import Types
from kstreampy.common.types import Row
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.errors import JobError


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["UTF-8", "utf8", "UTF-16", "utf-32-be"]),
)
def test_strings_come_back(text, charset):
    schema = SimpleStringSchema(charset)
    data = text.encode(charset)
    assert schema.serialize(text) == schema.encoder()(text) == data
    assert schema.deserialize(data) == schema.decoder()(data) == text


def test_strings():
    schema = SimpleStringSchema()
    assert schema.serialize("é") == b"\xc3\xa9"
    assert SimpleStringSchema("ISO-8859-1").serialize("é") == b"\xe9"
    assert SimpleStringSchema("latin-1").decoder()(b"\xe9") == "é"
    assert schema.serialize("") == b""
    assert schema.get_produced_type() == Types.STRING()
    with pytest.raises(TypeError, match="writes str only, not int"):
        schema.serialize(5)
    with pytest.raises(TypeError, match=r"'str'.*'int'"):
        schema.encoder()(5)
    for decode in (schema.deserialize, schema.decoder()):
        with pytest.raises(UnicodeDecodeError, match="position 1"):
            decode(b"a\xff")
    with pytest.raises(JobError, match="'klingon'"):
        SimpleStringSchema("klingon")


def test_hot_loops_of_strings_and_bytes_run_in_c():
    assert SimpleStringSchema().decoder() is bytes.decode
    assert SimpleStringSchema("utf8").encoder() is str.encode
    assert ByteArraySchema().decoder() is bytes


class Shouted(SimpleStringSchema):
    def serialize(self, value):
        return super().serialize(value.upper())

    def deserialize(self, message):
        return super().deserialize(message).lower()


class Doubled(ByteArraySchema):
    def deserialize(self, message):
        return message * 2


class Wrapped(JsonSerializationSchema):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def serialize(self, value):
        return super().serialize({self.name: value})


class Unwrapped(JsonDeserializationSchema):
    def deserialize(self, message):
        return super().deserialize(message)["in"]


def test_what_a_subclass_overrides_is_what_hot_loops_call():
    assert Shouted().encoder()("ab") == b"AB"
    assert Shouted().decoder()(b"AB") == "ab"
    assert Doubled().decoder()(b"ab") == b"abab"
    assert Wrapped("in").encoder()(1) == b'{"in":1}'
    assert Unwrapped().decoder()(b'{"in":1}') == 1


def test_subclasses_of_json_schemas_pickle():
    assert pickle.loads(pickle.dumps(Wrapped("in"))).encoder()(1) == b'{"in":1}'
    assert pickle.loads(pickle.dumps(Unwrapped())).decoder()(b'{"in":1}') == 1


def test_bytes():
    schema = ByteArraySchema()
    for value in (b"ab", bytearray(b"ab"), memoryview(b"ab")):
        assert schema.encoder()(value) == schema.serialize(value) == b"ab"
        assert type(schema.serialize(value)) is bytes
    assert schema.deserialize(b"ab") == schema.decoder()(b"ab") == b"ab"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())
    with pytest.raises(TypeError, match="not str"):
        schema.serialize("ab")


def test_a_field_of_a_row():
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"b")) == b"b"
    assert schema.serialize(("a", bytearray(b"b"))) == b"b"
    assert schema.serialize(Row("a", None)) is None
    with pytest.raises(TypeError, match="field 1 must be bytes, not str"):
        schema.serialize(Row("a", "b"))
    with pytest.raises(ValueError, match="no field 1"):
        schema.serialize(Row("a"))
    for index in (-1, "0", True):
        with pytest.raises(ValueError, match="field_index"):
            RowFieldExtractorSchema(index)


def test_own_schemas():
    class Number(SerializationSchema, DeserializationSchema):
        def serialize(self, value):
            return b"%d" % value

        def deserialize(self, message):
            return int(message)

    schema = Number()
    assert schema.encoder()(5) == b"5"
    assert schema.decoder()(b"5") == 5
    assert schema.get_produced_type() is None
    for cls in (SerializationSchema, DeserializationSchema):
        with pytest.raises(TypeError, match="abstract"):
            cls()


def test_encoder_of_lines():
    encoder = Encoder.simple_string_encoder()
    assert encoder.encode(Row(1, "é")) == "<Row(1, 'é')>\n".encode()
    assert Encoder.simple_string_encoder("latin-1").encode("é") == b"\xe9\n"
    with pytest.raises(JobError, match="'klingon'"):
        Encoder.simple_string_encoder("klingon")


@pytest.mark.parametrize("schema", [SimpleStringSchema("latin-1"), ByteArraySchema()])
def test_schemas_pickle(schema):
    assert pickle.loads(pickle.dumps(schema)).decoder()(b"a") == schema.decoder()(b"a")
    assert pickle.loads(pickle.dumps(Encoder.simple_string_encoder())).encode(1) == b"1\n"
