"""Codecs: how values become bytes and come back, by their declared type or, without one, self-describing.

In here: `Codec`, and `codec_for`, which chooses one. What the types look like in bytes is in
`serde/shape.py`, the self-describing form in `serde/value.py` and `serde/column.py`.

Bytes begin with a tag that says which codec wrote them, so that a type that was changed is refused, not
misread. A typed codec never changes a value: one that is not exactly of the declared type (an int beyond 64
bit, a list where a hint promised a tuple) is written self-describing, and every codec reads what is
self-describing. That also lets a job declare types where it had none before.
"""

from __future__ import annotations

from binascii import crc32
from types import GenericAlias
from typing import Any, Protocol

from msgspec import msgpack

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.serde import column, value
from kstreampy.serde.shape import Convert, Shape, shape_of


class Codec(Protocol):
    """Stateless; may be shared by tasks. Encoding raises TypeError or ValueError for a value that cannot be
    stored, decoding raises ValueError for bytes that this codec, or the self-describing one, has not
    written."""

    def encode(self, value: Any, /) -> bytes: ...
    def encode_each(self, values: list[Any], /) -> list[bytes]:
        """As `encode` of every value, in order."""
        ...

    def decode(self, data: bytes, /) -> Any: ...
    def encode_many(self, values: list[Any], /) -> bytes:
        """A whole column; `decode_many` reads it."""
        ...

    def decode_many(self, data: bytes, /) -> list[Any]: ...


class SelfDescribingCodec:
    """Any value of Python's own types, and dataclasses, enums, named tuples and rows (`serde/value.py`)."""

    __slots__ = ()

    def encode(self, value_: Any, /) -> bytes:
        return value.encode(value_)

    def encode_each(self, values: list[Any], /) -> list[bytes]:
        return value.encode_each(values)

    def decode(self, data: bytes, /) -> Any:
        if data[:1] != value.TAG:
            raise _mismatch(data, "without a declared type")
        return value.decode(data)

    def encode_many(self, values: list[Any], /) -> bytes:
        return column.encode_many(values)

    def decode_many(self, data: bytes, /) -> list[Any]:
        if data[:1] not in column.TAGS:
            raise _mismatch(data, "without a declared type")
        return column.decode_many(data)


class TypedCodec:
    """Values of one shape that msgspec knows as it is."""

    __slots__ = ("_decode", "_decode_many", "_encode", "_fits", "_name", "_prefix", "_skip")

    def __init__(self, shape: Shape) -> None:
        self._name = shape.name
        self._fits = shape.fits
        self._prefix = _prefix_of(shape.name)
        self._skip = len(self._prefix)
        self._encode = msgpack.Encoder().encode
        self._decode = msgpack.Decoder(shape.native).decode
        self._decode_many = msgpack.Decoder(GenericAlias(list, (shape.native,))).decode

    def encode(self, value_: Any, /) -> bytes:
        if self._fits((value_,)):
            try:
                return self._prefix + self._encode(self._lower(value_))
            except (OverflowError, UnicodeEncodeError):
                pass
        return value.encode(value_)

    def encode_each(self, values: list[Any], /) -> list[bytes]:
        if self._fits(values):
            prefix = self._prefix
            try:
                return [prefix + data for data in map(self._encode, self._lower_many(values))]
            except (OverflowError, UnicodeEncodeError):
                pass
        return list(map(self.encode, values))

    def encode_many(self, values: list[Any], /) -> bytes:
        if self._fits(values):
            try:
                return self._prefix + self._encode(self._lower_many(values))
            except (OverflowError, UnicodeEncodeError):
                pass
        return column.encode_many(values)

    def decode(self, data: bytes, /) -> Any:
        if data.startswith(self._prefix):
            try:
                return self._lift(self._decode(data[self._skip :]))
            except Exception as error:
                raise self._unreadable(data, error) from error
        if data[:1] == value.TAG:
            return value.decode(data)
        raise _mismatch(data, f"as {self._name}")

    def decode_many(self, data: bytes, /) -> list[Any]:
        if data.startswith(self._prefix):
            try:
                return self._lift_many(self._decode_many(data[self._skip :]))
            except Exception as error:
                raise self._unreadable(data, error) from error
        if data[:1] in column.TAGS:
            return column.decode_many(data)
        raise _mismatch(data, f"as {self._name}")

    def _unreadable(self, data: bytes, error: Exception) -> ValueError:
        return ValueError(f"stored {self._name} cannot be read: {error}; its bytes begin {data[:60]!r}")

    def _lower(self, value_: Any) -> Any:
        return value_

    def _lift(self, native: Any) -> Any:
        return native

    def _lower_many(self, values: list[Any]) -> list[Any]:
        return values

    def _lift_many(self, natives: list[Any]) -> list[Any]:
        return natives


