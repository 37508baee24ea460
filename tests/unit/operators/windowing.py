"""A windowed step in a task of its own: events in, results out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstreampy.common.output_tag import OutputTag
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_choice import window_operator
from kstreampy.operators.window_function import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowCall,
    WindowFunction,
)
from kstreampy.operators.window_spec import ReduceAggregation, WindowSpec
from kstreampy.serde.batch import NO_TIMESTAMP, Batch
from kstreampy.serde.key import tokens
from tests.unit.operators.standin import Collecting, context

LATE = OutputTag("late")


class Listing(WindowFunction):
    """(key, window, values) of every firing."""

    def apply(self, key, window, inputs):
        yield key, window, list(inputs)


class ListingAll(AllWindowFunction):
    """(window, values) of every firing."""

    def apply(self, window, inputs):
        return [(window, list(inputs))]


def concat(a: Any, b: Any) -> Any:
    return a + b


def spec(assigner: Any, trigger: Any = None, **changes: Any) -> WindowSpec:
    """With the function `Listing` on a keyed stream, unless `changes` says otherwise. `function` and `reduce` are the user's."""
    function = changes.pop("function", None)
    reduce = changes.pop("reduce", None)
    if reduce is not None:
        changes["aggregate"] = ReduceAggregation(reduce)
    if function is None and changes.get("aggregate") is None:
        function = Listing()
    settings: dict[str, Any] = {
        "assigner": assigner,
        "trigger": trigger,
        "evictor": None,
        "allowed_lateness_ms": 0,
        "late_tag_id": None,
        "aggregate": None,
        "function": None if function is None else WindowCall(function),
        "is_keyed": not isinstance(function, AllWindowFunction | ProcessAllWindowFunction),
        **changes,
    }
    return WindowSpec(**settings)


class Step:
    """A windowed step: `element`, `watermark` and `time` return what each of them made it emit."""

    def __init__(self, spec: WindowSpec, cls: Any = window_operator, tags: Iterable[str] = ("late",)) -> None:
        self.now = 0
        self.task = context(clock=lambda: self.now)
        self.operator: WindowOperator = cls("the windows", "window-1", spec)
        self.main = Collecting()
        self.operator.out = self.main
        self.sides = {tag: Collecting() for tag in tags}
        self.operator.sides = self.sides
        self.operator.open(self.task)

    def element(self, value: Any, timestamp: int = NO_TIMESTAMP, key: Any = "k") -> list[Any]:
        return self.elements([(value, timestamp, key)])

    def elements(self, rows: Iterable[tuple[Any, int, Any]]) -> list[Any]:
        """All of them in one batch."""
        values, timestamps, keys = (list(column) for column in zip(*rows, strict=True))
        self.operator.process(Batch(values, timestamps, tokens(keys)))
        return self.taken()

    def watermark(self, watermark: int) -> list[Any]:
        self.task.watermark = watermark
        self.operator.advance(watermark)
        return self.taken()

    def time(self, now: int) -> list[Any]:
        """The clock comes to `now`; the operator is woken as the driver would, at each time that it asked for."""
        while self.task.wake_at_ms <= now:
            self.now = max(self.now, self.task.wake_at_ms)
            self.task.wake_at_ms = 2**63 - 1
            self.operator.wake(self.now)
        self.now = now
        return self.taken()

    def taken(self) -> list[Any]:
        """What was emitted since it was last asked."""
        values = self.main.values
        self.stamps = self.main.timestamps
        self.keys = self.main.keys
        self.main.batches.clear()
        return values

    def late(self, tag: str = "late") -> list[tuple[Any, int]]:
        side = self.sides[tag]
        found = list(zip(side.values, side.timestamps, strict=True))
        side.batches.clear()
        return found

    @property
    def state(self) -> Any:
        return self.task.state

    def kept(self) -> list[Any]:
        """The entries and timers that state would hold after a checkpoint."""
        dirty = self.state.take_dirty()
        return [key for key, data in [*dirty.entries, *dirty.timers] if data is not None]


class Recording(ProcessWindowFunction):
    """(key, window, values); `clear`s are remembered on the side output "cleared"."""

    CLEARED = OutputTag("cleared")

    def process(self, key, context, elements):
        yield key, context.window(), list(elements)

    def clear(self, context):
        context.output(self.CLEARED, context.window())
