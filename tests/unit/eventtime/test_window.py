"""The three windows, their order, merging, and their bytes."""

from __future__ import annotations

from io import BytesIO
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.serializer import TypeSerializer
from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.eventtime.window import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
    decode_window,
    encode_window,
    long_to_int_with_bit_mixing,
    mod_inverse,
)
from kstreampy.eventtime.window_serializer import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
    codec_of,
)
from kstreampy.serde import column, value

LONGS = st.integers(-(2**63), 2**63 - 1)
TIME_WINDOWS = st.builds(TimeWindow, LONGS, LONGS)
ANY_WINDOW = st.one_of(TIME_WINDOWS, st.builds(CountWindow, LONGS), st.just(GlobalWindow()))


class Found(MergingWindowAssigner.MergeCallback[TimeWindow]):
    """Keeps what `merge_windows` tells."""

    def __init__(self) -> None:
        self.merges: list[tuple[set[TimeWindow], TimeWindow]] = []

    def merge(self, to_be_merged: Any, merge_result: TimeWindow) -> None:
        self.merges.append((set(to_be_merged), merge_result))


def merges(*windows: TimeWindow) -> list[tuple[set[TimeWindow], TimeWindow]]:
    found = Found()
    TimeWindow.merge_windows(windows, found)
    return found.merges


def test_a_time_window_ends_one_ms_before_its_end() -> None:
    assert TimeWindow(5, 10).max_timestamp() == 9


@pytest.mark.parametrize("window", [CountWindow(3), GlobalWindow.get()])
def test_a_window_without_time_ends_never(window: Window) -> None:
    assert window.max_timestamp() == 2**63 - 1


def test_windows_are_values() -> None:
    assert TimeWindow(1, 2) == TimeWindow(1, 2)
    assert TimeWindow(1, 2) != TimeWindow(1, 3)
    assert TimeWindow(1, 2) != TimeWindow(0, 2)
    assert TimeWindow(0, 2) != CountWindow(0)
    assert CountWindow(1) == CountWindow(1)
    assert CountWindow(1) != CountWindow(2)
    assert GlobalWindow() == GlobalWindow.get()
    assert GlobalWindow() != CountWindow(0)
    assert (
        len({TimeWindow(1, 2), TimeWindow(1, 2), CountWindow(1), CountWindow(1), GlobalWindow(), GlobalWindow()}) == 3
    )


def test_how_windows_are_shown() -> None:
    assert repr(TimeWindow(-1, 2)) == "TimeWindow(start=-1, end=2)"
    assert repr(CountWindow(7)) == "CountWindow(id=7)"
    assert repr(GlobalWindow()) == "GlobalWindow"


def test_time_windows_sort_by_start_then_end() -> None:
    assert sorted([TimeWindow(2, 3), TimeWindow(1, 9), TimeWindow(1, 2)]) == [
        TimeWindow(1, 2),
        TimeWindow(1, 9),
        TimeWindow(2, 3),
    ]
    assert TimeWindow(1, 2) <= TimeWindow(1, 2) <= TimeWindow(1, 3)
    assert not TimeWindow(1, 3) <= TimeWindow(1, 2)
    with pytest.raises(TypeError):
        _ = TimeWindow(1, 2) < CountWindow(1)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("other", "touches"),
    [((0, 9), False), ((0, 10), True), ((0, 11), True), ((12, 13), True), ((20, 21), True), ((21, 22), False)],
)
def test_windows_intersect_when_they_touch(other: tuple[int, int], touches: bool) -> None:
    assert TimeWindow(10, 20).intersects(TimeWindow(*other)) is touches
    assert TimeWindow(*other).intersects(TimeWindow(10, 20)) is touches


def test_a_cover_has_both() -> None:
    assert TimeWindow(1, 5).cover(TimeWindow(3, 9)) == TimeWindow(1, 9)
    assert TimeWindow(1, 9).cover(TimeWindow(3, 5)) == TimeWindow(1, 9)


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [
        (0, 0, 7, 0),
        (6, 0, 7, 0),
        (7, 0, 7, 7),
        (-1, 0, 7, -7),
        (-7, 0, 7, -7),
        (-8, 0, 7, -14),
        (2, 3, 7, -4),
        (3, 3, 7, 3),
        (-2, -2, 7, -2),
        (-3, -2, 7, -9),
    ],
)
def test_where_a_window_starts(timestamp: int, offset: int, size: int, start: int) -> None:
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, size) == start