class ConvertingCodec(TypedCodec):
    """Values that msgspec has to be given in another form: rows, instants, pickled objects."""

    __slots__ = ("_from_native", "_to_native")

    def __init__(self, shape: Shape, to_native: Convert, from_native: Convert) -> None:
        super().__init__(shape)
        self._to_native = to_native
        self._from_native = from_native

    def _lower(self, value_: Any) -> Any:
        return self._to_native(value_)

    def _lift(self, native: Any) -> Any:
        return self._from_native(native)

    def _lower_many(self, values: list[Any]) -> list[Any]:
        to_native = self._to_native
        return [to_native(value_) for value_ in values]

    def _lift_many(self, natives: list[Any]) -> list[Any]:
        from_native = self._from_native
        return [from_native(native) for native in natives]


SELF_DESCRIBING: Codec = SelfDescribingCodec()


def codec_for(type_info: TypeInformation | None) -> Codec:
    """The codec of a declared type; the self-describing one for None, and for types that are not kstreampy's
    own."""
    shape = None if type_info is None else shape_of(type_info)
    if shape is None:
        return SELF_DESCRIBING
    if shape.lower is None or shape.lift is None:
        return TypedCodec(shape)
    return ConvertingCodec(shape, shape.lower, shape.lift)


_TAGS = {
    "STRING": 0x10,
    "CHAR": 0x11,
    "BYTE": 0x12,
    "SHORT": 0x13,
    "INT": 0x14,
    "LONG": 0x15,
    "BIG_INT": 0x16,
    "FLOAT": 0x17,
    "DOUBLE": 0x18,
    "BOOLEAN": 0x19,
    "BYTES": 0x1A,
    "BIG_DEC": 0x1B,
    "INSTANT": 0x1C,
    "SQL_DATE": 0x1D,
    "SQL_TIME": 0x1E,
    "SQL_TIMESTAMP": 0x1F,
    "PICKLED_BYTE_ARRAY": 0x20,
    "LIST": 0x21,
    "MAP": 0x22,
    "TUPLE": 0x23,
    "ROW": 0x24,
}
"""Stored: never change one, only add. 0x01 to 0x07 are those of the self-describing codec, 0x08 is that of values with the
time of their last access (`state/stamped.py`)."""
_NAMES = {tag: name for name, tag in _TAGS.items()}


def _prefix_of(name: str) -> bytes:
    """The tag, and for types made of others two bytes that tell one from another."""
    kind, inner, _ = name.partition("(")
    tag = bytes((_TAGS[kind],))
    return tag + (crc32(name.encode()) & 0xFFFF).to_bytes(2, "big") if inner else tag


def prefix_of(type_info: TypeInformation) -> bytes:
    """What a value begins with that the typed codec of this type has written. Two types have the same where their names
    have, and by chance once in 65,536 times. TypeError for a type without a typed codec."""
    shape = shape_of(type_info)
    if shape is None:
        raise TypeError(f"{type_info!r} has no typed codec")
    return _prefix_of(shape.name)


def _mismatch(data: bytes, reading: str) -> ValueError:
    if data[:1] == value.TAG or data[:1] in column.TAGS:
        return ValueError(f"one value was read as a column, or a column as one value: {data[:60]!r}")
    written = _NAMES.get(data[0]) if data else None
    if written is None:
        return ValueError(f"no codec of kstreampy has written this: {data[:60]!r}")
    return ValueError(
        f"the stored data was written as {written} and is now read {reading}: declare the type it was "
        "written with (names and types of all fields count), or start from an empty state under another uid; "
        f"it begins {data[:60]!r}"
    )
