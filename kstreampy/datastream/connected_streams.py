"""Two streams as the inputs of one operator, as `job.py` draws them.

In here: `ConnectedStreams`. Not in here: a stream that is connected to a broadcast one (`broadcast_stream.py`), and what happens
to a record (`operators/co.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kstreampy.common.time import Amount, to_millis
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.key_selection import KeySelection, selection
from kstreampy.datastream.keyed_stream import KeyedStream
from kstreampy.datastream.stream import DataStream
from kstreampy.errors import JobError
from kstreampy.graph.node import Build, KeyNode, Node, PairNode
from kstreampy.operators.co import co_flat_map, co_map, co_process
from kstreampy.operators.co_function import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from kstreampy.operators.field import Position
from kstreampy.operators.function import Function, KeySelector, is_rich, where
from kstreampy.operators.operator import Operator
from kstreampy.operators.pair import PairOperator
from kstreampy.operators.timer import has_on_timer

if TYPE_CHECKING:
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment

Selector: TypeAlias = Callable[[Any], Any] | KeySelector | Position | Sequence[Position]


class ConnectedStreams:
    """Two streams that one function takes, with a method for each; made by `DataStream.connect`. It is what is drawn from it
    that becomes an operator: a stage of its own, which reads one topic per input. The two topics have equally many
    partitions, and one task reads the same ones of both.

    Inputs may be keyed or not, in any combination. If both are, records of one key meet in one task, and its keyed state is
    the same whichever input they come by. If one is, that one alone has keyed state; on the other it is refused with a
    `JobError` (Flink would use the key of some earlier record). Inputs without a key are spread evenly over the tasks.

    Nothing orders the records of one input against those of the other: what one needs of the other is kept in state until it
    is there. The watermark is the minimum of both, and the end is the end of both.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        """TypeError for anything but streams, `JobError` for streams of two environments."""
        for stream in (stream1, stream2):
            if not isinstance(stream, DataStream):
                raise TypeError(f"connect takes a DataStream or a BroadcastStream, not {stream!r}")
        check_same_environment(stream1, stream2)
        self.stream1 = stream1
        self.stream2 = stream2
        self._max_drift_ms: int | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment in which both are drawn. (Not in PyFlink.)"""
        return self.stream1.get_execution_environment()

    def get_first_input(self) -> DataStream:
        """(Not in PyFlink, which has the attribute `stream1`.)"""
        return self.stream1

    def get_second_input(self) -> DataStream:
        """(Not in PyFlink, which has the attribute `stream2`.)"""
        return self.stream2

    def get_type1(self) -> TypeInformation:
        """The declared type of the first input; as `DataStream.get_type`. (Not in PyFlink.)"""
        return self.stream1.get_type()

    def get_type2(self) -> TypeInformation:
        """The declared type of the second input. (Not in PyFlink.)"""
        return self.stream2.get_type()

    def key_by(
        self, key_selector1: Selector, key_selector2: Selector, key_type: TypeInformation | None = None
    ) -> ConnectedStreams:
        """Both inputs by key: a new object. What selects a key is as in `DataStream.key_by`; a key that an input had is
        replaced. The keys of both inputs must be of one type, since 1, 1.0 and "1" are three keys: with `key_type` both
        are brought to it. Where they are not, and the types are not declared, a warning in the log tells.

        Deprecated: positions or field names, or lists of them, for each input; keys are tuples then. TypeError for a
        position beside a function; `JobError` for lists of different lengths.
        """
        first, second = _fields(key_selector1), _fields(key_selector2)
        if first is None and second is None:
            chosen1 = selection("key_by", key_selector1, (), key_type)
            chosen2 = selection("key_by", key_selector2, (), key_type)
        elif first is None or second is None:
            raise TypeError("key_by takes two functions, or positions or field names for both inputs, not one of each")
        else:
            if len(first) != len(second):
                raise JobError(_MISMATCH.format(f"{len(first)} fields", f"{len(second)} fields"))
            chosen1 = selection("key_by", first[0], tuple(first[1:]), key_type)
            chosen2 = selection("key_by", second[0], tuple(second[1:]), key_type)
        return self._keyed_by(chosen1, chosen2)

    def _keyed_by(self, chosen1: KeySelection, chosen2: KeySelection) -> ConnectedStreams:
        keyed = ConnectedStreams(KeyedStream(self.stream1, chosen1), KeyedStream(self.stream2, chosen2))
        keyed._max_drift_ms = self._max_drift_ms
        return keyed

    def align_by_time(self, max_drift: Amount) -> ConnectedStreams:
        """Reads the two inputs side by side in event time: a new object. Of each task, the input whose watermark is more than
        `max_drift` (ms, or a Duration) ahead of the other's is not read on until the other has come closer: what is kept
        of one until the other comes stays small, for example when a job starts far back.

        An input that is idle or at its end is not waited for; one that is not and has no watermarks holds the other for good.
        The bound is exceeded by one batch at most (1,000 records, 500 of topics that are read as they lie). What is fetched
        beyond it is fetched again later, so a drift of less than some such batches costs speed, and one of many of them saves
        more than it costs. ValueError for a negative drift. (Not in Flink.)
        """
        max_drift_ms = to_millis(max_drift)
        if max_drift_ms < 0:
            raise ValueError(f"align_by_time: the drift is at least 0 ms, not {max_drift_ms}")
        aligned = ConnectedStreams(self.stream1, self.stream2)
        aligned._max_drift_ms = max_drift_ms
        return aligned

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """One result per value of either input; None is a result like any other (as in Java; PyFlink drops it). Keyed state,
        got in `open`, on inputs that are keyed. TypeError for anything but a `CoMapFunction`."""
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"The input function must be a CoMapFunction, not {func!r}")
        build = partial(co_map, function=func, keyed=self._keyed())
        return self._step("co_map", build, func, output_type, stateful=is_rich(func))

    def flat_map(self, func: CoFlatMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Any number of results per value of either input. Keyed state, got in `open`, on inputs that are keyed. TypeError for
        anything but a `CoFlatMapFunction`."""
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"The input function must be a CoFlatMapFunction, not {func!r}")
        build = partial(co_flat_map, function=func, keyed=self._keyed())
        return self._step("co_flat_map", build, func, output_type, stateful=is_rich(func))

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Any number of results per value of either input, with a context, side outputs, keyed state on inputs that are keyed
        and, if both are, timers (define `on_timer`). A `CoProcessFunction` takes all inputs, a `KeyedCoProcessFunction`
        two keyed ones: `JobError` otherwise. TypeError for anything else."""
        if not isinstance(func, CoProcessFunction | KeyedCoProcessFunction):
            raise TypeError(f"The input must be a CoProcessFunction or a KeyedCoProcessFunction, not {func!r}")
        keyed = self._keyed()
        if isinstance(func, KeyedCoProcessFunction) and not all(keyed):
            raise JobError(
                "KeyedCoProcessFunction can only be used when both input streams are of type KeyedStream. Put "
                "key_by(...) before process(...), or use a CoProcessFunction"
            )
        timers = all(keyed) and has_on_timer(func)
        build = partial(co_process, function=func, keyed=keyed)
        return self._step("co_process", build, func, output_type, stateful=any(keyed), timers=timers)

    def transform(self, function_name: str, output_type: TypeInformation | None, operator: Build) -> DataStream:
        """An operator of the job's own: `operator(name, uid)` makes one for each task, a `PairOperator`
        (`kstreampy.operators.pair`). Batches of keyed inputs have keys, and there is state and timers if any input is
        keyed, found under the uid. (Not in PyFlink; as Java's with an operator factory.)"""
        if not callable(operator):
            raise TypeError(f"transform takes a function that makes the operator, not {operator!r}")

        def build(step: str, uid: str) -> Operator:
            made = operator(step, uid)
            if not isinstance(made, PairOperator):
                raise JobError(f"{step}: transform needs a PairOperator, not {made!r}")
            return made

        keyed = any(self._keyed())
        stream = self._step("transform", build, operator, output_type, stateful=keyed, timers=keyed)
        return stream.name(function_name)

    def _keyed(self) -> tuple[bool, bool]:
        return isinstance(self.stream1, KeyedStream), isinstance(self.stream2, KeyedStream)

    def _step(
        self,
        kind: str,
        build: Build,
        function: Function | Build,
        output_type: TypeInformation | None,
        *,
        stateful: bool,
        timers: bool = False,
    ) -> DataStream:
        self._check_key_types()
        node = PairNode(
            kind,
            input_nodes(self.stream1, self.stream2),
            output_type,
            build=build,
            stateful=stateful and any(self._keyed()),
            timers=timers,
            coerce=output_type is not None,
            detail=where(function),
            max_drift_ms=self._max_drift_ms,
        )
        return DataStream(self.stream1._env, self.stream1._add(node))

    def _check_key_types(self) -> None:
        if isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream):
            one, other = self.stream1.get_key_type(), self.stream2.get_key_type()
            if one is not None and other is not None and one != other:
                raise JobError(_MISMATCH.format(repr(one), repr(other)))


