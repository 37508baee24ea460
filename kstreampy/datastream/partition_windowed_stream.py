"""`PartitionWindowedStream`: all elements of a key, or of a task, as one window that ends with the input.

In here: what is drawn. Not in here: what happens to the elements (`operators/full_window.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kstreampy.common.order import Order
from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.operators.field import Field, Position
from kstreampy.operators.full_window import (
    AggregatePartitionOperator,
    FullWindow,
    FullWindowOperator,
    MapPartitionOperator,
    ReducePartitionOperator,
    SortPartitionOperator,
)
from kstreampy.operators.function import (
    AggregateFunction,
    KeySelector,
    MapPartitionFunction,
    ReduceFunction,
    callable_of,
    where,
)

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream


class PartitionWindowedStream:
    """Made by `full_window_partition`. On a stream by key each key is a window, otherwise each task. Nothing comes before the
    input has ended, so nothing ever comes of an unbounded one. Results have no timestamps. (Not in PyFlink.)"""

    def __init__(self, stream: DataStream, *, is_keyed: bool) -> None:
        self._stream = stream
        self._is_keyed = is_keyed

    def map_partition(
        self,
        map_partition_function: Callable[[Iterable[Any]], Iterable[Any] | None] | MapPartitionFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Any number of results for all elements of a window, in the order in which they came; they are read from the state
        as the function walks over them, once. TypeError for what is neither callable nor a `MapPartitionFunction`."""
        callable_of(map_partition_function, MapPartitionFunction, "map_partition")
        drawn = self._full_window(map_partition_function, where(map_partition_function), self._stream._node.type_info)
        return self._draw("map_partition", MapPartitionOperator, drawn, output_type)

    def sort_partition(
        self, field: Position | Callable[[Any], Any] | KeySelector, order: Order = Order.ASCENDING
    ) -> DataStream:
        """The elements of each window, sorted by a field (a position from 0, a name or a dotted path) or by what a function or
        `KeySelector` gives; equal ones stay in the order in which they came. ValueError for a position below 0 and for an
        order without a direction, TypeError for anything else."""
        if not isinstance(order, Order):
            raise TypeError(f"sort_partition: the order is Order.ASCENDING or Order.DESCENDING, not {order!r}")
        if order not in (Order.ASCENDING, Order.DESCENDING):
            raise ValueError(f"sort_partition: {order} has no direction: use Order.ASCENDING or Order.DESCENDING")
        if isinstance(field, int | str):
            if isinstance(field, int) and field < 0:
                raise ValueError("The field mustn't be less than zero.")
            select, place = Field(field).get, f"field {field!r}"
        else:
            select, place = callable_of(field, KeySelector, "get_key"), where(field)
        type_info = self._stream._node.type_info
        drawn = self._full_window(select, place, type_info, descending=order is Order.DESCENDING)
        return self._draw("sort_partition", SortPartitionOperator, drawn, type_info, coerce=False)

    def reduce(self, reduce_function: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Each window gives what its elements are reduced to, as they come: the element itself, if there is only one. What
        the function gives is brought to the stream's declared type, if there is one. TypeError for what is neither callable
        nor a `ReduceFunction`."""
        callable_of(reduce_function, ReduceFunction, "reduce")
        type_info = self._stream._node.type_info
        drawn = self._full_window(reduce_function, where(reduce_function), type_info)
        return self._draw("reduce_partition", ReducePartitionOperator, drawn, type_info, coerce=False)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Each window gives the function's result for its elements, which are added as they come. `accumulator_type` is what
        is kept in state. TypeError for anything but an `AggregateFunction`."""
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(f"aggregate takes an AggregateFunction, not {aggregate_function!r}")
        if accumulator_type is not None:
            require_type(accumulator_type, "aggregate, accumulator type")
        drawn = self._full_window(aggregate_function, where(aggregate_function), accumulator_type)
        return self._draw("aggregate_partition", AggregatePartitionOperator, drawn, output_type)

    def _full_window(
        self, function: Any, place: str, type_info: TypeInformation | None, *, descending: bool = False
    ) -> FullWindow:
        return FullWindow(function, place, type_info, self._is_keyed, descending)

    def _draw(
        self,
        kind: str,
        operator: type[FullWindowOperator],
        drawn: FullWindow,
        output_type: TypeInformation | None,
        *,
        coerce: bool = True,
    ) -> DataStream:
        def build(step: str, uid: str) -> FullWindowOperator:
            return operator(step, uid, drawn)

        return self._stream._step(kind, build, output_type, coerce=coerce, stateful=True, detail=drawn.where)
