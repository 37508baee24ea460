"""Global tables, as `job.py` draws them: a topic (or a file) that every task has whole, for records to be looked up in.

In here: `GlobalTable`, what may be made one, and `table_join`, which `DataStream.join_table` and `left_join_table` draw. Not in
here: what happens to a record (`operators/table_join.py`). Kafka Streams has these as GlobalKTable; Flink's DataStream API has
not.

What is promised:

- The table is loaded first: a task that begins anew takes in no record of the stream before the table has been read up to its
  end, as that is then. Later on it follows the table's changes as they come; nothing orders them against the stream's records.
- It is exact: the rows are state of the task, part of the same checkpoint as its place in the stream. After a crash a task goes
  on with the rows that its checkpoint had, and a task that moves has them with it.
- It costs a copy per task (key group): in the internal topic, the changelog and the local store. A table is for thousands or
  some millions of rows that change seldom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kstreampy.common.kafka_deserialization import KeyValueDeserializationSchema, ValueOnlyDeserializationSchema
from kstreampy.common.serialization import DeserializationSchema, SimpleStringSchema
from kstreampy.common.typeinfo import TupleTypeInfo, TypeInformation
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.datastream.connectors.kafka import KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from kstreampy.datastream.key_selection import selection
from kstreampy.errors import JobError
from kstreampy.graph.node import BroadcastNode, Node, PairNode, SourceNode
from kstreampy.operators.connector import ConnectorSource
from kstreampy.operators.function import KeySelector, callable_of, where
from kstreampy.operators.join_function import JoinFunction
from kstreampy.operators.route import BroadcastRouteOperator
from kstreampy.operators.stateless import MapOperator
from kstreampy.operators.table_join import TableJoinOperator

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment

TableKey = Callable[[Any], Any] | KeySelector | DeserializationSchema


class GlobalTable:
    """Made by `StreamExecutionEnvironment.global_table`; good for `join_table` and `left_join_table`, of any number of
    streams."""

    def __init__(self, pairs: DataStream, named: Node) -> None:
        """`pairs`: the table's changes, as (key, row); `named`: its source."""
        self.pairs = pairs
        self._named = named

    def get_name(self) -> str:
        """The name it was given."""
        return self._named.name or self._named.kind

    def uid(self, uid: str) -> GlobalTable:
        """The identity of the table's source, as `DataStream.uid`."""
        self._named.uid = uid
        return self

    def row_type(self) -> TypeInformation | None:
        """The declared type of its rows, None if there is none."""
        pair = self.pairs._node.type_info
        return pair.get_field_types()[1] if isinstance(pair, TupleTypeInfo) else None


def draw_table(
    env: StreamExecutionEnvironment, source: str | KafkaSource | ConnectorSource, key: TableKey | None, name: str | None
) -> GlobalTable:
    """See `StreamExecutionEnvironment.global_table`."""
    described: Any = source
    if isinstance(source, str):
        value_schema = JsonDeserializationSchema()
        described = KafkaSource.builder().set_topics(source).set_value_only_deserializer(value_schema).build()
    by_record = key is None or isinstance(key, DeserializationSchema)
    if by_record:
        described = _with_keys(described, key if isinstance(key, DeserializationSchema) else None)
    label = name or (source if isinstance(source, str) else "global table")
    stream = env.from_source(described, WatermarkStrategy.no_watermarks(), label)
    node = stream._node
    assert isinstance(node, SourceNode), "a source without a declared type"
    node.is_table = True
    node.kind = "global_table"
    if by_record:
        return GlobalTable(stream, node)
    return GlobalTable(_keyed(stream, key), node)


def _with_keys(source: Any, key_schema: DeserializationSchema | None) -> KafkaSource:
    """The source of pairs of the record's key and its value."""
    if not isinstance(source, KafkaSource):
        raise JobError(
            f"global_table: {source!r} has no keys of its own: give key=, which selects a row's key from the row"
        )
    deserializer = source.deserializer
    if isinstance(deserializer, KeyValueDeserializationSchema) and key_schema is None:
        return source
    if not isinstance(deserializer, ValueOnlyDeserializationSchema):
        raise JobError(
            f"global_table: {type(deserializer).__name__} does not say which is the row's key: give key=, a function of what "
            "it gives, or use KafkaRecordDeserializationSchema.key_value(...)"
        )
    pairs = KeyValueDeserializationSchema(key_schema or SimpleStringSchema(), deserializer.value_schema)
    return replace(source, deserializer=pairs)


def _keyed(stream: DataStream, key: Any) -> DataStream:
    select = selection("global_table", key, (), None).select
    by_key = where(key)

    def pair(row: Any) -> tuple[Any, Any]:
        if row is None:
            raise ValueError(
                f"a null value, of which {by_key} cannot tell the row's key: leave key= out, so that it is the record's key"
            )
        return select(row), row

    return stream._step("table_key", lambda step, _: MapOperator(step, pair), None, coerce=False, detail=by_key)


def table_join(
    stream: DataStream,
    table: GlobalTable,
    key_selector: Callable[[Any], Any] | KeySelector,
    function: Callable[[Any, Any], Any] | JoinFunction,
    output_type: TypeInformation | None,
    *,
    left: bool,
) -> DataStream:
    """See `DataStream.join_table` and `left_join_table`."""
    # Modules that have this one below them.
    from kstreampy.datastream.connected_streams import check_same_environment, input_node
    from kstreampy.datastream.stream import DataStream

    call = "left_join_table" if left else "join_table"
    if not isinstance(table, GlobalTable):
        raise TypeError(f"{call} takes a GlobalTable, which env.global_table(...) gives, not {table!r}")
    callable_of(function, JoinFunction, "join")
    select = callable_of(key_selector, KeySelector, "get_key")
    check_same_environment(stream, table.pairs)
    pairs = table.pairs._node
    whole = BroadcastNode("broadcast", (pairs,), pairs.type_info, route=BroadcastRouteOperator)
    stream._add(whole)
    build = partial(
        TableJoinOperator,
        function=function,
        select=select,
        select_where=where(key_selector),
        row_type=table.row_type(),
        left=left,
    )
    node = PairNode(
        call,
        (input_node(stream), whole),
        output_type,
        build=build,
        stateful=True,
        coerce=output_type is not None,
        detail=f"{table.get_name()}, {where(function)}",
        is_table=True,
    )
    return DataStream(stream._env, stream._add(node))
