"""Broadcast streams, and streams that are connected to one, as `job.py` draws them.

In here: `BroadcastStream`, `BroadcastConnectedStream`. What happens to a record is in `operators/broadcast.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.connected_streams import check_same_environment, input_node
from kstreampy.datastream.keyed_stream import KeyedStream
from kstreampy.datastream.stream import DataStream
from kstreampy.errors import JobError
from kstreampy.graph.node import BroadcastNode, PairNode
from kstreampy.operators.broadcast import broadcast_process
from kstreampy.operators.broadcast_function import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from kstreampy.operators.function import where
from kstreampy.operators.route import BroadcastRouteOperator
from kstreampy.operators.timer import has_on_timer
from kstreampy.state.descriptor import MapStateDescriptor

if TYPE_CHECKING:
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment


class BroadcastStream:
    """A stream that goes to every task whole, with the descriptors of the state that is made of it. Made by
    `DataStream.broadcast(descriptor, ...)`, and good for `connect` only."""

    def __init__(self, input_stream: DataStream, broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        """TypeError for anything but a `MapStateDescriptor`; `JobError` for two of one name, and for one with a TTL."""
        names: set[str] = set()
        for descriptor in broadcast_state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"broadcast_state_descriptor must be MapStateDescriptor, not {descriptor!r}")
            if descriptor.name in names:
                raise JobError(f"broadcast: two state descriptors are named {descriptor.name!r}: rename one of them")
            if descriptor.get_ttl_config().is_enabled():
                raise JobError(
                    f"broadcast: state {descriptor.name!r} has a TTL, which only keyed state can have: let the broadcast "
                    "stream say what is to be removed"
                )
            names.add(descriptor.name)
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream, keyed or not, and a broadcast one that one function takes. Made by `connect`.

    Each task has a copy of the broadcast topic's records in a partition of its own, applies each of them once, also over a
    crash, and keeps what it makes of them as its broadcast state, durable with its checkpoint. So a task that moves to
    another worker has the state with it. Nothing orders broadcast elements against the others; and the watermark is
    the minimum of both inputs: a broadcast stream with event time and few records needs `with_idleness`.
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream,
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        """`JobError` for streams of two environments."""
        check_same_environment(non_broadcast_stream, broadcast_stream.input_stream)
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment in which both are drawn. (Not in PyFlink.)"""
        return self.non_broadcast_stream.get_execution_environment()

    def get_first_input(self) -> DataStream:
        """The stream that is not broadcast. (Not in PyFlink.)"""
        return self.non_broadcast_stream

    def get_second_input(self) -> BroadcastStream:
        """The broadcast stream. (Not in PyFlink.)"""
        return self.broadcast_stream

    def get_type1(self) -> TypeInformation:
        """The declared type of the stream that is not broadcast. (Not in PyFlink.)"""
        return self.non_broadcast_stream.get_type()

    def get_type2(self) -> TypeInformation:
        """The declared type of the broadcast stream. (Not in PyFlink.)"""
        return self.broadcast_stream.input_stream.get_type()

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Any number of results per element of either stream, with a context. A `KeyedBroadcastProcessFunction` is for a keyed
        stream, and may use keyed state and timers (define `on_timer`) on that side; a `BroadcastProcessFunction` is for
        one that is not. TypeError for the one in the other's place, and for anything else."""
        is_keyed = isinstance(self.non_broadcast_stream, KeyedStream)
        if isinstance(func, BroadcastProcessFunction):
            if is_keyed:
                raise TypeError(
                    "BroadcastProcessFunction should be applied to non-keyed DataStream: a BroadcastProcessFunction can "
                    "only be used on a non-keyed stream; use a KeyedBroadcastProcessFunction"
                )
        elif not isinstance(func, KeyedBroadcastProcessFunction):
            raise TypeError(
                f"process takes a BroadcastProcessFunction or a KeyedBroadcastProcessFunction here, not {func!r}"
            )
        elif not is_keyed:
            raise TypeError(
                "KeyedBroadcastProcessFunction should be applied to keyed DataStream: a KeyedBroadcastProcessFunction can "
                "only be used on a keyed stream; put key_by(...) before connect(...), or use a BroadcastProcessFunction"
            )
        return self._step(func, output_type)

    def _step(
        self,
        func: BroadcastProcessFunction[Any, Any, Any] | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeInformation | None,
    ) -> DataStream:
        main, other = self.non_broadcast_stream, self.broadcast_stream.input_stream
        while isinstance(other, KeyedStream):
            other = other._origin
        whole = BroadcastNode("broadcast", (other._node,), other._node.type_info, route=BroadcastRouteOperator)
        main._add(whole)
        node = PairNode(
            "co_process_broadcast",
            (input_node(main), whole),
            output_type,
            build=partial(broadcast_process, function=func, descriptors=self.broadcast_state_descriptors),
            stateful=True,
            timers=isinstance(func, KeyedBroadcastProcessFunction) and has_on_timer(func),
            coerce=output_type is not None,
            detail=where(func),
        )
        return DataStream(main._env, main._add(node))
