"""How a test's values become a topic's bytes and come back: by a word, a schema or a function.

In here: `Form` and the two functions that resolve it. Bytes are always written as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Literal

from kstreampy.common.serialization import DeserializationSchema, SerializationSchema
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.errors import JobError
from kstreampy.serde.key import partition_bytes

Word = Literal["json", "str", "bytes", "long", "kafka"]
"""`json`; `str`: UTF-8; `bytes`: as they are; `long`: an int in 8 bytes (Kafka's LongSerializer); `kafka`, for writing
only: what Kafka's own serializer for the value's type writes."""
Encode = Callable[[Any], bytes | None]
Decode = Callable[[bytes], Any]

_LONG = struct.Struct(">q")
_ENCODERS: dict[str, Encode] = {
    "json": JsonSerializationSchema().encoder(),
    "str": lambda value: str(value).encode(),
    "bytes": lambda value: bytes(memoryview(value)),
    "long": lambda value: _LONG.pack(value),
    "kafka": partition_bytes,
}
_DECODERS: dict[str, Decode] = {
    "json": JsonDeserializationSchema().decoder(),
    "str": lambda data: data.decode(),
    "bytes": bytes,
    "long": lambda data: _LONG.unpack(data)[0],
}


def encoder_of(form: Word | SerializationSchema | Encode, what: str) -> Encode:
    """The function that writes values; None and bytes go as they are. It raises JobError for what cannot be written."""
    encode: Encode = _resolved(form, _ENCODERS, SerializationSchema, what)

    def encoded(value: Any) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, bytes):
            return value
        try:
            return encode(value)
        except Exception as error:
            raise JobError(f"{what}: {value!r} cannot be written as {_named(form)}: {error}") from error

    return encoded


def decoder_of(form: Word | DeserializationSchema | Decode, what: str) -> Callable[[bytes | None], Any]:
    """The function that reads them; a null is None. It raises JobError for bytes of another form."""
    decode: Decode = _resolved(form, _DECODERS, DeserializationSchema, what)

    def decoded(data: bytes | None) -> Any:
        if data is None:
            return None
        try:
            return decode(data)
        except Exception as error:
            raise JobError(
                f"{what}: {data[:80]!r} cannot be read as {_named(form)} ({error}): say what it is, for example "
                'value="str", key="long" or ="bytes"'
            ) from error

    return decoded


def _resolved(form: Any, words: dict[str, Any], schema: type, what: str) -> Callable[[Any], Any]:
    if isinstance(form, str):
        if form not in words:
            raise JobError(f"{what}: no form {form!r}: use {', '.join(map(repr, words))}, a schema or a function")
        return words[form]  # type: ignore[no-any-return]  # one of the functions above
    if isinstance(form, schema):
        method = "serialize" if schema is SerializationSchema else "deserialize"
        return getattr(form, method)  # type: ignore[no-any-return]  # the schema's one method
    if callable(form):
        return form  # type: ignore[no-any-return]  # any function of the user's
    raise JobError(f"{what}: {form!r} is no form: use {', '.join(map(repr, words))}, a schema or a function")


def _named(form: Any) -> str:
    return form if isinstance(form, str) else getattr(form, "__qualname__", type(form).__qualname__)