_MISMATCH = "Key types if input KeyedStreams don't match: {} and {}. Give both the same key type"


def check_same_environment(one: DataStream, other: DataStream) -> None:
    """JobError where two streams cannot be part of one job."""
    if one.get_execution_environment() is not other.get_execution_environment():
        raise JobError("connect: the two streams are drawn in different environments, so they are parts of two jobs")


def input_nodes(stream1: DataStream, stream2: DataStream) -> tuple[Node, Node]:
    """What an operator with two inputs reads. Where both are keyed in place, the plan decides whether they can be read as they
    are (`graph/side_by_side.py`)."""
    if _is_in_place(stream1) and _is_in_place(stream2):
        return stream1._node, stream2._node
    return input_node(stream1), input_node(stream2)


def input_node(stream: DataStream) -> Node:
    """What an operator with two inputs reads of one of them. A stream that is keyed where it lies goes through a topic of the
    pair too, by the same key."""
    if isinstance(stream, KeyedStream) and _is_in_place(stream):
        return KeyedStream(stream._origin, stream._chosen)._node
    return stream._node


def _is_in_place(stream: DataStream) -> bool:
    return isinstance(stream._node, KeyNode) and stream._node.in_place


def _fields(selector: Any) -> list[Position] | None:
    """The positions or field names that a selector consists of; None for a function."""
    if isinstance(selector, int | str) and not isinstance(selector, bool):
        return [selector]
    if isinstance(selector, list | tuple) and selector:
        return list(selector)
    return None
