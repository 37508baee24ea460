"""The user's vocabulary, under PyFlink's names: types, rows, time, schemas, watermark strategies,
configuration.

Knows nothing of Kafka, state or the runtime. What is exported here is what `pyflink.common` exports and has a
meaning without a JVM; each module below exports its own names.
"""

from typing import TYPE_CHECKING

from kstreampy.common import left_out
from kstreampy.common.completable_future import CompletableFuture
from kstreampy.common.config_options import ConfigOption, ConfigOptions
from kstreampy.common.configuration import Configuration
from kstreampy.common.execution_config import ExecutionConfig
from kstreampy.common.job_client import JobClient
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.job_id import JobID
from kstreampy.common.job_status import JobStatus
from kstreampy.common.order import Order
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from kstreampy.common.time import Duration, Instant, Time
from kstreampy.common.typeinfo import TypeInformation, Types
from kstreampy.common.types import Row, RowKind
from kstreampy.common.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = [
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "Order",
    "OutputTag",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]

if not TYPE_CHECKING:  # to a type checker, what is not here is not here
    __getattr__ = left_out.of_module(__name__)
