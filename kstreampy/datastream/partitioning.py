"""Streams put together and placed anew: `union`, and which task the records go to next.

In here: `Partitioning`, the part of `DataStream` that has these methods. Not in here: streams by key (`keyed_stream.py`), and
where each record goes (`operators/partition_route.py`).

A placing is a cut: the operator behind it begins a stage of its own, with as many tasks as there are key groups
(`set_max_parallelism`), which stand for Flink's parallel tasks. Of several placings in a row the last one counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.drawn import Drawn
from kstreampy.datastream.partition_windowed_stream import PartitionWindowedStream
from kstreampy.errors import JobError
from kstreampy.graph.node import Node, PartitionNode, Route, StepNode, UnionNode
from kstreampy.operators.field import Field, Position
from kstreampy.operators.function import KeySelector, Partitioner, callable_of
from kstreampy.operators.partition_route import (
    CustomRouteOperator,
    GlobalRouteOperator,
    RebalanceRouteOperator,
    RescaleRouteOperator,
    ShuffleRouteOperator,
)
from kstreampy.operators.union import PassOperator

if TYPE_CHECKING:
    from kstreampy.datastream.iterative_stream import IterativeStream
    from kstreampy.datastream.stream import DataStream
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment


class Partitioning(Drawn):
    """What `DataStream` is made of, beside its own methods."""

    _env: StreamExecutionEnvironment
    _node: Node

    def union(self, *streams: DataStream) -> DataStream:
        """All records of this stream and of the others, of one type. A stream united with itself gives each record twice. The
        result is not keyed, also if all of them are; its watermark is the least of theirs.

        What follows is done where each of the streams is, so a union costs no topic. `JobError` for streams of different
        types or environments, TypeError for anything but a `DataStream`.
        """
        from kstreampy.datastream.stream import DataStream  # which this is a part of

        united = [self._without_key()]
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union takes DataStreams, not {stream!r}")
            one = stream._without_key()
            if one._env is not self._env:
                raise JobError("union: the streams were drawn in different environments: draw them in one")
            if one.get_type() != united[0].get_type():
                raise JobError(
                    f"Cannot union streams of different types: {united[0].get_type()!r} and {one.get_type()!r}"
                )
            united.append(one)
        inputs = tuple(self._placed(stream) for stream in united)
        return self._drawn(UnionNode("union", inputs, united[0]._node.type_info))

    def _placed(self, stream: DataStream) -> Node:
        """A stream's node; where its records are placed anew, that of a step in which they have arrived."""
        node = stream._node
        if not isinstance(node, PartitionNode):
            return node
        step = StepNode("pass", (node,), node.type_info, build=lambda step, _: PassOperator(step))
        return self._drawn(step)._node

    def shuffle(self) -> DataStream:
        """Every record goes to any task of the next operator, all equally likely. `JobError` on a stream by key, as all of
        these."""
        return self._set_connection_type("shuffle", ShuffleRouteOperator)

    def rebalance(self) -> DataStream:
        """Records go to the tasks of the next operator in turn, so that all get as many."""
        return self._set_connection_type("rebalance", RebalanceRouteOperator)

    def rescale(self) -> DataStream:
        """As `rebalance`, but each task sends to a share of the next operator's tasks only."""
        return self._set_connection_type("rescale", RescaleRouteOperator)

    def global_(self) -> DataStream:
        """All records go to the first task of the next operator, which does not get faster with more workers."""
        return self._set_connection_type("global", GlobalRouteOperator)

    def forward(self) -> DataStream:
        """Records stay in their task, which is what they do anyway: no cut is made. A placing directly before it is
        withdrawn."""
        self._check_placing()
        node = self._node
        while isinstance(node, PartitionNode):
            (node,) = node.inputs
        return self._of(node)

    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int] | Partitioner,
        key_selector: Callable[[Any], Any] | KeySelector | Position,
    ) -> DataStream:
        """Every record goes to the task that `partitioner(key, tasks)` names, 0 to tasks - 1; any other answer fails the job
        with a `RecordError`. TypeError for what is neither callable nor a `Partitioner` or `KeySelector`.

        Deprecated: a position or a field name as the key.
        """
        callable_of(partitioner, Partitioner, "partition")
        if isinstance(key_selector, int | str):
            warnings.warn(
                "partition_custom by a position or field name is deprecated: give a function, e.g. lambda value: value[0]",
                DeprecationWarning,
                stacklevel=2,
            )
            select: Callable[[Any], Any] = Field(key_selector).get
        else:
            select = callable_of(key_selector, KeySelector, "get_key")

        def route(step: str, topic: str, type_info: TypeInformation | None) -> CustomRouteOperator:
            return CustomRouteOperator(step, topic, type_info, partitioner, select)

        return self._set_connection_type("partition_custom", route)

    def iterate(self, max_wait_time_millis: int = 0) -> IterativeStream:
        """Deprecated, as in Flink 1.19: the head of an iteration, which `close_with` feeds back to. `max_wait_time_millis`: once
        the input has ended, the iteration ends when nothing has been fed back for so long; 0: when nothing is under way any
        more. ValueError for a negative one. (Not in PyFlink.)"""
        from kstreampy.datastream.iterative_stream import IterativeStream  # a subclass of what this is a part of

        warnings.warn("iterate is deprecated, and removed from Flink 2.0", DeprecationWarning, stacklevel=2)
        if max_wait_time_millis < 0:
            raise ValueError(f"iterate: the time to wait is at least 0 ms, not {max_wait_time_millis}")
        return IterativeStream(self._without_key(), max_wait_time_millis)

    def full_window_partition(self) -> PartitionWindowedStream:
        """All elements of a task as one window, which ends with the input. (Not in PyFlink.)"""
        return PartitionWindowedStream(self._of(self._node), is_keyed=False)

    def _set_connection_type(self, kind: str, route: Route) -> DataStream:
        self._check_placing()
        return self._drawn(PartitionNode(kind, (self._node,), self._node.type_info, route=route))

    def _check_placing(self) -> None:
        """JobError where the records' places are given already."""

    def _without_key(self) -> DataStream:
        """The stream behind the views of it by key."""
        return self._of(self._node)

    def _drawn(self, node: Node) -> DataStream:
        self._env.graph.add(node)
        return self._of(node)

    def _of(self, node: Node) -> DataStream:
        from kstreampy.datastream.stream import DataStream  # which this is a part of

        return DataStream(self._env, node)
