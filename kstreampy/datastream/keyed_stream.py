"""Streams by key, as `job.py` draws them.

In here: `KeyedStream`. What it has in common with other streams is in `stream.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, Self, overload

from kstreampy.common.time import Amount
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.types import Row
from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.datastream.interval_join import IntervalJoin as Joining
from kstreampy.datastream.interval_join import IntervalJoined
from kstreampy.datastream.key_selection import KeySelection, selection
from kstreampy.datastream.partition_windowed_stream import PartitionWindowedStream
from kstreampy.datastream.queryable_state import QueryableStateStream, queryable_node
from kstreampy.datastream.sink import add_sink_node
from kstreampy.datastream.stream import DataStream
from kstreampy.datastream.windowed_stream import WindowedStream
from kstreampy.datastream.windowing import count_windows, time_windows, warn_of_time_window
from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.global_window import GlobalWindows
from kstreampy.graph.node import KeyNode
from kstreampy.operators.field import Field, Position
from kstreampy.operators.function import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
    callable_of,
    given,
    is_rich,
    where,
)
from kstreampy.operators.keyed import (
    Combine,
    ReduceOperator,
    RollingOperator,
    SumOperator,
    extreme_by,
    extreme_of,
)
from kstreampy.operators.keyed_function import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
)
from kstreampy.operators.timer import TimedProcessOperator, has_on_timer
from kstreampy.state.descriptor import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from kstreampy.state.layout import check_name


class KeyedStream(DataStream):
    """A stream by key. A view: each operator on it is a stage of its own, with its own repartition topic and state, unless
    the stream is partitioned already (`DataStreamUtils.reinterpret_as_keyed_stream`)."""

    IntervalJoin = Joining
    IntervalJoined = IntervalJoined

    def __init__(self, origin: DataStream, chosen: KeySelection, *, in_place: bool = False) -> None:
        if not in_place:
            origin = _not_keyed(origin)
        node = KeyNode(
            "reinterpret" if in_place else "key_by",
            (origin._input(),),
            origin._node.type_info,
            select=chosen.select,
            where=chosen.where,
            key_type=chosen.key_type,
            in_place=in_place,
        )
        super().__init__(origin._env, origin._add(node))
        self._origin = origin
        self._chosen = chosen

    @overload
    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream: ...
    @overload
    def key_by(self, key_selector: Position, *more: Position) -> KeyedStream: ...
    def key_by(self, key_selector: Any, *more: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Replaces the key; keys never nest."""
        return KeyedStream(self._origin, selection("key_by", key_selector, more, key_type))

    def get_key_selector(self) -> Any:
        """What was given to `key_by`. (Not in PyFlink.)"""
        return self._chosen.given

    def get_key_type(self) -> TypeInformation | None:
        """The declared type of the key, None if there is none. (Not in PyFlink.)"""
        return self._chosen.key_type

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """As on a `DataStream`; a `MapFunction` may use keyed state, got in `open`."""
        callable_of(func, MapFunction, "map")
        if not is_rich(func):
            return super().map(func, output_type)

        def build(step: str, uid: str) -> KeyedMapOperator:
            return KeyedMapOperator(step, uid, func)

        return self._step("map", build, output_type, stateful=True, detail=where(func))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """As on a `DataStream`; a `FlatMapFunction` may use keyed state, got in `open`."""
        callable_of(func, FlatMapFunction, "flat_map")
        if not is_rich(func):
            return super().flat_map(func, output_type)

        def build(step: str, uid: str) -> KeyedFlatMapOperator:
            return KeyedFlatMapOperator(step, uid, func)

        return self._step("flat_map", build, output_type, stateful=True, detail=where(func))

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """As on a `DataStream`; a `FilterFunction` may use keyed state, got in `open`."""
        callable_of(func, FilterFunction, "filter")
        if not is_rich(func):
            return super().filter(func)

        def build(step: str, uid: str) -> KeyedFilterOperator:
            return KeyedFilterOperator(step, uid, func)

        return self._step("filter", build, self._node.type_info, coerce=False, stateful=True, detail=where(func))

    def process(
        self, func: KeyedProcessFunction | ProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per value, with a context, keyed state and timers (define `on_timer`). TypeError for anything
        else.

        Deprecated: a `ProcessFunction`; it may use state and timers too, and its context is that of a
        `KeyedProcessFunction`.
        """
        if isinstance(func, ProcessFunction):
            warnings.warn(
                "ProcessFunction on a KeyedStream: use KeyedProcessFunction", DeprecationWarning, stacklevel=2
            )
        elif not isinstance(func, KeyedProcessFunction):
            raise TypeError(f"KeyedProcessFunction is required for KeyedStream.process, not {given(func)}")

        timed = has_on_timer(func)

        def build(step: str, uid: str) -> KeyedProcessOperator:
            return TimedProcessOperator(step, uid, func) if timed else KeyedProcessOperator(step, uid, func)

        return self._step("process", build, output_type, stateful=True, timers=timed, detail=where(func))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Rolling: emits, for every record, what its key has been reduced to. The first value of a key is emitted as it is,
        without a call. `func(so far, value)` may change what it is given; what it gives is brought to the stream's declared
        type, if there is one. A result of None ends what was kept: the key begins anew with its next value."""
        callable_of(func, ReduceFunction, "reduce")
        type_info = self._node.type_info

        def build(step: str, uid: str) -> ReduceOperator:
            return ReduceOperator(step, uid, func, type_info)

        return self._step("reduce", build, type_info, coerce=False, stateful=True, detail=where(func))

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Rolling sum of a field, by position, name, dotted path or `*` (the value itself): anything with `+`. The other
        fields are those of the key's first value."""
        field = Field(position_to_sum)
        type_info = self._node.type_info

        def build(step: str, uid: str) -> SumOperator:
            return SumOperator(step, uid, field, type_info)

        return self._step("sum", build, type_info, coerce=False, stateful=True, detail=f"field {position_to_sum!r}")

    def min(self, position_to_min: Position = 0) -> DataStream:
        """Rolling minimum of a field. Only the field is the minimum: the other fields are those of the key's first value."""
        return self._rolling("min", extreme_of(Field(position_to_min), largest=False), position_to_min)

    def max(self, position_to_max: Position = 0) -> DataStream:
        """Rolling maximum of a field. Only the field is the maximum: the other fields are those of the key's first value."""
        return self._rolling("max", extreme_of(Field(position_to_max), largest=True), position_to_max)

    def min_by(self, position_to_min_by: Position = 0, first: bool = True) -> DataStream:
        """Rolling: the whole value that holds the minimum; of equal ones the first, or with `first=False` the last.
        (`first` is not in PyFlink.)"""
        combine = extreme_by(Field(position_to_min_by), largest=False, first=first)
        return self._rolling("min_by", combine, position_to_min_by)

    def max_by(self, position_to_max_by: Position = 0, first: bool = True) -> DataStream:
        """Rolling: the whole value that holds the maximum; of equal ones the first, or with `first=False` the last.
        (`first` is not in PyFlink.)"""
        combine = extreme_by(Field(position_to_max_by), largest=True, first=first)
        return self._rolling("max_by", combine, position_to_max_by)

    def _rolling(self, kind: str, combine: Combine, position: Position) -> DataStream:
        type_info = self._node.type_info

        def build(step: str, uid: str) -> RollingOperator:
            return RollingOperator(step, uid, combine, type_info)

        return self._step(kind, build, type_info, coerce=False, stateful=True, detail=f"field {position!r}")

    def interval_join(self, other_stream: KeyedStream) -> Joining:
        """Pairs of an element of this stream and one of `other_stream`, of one key, whose event times lie within an interval
        of each other: `.between(lower, upper).process(function)`. TypeError for anything but a `KeyedStream`; `JobError`
        for streams of two environments, and where the declared types of the keys differ. (Not in PyFlink.)"""
        return Joining(self, other_stream)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Cuts each key's elements into windows (`kstreampy.datastream.window`). TypeError for anything but a
        `WindowAssigner`."""
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of `size` elements of a key; what is short of that at the end gives no result. With `slide`, every
        `slide`-th element gives a result of the last `size`, or of all where there were not so many yet (as in Java;
        `CountSlidingWindowAssigner` gives full windows only). The window that functions see is the `GlobalWindow`, and
        results have the timestamp of their last element."""
        return count_windows(self.window(GlobalWindows.create()), size, slide)

    def time_window(self, size: Amount, slide: Amount | None = None) -> WindowedStream:
        """Deprecated: `window(TumblingEventTimeWindows.of(size))` or `window(SlidingEventTimeWindows.of(size, slide))`.
        (Not in PyFlink.)"""
        warn_of_time_window("time_window", "window")
        return self.window(time_windows(size, slide))

    def full_window_partition(self) -> PartitionWindowedStream:
        """All elements of a key as one window, which ends with the input. (Not in PyFlink.)"""
        return PartitionWindowedStream(self, is_keyed=True)

    def as_queryable_state(
        self, queryable_state_name: str, state_descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None
    ) -> QueryableStateStream:
        """Keeps the latest value of each key, or with a `ReducingStateDescriptor` what all of them were reduced to, under a
        public name that anybody can ask the workers for (`GET /state/<name>/<key>`). A value of None removes what is kept.
        Nothing follows. `JobError`, when the job is made, for a name that another state has. Its uid is
        `queryable-<name>` unless it is given another. (Not in PyFlink.)

        Deprecated: all keyed state can be asked for, as `<uid>/<state name>`.
        """
        warnings.warn(
            "as_queryable_state: all keyed state can be asked for, as <uid>/<state name>",
            DeprecationWarning,
            stacklevel=2,
        )
        descriptor: StateDescriptor | None = state_descriptor
        if descriptor is None:
            descriptor = ValueStateDescriptor(check_name(queryable_state_name), self.get_type())
        node = queryable_node(self._input(), queryable_state_name, descriptor)
        self._add(node)
        return QueryableStateStream(node, queryable_state_name, descriptor)

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """As on a `DataStream`; the function may use keyed state, got in `open`."""
        keyed = is_rich(sink_func)
        return DataStreamSink(self._add(add_sink_node(self._input(), sink_func, keyed=keyed)))

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """As on a `DataStream`; results are `Row(f0=key, f1=value)` in the order of the input, as in PyFlink."""
        select = self._chosen.select

        @wraps(self._chosen.given, assigned=(), updated=())
        def pair(value: Any) -> Row:
            return Row(f0=select(value), f1=value)

        pairs = _not_keyed(self).map(pair)
        if limit is None:
            return pairs.execute_and_collect(job_execution_name)
        return pairs.execute_and_collect(job_execution_name, limit)

    def broadcast(self, *args: Any) -> NoReturn:
        self._check_placing()

    def _check_placing(self) -> NoReturn:
        raise JobError(
            "Cannot override partitioning for KeyedStream. Records of a key go to one task: place the stream before key_by, "
            "or what an operator on it gives"
        )

    def _without_key(self) -> DataStream:
        return _not_keyed(self)

    def cache(self) -> NoReturn:
        raise self._no_operator("cache")

    def _no_operator(self, call: str) -> JobError:
        return JobError(
            f"{call} cannot be called on a KeyedStream: it is a view, not an operator; call it on the stream before or after"
        )

    def get_name(self) -> str:
        raise self._no_operator("get_name")

    def name(self, name: str) -> Self:
        raise self._no_operator("name")

    def uid(self, uid: str) -> Self:
        raise self._no_operator("uid")

    def set_uid_hash(self, uid_hash: str) -> Self:
        raise self._no_operator("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> Self:
        raise self._no_operator("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        raise self._no_operator("set_max_parallelism")

    def force_non_parallel(self) -> Self:
        raise self._no_operator("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        raise self._no_operator("set_buffer_timeout")

    def start_new_chain(self) -> Self:
        raise self._no_operator("start_new_chain")

    def disable_chaining(self) -> Self:
        raise self._no_operator("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
        raise self._no_operator("slot_sharing_group")


def _not_keyed(stream: DataStream) -> DataStream:
    """The stream behind the views of it by key."""
    while isinstance(stream, KeyedStream):
        stream = stream._origin
    return stream
