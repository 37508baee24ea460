"""Windows of so many elements of a key, numbered from 0: PyFlink's `CountTumblingWindowAssigner` and
`CountSlidingWindowAssigner`.

Only full windows fire. Unlike PyFlink's, the default trigger drops a window's contents when it fires, since no other
element will come into it: the results are the same, and state does not grow. Not in here: `count_window` of a stream,
which is made of a global window, a `CountTrigger` and a `CountEvictor`, as in Flink.
"""

from __future__ import annotations

from typing import Any

from kstreampy.common.typeinfo import Types
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.count_trigger import CountTrigger, check_count
from kstreampy.eventtime.nesting_trigger import PurgingTrigger
from kstreampy.eventtime.trigger import Trigger
from kstreampy.eventtime.window import CountWindow, Window
from kstreampy.eventtime.window_serializer import CountWindowSerializer
from kstreampy.state.descriptor import ValueStateDescriptor
from kstreampy.state.handle import ValueState


class _CountAssigner(WindowAssigner[Any, CountWindow]):
    """The number of a key's elements lies in its state."""

    def __init__(self, window_size: int, state_name: str) -> None:
        self.size = check_count(f"{type(self).__name__}: the size", window_size)
        self._counter = ValueStateDescriptor(state_name, Types.LONG())

    def _count(self, context: WindowAssigner.WindowAssignerContext) -> int:
        """How many elements of the key came before this one."""
        state: ValueState[int] = context.get_runtime_context().get_state(self._counter)
        count = state.value() or 0
        state.update(count + 1)
        return count

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Window]:
        return PurgingTrigger(CountTrigger(self.size))

    def get_window_serializer(self) -> CountWindowSerializer:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountAssigner):
    """Window 0 has the first `window_size` elements of a key, window 1 the next, and so on."""

    def __init__(self, window_size: int) -> None:
        """ValueError when the size is less than 1."""
        super().__init__(window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner:
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        return [CountWindow(self._count(context) // self.size)]

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(_CountAssigner):
    """Window i has `window_size` elements of a key from number i * `window_slide` on; where the slide is larger than the
    size, elements in between belong to none."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        """ValueError when one of them is less than 1."""
        super().__init__(window_size, "slide-count-assigner")
        self.slide = check_count(f"{type(self).__name__}: the slide", window_slide)

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner:
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> list[CountWindow]:
        count = self._count(context)
        first = max(0, (count - self.size) // self.slide + 1)
        return [CountWindow(number) for number in range(count // self.slide, first - 1, -1)]

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"
