"""`a.join(b).where(…).equal_to(…).window(…).apply(function)`, as `job.py` draws it: pairs of the same key and window.

In here: `JoinedStreams`. What it has in common with `co_group` is in `co_grouped_streams.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.co_grouped_streams import BothStreams, CoGroupedStreams, WithWindow
from kstreampy.operators.function import callable_of
from kstreampy.operators.join_function import FlatJoinFunction, JoinFunction

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream


class _Join(BothStreams):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.call: Callable[[Any, Any], Any] = callable_of(function, JoinFunction, "join")

    def results(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        call = self.call
        for one in first:
            for other in second:
                yield call(one, other)


class _FlatJoin(BothStreams):
    def results(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        call = self.function.join
        for one in first:
            for other in second:
                yield from call(one, other) or ()


class JoinWindow(WithWindow):
    """`JoinedStreams.WithWindow`."""

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls the function for each pair of elements of one key and window: those of the first stream in the order in which
        they came, each with all of the second one. A `FlatJoinFunction` gives any number of results per pair, a
        `JoinFunction` or a callable one. Results have the time of the window's end - 1, and are brought to `output_type` if
        one is given. The function may use keyed state, got in `open`. TypeError for anything else."""
        if isinstance(function, FlatJoinFunction):
            return self._apply(_FlatJoin(function), output_type)
        return self._apply(_Join(function), output_type)

    def with_(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Deprecated: `apply`."""
        self._warn_of_with()
        return self.apply(function, output_type)


class JoinedStreams(CoGroupedStreams):
    """Two streams of which the elements of one key and window are to be paired. Made by `DataStream.join`."""

    WithWindow: ClassVar[type[WithWindow]] = JoinWindow
    _call: ClassVar[str] = "join"
