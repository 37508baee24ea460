"""What elements are grouped into: `TimeWindow`, `CountWindow`, `GlobalWindow`, and the bytes that stand for them.

In here: the windows and their bytes. Not in here: who assigns elements to them (`assigner.py` and its neighbours), when
they fire (`trigger.py`), and serializers for windows of the user's own (`window_serializer.py`). Semantics: Flink's.

Bytes: one tag byte, then for a `TimeWindow` its end and its start, for a `CountWindow` its id: 8 bytes each, big endian,
sign bit flipped. So time windows sort by end, then by start. They are also what a value that holds a window is stored with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from struct import Struct, error
from typing import TYPE_CHECKING

from kstreampy.serde import value
from kstreampy.serde.atom import Atom
from kstreampy.serde.batch import MAX_WATERMARK

if TYPE_CHECKING:
    from kstreampy.eventtime.assigner import MergingWindowAssigner

_TIME_TAG = 1
_COUNT_TAG = 2
_GLOBAL = b"\x03"
OWN_TAG = b"\xff"
"""Begins the bytes of windows that have a serializer of their own."""

_SIGN = 2**63
_TIME_FORM = Struct(">BQQ")
_COUNT_FORM = Struct(">BQ")
_INT_RANGE = 2**32


def long_to_int_with_bit_mixing(x: int) -> int:
    """Java's `MathUtils.longToIntWithBitMixing`: a 64-bit int mixed down to a signed one of 32 bits."""
    x &= 2**64 - 1
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return _signed_int(x ^ x >> 31)


def mod_inverse(x: int) -> int:
    """The signed 32-bit int whose product with `x` is 1 modulo 2**32. ValueError when `x` is even: there is none."""
    return _signed_int(pow(x, -1, _INT_RANGE))


def _signed_int(x: int) -> int:
    return (x + _INT_RANGE // 2) % _INT_RANGE - _INT_RANGE // 2


class Window(ABC):
    """A finite group of elements; at some time all that belong to it have come. Windows are values: equal ones are the
    same window, so a subclass defines `__eq__` and `__hash__`, and its assigner gives a serializer for it."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp in ms that still belongs to the window; a result carries it."""

    def __deepcopy__(self, memo: object) -> Window:
        """Itself: results hold windows, and results are copied."""
        return self


class TimeWindow(Window):
    """The time from `start` (inclusive) to `end` (exclusive), both in ms since the epoch."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """True also for windows that only touch: one ends where the other starts."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that has both in it."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Where the window of `window_size` ms that has `timestamp` in it starts; starts lie at `offset` plus multiples of
        the size, also before the epoch."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Tells `callback` of every group of two or more different windows that touch or overlap, and of what covers
        them."""
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if groups and groups[-1][0].intersects(window):
                cover, members = groups[-1]
                groups[-1] = (cover.cover(window), [*members, window])
            else:
                groups.append((window, [window]))
        for cover, members in groups:
            if len(members) > 1:
                callback.merge(members, cover)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.start == self.start and other.end == self.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: TimeWindow) -> bool:
        """By start, then by end."""
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (self.start, self.end) <= (other.start, other.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """The window of the given number, counted per key from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """2**63 - 1: it has no time."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window that everything is in. All objects of this class are equal."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        return _THE_GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """2**63 - 1: it has no end."""
        return MAX_WATERMARK

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


_THE_GLOBAL_WINDOW = GlobalWindow()


def encode_time_window(start: int, end: int) -> bytes:
    """As `encode_window` of the `TimeWindow` with these bounds."""
    try:
        return _TIME_FORM.pack(_TIME_TAG, end + _SIGN, start + _SIGN)
    except error as cause:
        raise _out_of_range(TimeWindow(start, end), cause) from cause


def _out_of_range(window: Window, cause: error) -> ValueError:
    return ValueError(f"{window}: its bounds must be ints that fit into 64 bits: {cause}")


def encode_window(window: Window) -> bytes:
    """The window's bytes (see the module). TypeError for a class that is none of the three of this module: those have
    the bytes of their assigner's serializer. ValueError for a window that lies outside of 64 bits."""
    kind = type(window)
    try:
        if kind is TimeWindow:
            return encode_time_window(window.start, window.end)  # type: ignore[attr-defined]
        if kind is GlobalWindow:
            return _GLOBAL
        if kind is CountWindow:
            return _COUNT_FORM.pack(_COUNT_TAG, window.id + _SIGN)  # type: ignore[attr-defined]
    except error as cause:
        raise _out_of_range(window, cause) from cause
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} is a window class of your own: its assigner's get_window_serializer() "
        "must give a serializer for it"
    )


def decode_window(data: bytes) -> Window:
    """The inverse of `encode_window`. ValueError for bytes that are not a window's."""
    if data == _GLOBAL:
        return _THE_GLOBAL_WINDOW
    tag = data[0] if data else 0
    if tag == _TIME_TAG and len(data) == 17:
        _, end, start = _TIME_FORM.unpack(data)
        return TimeWindow(start - _SIGN, end - _SIGN)
    if tag == _COUNT_TAG and len(data) == 9:
        return CountWindow(_COUNT_FORM.unpack(data)[1] - _SIGN)
    raise ValueError(f"not a window's bytes: {data[:40]!r}")


for _kind in (TimeWindow, CountWindow, GlobalWindow):
    value.register(_kind, Atom(b"W", encode_window, decode_window))
