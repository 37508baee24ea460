"""What is removed from a window before or after its function runs: `Evictor`, which users may subclass, and
`CountEvictor`, `TimeEvictor`, `DeltaEvictor`.

Not in here: who calls them (the window operator). Semantics and names: Flink's Java API; PyFlink has no evictors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kstreampy.common.time import Amount, to_millis
from kstreampy.eventtime.delta import DeltaFunction, delta_of
from kstreampy.eventtime.window import Window
from kstreampy.serde.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from kstreampy.common.metric import MetricGroup

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TimestampedValue(NamedTuple):
    """An element of a window: its value, and its event time in ms (-2**63 if it has none)."""

    value: Any
    timestamp: int = NO_TIMESTAMP

    def get_value(self) -> Any:
        return self.value

    def has_timestamp(self) -> bool:
        return self.timestamp > NO_TIMESTAMP

    def get_timestamp(self) -> int:
        """ValueError when the element has no timestamp."""
        if self.timestamp <= NO_TIMESTAMP:
            raise ValueError("Record has no timestamp. Did you forget assign_timestamps_and_watermarks(...)?")
        return self.timestamp


class Evictor(ABC, Generic[T, W]):
    """Removes elements of a window that has fired: before its function runs, or afterwards. What is left is what the
    window holds from then on. With an evictor, a window keeps all its elements: nothing is aggregated as it comes."""

    class EvictorContext(ABC):
        """The time; valid only during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Wall clock in ms."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """The operator's metric group."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """The task's watermark in ms; -2**63 before the first."""

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Removes elements from the list, which is the window's in order of arrival, before the function sees them.
        `size` is the list's length when the call begins."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: W, evictor_context: Evictor.EvictorContext
    ) -> None:
        """Removes elements from the list after the function has seen them. `size` is the list's length when the call
        begins: what `evict_before` has left."""


class _OnceEvictor(Evictor[Any, Window]):
    """An evictor that does the same before the function or, with `do_evict_after`, after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: Evictor.EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Window, evictor_context: Evictor.EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


class CountEvictor(_OnceEvictor):
    """Keeps the last `max_count` elements, in order of arrival."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        """ValueError when `max_count` is negative."""
        super().__init__(do_evict_after)
        if max_count < 0:
            raise ValueError(f"CountEvictor: max_count must not be negative, but is {max_count}")
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        excess = len(elements) - self.max_count
        if excess > 0:
            del elements[:excess]

    def __repr__(self) -> str:
        return f"CountEvictor({self.max_count})"


class TimeEvictor(_OnceEvictor):
    """Keeps the elements that are less than `window_size` older than the newest one. Does nothing when the first element
    has no timestamp."""

    def __init__(self, window_size: Amount, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size_ms = to_millis(window_size)

    @staticmethod
    def of(window_size: Amount, do_evict_after: bool = False) -> TimeEvictor:
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements or not elements[0].has_timestamp():
            return
        cutoff = max(element.timestamp for element in elements) - self.window_size_ms
        elements[:] = [element for element in elements if element.timestamp > cutoff]

    def __repr__(self) -> str:
        return f"TimeEvictor({self.window_size_ms})"


class DeltaEvictor(_OnceEvictor):
    """Keeps the elements whose delta to the last one is below `threshold`."""

    def __init__(
        self,
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after)
        self.threshold = threshold
        self._delta = delta_of(delta_function)

    @staticmethod
    def of(
        threshold: float,
        delta_function: DeltaFunction | Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """`delta_function(element, last)` is a `DeltaFunction` or any callable."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if not elements:
            return
        delta, last, threshold = self._delta, elements[-1].value, self.threshold
        elements[:] = [element for element in elements if not delta(element.value, last) >= threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self.threshold})"
