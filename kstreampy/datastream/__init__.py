"""What `job.py` is written in: Flink's DataStream API under PyFlink's names and module paths."""

from typing import TYPE_CHECKING

from kstreampy.common import left_out
from kstreampy.datastream.all_windowed_stream import AllWindowedStream
from kstreampy.datastream.async_data_stream import AsyncDataStream
from kstreampy.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from kstreampy.datastream.checkpoint_config import CheckpointConfig
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.co_grouped_streams import CoGroupedStreams
from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.connected_streams import ConnectedStreams
from kstreampy.datastream.connectors.base import DeliveryGuarantee, Sink, Source
from kstreampy.datastream.data_stream import CachedDataStream, DataStream, DataStreamSink, KeyedStream
from kstreampy.datastream.data_stream_utils import DataStreamUtils
from kstreampy.datastream.execution_mode import RuntimeExecutionMode
from kstreampy.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from kstreampy.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    AssignerWithPeriodicWatermarks,
    AssignerWithPunctuatedWatermarks,
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    MapPartitionFunction,
    NullByteKeySelector,
    Partitioner,
    PassThroughAllWindowFunction,
    PassThroughWindowFunction,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    WindowFunction,
)
from kstreampy.datastream.iterative_stream import ConnectedIterativeStreams, IterativeStream
from kstreampy.datastream.joined_streams import JoinedStreams
from kstreampy.datastream.output_tag import OutputTag
from kstreampy.datastream.partition_windowed_stream import PartitionWindowedStream
from kstreampy.datastream.queryable_state import QueryableStateStream
from kstreampy.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
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
from kstreampy.datastream.writing import OutputFormat, WriteMode

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "AssignerWithPeriodicWatermarks",
    "AssignerWithPunctuatedWatermarks",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedIterativeStreams",
    "ConnectedStreams",
    "CountWindow",
    "DataStream",
    "DataStreamSink",
    "DataStreamUtils",
    "DeliveryGuarantee",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "GlobalWindow",
    "IterativeStream",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MapPartitionFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "NullByteKeySelector",
    "OutputFormat",
    "OutputTag",
    "PartitionWindowedStream",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "QueryableStateStream",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "Sink",
    "SinkFunction",
    "SlotSharingGroup",
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
    "WriteMode",
]

if not TYPE_CHECKING:  # to a type checker, what is not here is not here
    __getattr__ = left_out.of_module(__name__)
