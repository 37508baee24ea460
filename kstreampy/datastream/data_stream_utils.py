"""Flink's `DataStreamUtils`: ways to look at a stream that need no shuffle. (Not in PyFlink.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.data_stream import DataStream, KeyedStream
from kstreampy.datastream.key_selection import selection
from kstreampy.operators.function import KeySelector


class DataStreamUtils:
    @staticmethod
    def reinterpret_as_keyed_stream(
        stream: DataStream, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> KeyedStream:
        """`stream` as keyed by `key_selector`, where its topic is already partitioned by that key: key groups are the topic's
        partitions, and nothing is shuffled.

        A step with two inputs (`connect`, `interval_join`) whose inputs are both such streams reads the two topics side by side,
        as they are, if each is one source's alone and at most map, flat_map, filter and project stand before it, and
        assign_timestamps_and_watermarks directly behind a source that has no strategy of its own; `kstreampy plan` shows it.
        They must then have equally many partitions, and be keyed alike. Otherwise the inputs go through topics of the job's
        own. Once there is state, a change from one to the other is a `JobError`: it would count all input twice.

        The promise that all records of a key are in one partition is the caller's. A topic that a Java producer (or
        kstreampy's sink) keyed with str, bytes or a number by the default partitioner keeps it. State is bound to the
        topic's partitions: their number must not change.
        """
        return KeyedStream(stream, selection("reinterpret_as_keyed_stream", key_selector, (), key_type), in_place=True)
