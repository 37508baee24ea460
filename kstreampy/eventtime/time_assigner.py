"""Windows of a fixed length that lie on a grid: tumbling and sliding, in event time and in processing time.

In here: the four assigners and `WindowStagger`. Not in here: days and months by local time (`calendar_window.py`),
sessions (`session_assigner.py`). Semantics: Flink's.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, TypeVar

from kstreampy.common.time import Amount, to_millis
from kstreampy.eventtime.assigner import WindowAssigner, require_timestamp
from kstreampy.eventtime.time_trigger import EventTimeTrigger, ProcessingTimeTrigger
from kstreampy.eventtime.trigger import Trigger
from kstreampy.eventtime.window import TimeWindow, Window
from kstreampy.eventtime.window_serializer import TimeWindowSerializer
from kstreampy.serde.batch import NO_TIMESTAMP

A = TypeVar("A", bound="_Tumbling")
S = TypeVar("S", bound="_Sliding")


class WindowStagger(Enum):
    """Whether the tumbling windows of all tasks end at the same time (`ALIGNED`) or not, so that the work of firing them
    is spread: each task shifts them by a part of the size that follows from its index (`RANDOM`; it stays the same over
    restarts), or so that a window starts when the task's first element arrives (`NATURAL`; after a restart another
    one)."""

    ALIGNED = "ALIGNED"
    RANDOM = "RANDOM"
    NATURAL = "NATURAL"

    def get_stagger_offset(self, current_processing_time: int, size: int, subtask_index: int = 0) -> int:
        """By how many ms a task shifts its windows of `size` ms; 0 to size - 1."""
        if self is WindowStagger.ALIGNED:
            return 0
        if self is WindowStagger.NATURAL:
            return current_processing_time % size
        # The golden ratio's multiples spread any number of tasks evenly.
        return (subtask_index + 1) * 0x9E3779B97F4A7C15 % 2**64 * size // 2**64


class TimeWindowAssigner(WindowAssigner[Any, TimeWindow]):
    """What all assigners of `TimeWindow`s have in common. The time that counts is the element's timestamp where
    `in_event_time`, else the wall clock."""

    in_event_time: ClassVar[bool]

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Window]:
        return EventTimeTrigger() if self.in_event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TimeWindowSerializer:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self.in_event_time


class _Tumbling(TimeWindowAssigner):
    def __init__(self, size: Amount, offset: Amount = 0, window_stagger: WindowStagger = WindowStagger.ALIGNED) -> None:
        """`size` and `offset` are amounts of time (an int is ms). ValueError when abs(offset) >= size."""
        self.size_ms = to_millis(size)
        self.offset_ms = to_millis(offset)
        self.window_stagger = window_stagger
        if abs(self.offset_ms) >= self.size_ms:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy abs(offset) < size, "
                f"but offset is {self.offset_ms} ms and size {self.size_ms} ms"
            )
        self._stagger_ms: dict[int, int] = {}

    @classmethod
    def of(
        cls: type[A], size: Amount, offset: Amount | None = None, window_stagger: WindowStagger = WindowStagger.ALIGNED
    ) -> A:
        """Windows of `size`; they start at the epoch plus `offset`, in UTC, plus multiples of `size`."""
        return cls(size, 0 if offset is None else offset, window_stagger)

    def _window(self, time: int, context: WindowAssigner.WindowAssignerContext) -> list[TimeWindow]:
        offset, size = self.offset_ms, self.size_ms
        if self.window_stagger is not WindowStagger.ALIGNED:
            offset += self._stagger(context)
        start = time - (time - offset) % size
        return [TimeWindow(start, start + size)]

    def _stagger(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """The task's own shift, settled by its first element."""
        index: int = context.get_runtime_context().get_index_of_this_subtask()
        found = self._stagger_ms.get(index)
        if found is None:
            now = context.get_current_processing_time()
            found = self.window_stagger.get_stagger_offset(now - self.offset_ms, self.size_ms, index)
            self._stagger_ms[index] = found
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class TumblingEventTimeWindows(_Tumbling):
    """Windows of one size, each timestamp in exactly one.

    >>> TumblingEventTimeWindows.of(1000).assign_windows("x", 1500, None)
    [TimeWindow(start=1000, end=2000)]
    """

    in_event_time = True

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp <= NO_TIMESTAMP:
            require_timestamp(timestamp)
        return self._window(timestamp, context)


class TumblingProcessingTimeWindows(_Tumbling):
    """As `TumblingEventTimeWindows`, by the wall clock."""

    in_event_time = False

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self._window(context.get_current_processing_time(), context)


class _Sliding(TimeWindowAssigner):
    def __init__(self, size: Amount, slide: Amount, offset: Amount = 0) -> None:
        """Amounts of time (an int is ms). ValueError when abs(offset) >= slide or size <= 0."""
        self.size_ms = to_millis(size)
        self.slide_ms = to_millis(slide)
        self.offset_ms = to_millis(offset)
        if abs(self.offset_ms) >= self.slide_ms or self.size_ms <= 0:
            raise ValueError(
                f"{type(self).__name__} parameters must satisfy abs(offset) < slide and size > 0, "
                f"but offset is {self.offset_ms} ms, slide {self.slide_ms} ms and size {self.size_ms} ms"
            )

    @classmethod
    def of(cls: type[S], size: Amount, slide: Amount, offset: Amount | None = None) -> S:
        """A window of `size` starts every `slide`, at the epoch plus `offset`, in UTC. Where `slide` is larger than
        `size`, elements between the windows belong to none."""
        return cls(size, slide, 0 if offset is None else offset)

    def _windows(self, time: int) -> list[TimeWindow]:
        size, slide = self.size_ms, self.slide_ms
        last = time - (time - self.offset_ms) % slide
        return [TimeWindow(start, start + size) for start in range(last, time - size, -slide)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class SlidingEventTimeWindows(_Sliding):
    """Windows of one size that start every `slide`; a timestamp's windows are given latest first.

    >>> SlidingEventTimeWindows.of(10, 5).assign_windows("x", 12, None)
    [TimeWindow(start=10, end=20), TimeWindow(start=5, end=15)]
    """

    in_event_time = True

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp <= NO_TIMESTAMP:
            require_timestamp(timestamp)
        return self._windows(timestamp)


class SlidingProcessingTimeWindows(_Sliding):
    """As `SlidingEventTimeWindows`, by the wall clock."""

    in_event_time = False

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        return self._windows(context.get_current_processing_time())
