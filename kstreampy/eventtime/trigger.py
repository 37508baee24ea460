"""When a window's result is emitted: `Trigger`, which users may subclass, and `TriggerResult`.

In here: the abstract class and its contexts. The triggers that come with it are in `time_trigger.py`, `count_trigger.py`,
`nesting_trigger.py` and `global_window.py`. Not in here: who calls them (the window operator). Semantics: Flink's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kstreampy.eventtime.subscript import Subscriptable
from kstreampy.eventtime.window import Window

if TYPE_CHECKING:
    from kstreampy.common.metric import MetricGroup
    from kstreampy.state.descriptor import StateDescriptor

T_contra = TypeVar("T_contra", contravariant=True)
W_contra = TypeVar("W_contra", bound=Window, contravariant=True)


class TriggerResult(Enum):
    """What is to be done with a window: `FIRE` emits its result and keeps its contents, `PURGE` drops the contents,
    `FIRE_AND_PURGE` does both in this order. Firing a window that has no contents emits nothing."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        return self.value[0]

    def is_purge(self) -> bool:
        return self.value[1]


class Trigger(ABC, Subscriptable, Generic[T_contra, W_contra]):
    """Decides when the window of a key fires. One object serves all keys and windows of a task: what it must remember
    goes into `ctx.get_partitioned_state`, which is kept per key and window."""

    class TriggerContext(ABC):
        """Time and state of the key and window in hand; valid only during the call."""

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
        def register_processing_time_timer(self, time: int) -> None:
            """Asks for `on_processing_time` when the wall clock reaches `time` ms. Asking twice is asking once."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Asks for `on_event_time` when the watermark reaches `time` ms. Asking twice is asking once."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Takes the timer back; nothing happens when there is none."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Takes the timer back; nothing happens when there is none."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The state of that name, kept per key and window."""

    class OnMergeContext(TriggerContext):
        """In `on_merge`: also brings together what the windows had that were merged."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merges that state of all merged windows into the new one's. Only for list, reducing and aggregating
            state."""

    @abstractmethod
    def on_element(
        self, element: T_contra, timestamp: int, window: W_contra, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        """An element was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        """A processing-time timer of the window fired; `time` is what it was registered for."""

    @abstractmethod
    def on_event_time(self, time: int, window: W_contra, ctx: Trigger.TriggerContext) -> TriggerResult:
        """An event-time timer of the window fired; `time` is what it was registered for."""

    def can_merge(self) -> bool:
        """True if windows may be merged under it: it has `on_merge`. Session windows need that."""
        return False

    def on_merge(self, window: W_contra, ctx: Trigger.OnMergeContext) -> None:
        """Several windows became `window`. Timers for it must be registered here; those of the old windows are
        taken back by `clear`, which is called for each of them afterwards."""
        raise TypeError("This trigger does not support merging.")

    @abstractmethod
    def clear(self, window: W_contra, ctx: Trigger.TriggerContext) -> None:
        """The window is gone for good: take back timers and clear state. Not called by a purge."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