@given(LONGS, st.integers(1, 10**12), st.integers(-(10**12), 10**12))
def test_a_start_lies_on_the_grid_and_not_after_the_timestamp(timestamp: int, size: int, offset: int) -> None:
    start = TimeWindow.get_window_start_with_offset(timestamp, offset, size)
    assert start <= timestamp < start + size
    assert (start - offset) % size == 0


def test_windows_that_overlap_or_touch_are_merged() -> None:
    a, b, c, d = TimeWindow(0, 5), TimeWindow(5, 8), TimeWindow(7, 9), TimeWindow(10, 12)
    assert merges(d, c, a, b) == [({a, b, c}, TimeWindow(0, 9))]


def test_a_window_alone_is_not_told_of() -> None:
    assert merges() == []
    assert merges(TimeWindow(0, 1)) == []
    assert merges(TimeWindow(0, 1), TimeWindow(0, 1)) == []
    assert merges(TimeWindow(0, 1), TimeWindow(2, 3)) == []


def test_a_window_inside_of_another_does_not_shorten_it() -> None:
    outer, inner, later = TimeWindow(0, 10), TimeWindow(2, 3), TimeWindow(9, 12)
    assert merges(inner, later, outer) == [({outer, inner, later}, TimeWindow(0, 12))]


def brute_force_sessions(windows: list[TimeWindow]) -> set[TimeWindow]:
    """Merges any two that touch, until none do."""
    rest = list(windows)
    while True:
        pair = next(
            ((a, b) for a in rest for b in rest if a is not b and not (a.end < b.start or b.end < a.start)), None
        )
        if pair is None:
            return set(rest)
        rest = [window for window in rest if window is not pair[0] and window is not pair[1]]
        rest.append(TimeWindow(min(pair[0].start, pair[1].start), max(pair[0].end, pair[1].end)))


def sessions_as_they_come(windows: tuple[TimeWindow, ...]) -> set[TimeWindow]:
    """A key's sessions when its elements' windows come one by one."""
    live: set[TimeWindow] = set()
    for window in windows:
        live.add(window)
        found = Found()
        TimeWindow.merge_windows(live, found)
        for merged, result in found.merges:
            live = (live - merged) | {result}
    return live


SMALL_WINDOWS = st.builds(lambda start, gap: TimeWindow(start, start + gap), st.integers(-12, 12), st.integers(1, 5))


@given(st.lists(SMALL_WINDOWS, min_size=1, max_size=5))
def test_sessions_are_the_same_in_every_order(windows: list[TimeWindow]) -> None:
    expected = brute_force_sessions(windows)
    for order in permutations(windows):
        assert sessions_as_they_come(order) == expected


def test_long_gap_chains_are_one_session_in_any_order() -> None:
    chain = tuple(TimeWindow(at * 10, at * 10 + 10) for at in range(200))
    for order in (chain, chain[::-1], chain[::2] + chain[1::2]):
        assert sessions_as_they_come(order) == {TimeWindow(0, 2000)}


@given(ANY_WINDOW)
def test_a_windows_bytes_give_it_back(window: Window) -> None:
    again = decode_window(encode_window(window))
    assert again == window
    assert type(again) is type(window)


@given(TIME_WINDOWS, TIME_WINDOWS)
def test_the_bytes_of_time_windows_sort_by_end_then_start(a: TimeWindow, b: TimeWindow) -> None:
    assert (encode_window(a) < encode_window(b)) == ((a.end, a.start) < (b.end, b.start))


def test_the_form_of_the_bytes() -> None:
    assert encode_window(TimeWindow(0, 1)).hex() == "01" + "8000000000000001" + "8000000000000000"
    assert encode_window(TimeWindow(-1, 0)).hex() == "01" + "8000000000000000" + "7fffffffffffffff"
    assert encode_window(CountWindow(2)).hex() == "02" + "8000000000000002"
    assert encode_window(GlobalWindow()).hex() == "03"


