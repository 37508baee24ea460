"""Streams that meet other streams, or tables: `join` and `co_group` by window, `join_table` and `left_join_table`.

In here: `Joining`, the part of `DataStream` that has these methods. Not in here: interval joins, which streams by key have
(`interval_join.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.co_grouped_streams import CoGroupedStreams
from kstreampy.datastream.drawn import Drawn
from kstreampy.datastream.global_table import GlobalTable, table_join
from kstreampy.datastream.joined_streams import JoinedStreams
from kstreampy.operators.function import KeySelector
from kstreampy.operators.join_function import JoinFunction

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream


class Joining(Drawn):
    """What `DataStream` is made of, beside its own methods."""

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Pairs of an element of this stream and one of `other_stream`, of one key and window:
        `.where(key).equal_to(key).window(assigner).apply(function)`. TypeError for anything but a `DataStream`; `JobError`
        for a stream of another environment. (Not in PyFlink.)"""
        return JoinedStreams(self, other_stream)  # type: ignore[arg-type]  # a part of every stream

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """The elements of this stream and of `other_stream` that have one key and window, as two lists:
        `.where(key).equal_to(key).window(assigner).apply(function)`. TypeError for anything but a `DataStream`; `JobError`
        for a stream of another environment. (Not in PyFlink.)"""
        return CoGroupedStreams(self, other_stream)  # type: ignore[arg-type]  # a part of every stream

    def join_table(
        self,
        table: GlobalTable,
        key_selector: Callable[[Any], Any] | KeySelector,
        function: Callable[[Any, Any], Any] | JoinFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """One result for each record that has a row in a global table: `function(value, row)`. `key_selector` gives the row's
        key, which must be of the type that the table's keys have; None, or a key without a row: no result. Results take the
        record's timestamp, and are brought to `output_type` if one is given.

        It is a stage of its own. On a stream by key the records of a key stay in their order; on another one only those of a
        task do, if the stages have equally many. What is promised of the table is told in `global_table.py`. TypeError for
        what is no table, no function or no selector. (Not in Flink; as Kafka Streams' join with a GlobalKTable.)
        """
        return table_join(self, table, key_selector, function, output_type, left=False)  # type: ignore[arg-type]  # as above

    def left_join_table(
        self,
        table: GlobalTable,
        key_selector: Callable[[Any], Any] | KeySelector,
        function: Callable[[Any, Any], Any] | JoinFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `join_table`, with one result for every record: where there is no row, `function` is given None as the row."""
        return table_join(self, table, key_selector, function, output_type, left=True)  # type: ignore[arg-type]  # as above
