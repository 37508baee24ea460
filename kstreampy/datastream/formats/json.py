"""JSON: rows with a declared type (PyFlink's two schemas), and plain values without one (ours).

In here: the schemas and their builders. How JSON's values become those of a declared type and back is
`json_value.py`; how a JSON Schema is read is `json_schema.py`. All of it runs on msgspec.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from kstreampy.common.serialization import DeserializationSchema, SerializationSchema
from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import RowTypeInfo, Types
from kstreampy.datastream.formats.json_schema import type_of_json_schema
from kstreampy.datastream.formats.json_value import contains_decimals, reader_of, writer_of
from kstreampy.errors import JobError
from kstreampy.serde.json_form import json_form

__all__ = [
    "JsonDeserializationSchema",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "JsonSerializationSchema",
]


class JsonDeserializationSchema(DeserializationSchema):
    """JSON as plain dicts, lists, strings, numbers, booleans and None; or as objects of the class `into` (a
    dataclass, a `msgspec.Struct`, a TypedDict …), checked while it is read.

    Malformed JSON is a `ValueError` that says where: `(byte 6)`, or `$.amount` for a value that does not fit.
    """

    def __init__(self, into: Any = Any) -> None:
        self.into = into
        self._decode = msgspec.json.Decoder(into).decode

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._decode(message)
        except msgspec.DecodeError as error:
            raise _located(error, message) from error

    def get_produced_type(self) -> TypeInformation | None:
        return Types.of(self.into)

    def leaves_out(self) -> bool:
        """JSON's own null is a value."""
        return type(self).deserialize is not JsonDeserializationSchema.deserialize

    def decoder(self) -> Callable[[bytes], Any]:
        is_own = type(self).deserialize is JsonDeserializationSchema.deserialize
        return self._decode if is_own else self.deserialize

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_decode"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _decode=msgspec.json.Decoder(state["into"]).decode)


class JsonSerializationSchema(SerializationSchema):
    """Plain values, rows, dataclasses, Structs, tuples, sets, Decimals, dates and times as JSON, without
    spaces.

    Rows with names are objects, rows without are arrays; a Decimal is a number, to its last digit; datetimes
    are ISO 8601; bytes are base64; an `Instant` is an object of its seconds and nanos (a row type with INSTANT
    writes it as text); NaN and infinities, which JSON has not, are null. `TypeError` for what cannot be
    written.
    """

    def __init__(self) -> None:
        self._encode = _encode_json()

    def serialize(self, value: Any) -> bytes:
        return self._encode(value)

    def encoder(self) -> Callable[[Any], bytes | None]:
        is_own = type(self).serialize is JsonSerializationSchema.serialize
        return self._encode if is_own else self.serialize

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_encode"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _encode=_encode_json())


def _encode_json() -> Callable[[Any], bytes]:
    return msgspec.json.Encoder(enc_hook=json_form, decimal_format="number").encode


class JsonRowDeserializationSchema(DeserializationSchema):
    """JSON objects as rows of a declared type: fields by name, values coerced, others left out. Made by
    `builder()`.

    A missing field is None, or an error with `fail_on_missing_field()`. What cannot be read is a `ValueError`
    naming byte or field; with `ignore_parse_errors()` it is None, and a source leaves the message out.
    """

    def __init__(
        self,
        type_info: RowTypeInfo,
        *,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self.row_type = type_info
        self.fail_on_missing_field = fail_on_missing_field
        self.ignore_parse_errors = ignore_parse_errors
        float_hook = Decimal if contains_decimals(type_info) else None
        self._decode = msgspec.json.Decoder(float_hook=float_hook).decode
        self._read = reader_of(type_info, fail_on_missing_field)

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._read(self._decode(message))
        except (TypeError, ValueError) as error:
            if self.ignore_parse_errors:
                return None
            if isinstance(error, msgspec.DecodeError):
                raise _located(error, message) from error
            raise ValueError(f"JSON does not fit {self.row_type}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return self.row_type

    def leaves_out(self) -> bool:
        return self.ignore_parse_errors or type(self).deserialize is not JsonRowDeserializationSchema.deserialize

    def __reduce__(self) -> tuple[Any, ...]:
        return _row_deserializer, (self.row_type, self.fail_on_missing_field, self.ignore_parse_errors)

    class Builder:
        """Needs a row type, given as such or as a JSON Schema. `JobError` names the call that is missing."""

        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            self._type_info = _row_type("JsonRowDeserializationSchema.builder().type_info", type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Takes the row type from a JSON Schema of an object."""
            if json_schema is None:
                raise JobError("JsonRowDeserializationSchema.builder().json_schema: the schema must not be None")
            self._type_info = type_of_json_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._type_info is None:
                raise JobError(
                    "JsonRowDeserializationSchema.builder(): no row type: call "
                    "type_info(Types.ROW_NAMED(...)) or json_schema(text)"
                )
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise JobError(
                    "JsonRowDeserializationSchema.builder(): fail_on_missing_field and ignore_parse_errors "
                    "contradict each other: call only one of them"
                )
            return _row_deserializer(self._type_info, self._fail_on_missing_field, self._ignore_parse_errors)


def _row_deserializer(row_type: RowTypeInfo, fail: bool, ignore: bool) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema(row_type, fail_on_missing_field=fail, ignore_parse_errors=ignore)


class JsonRowSerializationSchema(SerializationSchema):
    """Rows (and what coerces to rows: tuples, dicts, dataclasses) of a declared type as JSON objects, fields
    in the type's order, None as null. Made by `builder()`.

    Timestamps and instants are written as RFC 3339 in UTC (`2024-02-29T12:00:00Z`), dates and times as ISO
    8601, Decimals as numbers, bytes as base64. A value that does not fit is a `TypeError` naming the field.
    """

    def __init__(self, type_info: RowTypeInfo) -> None:
        self.row_type = type_info
        self._coerce = type_info.coercer()
        self._write = writer_of(type_info)
        self._encode = msgspec.json.Encoder(enc_hook=json_form, decimal_format="number").encode

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        return self._encode(self._write(self._coerce(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonRowSerializationSchema, (self.row_type,)

    class Builder:
        def __init__(self) -> None:
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            self._type_info = _row_type("JsonRowSerializationSchema.builder().with_type_info", type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """`JobError` when the type is missing."""
            if self._type_info is None:
                raise JobError(
                    "JsonRowSerializationSchema.builder(): no row type: call with_type_info(Types.ROW_NAMED(...))"
                )
            return JsonRowSerializationSchema(self._type_info)


def _located(error: msgspec.DecodeError, message: bytes) -> ValueError:
    """The error with a position, which msgspec leaves out of some."""
    text = str(error)
    if "(byte " in text or "`$" in text:
        return ValueError(text)
    try:
        message.decode()
    except UnicodeDecodeError as where:
        return ValueError(f"{text} (byte {where.start})")
    return ValueError(f"{text} (byte {len(message)})")


def _row_type(call: str, type_info: Any) -> RowTypeInfo:
    if not isinstance(type_info, RowTypeInfo):
        raise JobError(f"{call}: expected a row type, such as Types.ROW_NAMED(names, types), not {type_info!r}")
    return type_info
