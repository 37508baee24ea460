"""From a sink's description to the node that builds its operator.

Not in here: the descriptions (`connectors/`) and the operators (`operators/sink.py`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kstreampy.common.kafka_serialization import SchemaRecordSerializer, SelectedKeySchema
from kstreampy.common.serialization import SerializationSchema
from kstreampy.datastream.connectors.base import DeliveryGuarantee
from kstreampy.datastream.connectors.kafka import KafkaSink
from kstreampy.errors import JobError
from kstreampy.graph.node import Cluster, Node, StepNode
from kstreampy.operators.connector import ConnectorSink
from kstreampy.operators.function import SinkFunction, refuse_async, where
from kstreampy.operators.operator import Operator
from kstreampy.operators.sink import (
    ConnectorSinkOperator,
    FunctionSinkOperator,
    KeyedFunctionSinkOperator,
    KeysOf,
    RecordSinkOperator,
    TopicSinkOperator,
)


def add_sink_node(source: Node, function: Any, *, keyed: bool = False) -> Node:
    """`keyed`: the function uses keyed state. TypeError for anything but an instance of a `SinkFunction`."""
    if not isinstance(function, SinkFunction):
        raise TypeError(f"add_sink takes an instance of a SinkFunction subclass, not {function!r}")
    refuse_async(function.invoke, "invoke")

    def build(step: str, uid: str) -> Operator:
        return KeyedFunctionSinkOperator(step, uid, function) if keyed else FunctionSinkOperator(step, function)

    return StepNode("sink", (source,), build=build, stateful=keyed, terminal=True, detail=where(function))


def sink_to_node(source: Node, sink: Any) -> Node:
    """JobError for what is no sink."""
    if isinstance(sink, KafkaSink):
        return _topic_node(source, sink)
    if isinstance(sink, ConnectorSink):
        return _connector_node(source, sink)
    raise JobError(f"sink_to takes a KafkaSink or a connector's sink, not {sink!r} (was build() called?)")


def _topic_node(source: Node, sink: KafkaSink) -> Node:
    serializer = sink.record_serializer
    plain = isinstance(serializer, SchemaRecordSerializer) and serializer.is_plain
    topic = serializer.topic if isinstance(serializer, SchemaRecordSerializer) else None

    def build(step: str, _: str) -> Operator:
        if plain and isinstance(serializer, SchemaRecordSerializer) and serializer.topic is not None:
            keys_of = None if serializer.key_schema is None else _keys_of(serializer.key_schema)
            schema = serializer.value_schema
            encode = schema.encoder()
            explain = None if encode == schema.serialize else schema.serialize
            return TopicSinkOperator(step, serializer.topic, encode, keys_of, explain)
        return RecordSinkOperator(step, serializer)

    asked = sink.delivery_guarantee
    return StepNode(
        "sink",
        (source,),
        build=build,
        terminal=True,
        detail=f"topic {topic}" if topic else "topic chosen per record",
        writes=topic,
        cluster=Cluster(sink.bootstrap_servers, sink.properties),
        exactly_once=None if asked is None else asked is DeliveryGuarantee.EXACTLY_ONCE,
    )


def _keys_of(schema: SerializationSchema) -> KeysOf:
    return schema.serialize_each if isinstance(schema, SelectedKeySchema) else partial(map, schema.encoder())


def _connector_node(source: Node, sink: ConnectorSink) -> Node:
    def build(step: str, uid: str) -> Operator:
        return ConnectorSinkOperator(step, uid, sink)

    return StepNode("sink", (source,), build=build, stateful=True, terminal=True, detail=repr(sink))
