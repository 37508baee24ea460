"""One window for everything: `GlobalWindows`, and the triggers made for it.

Its window has no end: it is never late and never cleaned up, and fires only by a trigger. Semantics: Flink's.
"""

from __future__ import annotations

from typing import Any

from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.trigger import Trigger, TriggerResult
from kstreampy.eventtime.window import GlobalWindow, Window
from kstreampy.eventtime.window_serializer import GlobalWindowSerializer

_WINDOWS = (GlobalWindow.get(),)


class NeverTrigger(Trigger[Any, Window]):
    """Never fires: the default of `GlobalWindows`."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Window, ctx: Trigger.OnMergeContext) -> None:
        """There is nothing to merge."""

    def clear(self, window: Window, ctx: Trigger.TriggerContext) -> None:
        """There is nothing to clear."""


class EndOfStreamTrigger(NeverTrigger):
    """Fires once, when a bounded input has ended."""

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """All elements of a key in one window. Set a trigger: the default never fires."""

    def __init__(self, default_trigger: Trigger[Any, Window] | None = None) -> None:
        self._default_trigger = default_trigger or NeverTrigger()

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """It fires once, when a bounded input has ended; where the input has no end, never, and state grows."""
        return GlobalWindows(EndOfStreamTrigger())

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> tuple[GlobalWindow]:
        return _WINDOWS

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, Window]:
        return self._default_trigger

    def get_window_serializer(self) -> GlobalWindowSerializer:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
