"""What triggers, assigners and evictors are told: the time, and for a trigger the timers and the state of the window in hand.

In here: `WindowTime` and `WindowInHand`, one of each per operator and task. Not in here: the triggers (`eventtime/`), and
when they are called (`window.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.evictor import Evictor
from kstreampy.eventtime.trigger import Trigger
from kstreampy.eventtime.window import Window
from kstreampy.operators.function import RuntimeContext
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.window_state import RememberedStates
from kstreampy.serde.batch import NO_TIMESTAMP, Token
from kstreampy.serde.key import scoped
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from kstreampy.state.handle import KeyScope
from kstreampy.state.timer import Timers


class WindowTime(WindowAssigner.WindowAssignerContext, Evictor.EvictorContext):
    """What assigners and evictors are told. `watermark` is set by the operator, which has it before those behind it."""

    def __init__(self, clock: Callable[[], int], runtime_context: RuntimeContext) -> None:
        self._clock = clock
        self.watermark = NO_TIMESTAMP
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._clock()

    def get_current_watermark(self) -> int:
        return self.watermark

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context

    def get_metric_group(self) -> Any:
        return self._runtime_context.get_metrics_group()


class WindowInHand(Trigger.OnMergeContext):
    """The key and window that a trigger is asked about: `at` before each call."""

    def __init__(
        self,
        context: TaskContext,
        time: WindowTime,
        timers: tuple[Timers, Timers],
        state: tuple[RememberedStates, KeyScope],
    ) -> None:
        """`timers`: of event time and of processing time. `state`: the trigger's store, and the scope that it follows."""
        self._time = time
        self._wake_at = context.wake_at
        self._event, self._processing = timers
        self._states, self._scope = state
        self._merged: Sequence[Token] = ()
        self.key: Token = b""
        self.window: Window = _NO_WINDOW
        self.namespace = b""
        self.token: Token = b""

    def at(self, key: Token, window: Window, namespace: bytes, token: Token) -> None:
        """`token` is `scoped(key, namespace)`, and `namespace` the window's bytes."""
        self.key = key
        self.window = window
        self.namespace = namespace
        self.token = self._scope.token = token

    def merging(self, namespaces: Sequence[bytes]) -> None:
        """The windows that become the one in hand."""
        self._merged = [scoped(self.key, namespace) for namespace in namespaces]

    def get_current_processing_time(self) -> int:
        return self._time.get_current_processing_time()

    def get_current_watermark(self) -> int:
        return self._time.watermark

    def get_metric_group(self) -> Any:
        return self._time.get_metric_group()

    def register_event_time_timer(self, time: int) -> None:
        self._event.register(time, self.key, self.namespace)

    def delete_event_time_timer(self, time: int) -> None:
        self._event.delete(time, self.key, self.namespace)

    def register_processing_time_timer(self, time: int) -> None:
        self._processing.register(time, self.key, self.namespace)
        self._wake_at(time)

    def delete_processing_time_timer(self, time: int) -> None:
        self._processing.delete(time, self.key, self.namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._states.any_state(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        if not isinstance(state_descriptor, ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor):
            raise JobError(
                f"The given state descriptor does not refer to a mergeable state (MergingState): "
                f"{state_descriptor!r} is none of list, reducing and aggregating state"
            )
        self.get_partitioned_state(state_descriptor).merge_namespaces(self.token, self._merged)


class _NoWindow(Window):
    __slots__ = ()

    def max_timestamp(self) -> int:
        raise AssertionError("no window is in hand")


_NO_WINDOW = _NoWindow()
