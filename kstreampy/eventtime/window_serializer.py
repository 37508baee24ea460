"""Serializers of the three window classes under PyFlink's names, and how any window becomes the bytes that state and
timers know it by.

Not in here: those bytes for the three classes (`window.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from struct import Struct
from typing import Any, TypeAlias

from kstreampy.common.serializer import TypeSerializer
from kstreampy.eventtime.window import (
    OWN_TAG,
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
    decode_window,
    encode_window,
)

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end, 8 bytes each, big endian."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The id, 8 bytes, big endian."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(stream.read(8)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One zero byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()


WindowCodec: TypeAlias = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]
"""Window to bytes, and back."""

_OURS = frozenset((TimeWindowSerializer, CountWindowSerializer, GlobalWindowSerializer))


def codec_of(serializer: TypeSerializer[Any]) -> WindowCodec:
    """How windows of an assigner with this serializer become the bytes that state and timers know them by, and come back.

    With a serializer of the user's own these are a tag byte and what it writes; otherwise `encode_window`'s.
    """
    if type(serializer) in _OURS:
        return encode_window, decode_window
    own = _OwnCodec(serializer)
    return own.encode, own.decode


class _OwnCodec:
    __slots__ = ("_serializer",)

    def __init__(self, serializer: TypeSerializer[Any]) -> None:
        self._serializer = serializer

    def encode(self, window: Window) -> bytes:
        stream = BytesIO()
        stream.write(OWN_TAG)
        self._serializer.serialize(window, stream)
        return stream.getvalue()

    def decode(self, data: bytes) -> Any:
        if data[:1] != OWN_TAG:
            raise ValueError(f"not the bytes of a window of your own: {data[:40]!r}")
        return self._serializer.deserialize(BytesIO(data[1:]))
