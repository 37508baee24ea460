"""Values with the time of their last access, as they lie in state that has a TTL.

In here: the bytes of such a value, `StampedCodec`, and how those bytes are read where there is no TTL (any more). Not in
here: what the time is for (`expiry.py`).

    0x08 · time (8 bytes, big endian, ms) · the value's own bytes

No codec's bytes begin with 0x08 (`serde/typed.py`), so values with and without a time lie side by side: a TTL may be
switched on and off.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, TypeAlias

from kstreampy.serde.typed import Codec

Stamped: TypeAlias = tuple[Any, int | None]
"""A value and the time of its last access in ms, None where none was stored."""

_STAMP = b"\x08"
_TIME = Struct(">q")
_SKIP = 1 + _TIME.size


class StampedCodec:
    """Of `Stamped` values; `inner` is the codec of the values. Encodes those with a time, decodes all."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Codec) -> None:
        self._inner = inner

    def encode(self, value: Stamped, /) -> bytes:
        return _STAMP + _TIME.pack(value[1] or 0) + self._inner.encode(value[0])

    def encode_each(self, values: list[Stamped], /) -> list[bytes]:
        encoded = self._inner.encode_each([value for value, _ in values])
        pack = _TIME.pack
        return [_STAMP + pack(time or 0) + data for (_, time), data in zip(values, encoded, strict=True)]

    def decode(self, data: bytes, /) -> Stamped:
        if data[:1] != _STAMP:
            return self._inner.decode(data), None
        return self._inner.decode(data[_SKIP:]), time_of(data)

    def encode_many(self, values: list[Stamped], /) -> bytes:
        return self._inner.encode_many(values)

    def decode_many(self, data: bytes, /) -> list[Stamped]:
        return self._inner.decode_many(data)


def time_of(data: bytes) -> int | None:
    """The time in stored bytes; None where there is none."""
    return int(_TIME.unpack_from(data, 1)[0]) if data[:1] == _STAMP else None


def without_time(data: bytes) -> bytes | None:
    """The value's own bytes; None when the stored bytes have no time."""
    return data[_SKIP:] if data[:1] == _STAMP else None
