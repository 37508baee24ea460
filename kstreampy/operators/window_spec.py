"""A windowed step as data: what the stream API drew, before an operator class is chosen for it.

In here: `WindowSpec` and the `Aggregation`s that it may fold a window's elements with. Not in here: the operators
(`window.py` for any spec, `pane.py` for the common ones), and how the user's window functions are called
(`window_function.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.operators.function import (
    AggregateFunction,
    Function,
    ReduceFunction,
    callable_of,
    own_copy,
    typed,
    where,
)

if TYPE_CHECKING:
    from kstreampy.eventtime.assigner import WindowAssigner
    from kstreampy.eventtime.evictor import Evictor
    from kstreampy.eventtime.trigger import Trigger
    from kstreampy.operators.window_function import WindowCall


class Aggregation:
    """Folds values into an accumulator. An accumulator of None is none at all: the next value begins anew.

    `may_change` says whether `add` or `merge` may change an accumulator or a value in place; where they never do,
    nothing needs to be copied.
    """

    may_change = True
    where = ""

    def create_accumulator(self) -> Any:
        """The accumulator before the first value."""
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value."""
        raise NotImplementedError

    def get_result(self, accumulator: Any) -> Any:
        """What the window gives; the accumulator stays in use."""
        return accumulator

    merge: Callable[[Any, Any], Any] | None = None
    """The accumulator of two, neither of them None; None where it cannot merge."""

    def own_copy(self) -> Aggregation:
        """A task's own, around its own copy of the user's function."""
        return self

    def functions(self) -> tuple[Function, ...]:
        """The user's function objects in it, to be opened and closed with the task."""
        return ()


class ReduceAggregation(Aggregation):
    """`reduce` as an aggregation: the accumulator is what the values were reduced to, the first one itself."""

    def __init__(self, function: Any, *, may_change: bool = True, type_info: TypeInformation | None = None) -> None:
        """A callable or a `ReduceFunction`; TypeError for anything else. What it gives is brought to `type_info`.
        `may_change=False` only for functions of our own that never change what they are given."""
        self.function = function
        self.may_change = may_change
        self.type_info = type_info
        self.where = where(function)
        self.reduce = typed(callable_of(function, ReduceFunction, "reduce"), type_info)
        self.merge = self.reduce

    def add(self, value: Any, accumulator: Any) -> Any:
        return value if accumulator is None else self.reduce(accumulator, value)

    def own_copy(self) -> ReduceAggregation:
        return ReduceAggregation(own_copy(self.function), may_change=self.may_change, type_info=self.type_info)

    def functions(self) -> tuple[Function, ...]:
        return (self.function,) if isinstance(self.function, Function) else ()


class AggregateAggregation(Aggregation):
    """An `AggregateFunction` as an aggregation."""

    def __init__(self, function: AggregateFunction) -> None:
        """TypeError for anything but an `AggregateFunction`."""
        if not isinstance(function, AggregateFunction):
            raise TypeError(f"AggregateFunction is required for aggregate, not {type(function).__name__}")
        self.function = function
        self.where = where(function)
        self.create_accumulator = function.create_accumulator  # type: ignore[method-assign]  # no call in between
        self.add = function.add  # type: ignore[method-assign]
        self.get_result = function.get_result  # type: ignore[method-assign]
        overrides = type(function).merge is not AggregateFunction.merge
        self.merge = function.merge if overrides else None

    def own_copy(self) -> AggregateAggregation:
        return AggregateAggregation(own_copy(self.function))

    def functions(self) -> tuple[Function, ...]:
        return (self.function,)


@dataclass(frozen=True)
class WindowSpec:
    """Everything that was said of a windowed step.

    With `aggregate`, a window's elements are folded as they come (or at firing, when there is an evictor), and `function`,
    if any, is given that one result; without, `function` is there and is given all elements.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any] | None
    """None: the assigner's default."""
    evictor: Evictor[Any, Any] | None
    allowed_lateness_ms: int
    late_tag_id: str | None
    """Where late elements go; None: they are dropped and counted."""
    aggregate: Aggregation | None
    function: WindowCall | None
    is_keyed: bool
    """False: all elements lie under one key that no function is shown."""
    input_type: TypeInformation | None = None
    accumulator_type: TypeInformation | None = None
    """Of `aggregate`'s accumulator; None: any value."""
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        if self.allowed_lateness_ms < 0:
            raise JobError("The allowed lateness cannot be negative.")
        if self.aggregate is None and self.function is None:
            raise AssertionError("a window needs an aggregation or a function")

    def detail(self, call: str) -> str:
        """What the plan shows of it; `call` is the method that the author called."""
        parts = [repr(self.assigner)]
        if self.trigger is not None:
            parts.append(repr(self.trigger))
        if self.evictor is not None:
            parts.append(repr(self.evictor))
        if self.allowed_lateness_ms:
            parts.append(f"lateness {self.allowed_lateness_ms} ms")
        parts += [f"{call} {part.where}" for part in (self.aggregate or self.function,) if part is not None]
        if self.aggregate is not None and self.function is not None:
            parts.append(f"then {self.function.where}")
        return ", ".join(parts)

    def trigger_in_use(self) -> Trigger[Any, Any]:
        """The one that was set, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.assigner.get_default_trigger(None)
