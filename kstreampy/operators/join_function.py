"""The functions that a user writes for joins: Flink's classes, re-exported as `kstreampy.datastream.functions`.

In here: the abstract classes. Not in here: when they are called (`interval_join.py`; window joins are windows, see
`datastream/co_grouped_streams.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kstreampy.common.output_tag import OutputTag
from kstreampy.operators.function import Function
from kstreampy.serde.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from kstreampy.operators.side_output import SideOutputs


class ProcessJoinFunction(Function):
    """For `interval_join`. It may use keyed state, got in `open`."""

    class Context:
        """About the pair in hand; one object per task, refilled per pair, so do not keep it. Times are ms of event time."""

        __slots__ = ("_left", "_right", "_sides")

        def __init__(self, sides: SideOutputs) -> None:
            self._sides = sides
            self._left = self._right = NO_TIMESTAMP

        def get_left_timestamp(self) -> int:
            return self._left

        def get_right_timestamp(self) -> int:
            return self._right

        def get_timestamp(self) -> int:
            """Of the results: the later one of the two."""
            return self._left if self._left > self._right else self._right

        def output(self, output_tag: OutputTag, value: Any) -> None:
            """Sends a value to a side output, with the results' timestamp; the same as `yield output_tag, value`."""
            self._sides.add(output_tag, value, self.get_timestamp())

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Any number of results for a pair: an iterable, a generator, or None for none."""


class JoinFunction(Function):
    """For window joins."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Exactly one result for a pair; None is a result like any other."""


class FlatJoinFunction(Function):
    """For window joins."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Any number of results for a pair: an iterable, a generator, or None for none."""


class CoGroupFunction(Function):
    """For windows over two streams together."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Any number of results for what a key's window holds of both streams, as lists, one of which may be empty: an
        iterable, a generator, or None for none."""
