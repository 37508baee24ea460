"""Streams as `job.py` draws them: every call adds a node to the environment's graph and returns the stream behind it.

In here: `DataStream`, `DataStreamSink`, `KeyedStream`. Not in here: what happens to a record; the operators that nodes build
are in `operators/`. Names and semantics are PyFlink's; where a docstring says "not in PyFlink" they are Flink's (Java).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from kstreampy.common.execution_config import ExecutionConfig
from kstreampy.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from kstreampy.common.types import Row
from kstreampy.datastream.collect import CloseableIterator, RunningJob
from kstreampy.datastream.connectors.base import Sink
from kstreampy.datastream.key_selection import KeySelection, selection
from kstreampy.datastream.sink import add_sink_node, sink_to_node
from kstreampy.errors import JobError
from kstreampy.graph.node import Build, CollectNode, KeyNode, Node, StepNode
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
    is_rich,
    where,
)
from kstreampy.operators.keyed import (
    Combine,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ProcessOperator,
    ReduceOperator,
    RollingOperator,
    extreme_by,
    extreme_of,
    sum_of,
)
from kstreampy.operators.sink import PrintOperator
from kstreampy.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

if TYPE_CHECKING:
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment

COLLECT_UID = "collect-1"
"""A job collects once at most: `execute_and_collect` takes everything that was drawn."""


class DataStream:
    """A stream of values. Made by the environment's sources and by other streams, never by hand."""

    def __init__(self, env: StreamExecutionEnvironment, node: Node, named: Node | None = None) -> None:
        """`named` is the node that name, uid and settings are given to, where that is another than `node`."""
        self._env = env
        self._node = node
        self._named = named or node

    # What it is called

    def get_name(self) -> str:
        """The operator's name, by default its kind."""
        return self._named.name or self._named.kind

    def name(self, name: str) -> DataStream:
        """Names the operator for logs, metrics and the plan. Changing it later is safe."""
        self._named.name = name
        return self

    def uid(self, uid: str) -> DataStream:
        """The operator's identity: its topics and its state are found by it. Give one to every stateful operator, and never
        change it. `JobError` when the plan is made, if two operators have the same or it does not fit a topic name."""
        self._named.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        """As `uid`; kept for PyFlink's sake."""
        return self.uid(uid_hash)

    def set_description(self, description: str) -> DataStream:
        """A sentence for the plan."""
        self._named.description = description
        return self

    def get_id(self) -> int:
        """A number that no other operator of this process has; it grows in the order of drawing. (Not in PyFlink.)"""
        return self._named.number

    def get_type(self) -> TypeInformation:
        """The declared type; `PICKLED_BYTE_ARRAY`, as in PyFlink, where none is declared."""
        return self._node.type_info or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that this stream was drawn in."""
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """The environment's."""
        return self._env.get_config()

    # Settings of a cluster's operators, which a process does not have: kept, so that programs move over

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Kept, with no effect on one operator: parallelism here is partitions over workers (`--workers`)."""
        return self._set("parallelism", parallelism)

    def get_parallelism(self) -> int:
        """What was set here, otherwise the environment's. (Not in PyFlink.)"""
        value = self._named.settings.get("parallelism", self._env.get_parallelism())
        return int(value)

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Kept, with no effect on one operator: key groups are the job's (`env.set_max_parallelism`)."""
        return self._set("max_parallelism", max_parallelism)

    def force_non_parallel(self) -> DataStream:
        """Kept, with no effect, as `set_parallelism(1)`."""
        return self._set("parallelism", 1)

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """Kept, with no effect: batches leave at the checkpoint or the watermark interval."""
        return self._set("buffer_timeout", timeout_millis)

    def start_new_chain(self) -> DataStream:
        """Kept, with no effect: chains are cut only where records change partition."""
        return self._set("start_new_chain", True)

    def disable_chaining(self) -> DataStream:
        """Kept, with no effect, as `start_new_chain`."""
        return self._set("disable_chaining", True)

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStream:
        """Kept, with no effect: give a stage a worker of its own with `--stage`."""
        return self._set("slot_sharing_group", slot_sharing_group)

    def _set(self, key: str, value: Any) -> DataStream:
        self._named.settings[key] = value
        return self

    # Steps

    def map(self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One result per value; None is a result like any other. Results are brought to `output_type` if one is given:
        numbers wrap around, tuples become Rows with the type's names (`TypeInformation.coercer`). A result takes its
        value's timestamp, key and headers.

        TypeError, here, for what is neither callable nor a `MapFunction`; an exception of `func` fails the job with a
        `RecordError` that names the operator, the function's line and the record.
        """
        callable_of(func, MapFunction, "map")
        return self._step("map", lambda step, _: MapOperator(step, func), output_type, detail=where(func))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per value: an iterable, a generator, or None for none; a Row or a str gives its parts.
        Results take their value's timestamp and key; a value's headers stay only where it gave exactly one."""
        callable_of(func, FlatMapFunction, "flat_map")
        return self._step("flat_map", lambda step, _: FlatMapOperator(step, func), output_type, detail=where(func))

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keeps the values for which `func` is true (truthiness)."""
        callable_of(func, FilterFunction, "filter")
        return self._step(
            "filter", lambda step, _: FilterOperator(step, func), self._node.type_info, coerce=False, detail=where(func)
        )

    def project(self, *field_indexes: int) -> DataStream:
        """The fields of tuples (or lists, or Rows) at these positions, as tuples, in this order; repeats are fine."""
        if not field_indexes or any(isinstance(i, bool) or not isinstance(i, int) or i < 0 for i in field_indexes):
            raise TypeError(f"project takes one or more positions (int, from 0), not {field_indexes!r}")
        declared = self._node.type_info
        output_type: TypeInformation | None = None
        if isinstance(declared, TupleTypeInfo | RowTypeInfo):
            types = declared.get_field_types()
            beyond = [i for i in field_indexes if i >= len(types)]
            if beyond:
                raise JobError(f"project: no field {beyond[0]}: the type {declared!r} has {len(types)} fields")
            output_type = Types.TUPLE([types[i] for i in field_indexes])
        elif declared is not None:
            raise JobError(f"Only Tuple DataStreams can be projected, not {declared!r}")

        def pick(value: Any) -> tuple[Any, ...]:
            if not isinstance(value, tuple | list | Row):
                raise TypeError(f"Only Tuple DataStreams can be projected, not {type(value).__name__}")
            return tuple([value[i] for i in field_indexes])

        return self._step("project", lambda step, _: MapOperator(step, pick), output_type, coerce=False)

    def process(self, func: ProcessFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of results per value, with a context. TypeError for anything but a `ProcessFunction`."""
        if not isinstance(func, ProcessFunction):
            raise TypeError(f"ProcessFunction is required for DataStream.process, not {type(func).__name__}")
        return self._step("process", lambda step, _: ProcessOperator(step, func), output_type, detail=where(func))

    @overload
    def key_by(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream: ...
    @overload
    def key_by(self, key_selector: Position, *more: Position) -> KeyedStream: ...
    def key_by(self, key_selector: Any, *more: Any, key_type: TypeInformation | None = None) -> KeyedStream:
        """Records of one key go to one task, in order. The key is what a callable or `KeySelector` returns: any value that
        can be told apart by its bytes, so also a list; 1, 1.0, True and "1" are four keys. With `key_type` keys are brought
        to that type first. A key of None fails the job with a `RecordError`.

        Deprecated: positions or field names, `key_by(0, 1)` or `key_by("user")`; the key is then a tuple, also of one.
        """
        chosen = selection("key_by", key_selector, more, key_type)
        return KeyedStream(self, chosen)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """A line per value on standard output, after `identifier:task> ` where there is more than one task."""
        return self._print(sink_identifier, to_err=False)

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """As `print`, on standard error. (Not in PyFlink.)"""
        return self._print(sink_identifier, to_err=True)

    def _print(self, sink_identifier: str | None, *, to_err: bool) -> DataStreamSink:
        def build(step: str, _: str) -> PrintOperator:
            return PrintOperator(step, sink_identifier, to_err=to_err)

        kind = "print_to_err" if to_err else "print"
        return DataStreamSink(self._add(StepNode(kind, (self._input(),), build=build, terminal=True)))

    def add_sink(self, sink_func: SinkFunction) -> DataStreamSink:
        """Calls `sink_func.invoke(value, context)` per record: at-least-once, whatever the job's guarantee. TypeError for
        anything but an instance of a `SinkFunction`."""
        return DataStreamSink(self._add(add_sink_node(self._input(), sink_func)))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Writes to a topic (`KafkaSink`) or an external system (a connector's sink). `JobError` for anything else."""
        return DataStreamSink(self._add(sink_to_node(self._input(), sink)))

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the job and gives its results as they are committed: a list of the first `limit` (the job is stopped then),
        or without a limit an iterator, which must be closed (use it in a `with` block); closing stops the job.

        The job is everything that was drawn so far. Raises the job's error when it fails. ValueError unless `limit` is
        above 0.
        """
        if limit is not None and limit <= 0:
            raise ValueError(f"execute_and_collect: limit must be above 0, not {limit}")
        self._add(CollectNode("collect", (self._input(),), self._node.type_info, uid=COLLECT_UID))
        running = RunningJob(self._env.take_job(job_execution_name))
        results = CloseableIterator(running, COLLECT_UID, self._node.type_info)
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    # How nodes are made

    def _input(self) -> Node:
        return self._node

    def _add(self, node: Node) -> Node:
        self._env.graph.add(node)
        return node

    def _step(
        self,
        kind: str,
        build: Build,
        type_info: TypeInformation | None,
        *,
        coerce: bool = True,
        stateful: bool = False,
        detail: str = "",
    ) -> DataStream:
        node = StepNode(
            kind,
            (self._input(),),
            type_info,
            build=build,
            stateful=stateful,
            coerce=coerce and type_info is not None,
            detail=detail,
        )
        return DataStream(self._env, self._add(node))


class DataStreamSink:
    """The end of a stream."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def name(self, name: str) -> DataStreamSink:
        self._node.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """The sink's identity; see `DataStream.uid`."""
        self._node.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        return self.uid(uid_hash)

    def set_description(self, description: str) -> DataStreamSink:
        self._node.description = description
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Kept, with no effect; see `DataStream.set_parallelism`."""
        self._node.settings["parallelism"] = parallelism
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Kept, with no effect; see `DataStream.disable_chaining`."""
        self._node.settings["disable_chaining"] = True
        return self

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStreamSink:
        """Kept, with no effect; see `DataStream.slot_sharing_group`."""
        self._node.settings["slot_sharing_group"] = slot_sharing_group
        return self


class KeyedStream(DataStream):
    """A stream by key. A view: each operator on it is a stage of its own, with its own repartition topic and state, unless
    the stream is partitioned already (`DataStreamUtils.reinterpret_as_keyed_stream`)."""

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
        """Any number of results per value, with a context and keyed state. TypeError for anything else.

        Deprecated: a `ProcessFunction`; it may use keyed state too, and its context is that of a `KeyedProcessFunction`.
        """
        if isinstance(func, ProcessFunction):
            warnings.warn(
                "ProcessFunction on a KeyedStream: use KeyedProcessFunction", DeprecationWarning, stacklevel=2
            )
        elif not isinstance(func, KeyedProcessFunction):
            raise TypeError("KeyedProcessFunction is required for KeyedStream.")

        def build(step: str, uid: str) -> KeyedProcessOperator:
            return KeyedProcessOperator(step, uid, func)

        return self._step("process", build, output_type, stateful=True, detail=where(func))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Rolling: emits, for every record, what its key has been reduced to. The first value of a key is emitted as it is,
        without a call. `func(so far, value)` may change what it is given. A result of None ends what was kept: the key
        begins anew with its next value."""
        callable_of(func, ReduceFunction, "reduce")
        type_info = self._node.type_info

        def build(step: str, uid: str) -> ReduceOperator:
            return ReduceOperator(step, uid, func, type_info)

        return self._step("reduce", build, type_info, coerce=False, stateful=True, detail=where(func))

    def sum(self, position_to_sum: Position = 0) -> DataStream:
        """Rolling sum of a field, by position, name, dotted path or `*` (the value itself): anything with `+`. The other
        fields are those of the key's first value."""
        return self._rolling("sum", sum_of(Field(position_to_sum)), position_to_sum)

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

    def _no_operator(self, call: str) -> JobError:
        return JobError(
            f"{call} cannot be called on a KeyedStream: it is a view, not an operator; call it on the stream before or after"
        )

    def get_name(self) -> str:
        raise self._no_operator("get_name")

    def name(self, name: str) -> DataStream:
        raise self._no_operator("name")

    def uid(self, uid: str) -> DataStream:
        raise self._no_operator("uid")

    def set_uid_hash(self, uid_hash: str) -> DataStream:
        raise self._no_operator("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> DataStream:
        raise self._no_operator("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        raise self._no_operator("set_max_parallelism")

    def force_non_parallel(self) -> DataStream:
        raise self._no_operator("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        raise self._no_operator("set_buffer_timeout")

    def start_new_chain(self) -> DataStream:
        raise self._no_operator("start_new_chain")

    def disable_chaining(self) -> DataStream:
        raise self._no_operator("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> DataStream:
        raise self._no_operator("slot_sharing_group")


def _not_keyed(stream: DataStream) -> DataStream:
    """The stream behind the views of it by key."""
    while isinstance(stream, KeyedStream):
        stream = stream._origin
    return stream
