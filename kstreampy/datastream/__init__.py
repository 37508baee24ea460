"""What `job.py` is written in: Flink's DataStream API under PyFlink's names and module paths."""

from kstreampy.datastream.checkpoint_config import CheckpointConfig
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from kstreampy.datastream.data_stream import DataStream, DataStreamSink, KeyedStream
from kstreampy.datastream.data_stream_utils import DataStreamUtils
from kstreampy.datastream.execution_mode import RuntimeExecutionMode
from kstreampy.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
)
from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment
from kstreampy.datastream.time_domain import TimeDomain
from kstreampy.datastream.timerservice import TimerService

__all__ = [
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "DataStream",
    "DataStreamSink",
    "DataStreamUtils",
    "DeliveryGuarantee",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "Sink",
    "SinkFunction",
    "Source",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimerService",
]
