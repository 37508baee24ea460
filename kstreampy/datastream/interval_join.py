"""`a.interval_join(b).between(lower, upper).process(function)`, as `job.py` draws it.

In here: `IntervalJoin` and `IntervalJoined`, which are also `KeyedStream.IntervalJoin` and `KeyedStream.IntervalJoined`. Names
and semantics are Flink's (PyFlink has no interval join). Not in here: what happens to an element
(`operators/interval_join.py`).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Self

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.time import Amount, Time, to_millis
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.graph.node import PairNode
from kstreampy.operators.function import where
from kstreampy.operators.interval_join import IntervalJoinOperator, IntervalJoinSpec
from kstreampy.operators.join_function import ProcessJoinFunction

if TYPE_CHECKING:
    from kstreampy.datastream.keyed_stream import KeyedStream
    from kstreampy.datastream.stream import DataStream


class IntervalJoin:
    """Two streams by key, of which elements of one key are to meet. Made by `KeyedStream.interval_join`."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        from kstreampy.datastream.keyed_stream import KeyedStream  # which has this module above it

        if not isinstance(right, KeyedStream):
            raise TypeError(f"interval_join takes a KeyedStream, not {right!r}: put key_by(...) before it")
        if left.get_execution_environment() is not right.get_execution_environment():
            raise JobError(
                "interval_join: the two streams are drawn in different environments, so they are parts of two jobs"
            )
        types = left.get_key_type(), right.get_key_type()
        if None not in types and types[0] != types[1]:
            raise JobError(
                f"Key types if input KeyedStreams don't match: {types[0]!r} and {types[1]!r}. Give both the same key type"
            )
        self._left = left
        self._right = right
        self._in_event_time = True

    def in_event_time(self) -> Self:
        """The default, and the only time there is for it."""
        self._in_event_time = True
        return self

    def in_processing_time(self) -> Self:
        """As in Flink it is taken, and `between` then raises `JobError`."""
        self._in_event_time = False
        return self

    def between(self, lower_bound: Amount, upper_bound: Amount) -> IntervalJoined:
        """Pairs with `left time + lower <= right time <= left time + upper`. Bounds (int: ms) may be negative; a `Time` is
        deprecated."""
        if not self._in_event_time:
            raise JobError("Time-bounded stream joins are only supported in event time")
        if isinstance(lower_bound, Time) or isinstance(upper_bound, Time):
            warnings.warn("between with a Time is deprecated: give a Duration", DeprecationWarning, stacklevel=2)
        return IntervalJoined(self._left, self._right, to_millis(lower_bound), to_millis(upper_bound))


class IntervalJoined:
    """An interval join with its bounds. Every setter returns the object itself."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._sides = (left, right)
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._excluded = [0, 0]
        self._late: list[OutputTag | None] = [None, None]
        self._max_drift_ms: int | None = None

    def lower_bound_exclusive(self) -> Self:
        """`left time + lower` itself is not within the interval."""
        self._excluded[0] = 1
        return self

    def upper_bound_exclusive(self) -> Self:
        """`left time + upper` itself is not within the interval."""
        self._excluded[1] = 1
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Elements of the left stream that come behind the watermark go to this side output of the result, with their
        timestamps, instead of being dropped and counted."""
        return self._late_data(0, "side_output_left_late_data", output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Elements of the right stream that come behind the watermark go to this side output of the result, with their
        timestamps, instead of being dropped and counted."""
        return self._late_data(1, "side_output_right_late_data", output_tag)

    def _late_data(self, side: int, call: str, output_tag: OutputTag) -> Self:
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"{call} takes an OutputTag, not {output_tag!r}")
        self._late[side] = output_tag
        return self

    def align_by_time(self, max_drift: Amount) -> Self:
        """Reads the two streams side by side in event time, as `ConnectedStreams.align_by_time`: so that few elements wait
        where the job starts far back. ValueError for a negative drift. (Not in Flink.)"""
        max_drift_ms = to_millis(max_drift)
        if max_drift_ms < 0:
            raise ValueError(f"align_by_time: the drift is at least 0 ms, not {max_drift_ms}")
        self._max_drift_ms = max_drift_ms
        return self

    def process(
        self, process_join_function: ProcessJoinFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Calls the function for every pair, as soon as its second element arrives; results have the later one's timestamp,
        and are brought to `output_type` if one is given. An element that arrives meets its partners in the order of their
        time, those of one time as they came.

        Elements need event time: one without a timestamp fails the job. One before the watermark (the least of both streams)
        is late, and is neither kept nor joined; one at the watermark is not late. Elements wait in state, each for as long
        as a partner may come; so a stream that stands still, without `with_idleness`, makes the other one's elements wait.

        TypeError for anything but a `ProcessJoinFunction`; ValueError where the lower bound is above the upper one. With
        bounds that are equal, and one of them excluded, nothing is within the interval.
        """
        if not isinstance(process_join_function, ProcessJoinFunction):
            hint = ": did you forget the brackets?" if isinstance(process_join_function, type) else ""
            raise TypeError(
                f"ProcessJoinFunction is required for an interval join, not {process_join_function!r}{hint}"
            )
        if self._lower_ms > self._upper_ms:
            raise ValueError(f"lowerBound <= upperBound must be fulfilled: {self._lower_ms} ms and {self._upper_ms} ms")
        left, right = self._sides
        spec = IntervalJoinSpec(
            self._lower_ms + self._excluded[0],
            self._upper_ms - self._excluded[1],
            process_join_function,
            (left._node.type_info, right._node.type_info),
            (self._late[0], self._late[1]),
        )

        def build(step: str, uid: str) -> IntervalJoinOperator:
            return IntervalJoinOperator(step, uid, spec)

        # Modules that have this one below them.
        from kstreampy.datastream.connected_streams import input_nodes
        from kstreampy.datastream.stream import DataStream

        node = PairNode(
            "interval_join",
            input_nodes(left, right),
            output_type,
            build=build,
            stateful=True,
            coerce=output_type is not None,
            detail=f"{self._lower_ms} to {self._upper_ms} ms, {where(process_join_function)}",
            max_drift_ms=self._max_drift_ms,
        )
        return DataStream(left._env, left._add(node))
