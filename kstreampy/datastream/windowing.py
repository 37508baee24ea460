"""What windows of a keyed stream and of a whole stream have in common: how they are set, and what may follow.

In here: `Windowing`. Not in here: the two kinds (`windowed_stream.py`, `all_windowed_stream.py`), and what happens to an
element (`operators/window.py`). Names and semantics are PyFlink's; what is marked "not in PyFlink" is Flink's (Java).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.time import Amount, to_millis
from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import MergingWindowAssigner, WindowAssigner
from kstreampy.eventtime.count_trigger import CountTrigger
from kstreampy.eventtime.evictor import CountEvictor, Evictor
from kstreampy.eventtime.nesting_trigger import PurgingTrigger
from kstreampy.eventtime.time_assigner import SlidingEventTimeWindows, TumblingEventTimeWindows
from kstreampy.eventtime.trigger import Trigger
from kstreampy.operators.field import Field, Position
from kstreampy.operators.function import AggregateFunction, ReduceFunction
from kstreampy.operators.keyed import Combine, extreme_by, extreme_of
from kstreampy.operators.operator import Operator
from kstreampy.operators.pane_fold import SumAggregation
from kstreampy.operators.window_choice import window_operator
from kstreampy.operators.window_function import WindowCall
from kstreampy.operators.window_spec import AggregateAggregation, Aggregation, ReduceAggregation, WindowSpec

if TYPE_CHECKING:
    from kstreampy.datastream.keyed_stream import KeyedStream
    from kstreampy.datastream.stream import DataStream
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment

Windows = TypeVar("Windows", bound="Windowing[Any, Any]")
A = TypeVar("A")
P = TypeVar("P")


class Windowing(Generic[A, P]):
    """A stream cut into windows. A view: each operation on it is an operator of its own. `A` and `P` are the functions that
    `apply` and `process` take."""

    _kind: ClassVar[str]
    _is_keyed: ClassVar[bool]
    _apply_kind: ClassVar[type]
    _process_kind: ClassVar[type]

    def __init__(self, keyed_stream: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            hint = "; did you forget .of(...)?" if isinstance(window_assigner, type) else ""
            raise TypeError(f"{self._kind} takes a WindowAssigner, not {window_assigner!r}{hint}")
        self._keyed = keyed_stream
        self._assigner = window_assigner
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor[Any, Any] | None = None
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream was drawn in."""
        return self._keyed.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The declared type of the elements."""
        return self._keyed.get_type()

    # How windows are set

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Decides when windows fire, instead of the assigner's default. TypeError for anything but a `Trigger`, and for one
        that cannot merge where windows do."""
        if not isinstance(trigger, Trigger):
            raise TypeError(f"trigger: a Trigger is required, not {trigger!r}")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError("A merging window assigner cannot be used with a trigger that does not support merging.")
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Removes elements before or after the function runs. Windows then keep all their elements, and `reduce` and the
        like are computed when a window fires. (Not in PyFlink.)"""
        if not isinstance(evictor, Evictor):
            raise TypeError(f"evictor: an Evictor is required, not {evictor!r}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: Amount) -> Self:
        """How long (int: ms) a window takes elements after the watermark has passed its end; each one fires it again.
        Without effect on windows of processing time. ValueError when it is negative."""
        lateness_ms = to_millis(time_ms)
        if lateness_ms < 0:
            raise ValueError("The allowed lateness cannot be negative.")
        self._lateness_ms = lateness_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Elements that no window took because they are late go to this side output of the result, with their timestamps,
        instead of being dropped and counted."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"side_output_late_data takes an OutputTag, not {output_tag!r}")
        self._late_tag = output_tag
        return self

    # What may follow

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: A | P | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Each window gives what its elements are reduced to, as they come: the first one itself, if there is only one.
        What the function gives is brought to the stream's declared type, if there is one. With a window function, that is
        given this one value. TypeError for what is neither callable nor a `ReduceFunction`, and for another kind of window
        function than the stream's."""
        input_type = self._keyed._node.type_info
        aggregate = ReduceAggregation(reduce_function, type_info=input_type)
        if window_function is None and output_type is None:
            return self._draw("reduce", aggregate, None, (input_type, input_type), coerce=False)
        return self._draw("reduce", aggregate, self._any_call(window_function), (input_type, output_type))

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: A | P | None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Each window gives the function's result for its elements, which are added as they come. With a window function,
        that is given this one result. `accumulator_type` is what is kept in state. TypeError for anything but an
        `AggregateFunction`, and for another kind of window function than the stream's; `JobError` where windows merge and
        the function has no `merge`."""
        aggregate = AggregateAggregation(aggregate_function)
        if accumulator_type is not None:
            require_type(accumulator_type, "aggregate, accumulator type")
        if isinstance(self._assigner, MergingWindowAssigner) and self._evictor is None and aggregate.merge is None:
            raise JobError(f"{self._assigner!r} merges windows, so {aggregate.where} needs a merge(acc_a, acc_b)")
        return self._draw("aggregate", aggregate, self._any_call(window_function), (accumulator_type, output_type))

    def apply(self, window_function: A, output_type: TypeInformation | None = None) -> DataStream:
        """Calls the function with all elements of a window that fires, in order of arrival. TypeError for another kind of
        function than the stream's."""
        return self._draw("apply", None, self._call(window_function, self._apply_kind), (None, output_type))

    def process(self, process_window_function: P, output_type: TypeInformation | None = None) -> DataStream:
        """As `apply`, with a context: time, per-window and global state, side outputs."""
        return self._draw("process", None, self._call(process_window_function, self._process_kind), (None, output_type))

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Each window gives its first element with the field replaced by the sum, of anything with `+`. Fields as in
        `KeyedStream.sum`. (Not in PyFlink.)"""
        return self._by_field("sum", SumAggregation(Field(position_to_sum)), position_to_sum)

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Each window gives its first element with the field replaced by the minimum. (Not in PyFlink.)"""
        combine = extreme_of(Field(position_to_min), largest=False)
        return self._by_field("min", _own(combine), position_to_min)

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Each window gives its first element with the field replaced by the maximum. (Not in PyFlink.)"""
        combine = extreme_of(Field(position_to_max), largest=True)
        return self._by_field("max", _own(combine), position_to_max)

    def min_by(self, position_to_min_by: Position = 0, first: bool = True) -> DataStream:
        """Each window gives the element that holds the minimum; of equal ones the first, or with `first=False` the last.
        (Not in PyFlink.)"""
        combine = extreme_by(Field(position_to_min_by), largest=False, first=first)
        return self._by_field("min_by", _own(combine), position_to_min_by)

    def max_by(self, position_to_max_by: Position = 0, first: bool = True) -> DataStream:
        """Each window gives the element that holds the maximum; of equal ones the first, or with `first=False` the last.
        (Not in PyFlink.)"""
        combine = extreme_by(Field(position_to_max_by), largest=True, first=first)
        return self._by_field("max_by", _own(combine), position_to_max_by)

    # How it is drawn

    def _by_field(self, call: str, aggregate: Aggregation, position: Position) -> DataStream:
        aggregate.where = f"field {position!r}"
        input_type = self._keyed._node.type_info
        return self._draw(call, aggregate, None, (input_type, input_type), coerce=False)

    def _any_call(self, function: Any) -> WindowCall | None:
        if function is None:
            return None
        return self._call(function, self._apply_kind, self._process_kind)

    def _call(self, function: Any, *kinds: type) -> WindowCall:
        if not isinstance(function, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            hint = f": did you forget the brackets, {function.__name__}()?" if isinstance(function, type) else ""
            raise TypeError(f"{names} is required for this window, not {function!r}{hint}")
        return WindowCall(function)

    def _draw(
        self,
        call: str,
        aggregate: Aggregation | None,
        function: WindowCall | None,
        types: tuple[TypeInformation | None, TypeInformation | None],
        *,
        coerce: bool = True,
    ) -> DataStream:
        """`types`: of the accumulator, and of the results."""
        spec = WindowSpec(
            self._assigner,
            self._trigger,
            self._evictor,
            self._lateness_ms,
            None if self._late_tag is None else self._late_tag.tag_id,
            aggregate,
            function,
            self._is_keyed,
            self._keyed._node.type_info,
            *types,
        )

        def build(step: str, uid: str) -> Operator:
            return window_operator(step, uid, spec)

        keyed = self._keyed
        return keyed._step(
            self._kind, build, types[1], coerce=coerce, stateful=True, timers=True, detail=spec.detail(call)
        )


def _own(combine: Combine) -> ReduceAggregation:
    """One of our own functions, which change nothing."""
    return ReduceAggregation(combine, may_change=False)


def count_windows(windows: Windows, size: int, slide: int) -> Windows:
    """What `count_window` makes of a global window. TypeError or ValueError for what is no count."""
    if slide == 0:
        return windows.trigger(PurgingTrigger.of(CountTrigger.of(size)))
    return windows.evictor(CountEvictor.of(CountTrigger.of(size).max_count)).trigger(CountTrigger.of(slide))


def time_windows(size: Amount, slide: Amount | None) -> WindowAssigner[Any, Any]:
    """What `time_window` assigns."""
    return TumblingEventTimeWindows.of(size) if slide is None else SlidingEventTimeWindows.of(size, slide)


def warn_of_time_window(call: str, instead: str) -> None:
    """Called by a method of the public API directly, so that the warning is told of the author's line."""
    warnings.warn(
        f"{call} is deprecated: use {instead}(TumblingEventTimeWindows.of(size)) or "
        f"{instead}(SlidingEventTimeWindows.of(size, slide))",
        DeprecationWarning,
        stacklevel=3,
    )
