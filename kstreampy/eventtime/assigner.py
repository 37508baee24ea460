"""Which windows an element goes into: `WindowAssigner`, which users may subclass, and `MergingWindowAssigner`.

In here: the abstract classes and their contexts. The assigners that come with it are in `time_assigner.py` (tumbling and
sliding), `session_assigner.py`, `count_assigner.py`, `calendar_window.py` and `global_window.py`. Semantics: Flink's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

from kstreampy.common.serializer import TypeSerializer
from kstreampy.eventtime.subscript import Subscriptable
from kstreampy.eventtime.trigger import Trigger
from kstreampy.eventtime.window import Window
from kstreampy.serde.batch import NO_TIMESTAMP

T = TypeVar("T")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2")


class WindowAssigner(ABC, Subscriptable, Generic[T, W]):
    """Assigns windows to elements. One object may serve several tasks, so an assigner keeps nothing between calls but
    what can be found out again; state per key comes from `context.get_runtime_context()`."""

    class WindowAssignerContext(ABC):
        """The clock and the state of the task."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Wall clock in ms."""

        @abstractmethod
        def get_runtime_context(self) -> Any:
            """The operator's `RuntimeContext`; its state is that of the element's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """The windows of an element, none to many; the caller does not change the collection. `timestamp` is event time
        in ms, -2**63 if it has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """The trigger that is used when none is set. `env` is there for PyFlink's sake and not used."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """How its windows become bytes."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """True if the windows are of event time, so that the watermark makes them late and cleans them up."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may be merged as elements come."""

    class MergeCallback(ABC, Generic[W2]):
        """Takes what `merge_windows` found."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """The windows `to_be_merged` become `merge_result`."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Tells `callback` which of the windows are to become one."""


def require_timestamp(timestamp: int) -> None:
    """ValueError for an element that has no event time."""
    if timestamp <= NO_TIMESTAMP:
        raise ValueError(
            "Record has Long.MIN_VALUE timestamp (= no timestamp marker): windows of event time need one. "
            "Did you forget assign_timestamps_and_watermarks(...), or a strategy's with_timestamp_assigner(...), or do "
            "you want windows of processing time?"
        )
