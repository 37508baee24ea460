"""Slices of windows: where they begin and end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreampy.operators.pane_slicing import SlidingSlicing


@given(
    size=st.integers(2, 50),
    slide=st.integers(1, 49),
    offset=st.integers(-60, 60),
    timestamp=st.integers(-200, 200),
)
def test_slices_of_windows_that_overlap_lie_side_by_side(size: int, slide: int, offset: int, timestamp: int) -> None:
    slicing = SlidingSlicing(size, 1 + slide % size, offset)
    end = slicing.end(timestamp)
    begin = slicing.begin(end)
    assert begin <= timestamp < end
    assert slicing.end(begin) == end, "its first moment is in it"
    assert slicing.end(begin - 1) == begin, "the slice before ends where it begins"
    for window in map(slicing.window, slicing.windows(end)):
        assert window.start <= begin < end <= window.end, "no window cuts it"