@pytest.mark.parametrize("window", [TimeWindow(0, 2**63), TimeWindow(-(2**63) - 1, 0), CountWindow(2**63)])
def test_what_does_not_fit_is_refused(window: Window) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode_window(window)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x01" + 15 * b"\0", b"\x02" + 9 * b"\0", b"\x03\x03", b"\xff"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a window's bytes"):
        decode_window(data)


class Tariff(Window):
    """A window of the user's own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def max_timestamp(self) -> int:
        return 99

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tariff) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


class TariffSerializer(TypeSerializer[Tariff]):
    def serialize(self, element: Tariff, stream: BytesIO) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: BytesIO) -> Tariff:
        return Tariff(stream.read().decode())


def test_a_window_class_of_the_users_own_needs_its_serializer() -> None:
    with pytest.raises(TypeError, match="get_window_serializer"):
        encode_window(Tariff("night"))
    encode, decode = codec_of(TariffSerializer())
    data = encode(Tariff("night"))
    assert decode(data) == Tariff("night")
    assert data[:1] not in (b"\x01", b"\x02", b"\x03")
    with pytest.raises(ValueError, match="of your own"):
        decode(encode_window(TimeWindow(0, 1)))


@pytest.mark.parametrize(
    ("serializer", "window", "data"),
    [
        (TimeWindowSerializer(), TimeWindow(1, -1), "0000000000000001ffffffffffffffff"),
        (CountWindowSerializer(), CountWindow(5), "0000000000000005"),
        (GlobalWindowSerializer(), GlobalWindow(), "00"),
    ],
)
def test_the_serializers(serializer: TypeSerializer[Any], window: Window, data: str) -> None:
    stream = BytesIO()
    serializer.serialize(window, stream)
    serializer.serialize(window, stream)
    assert stream.getvalue().hex() == data * 2
    stream.seek(0)
    assert [serializer.deserialize(stream), serializer.deserialize(stream)] == [window, window]
    encode, decode = codec_of(serializer)
    assert encode(window) == encode_window(window)
    assert decode(encode(window)) == window


@given(st.integers(-(2**40), 2**40).map(lambda x: 2 * x + 1))
def test_an_inverse_modulo_32_bits(x: int) -> None:
    inverse = mod_inverse(x)
    assert x * inverse % 2**32 == 1
    assert -(2**31) <= inverse < 2**31


def test_an_even_number_has_no_inverse() -> None:
    with pytest.raises(ValueError, match="invertible"):
        mod_inverse(2)


@given(LONGS)
def test_bit_mixing_gives_a_32_bit_int(x: int) -> None:
    assert -(2**31) <= long_to_int_with_bit_mixing(x) < 2**31


def test_bit_mixing_spreads() -> None:
    assert long_to_int_with_bit_mixing(0) == 0
    assert len({long_to_int_with_bit_mixing(x) % 1024 for x in range(4096)}) > 950


@given(ANY_WINDOW, st.integers())
def test_windows_may_be_part_of_values_without_a_type(window: Window, number: int) -> None:
    """As a function emits them: alone, in tuples, and in lists and dicts of these."""
    for item in (window, (number, window), {"at": [window]}, {window: number}):
        again = value.decode(value.encode(item))
        assert (type(again), again) == (type(item), item)
        rows = [item, item]
        assert column.decode_many(column.encode_many(rows)) == rows


def test_the_form_of_windows_in_values() -> None:
    """An extension of MessagePack with the code of "W"."""
    assert value.encode(TimeWindow(0, 1)).hex() == "01" + "c71157" + "01" + "8000000000000001" + "8000000000000000"
    assert value.encode(CountWindow(2)).hex() == "01" + "c70957" + "02" + "8000000000000002"
    assert value.encode(GlobalWindow()).hex() == "01" + "d457" + "03"
    assert value.decode(bytes.fromhex("01d45703")) is GlobalWindow.get()
    with pytest.raises(ValueError, match="not a window's bytes"):
        value.decode(bytes.fromhex("01d45704"))


def test_windows_of_ones_own_are_no_values() -> None:
    class Own(TimeWindow):
        pass

    with pytest.raises(TypeError, match="without a declared type"):
        value.encode(Own(0, 1))
