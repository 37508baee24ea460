"""The functions a user writes, as operators see them: Flink's function classes and the context they are opened with.

In here: the abstract classes (re-exported under PyFlink's path `kstreampy.datastream.functions`) and how an operator gets
a plain callable out of one. Not in here: the operators that call them. Semantics: Flink's DataStream API, PyFlink's names.
"""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError

if TYPE_CHECKING:
    from kstreampy.common.metric import MetricGroup
    from kstreampy.operators.side_output import SideOutputs
    from kstreampy.state.descriptor import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from kstreampy.state.handle import ValueState
    from kstreampy.state.list_state import ListState
    from kstreampy.state.map_state import MapState
    from kstreampy.state.merging import AggregatingState, ReducingState


class KeyedStateStore(ABC):
    """Where keyed state comes from. Only functions on a `KeyedStream` may ask for state, in `open`; others get a
    `JobError`. A name has one kind and one type of state: `JobError` when it is asked for with another, also when an earlier
    run of the job stored another that cannot be read as the one asked for."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key, of any length."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A map per key, of any size."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """One value per key, made of all that were added."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """One accumulator per key, and the result of it."""


class RuntimeContext(KeyedStateStore):
    """What a function learns about where it runs; handed to `open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The operator's name."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Key groups (input partitions) of the stage: how many tasks run this operator, over all workers."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """As `get_number_of_parallel_subtasks`: a stage's tasks are its key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """The key group (partition) of this task, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often this worker has rejoined since its process started, from 0."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """`name (index+1/count)`."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A global job parameter (`ExecutionConfig.set_global_job_parameters`)."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where the function makes counters, gauges, meters and distributions of its own; they are shown at `/metrics`."""


class Function(ABC):  # noqa: B024  # what must be there is said by its subclasses
    """Root of all user functions. One instance works for one task: the object given to the stream is copied for each.
    TypeError, from Python, for an instance of a class that lacks a method it must have.

    As in Flink without object reuse, a function may change what it was given, and may change what it emitted and emit
    it again: no other step and no state sees the change.
    """

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027  # may be left out
        """Called once before the first record of a task; get state here."""

    def close(self) -> None:  # noqa: B027  # may be left out
        """Called once when the task ends, also after an error, and also when `open` itself failed."""


class MapFunction(Function):
    @abstractmethod
    def map(self, value: Any) -> Any:
        """Exactly one output per input; None is a value like any other."""


class FlatMapFunction(Function):
    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Any number of outputs: an iterable, a generator, or None for none."""


class FilterFunction(Function):
    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Keeps the value when the result is true (truthiness)."""


class ReduceFunction(Function):
    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Combines what was reduced so far with the next value into a value of the same type."""


class AggregateFunction(Function):
    """Adds values to an accumulator, and makes a result of that when asked. Accumulators are made, handed in and kept by
    the caller: `add` and `merge` may change the first they are given in place, and return what holds from then on."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of what was added so far. Leaves the accumulator as it is."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """One accumulator of all that was added to the two. Asked for by windows that merge; others do without (PyFlink always
        wants it)."""
        raise JobError(
            f"{type(self).__name__} has no merge(), which makes one accumulator of two as windows merge: define it"
        )


class MapPartitionFunction(Function):
    @abstractmethod
    def map_partition(self, values: Iterable[Any]) -> Iterable[Any] | None:
        """Any number of outputs for all values of a key, or of a task. The values can be walked over once."""


class KeySelector(Function):
    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key of a value; never None."""


class NullByteKeySelector(KeySelector):
    """Gives every value the same key."""

    def get_key(self, value: Any) -> Any:
        return 0


class Partitioner(Function):
    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The partition for a key, 0 to num_partitions - 1."""


class SinkFunction(Function):
    """A sink of the user's own, called once per record. At-least-once: after a crash records may be seen again."""

    class Context:
        """About the record being written."""

        __slots__ = ("_clock", "_timestamp", "_watermark")

        def __init__(self, clock: Callable[[], int]) -> None:
            self._clock = clock
            self._timestamp: int | None = None
            self._watermark = -(2**63)

        def timestamp(self) -> int | None:
            """Event time of the record in ms, None if it has none."""
            return self._timestamp

        def current_watermark(self) -> int:
            """The task's watermark in ms; -2**63 before the first."""
            return self._watermark

        def current_processing_time(self) -> int:
            """Wall clock in ms."""
            return self._clock()

    @abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Writes one record. An exception fails the job."""


class TimeDomain(Enum):
    """Which clock: `EVENT_TIME` follows the records' timestamps, `PROCESSING_TIME` the machine."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class TimerService:
    """A function's view of time, and on a keyed stream its timers: one per key, time and time domain. Setting one that is set
    and deleting one that is not change nothing. Times are int milliseconds.

    A timer calls the function's `on_timer` once its time has come: one of event time when the watermark comes to it, one of
    processing time when the clock does. It is part of the checkpoint, so it fires after a restart too; one whose time has
    passed by then fires at once. At the end of a bounded job all event-time timers fire; processing-time timers that are
    still pending are dropped.
    """

    __slots__ = ("_clock", "_watermark")

    def __init__(self, clock: Callable[[], int], watermark: Callable[[], int]) -> None:
        self._clock = clock
        self._watermark = watermark

    def current_processing_time(self) -> int:
        """Wall clock in ms."""
        return self._clock()

    def current_watermark(self) -> int:
        """The task's watermark in ms; -2**63 before the first."""
        return self._watermark()

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer of the current key. At or before the current watermark, it fires when that moves next. `JobError` on
        a stream without keys."""
        raise _not_keyed("Setting")

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer of the current key; `JobError` on a stream without keys."""
        raise _not_keyed("Setting")

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the current key; `JobError` on a stream without keys."""
        raise _not_keyed("Deleting")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the current key; `JobError` on a stream without keys."""
        raise _not_keyed("Deleting")


def _not_keyed(doing: str) -> JobError:
    return JobError(
        f"{doing} timers is only supported on a keyed streams. Put key_by(...) before process(...), and give it a "
        "KeyedProcessFunction"
    )


class RecordContext:
    """About the record in hand; one object per task, refilled per record, so do not keep it."""

    __slots__ = ("_headers", "_sides", "_timestamp")

    def __init__(self, sides: SideOutputs) -> None:
        self._sides = sides
        self._timestamp = -(2**63)
        self._headers: list[tuple[str, bytes | None]] | None = None

    def timestamp(self) -> int | None:
        """Event time of the record in ms; None if it has none (as in Java; PyFlink gives -2**63)."""
        return None if self._timestamp == -(2**63) else self._timestamp

    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's Kafka headers, in order; empty when it has none. (Not in PyFlink.)"""
        return list(self._headers or ())

    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Sends a value to a side output, with this context's timestamp; the same as `yield output_tag, value`.
        It is dropped unless `get_side_output` asks for the tag. TypeError for anything but an `OutputTag`.
        (Not in PyFlink, which has the `yield` only.)"""
        self._sides.add(output_tag, value, self._timestamp)


class ProcessFunction(Function):
    class Context(RecordContext):
        __slots__ = ("_timer_service",)

        def __init__(self, timer_service: TimerService, sides: SideOutputs) -> None:
            super().__init__(sides)
            self._timer_service = timer_service

        def timer_service(self) -> TimerService:
            return self._timer_service

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Any number of outputs: an iterable, a generator, or None for none."""


class KeyedProcessFunction(Function):
    class Context(ProcessFunction.Context):
        __slots__ = ("_current_key",)

        def __init__(self, timer_service: TimerService, current_key: Callable[[], Any], sides: SideOutputs) -> None:
            super().__init__(timer_service, sides)
            self._current_key = current_key

        def get_current_key(self) -> Any:
            """The key of the record (or the timer) in hand."""
            return self._current_key()

    class OnTimerContext(Context):
        """About the timer in hand: `timestamp()` is its time. One object per task, refilled per timer."""

        __slots__ = ("_domain",)

        _domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """Of the timer."""
            return self._domain

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Any number of outputs: an iterable, a generator, or None for none."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer has come to its time, in ms; its key is the current one, also for state. Any number of outputs, or None.
        They get the timer's timestamp if it is one of event time, and none if it is one of processing time."""
        return None


def callable_of(function: Any, cls: type[Function], method: str) -> Callable[..., Any]:
    """The plain callable behind a user's function: a bound method of an instance of `cls`, or the callable itself.
    TypeError for anything else, `async def` among it."""
    if isinstance(function, cls):
        called: Callable[..., Any] = getattr(function, method)
        refuse_async(called, method)
        return called
    is_class = isinstance(function, type) and issubclass(function, Function)
    if callable(function) and not isinstance(function, Function) and not is_class:
        refuse_async(function, method)
        return function  # type: ignore[no-any-return]  # narrowed to a callable of unknown signature
    hint = f". Did you forget the brackets: {function.__name__}()?" if is_class else ""
    raise TypeError(f"{method}: expected a function or a {cls.__name__} instance, not {function!r}{hint}")


def refuse_async(function: Any, method: str) -> None:
    """TypeError for an `async def`: nobody would await what it returns, which is true for every filter and written nowhere by
    a sink."""
    while isinstance(function, functools.partial):
        function = function.func
    for called in (function, getattr(type(function), "__call__", None)):  # noqa: B004  # what a call of it runs
        if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
            raise TypeError(
                f"{method}: {where(function)} is async, and its result would not be awaited: use AsyncDataStream"
            )


def own_copy(function: Any) -> Any:
    """A task's own instance of a function object. Plain functions and lambdas are shared."""
    if not isinstance(function, Function):
        return function
    try:
        return copy.deepcopy(function)
    except Exception as error:
        raise JobError(
            f"{type(function).__name__} cannot be copied for a task ({error}): "
            "create connections, locks and the like in open(), not in __init__()"
        ) from error


def typed(function: Callable[..., Any], type_info: TypeInformation | None) -> Callable[..., Any]:
    """The function, with results that are brought to the declared type; itself where there is none."""
    if type_info is None:
        return function
    coerce = type_info.coercer()
    return lambda *values: coerce(function(*values))


def settle(
    produced: Iterable[Any],
    emit: Callable[[Any], None],
    output: Callable[[OutputTag, Any], None] | None = None,
) -> None:
    """Emits everything that was produced, as it was when it came: what can be changed in place is copied at once.

    A pair of an `OutputTag` and a value goes to `output` (a context's), so never to the main stream. TypeError for a tag
    with no value or several, where there is no `output`, and for what is no iterable."""
    immutable = IMMUTABLE_TYPES
    try:
        for value in produced:
            kind = type(value)
            if kind in immutable or (kind is tuple and immutable.issuperset(map(type, value))):
                emit(value)
            elif kind is tuple and isinstance(value[0], OutputTag):
                _to_side(value, output)
            else:
                emit(detached(value))
    except TypeError:
        if hasattr(produced, "__iter__"):
            raise
        raise TypeError(
            f"{type(produced).__name__!r} object is not iterable: yield results, or return a list of them, or None"
        ) from None


def _to_side(pair: tuple[Any, ...], output: Callable[[OutputTag, Any], None] | None) -> None:
    if output is None:
        raise TypeError(f"{pair[0]!r} was emitted, but only process functions have side outputs: use process(...)")
    if len(pair) != 2:
        raise TypeError(f"`yield tag, value` takes one value, but {pair[0]!r} came with {len(pair) - 1}")
    output(*pair)


def detached(value: Any) -> Any:
    """A copy that shares nothing changeable with `value`; what cannot be copied (a generator, a lock) stays itself."""
    try:
        return copy_value(value)
    except Exception:
        return value


def is_rich(function: Any) -> bool:
    """True if the function overrides `open`, and so may use state."""
    return isinstance(function, Function) and type(function).open is not Function.open


@functools.lru_cache(maxsize=256)
def _line_of(target: Any) -> int:
    """Where its source begins. Remembered, since the whole file is parsed for it, and every task asks."""
    return inspect.getsourcelines(target)[1]


def given(function: object) -> str:
    """What was given where an instance of another class of functions is needed, for messages."""
    if isinstance(function, type):
        return f"the class {function.__name__} (did you forget the brackets: {function.__name__}()?)"
    return where(function) if callable(function) or isinstance(function, Function) else repr(function)


def where(function: Any) -> str:
    """`name (file:line)` of a user's function or function class, for messages; its name when there is no source."""
    while isinstance(function, functools.partial):
        function = function.func
    target = inspect.unwrap(function)
    if isinstance(target, Function):
        target = type(target)
    name = getattr(target, "__qualname__", type(function).__qualname__)
    code = getattr(target, "__code__", None)
    if code is not None:
        return f"{name} ({code.co_filename}:{code.co_firstlineno})"
    try:
        return f"{name} ({inspect.getsourcefile(target)}:{_line_of(target)})"
    except (OSError, TypeError):
        return str(name)
