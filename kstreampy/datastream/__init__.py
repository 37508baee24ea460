"""What `job.py` is written in: Flink's DataStream API under PyFlink's names and module paths."""

from kstreampy.datastream.all_windowed_stream import AllWindowedStream
from kstreampy.datastream.checkpoint_config import CheckpointConfig
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from kstreampy.datastream.data_stream import DataStream, DataStreamSink, KeyedStream
from kstreampy.datastream.data_stream_utils import DataStreamUtils
from kstreampy.datastream.execution_mode import RuntimeExecutionMode
from kstreampy.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    KeyedProcessFunction,
    MapFunction,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    WindowFunction,
)
from kstreampy.datastream.output_tag import OutputTag
from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment
from kstreampy.datastream.time_domain import TimeDomain
from kstreampy.datastream.timerservice import TimerService
from kstreampy.datastream.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)
from kstreampy.datastream.windowed_stream import WindowedStream

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "DataStreamUtils",
    "DeliveryGuarantee",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "GlobalWindow",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MergingWindowAssigner",
    "OutputTag",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "Sink",
    "SinkFunction",
    "Source",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
