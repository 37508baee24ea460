"""Schemas: how a record's value becomes the bytes of a Kafka message or a file, and back. Users subclass
these.

In here: the two abstract classes and the plain ones (strings, bytes). JSON is `datastream/formats/json.py`;
how state and records between stages become bytes is `serde/`, which has nothing to do with these.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstreampy.common import left_out
from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]

if not TYPE_CHECKING:  # to a type checker, what is not here is not here
    __getattr__ = left_out.of_module(__name__)


class SerializationSchema(ABC):
    """Values to bytes. None never reaches it: a None element is a null message (a tombstone) by itself."""

    @abstractmethod
    def serialize(self, value: Any) -> bytes | None:
        """The message's bytes; None makes a null message. Any exception is an encode error of this record."""

    def encoder(self) -> Callable[[Any], bytes | None]:
        """What a hot loop calls instead of `serialize`: overridden where something faster does the same."""
        return self.serialize


class DeserializationSchema(ABC):
    """Bytes to values. None never reaches it: a null message is a None element by itself."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The value; None leaves the message out, as in Flink. Any exception is a decode error of this record, and the
        record's policy decides."""

    def leaves_out(self) -> bool:
        """Whether `deserialize` may give None for messages to leave out. Schemas that never do, or mean a value by None, say
        so."""
        return True

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the values, None when it is not known."""
        return None

    def decoder(self) -> Callable[[bytes], Any]:
        """What a hot loop calls instead of `deserialize`: overridden where something faster does the same."""
        return self.deserialize


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """`str` in the given charset. Bytes that are not text in it raise `UnicodeDecodeError` (Java's would be
    altered in silence). An unknown charset is a `JobError`."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = charset
        self._codec = _codec_name("SimpleStringSchema", charset)

    def serialize(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError(
                f"SimpleStringSchema writes str only, not {type(value).__name__}: map the values to str "
                "before, or use another schema (JsonSerializationSchema for dicts and rows)"
            )
        return value.encode(self._codec)

    def deserialize(self, message: bytes) -> str:
        return message.decode(self._codec)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()

    def encoder(self) -> Callable[[Any], bytes | None]:
        """`str.encode` itself for UTF-8."""
        is_own = type(self).serialize is SimpleStringSchema.serialize
        return str.encode if is_own and self._codec == "utf-8" else self.serialize

    def leaves_out(self) -> bool:
        return type(self).deserialize is not SimpleStringSchema.deserialize

    def decoder(self) -> Callable[[bytes], Any]:
        """`bytes.decode` itself for UTF-8."""
        is_own = type(self).deserialize is SimpleStringSchema.deserialize
        return bytes.decode if is_own and self._codec == "utf-8" else self.deserialize


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """`bytes` as they are."""

    def serialize(self, value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"ByteArraySchema writes bytes only, not {type(value).__name__}")

    def deserialize(self, message: bytes) -> bytes:
        return message

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    def leaves_out(self) -> bool:
        return type(self).deserialize is not ByteArraySchema.deserialize

    def decoder(self) -> Callable[[bytes], Any]:
        return bytes if type(self).deserialize is ByteArraySchema.deserialize else self.deserialize


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row (or tuple, or list), which must be bytes or None: for the key of a Kafka message."""

    def __init__(self, field_index: int) -> None:
        if type(field_index) is not int or field_index < 0:
            raise ValueError(f"RowFieldExtractorSchema: field_index must be an int of at least 0, not {field_index!r}")
        self.field_index = field_index

    def serialize(self, value: Any) -> bytes | None:
        try:
            field = value[self.field_index]
        except IndexError:
            raise ValueError(f"RowFieldExtractorSchema: no field {self.field_index} in {value!r:.200}") from None
        if field is None or type(field) is bytes:
            return field
        if isinstance(field, (bytearray, memoryview)):
            return bytes(field)
        raise TypeError(f"RowFieldExtractorSchema: field {self.field_index} must be bytes, not {type(field).__name__}")


class Encoder:
    """How a file sink writes one element: `encode(value)` gives the bytes, line end included."""

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self.encode = encode

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """`str(value)` and a line feed. An unknown charset is a `JobError`."""
        return Encoder(_LineEncoder(_codec_name("Encoder.simple_string_encoder", charset_name)))


class _LineEncoder:
    """A class, not a closure, so that it can be pickled."""

    def __init__(self, codec: str) -> None:
        self.codec = codec

    def __call__(self, value: Any) -> bytes:
        return f"{value}\n".encode(self.codec)


def _codec_name(who: str, charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise JobError(f"{who}: Python knows no charset {charset!r}; use one of its codecs, such as 'UTF-8'") from None
