"""Iterations: streams that feed back into themselves. (Not in PyFlink; removed from Flink 2.0.)

In here: `IterativeStream`, and `ConnectedIterativeStreams` for a feedback of another type. Not in here: how the loop comes to its
end (`runtime/loop.py`).
"""

from __future__ import annotations

from typing import NoReturn

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.connected_streams import ConnectedStreams
from kstreampy.datastream.stream import DataStream
from kstreampy.errors import JobError
from kstreampy.graph.node import IterateNode, Node
from kstreampy.operators.iterate import FEEDBACK_TAG, IterateOperator


class IterativeStream(DataStream):
    """The head of an iteration: what comes in, and what `close_with` feeds back, which goes through a topic of its own and is
    as exact as everything else. Made by `DataStream.iterate`.

    Where the input of a bounded job has ended, the iteration ends once nothing is under way in it any more; with
    `max_wait_time_millis` nothing must have been fed back for so long, too, so that processing-time timers come to feed back.
    (In Flink it ends for want of feedback only, and with 0 it never does.) Watermarks do not travel over the feedback edge.
    When the input ends, the last watermark waits until the loop is quiet; what timers and windows then feed back goes around
    as well.
    """

    def __init__(self, stream: DataStream, max_wait_time_millis: int) -> None:
        origin = stream._without_key()
        node = IterateNode(
            "iterate",
            (origin._node,),
            origin._node.type_info,
            build=lambda step, _: IterateOperator(step),
            stateful=True,
            max_wait_ms=max_wait_time_millis,
        )
        super().__init__(origin._env, origin._add(node))
        self._head = node
        self._feedback: DataStream | None = None

    def close_with(self, feedback_stream: DataStream) -> DataStream:
        """Feeds a stream back, and returns it. It must come of this iteration: `JobError` otherwise, and for a stream of
        another type (see `with_feedback_type`). Called again, it feeds back one more."""
        self._check(feedback_stream)
        declared = self._head.type_info, feedback_stream._node.type_info
        if None not in declared and declared[0] != declared[1]:
            raise JobError(
                f"Cannot close an iteration of {declared[0]!r} with a feedback DataStream of {declared[1]!r}: use "
                "with_feedback_type(...)"
            )
        return self._close(feedback_stream)

    def with_feedback_type(self, feedback_type: TypeInformation) -> ConnectedIterativeStreams:
        """For a feedback of another type: the input and what is fed back as two streams, for functions that take both."""
        return ConnectedIterativeStreams(self, feedback_type)

    def _check(self, feedback_stream: DataStream) -> None:
        if not isinstance(feedback_stream, DataStream):
            raise TypeError(f"close_with takes a DataStream, not {feedback_stream!r}")
        if not _comes_of(feedback_stream._node, self._head):
            raise JobError(
                "Cannot close an iteration with a feedback DataStream that does not originate from said iteration."
            )

    def _close(self, feedback_stream: DataStream) -> DataStream:
        one = self._feedback
        self._feedback = feedback_stream if one is None else one.union(feedback_stream)
        self._head.inputs = (self._head.inputs[0], self._feedback._node)
        return feedback_stream

    def full_window_partition(self) -> NoReturn:
        raise JobError(
            "full_window_partition cannot be called on an iteration: it would wait for the end of what is fed back to it. Call "
            "it on what comes out of the iteration"
        )


class ConnectedIterativeStreams(ConnectedStreams):
    """The input of an iteration and what is fed back, of two types. Made by `IterativeStream.with_feedback_type`."""

    def __init__(self, head: IterativeStream, feedback_type: TypeInformation) -> None:
        if not isinstance(feedback_type, TypeInformation):
            raise TypeError(f"with_feedback_type takes a TypeInformation, not {feedback_type!r}")
        super().__init__(head, head.get_side_output(OutputTag(FEEDBACK_TAG, feedback_type)))
        self._iteration = head
        self._feedback_type = feedback_type

    def close_with(self, feedback_stream: DataStream) -> DataStream:
        """Feeds a stream of the feedback type back, and returns it. It must come of this iteration: `JobError` otherwise."""
        self._iteration._check(feedback_stream)
        declared = feedback_stream._node.type_info
        if declared is not None and declared != self._feedback_type:
            raise JobError(
                f"Cannot close an iteration with a feedback type of {self._feedback_type!r} with a DataStream of {declared!r}"
            )
        return self._iteration._close(feedback_stream)

    def key_by(self, *selectors: object, **types: object) -> NoReturn:
        raise JobError(
            "Cannot change the input partitioning of an iteration head directly. Apply the partitioning on the input and "
            "feedback streams instead."
        )


def _comes_of(node: Node, head: Node) -> bool:
    seen: set[Node] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one is head:
            return True
        if one not in seen:
            seen.add(one)
            waiting += one.inputs
    return False
