"""Streams as `job.py` draws them: every call adds a node to the environment's graph and returns the stream behind it.

In here: `DataStream`. Not in here: streams by key (`keyed_stream.py`), what is named and set (`drawn.py`), and what happens to
a record: the operators that nodes build are in `operators/`. Names and semantics are PyFlink's; where a docstring says "not
in PyFlink" they are Flink's (Java).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

from kstreampy.common.execution_config import ExecutionConfig
from kstreampy.common.left_out import missing
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.resource_spec import ResourceSpec
from kstreampy.common.time import Amount
from kstreampy.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from kstreampy.common.types import Row
from kstreampy.datastream.all_windowed_stream import AllWindowedStream
from kstreampy.datastream.collecting import Collecting
from kstreampy.datastream.connectors.base import Sink
from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.datastream.joining import Joining
from kstreampy.datastream.key_selection import selection
from kstreampy.datastream.partitioning import Partitioning
from kstreampy.datastream.sink import add_sink_node, sink_to_node
from kstreampy.datastream.timing import Timing
from kstreampy.datastream.windowing import count_windows, time_windows, warn_of_time_window
from kstreampy.datastream.writing import Writing
from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.global_window import GlobalWindows
from kstreampy.graph.node import Build, Node, PartitionNode, SideNode, StepNode
from kstreampy.operators.connector import ConnectorSink
from kstreampy.operators.field import Position
from kstreampy.operators.function import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    SinkFunction,
    callable_of,
    given,
    where,
)
from kstreampy.operators.keyed_function import ProcessOperator
from kstreampy.operators.operator import Operator
from kstreampy.operators.route import BroadcastRouteOperator
from kstreampy.operators.sink import PrintOperator
from kstreampy.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from kstreampy.state.descriptor import MapStateDescriptor

if TYPE_CHECKING:
    from kstreampy.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from kstreampy.datastream.connected_streams import ConnectedStreams
    from kstreampy.datastream.keyed_stream import KeyedStream
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment


class DataStream(Collecting, Joining, Timing, Writing, Partitioning):
    """A stream of values. Made by the environment's sources and by other streams, never by hand."""

    def __init__(self, env: StreamExecutionEnvironment, node: Node, named: Node | None = None) -> None:
        """`named` is the node that name, uid and settings are given to, where that is another than `node`."""
        super().__init__(named or node)
        self._env = env
        self._node = node

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """AttributeError, which for what only a keyed stream has says so."""
            from kstreampy.datastream.keyed_stream import KeyedStream

            raise missing(self, name, "put key_by(...) directly before it" if hasattr(KeyedStream, name) else None)

    # What it is called

    def get_name(self) -> str:
        """The operator's name, by default its kind."""
        return self._named.name or self._named.kind

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

    def get_parallelism(self) -> int:
        """What was set here, otherwise the environment's. (Not in PyFlink.)"""
        value = self._named.settings.get("parallelism", self._env.get_parallelism())
        return int(value)

    def get_min_resources(self) -> ResourceSpec:
        """`ResourceSpec.DEFAULT`. (Not in PyFlink.)"""
        return ResourceSpec.DEFAULT

    def get_preferred_resources(self) -> ResourceSpec:
        """`ResourceSpec.DEFAULT`. (Not in PyFlink.)"""
        return ResourceSpec.DEFAULT

    def get_transformation(self) -> Node:
        """What was drawn for this stream: a node of the environment's graph. (Not in PyFlink.)"""
        return self._node

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Kept, with no effect on one operator: key groups are the job's (`env.set_max_parallelism`)."""
        return self._set("max_parallelism", max_parallelism)

    def force_non_parallel(self) -> Self:
        """Kept, with no effect, as `set_parallelism(1)`."""
        return self._set("parallelism", 1)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Kept, with no effect: batches leave at the checkpoint or the watermark interval."""
        return self._set("buffer_timeout", timeout_millis)

    def start_new_chain(self) -> Self:
        """Kept, with no effect: chains are cut only where records change partition."""
        return self._set("start_new_chain", True)

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
            hint = ": put key_by(...) directly before it" if isinstance(func, KeyedProcessFunction) else ""
            raise TypeError(f"ProcessFunction is required for DataStream.process, not {given(func)}{hint}")
        return self._step("process", lambda step, _: ProcessOperator(step, func), output_type, detail=where(func))

    def transform(self, operator_name: str, output_type: TypeInformation | None, operator: Build) -> DataStream:
        """An operator of the job's own: `operator(name, uid)` makes one for each task, an `Operator`
        (`kstreampy.operators.operator`), which is given batches and hands batches on. On a `KeyedStream` batches have keys, and
        there is state and timers, found under the uid. TypeError for what cannot be called; what makes no `Operator` fails the
        job. (Not in PyFlink; as Java's with an operator factory.)"""
        if not callable(operator):
            raise TypeError(f"transform takes a function that makes the operator, not {operator!r}")

        def build(step: str, uid: str) -> Operator:
            made = operator(step, uid)
            if not isinstance(made, Operator):
                raise JobError(f"{step}: transform needs an Operator, not {made!r}")
            return made

        keyed = self._without_key() is not self
        stream = self._step("transform", build, output_type, stateful=keyed, timers=keyed, detail=where(operator))
        return stream.name(operator_name)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator of this stream sent to `output_tag`: its function's `yield tag, value` and
        `ctx.output(tag, value)`, or the late data of a window. Values have the timestamp of the record (or the timer) that
        they were sent for, neither key nor headers, and are brought to the tag's type if it has one. Of one batch of
        records, the main results go out before the side outputs.

        What nobody asks for is dropped, and never part of the main stream. The same tag may be used on several
        operators; those are different outputs. Operators without side outputs give an empty stream.

        TypeError for anything but an `OutputTag`; `JobError` where the tag was asked for with another type before, and
        where this stream is no operator's result (a source, a keyed stream, a side output).
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"get_side_output takes an OutputTag, not {output_tag!r}")
        node = self._node
        if not isinstance(node, StepNode):
            raise JobError(
                f"get_side_output({output_tag.tag_id!r}) on a {node.kind}: only operators have side outputs; call it on the "
                "stream that process(...) or a window returned"
            )
        side = node.side_outputs.get(output_tag.tag_id)
        if side is None:
            side = SideNode("side_output", (node,), output_tag.type_info, tag=output_tag)
            node.side_outputs[output_tag.tag_id] = side
            self._add(side)
        elif side.type_info != output_tag.type_info:
            raise JobError(
                "A side output with a matching id was already requested with a different type. This is not allowed, side "
                f"output ids need to be unique: {side.tag!r} and {output_tag!r} on {self.get_name()!r}"
            )
        return DataStream(self._env, side)

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
        from kstreampy.datastream.keyed_stream import KeyedStream  # a subclass of this one

        return KeyedStream(self, selection("key_by", key_selector, more, key_type))

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...
    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...
    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """This stream and another, of any type, as the two inputs of one function. TypeError for anything else; `JobError`
        for a stream of another environment."""
        from kstreampy.datastream.broadcast_stream import (  # draws on this class
            BroadcastConnectedStream,
            BroadcastStream,
        )
        from kstreampy.datastream.connected_streams import ConnectedStreams  # draws on this class

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        return ConnectedStreams(self, ds)

    @overload
    def broadcast(self) -> DataStream: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """Every record goes to every task of the next operator. With descriptors, of the state that is made of it: a stream
        for `connect`. TypeError for anything but a `MapStateDescriptor`."""
        from kstreampy.datastream.broadcast_stream import BroadcastStream  # draws on this class

        if broadcast_state_descriptor is not None:
            return BroadcastStream(self, [broadcast_state_descriptor, *other_broadcast_state_descriptors])
        node = PartitionNode("broadcast", (self._input(),), self._node.type_info, route=BroadcastRouteOperator)
        return DataStream(self._env, self._add(node))

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Cuts all elements into windows, in one task (`kstreampy.datastream.window`). TypeError for anything but a
        `WindowAssigner`."""
        return AllWindowedStream(self, window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """As `KeyedStream.count_window`, of all elements. (Not in PyFlink.)"""
        return count_windows(self.window_all(GlobalWindows.create()), size, slide)

    def time_window_all(self, size: Amount, slide: Amount | None = None) -> AllWindowedStream:
        """Deprecated: `window_all(TumblingEventTimeWindows.of(size))` or
        `window_all(SlidingEventTimeWindows.of(size, slide))`. (Not in PyFlink.)"""
        warn_of_time_window("time_window_all", "window_all")
        return self.window_all(time_windows(size, slide))

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

    def sink_to(self, sink: Sink | ConnectorSink) -> DataStreamSink:
        """Writes to a topic (`KafkaSink`) or an external system (a connector's sink). `JobError` for anything else."""
        return DataStreamSink(self._add(sink_to_node(self._input(), sink)))

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
        timers: bool = False,
        detail: str = "",
    ) -> DataStream:
        node = StepNode(
            kind,
            (self._input(),),
            type_info,
            build=build,
            stateful=stateful,
            timers=timers,
            coerce=coerce and type_info is not None,
            detail=detail,
        )
        return DataStream(self._env, self._add(node))
