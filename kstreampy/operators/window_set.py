"""The windows in flight of a key, where windows merge, and their bytes in state.

A mapping of each window to its state window: the one under whose token its contents lie (`window_merging.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias

from kstreampy.serde import column
from kstreampy.serde.batch import Token
from kstreampy.serde.key import typed_bytes

InFlight: TypeAlias = dict[Any, Token]
"""Window → the token of the key and its state window."""

_LENGTH = Struct(">I")
_VERSION = b"\x01"


class WindowSetCodec:
    """The bytes of an `InFlight`: a version byte, then for each window the length and the bytes of the window and of the
    token."""

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        """Of windows."""
        self._window_bytes = encode
        self._window = decode

    def encode(self, value: InFlight, /) -> bytes:
        parts = [_VERSION]
        for window, token in value.items():
            for part in (self._window_bytes(window), typed_bytes(token)):
                parts += (_LENGTH.pack(len(part)), part)
        return b"".join(parts)

    def encode_each(self, values: list[InFlight], /) -> list[bytes]:
        return [self.encode(value) for value in values]

    def decode(self, data: bytes, /) -> InFlight:
        """ValueError for other bytes."""
        if data[:1] != _VERSION:
            raise ValueError(f"not windows in flight: {data[:40]!r}")
        parts: list[bytes] = []
        at = 1
        while at < len(data):
            end = at + 4 + int.from_bytes(data[at : at + 4], "big")
            if end > len(data):
                raise ValueError(f"windows in flight that end too early: {data[:40]!r}")
            parts.append(data[at + 4 : end])
            at = end
        return {self._window(window): token for window, token in zip(parts[::2], parts[1::2], strict=True)}

    def encode_many(self, values: list[InFlight], /) -> bytes:
        return column.encode_many(self.encode_each(values))

    def decode_many(self, data: bytes, /) -> list[InFlight]:
        return [self.decode(part) for part in column.decode_many(data)]
