"""How windows of event time are cut into slices that do not overlap, so that a record is counted once however many windows
it is in.

In here: from an assigner to its slices, and from a slice to the windows it belongs to. Pure. Not in here: what is kept per
slice (`state/pane.py`).

A window of a tumbling or calendar assigner is one slice. Sliding windows are cut wherever one begins or ends, so a window is
at most two slices for every slide in it, whatever size and slide are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from kstreampy.eventtime.calendar_window import CalendarEventTimeWindows
from kstreampy.eventtime.time_assigner import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowStagger
from kstreampy.eventtime.window import TimeWindow


class Slicing(ABC):
    """Slices and windows are known by their end: event time in ms, exclusive."""

    description: str
    """Tells apart slicings whose slices do not mean the same."""
    overlaps = False
    """Whether a slice may be in several windows."""
    longest_ms = 0
    """No window of a slice ends later than this after it."""

    @abstractmethod
    def end(self, timestamp: int) -> int:
        """The slice of a timestamp. ValueError where the calendar ends."""

    @abstractmethod
    def ends(self, timestamps: list[int]) -> list[int]:
        """`end` of each."""

    def windows(self, end: int) -> Sequence[int]:
        """The windows that the slice is part of, ascending; none where windows leave gaps."""
        return (end,)

    @abstractmethod
    def window(self, end: int) -> TimeWindow:
        """The window with this end."""

    def begin_of_window(self, end: int) -> int:
        """Where the window with this end begins."""
        return self.window(end).start


class TumblingSlicing(Slicing):
    def __init__(self, size_ms: int, offset_ms: int) -> None:
        self.size_ms = size_ms
        self.offset_ms = offset_ms % size_ms
        self.description = f"tumbling {self.size_ms} ms, offset {self.offset_ms} ms"

    def end(self, timestamp: int) -> int:
        return timestamp - (timestamp - self.offset_ms) % self.size_ms + self.size_ms

    def ends(self, timestamps: list[int]) -> list[int]:
        size, offset = self.size_ms, self.offset_ms
        if offset:
            return [stamp - (stamp - offset) % size + size for stamp in timestamps]
        return [stamp - stamp % size + size for stamp in timestamps]

    def window(self, end: int) -> TimeWindow:
        return TimeWindow(end - self.size_ms, end)


class SlidingSlicing(Slicing):
    def __init__(self, size_ms: int, slide_ms: int, offset_ms: int) -> None:
        self.size_ms = size_ms
        self.slide_ms = slide_ms
        self.offset_ms = offset_ms % slide_ms
        self.overlaps = slide_ms < size_ms
        self.longest_ms = size_ms
        self.description = f"sliding {size_ms} ms by {slide_ms} ms, offset {self.offset_ms} ms"
        self._cut = size_ms % slide_ms  # where, after a window's start, another one ends

    def end(self, timestamp: int) -> int:
        past = (timestamp - self.offset_ms) % self.slide_ms
        return timestamp - past + (self._cut if past < self._cut else self.slide_ms)

    def ends(self, timestamps: list[int]) -> list[int]:
        slide, offset, cut = self.slide_ms, self.offset_ms, self._cut
        if cut:
            return [
                stamp - past + (cut if past < cut else slide)
                for stamp, past in [(stamp, (stamp - offset) % slide) for stamp in timestamps]
            ]
        return [stamp - (stamp - offset) % slide + slide for stamp in timestamps]

    def begin(self, end: int) -> int:
        """Where the slice with this end begins; no window leaves a gap."""
        past = (end - 1 - self.offset_ms) % self.slide_ms
        return end - 1 - past + (self._cut if past >= self._cut else 0)

    def windows(self, end: int) -> Sequence[int]:
        return range(self.next_window(end), end + self.size_ms, self.slide_ms)

    def next_window(self, least: int) -> int:
        """The first window that does not end before `least`."""
        return least + (self.offset_ms + self.size_ms - least) % self.slide_ms

    def window(self, end: int) -> TimeWindow:
        return TimeWindow(end - self.size_ms, end)


class CalendarSlicing(Slicing):
    def __init__(self, assigner: CalendarEventTimeWindows) -> None:
        self._window_of = assigner.window_of
        self.description = f"calendar {assigner!r}"

    def end(self, timestamp: int) -> int:
        return self._window_of(timestamp).end

    def ends(self, timestamps: list[int]) -> list[int]:
        start = end = 0
        ends = []
        for stamp in timestamps:
            if not start <= stamp < end:
                window = self._window_of(stamp)
                start, end = window.start, window.end
            ends.append(end)
        return ends

    def window(self, end: int) -> TimeWindow:
        return self._window_of(end - 1)


def slicing_of(assigner: object) -> Slicing | None:
    """How the windows of this assigner are cut; None for those that are not of event time, depend on the task, merge, or
    are of the user's own."""
    kind = type(assigner)
    if kind is TumblingEventTimeWindows:
        assert isinstance(assigner, TumblingEventTimeWindows)
        if assigner.window_stagger is WindowStagger.ALIGNED:
            return TumblingSlicing(assigner.size_ms, assigner.offset_ms)
    elif kind is SlidingEventTimeWindows:
        assert isinstance(assigner, SlidingEventTimeWindows)
        return SlidingSlicing(assigner.size_ms, assigner.slide_ms, assigner.offset_ms)
    elif kind is CalendarEventTimeWindows:
        assert isinstance(assigner, CalendarEventTimeWindows)
        return CalendarSlicing(assigner)
    return None
