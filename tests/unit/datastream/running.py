"""Running small jobs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreampy.common import TypeInformation
from kstreampy.datastream import DataStream, StreamExecutionEnvironment


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def stream_of(values: Sequence[Any], type_info: TypeInformation | None = None) -> DataStream:
    return environment().from_collection(values, type_info)


def results(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as found:
        return list(found)
