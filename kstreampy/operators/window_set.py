"""The windows in flight of a key, where windows merge, and their bytes in state.

Each window has a state window: the one under whose token its contents lie (`window_merging.py`). In memory that is a dict for
windows of any kind, and `Sessions` for those of `window_session.py`, which are changed in place; the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView
from struct import Struct
from typing import Any, TypeAlias

from kstreampy.eventtime.window import TimeWindow, decode_window, encode_time_window, encode_window
from kstreampy.serde import column
from kstreampy.serde.batch import Token
from kstreampy.serde.key import typed_bytes

InFlight: TypeAlias = dict[Any, Token]
"""Window → the token of the key and its state window."""

_LENGTH = Struct(">I")
_WINDOW_LENGTH = _LENGTH.pack(len(encode_time_window(0, 0)))
_VERSION = b"\x01"


class Session:
    """A time window that can become longer."""

    __slots__ = ("end", "start", "token")

    def __init__(self, start: int, end: int, token: bytes) -> None:
        """`token`: of the key and the state window."""
        self.start = start
        self.end = end
        self.token = token

    def window(self) -> TimeWindow:
        """As it is now."""
        return TimeWindow(self.start, self.end)


class Sessions(list[Session]):
    """The sessions in flight of a key, in the order of time; no two of them touch each other."""

    __slots__ = ()

    def items(self) -> ItemsView[TimeWindow, Token]:
        """As those of an `InFlight`."""
        in_flight: InFlight = {session.window(): session.token for session in self}
        return in_flight.items()


class WindowSetCodec:
    """The bytes of an `InFlight`: a version byte, then for each window the length and the bytes of the window and of the
    token."""

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        """Of windows."""
        self._window_bytes = encode
        self._window = decode

    def encode(self, value: Any, /) -> bytes:
        parts = [_VERSION]
        for window, token in value.items():
            for part in (self._window_bytes(window), typed_bytes(token)):
                parts += (_LENGTH.pack(len(part)), part)
        return b"".join(parts)

    def encode_each(self, values: list[Any], /) -> list[bytes]:
        return [self.encode(value) for value in values]

    def decode(self, data: bytes, /) -> Any:
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

    def encode_many(self, values: list[Any], /) -> bytes:
        return column.encode_many(self.encode_each(values))

    def decode_many(self, data: bytes, /) -> list[Any]:
        return [self.decode(part) for part in column.decode_many(data)]


class SessionsCodec(WindowSetCodec):
    """The same bytes for `Sessions`."""

    def __init__(self) -> None:
        super().__init__(encode_window, decode_window)

    def encode(self, value: Sessions, /) -> bytes:
        parts = [_VERSION]
        for session in value:
            token = session.token
            window = encode_time_window(session.start, session.end)
            parts += (_WINDOW_LENGTH, window, _LENGTH.pack(len(token)), token)
        return b"".join(parts)

    def decode(self, data: bytes, /) -> Sessions:
        in_flight = super().decode(data)
        return Sessions([Session(window.start, window.end, in_flight[window]) for window in sorted(in_flight)])
