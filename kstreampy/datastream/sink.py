"""From a sink's description to the node that builds its operator."""

from __future__ import annotations

from typing import Any

from kstreampy.common.kafka_record import KafkaRecordSerializationSchema, SchemaRecordSerializer
from kstreampy.datastream.connectors.kafka import KafkaSink
from kstreampy.errors import JobError
from kstreampy.graph.node import Node, StepNode
from kstreampy.operators.connector import ConnectorSink
from kstreampy.operators.function import SinkFunction, where
from kstreampy.operators.operator import Operator
from kstreampy.operators.sink import ConnectorSinkOperator, FunctionSinkOperator, RecordSinkOperator, TopicSinkOperator


def add_sink_node(source: Node, function: Any) -> Node:
    if not isinstance(function, SinkFunction):
        raise TypeError(f"add_sink takes an instance of a SinkFunction subclass, not {function!r}")

    def build(step: str, _: str) -> Operator:
        return FunctionSinkOperator(step, function)

    return StepNode("sink", (source,), build=build, terminal=True, detail=where(function))


def sink_to_node(source: Node, sink: Any) -> Node:
    if isinstance(sink, KafkaSink):
        return _topic_node(source, sink.record_serializer)
    if isinstance(sink, ConnectorSink):
        return _connector_node(source, sink)
    raise JobError(f"sink_to takes a KafkaSink or a connector's sink, not {sink!r} (was build() called?)")


def _topic_node(source: Node, serializer: KafkaRecordSerializationSchema) -> Node:
    plain = isinstance(serializer, SchemaRecordSerializer) and serializer.is_plain
    topic = serializer.topic if isinstance(serializer, SchemaRecordSerializer) else None

    def build(step: str, _: str) -> Operator:
        if plain and isinstance(serializer, SchemaRecordSerializer) and serializer.topic is not None:
            key = None if serializer.key_schema is None else serializer.key_schema.encoder()
            return TopicSinkOperator(step, serializer.topic, serializer.value_schema.encoder(), key)
        return RecordSinkOperator(step, serializer)

    detail = f"topic {topic}" if topic else "topic chosen per record"
    return StepNode("sink", (source,), build=build, terminal=True, detail=detail, writes=topic)


def _connector_node(source: Node, sink: ConnectorSink) -> Node:
    def build(step: str, uid: str) -> Operator:
        return ConnectorSinkOperator(step, uid, sink)

    return StepNode("sink", (source,), build=build, stateful=True, terminal=True, detail=repr(sink))
