"""Keys as Kafka's own serializers write them, so that Java's clients and kstreampy's stages find them on the same partition.

In here: `key_bytes`, for the keys that have such a serializer. Not in here: the forms of all other keys (`serde/key.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

RecordKey: TypeAlias = str | bytes | int | float | UUID | None
"""What can be a record's key; bool is an int, but is written as a bool."""

_LONG = Struct(">q")
_DOUBLE = Struct(">d")
_NAN = b"\x7f\xf8\0\0\0\0\0\0"


def key_bytes(key: RecordKey) -> bytes | None:
    """The bytes of a key: str in UTF-8, bytes as they are, int and float in 8 bytes (`LongSerializer`, `DoubleSerializer`),
    bool in one, UUID as text; None for none. TypeError for anything else, ValueError for a number or a text that does not
    fit."""
    if type(key) is str:
        return key.encode()
    if key is None or type(key) is bytes:
        return key
    write = _WRITERS.get(type(key))
    if write is None:
        raise TypeError(
            f"a record's key must be str, bytes, int, float, bool, UUID or None, not {type(key).__name__} {key!r:.80}: return "
            "the text or the bytes that readers of the topic expect, for example str(key)"
        )
    return write(key)


def _long(key: int) -> bytes:
    if not -(2**63) <= key < 2**63:
        raise ValueError(f"a record's key that is an int must fit 64 bit, not {key!r:.80}")
    return _LONG.pack(key)


def double_bytes(key: float) -> bytes:
    """8 bytes, in which all NaNs are one, and -0.0 is 0.0."""
    return _NAN if key != key else _DOUBLE.pack(key + 0.0)  # -0.0 + 0.0 is 0.0


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    int: _long,
    float: double_bytes,
    bool: lambda key: b"\x01" if key else b"\x00",
    UUID: lambda key: str(key).encode("ascii"),
}
