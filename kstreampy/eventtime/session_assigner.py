"""Windows that last as long as elements keep coming: sessions, with a fixed or a dynamic gap, in both time domains.

An element opens the window from its time to its time plus the gap; windows of a key that touch or overlap become one.
Not in here: the merging of what the windows hold (the window operator). Semantics: Flink's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from kstreampy.common.time import Amount, to_millis
from kstreampy.eventtime.assigner import MergingWindowAssigner, WindowAssigner, require_timestamp
from kstreampy.eventtime.time_assigner import TimeWindowAssigner
from kstreampy.eventtime.window import TimeWindow
from kstreampy.serde.batch import NO_TIMESTAMP


class SessionWindowTimeGapExtractor(ABC):
    """How long a session stays open after an element."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap in ms (or as any other amount of time); more than 0."""


GapExtractor: TypeAlias = SessionWindowTimeGapExtractor | Callable[[Any], Amount]
"""A `SessionWindowTimeGapExtractor`, or any callable that gives the gap of an element."""


class _Sessions(TimeWindowAssigner, MergingWindowAssigner[Any, TimeWindow]):
    @abstractmethod
    def gap_of(self, element: Any) -> int:
        """The element's gap in ms, more than 0."""

    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


class _EventTimeSessions(_Sessions):
    in_event_time = True

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        if timestamp <= NO_TIMESTAMP:
            require_timestamp(timestamp)
        return [TimeWindow(timestamp, timestamp + self.gap_of(element))]


class _ProcessingTimeSessions(_Sessions):
    in_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[TimeWindow]:
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.gap_of(element))]


class _FixedGap(_Sessions):
    def __init__(self, session_gap: Amount) -> None:
        """An amount of time (an int is ms). ValueError when it is not more than 0."""
        self.gap_ms = to_millis(session_gap)
        if self.gap_ms <= 0:
            raise ValueError(f"{type(self).__name__} parameters must satisfy 0 < size, but the gap is {self.gap_ms} ms")

    def gap_of(self, element: Any) -> int:
        return self.gap_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.gap_ms})"


class _DynamicGap(_Sessions):
    def __init__(self, session_window_time_gap_extractor: GapExtractor) -> None:
        """TypeError when it is no extractor and cannot be called."""
        self._extract = _extract_of(session_window_time_gap_extractor)

    def gap_of(self, element: Any) -> int:
        """The element's gap in ms. ValueError when it is not more than 0."""
        gap = to_millis(self._extract(element))
        if gap <= 0:
            raise ValueError(f"Dynamic session time gap must satisfy 0 < gap, but the gap of {element!r} is {gap} ms")
        return gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class EventTimeSessionWindows(_FixedGap, _EventTimeSessions):
    """Sessions of event time that end when no element came for a fixed gap."""

    @staticmethod
    def with_gap(size: Amount) -> EventTimeSessionWindows:
        return EventTimeSessionWindows(size)


class ProcessingTimeSessionWindows(_FixedGap, _ProcessingTimeSessions):
    """As `EventTimeSessionWindows`, by the wall clock."""

    @staticmethod
    def with_gap(size: Amount) -> ProcessingTimeSessionWindows:
        return ProcessingTimeSessionWindows(size)


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTimeSessions):
    """Sessions of event time where each element says for how long it keeps the session open."""


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTimeSessions):
    """As `DynamicEventTimeSessionWindows`, by the wall clock."""


def _extract_of(extractor: GapExtractor) -> Callable[[Any], Amount]:
    if isinstance(extractor, SessionWindowTimeGapExtractor):
        return extractor.extract
    if callable(extractor) and not isinstance(extractor, type):
        return extractor
    raise TypeError(f"expected a SessionWindowTimeGapExtractor or a function of the element, not {extractor!r}")
