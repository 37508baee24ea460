"""Flink's plain sinks: text and CSV files, output formats, sockets.

In here: `Writing`, the part of `DataStream` that has these methods; none is in PyFlink. Not in here: what is written how
(`operators/file_sink.py`, `operators/output_format.py`), and the sinks to use in new jobs: topics and connectors (`sink_to`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kstreampy.common.serialization import SerializationSchema
from kstreampy.common.typeinfo import RowTypeInfo, TupleTypeInfo
from kstreampy.common.types import Row
from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.errors import JobError
from kstreampy.graph.node import Node, StepNode
from kstreampy.operators.file_sink import FileSinkOperator, Target, WriteMode
from kstreampy.operators.output_format import OutputFormat, OutputFormatOperator, SocketSinkOperator

__all__ = ["OutputFormat", "WriteMode", "Writing"]

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream

_ONLY_TUPLES = "The writeAsCsv() method can only be used on data streams of tuples"


class Writing:
    """What `DataStream` is made of, beside its own methods."""

    _node: Node
    _input: Callable[[], Node]
    _add: Callable[[Node], Node]
    _without_key: Callable[[], DataStream]

    def write_as_text(self, path: str | os.PathLike[str], write_mode: WriteMode | None = None) -> DataStreamSink:
        """Deprecated: use a connector's `FileSink`. A line per value: its `str`, in UTF-8.

        One task writes the file `path`; of several, task n writes `path/n`, from 1. What a crash undoes is cut off again, so
        a file holds each line once (in Flink it may be there twice). A file that is there fails the job with a `JobError`
        (NO_OVERWRITE, the default) or is written anew (OVERWRITE).
        """
        _deprecated("write_as_text")
        return self._write_file("write_as_text", path, write_mode, _text)

    def write_as_csv(
        self,
        path: str | os.PathLike[str],
        write_mode: WriteMode | None = None,
        row_delimiter: str = "\n",
        field_delimiter: str = ",",
    ) -> DataStreamSink:
        """Deprecated: use a connector's `FileSink`. A line per tuple (or Row): the `str` of each field, nothing for None; as in
        Flink, nothing is quoted. Files are those of `write_as_text`.

        `JobError` for a stream that is declared to hold something else; a value that is no tuple fails the job.
        """
        _deprecated("write_as_csv")
        declared = self._node.type_info
        if declared is not None and not isinstance(declared, TupleTypeInfo | RowTypeInfo):
            raise JobError(f"{_ONLY_TUPLES}, not of {declared!r}")

        def encode(value: Any) -> bytes:
            if not isinstance(value, tuple | Row):
                raise TypeError(f"{_ONLY_TUPLES}, not of {type(value).__name__}")
            fields = ["" if field is None else str(field) for field in value]
            return (field_delimiter.join(fields) + row_delimiter).encode()

        return self._write_file("write_as_csv", path, write_mode, encode)

    def write_using_output_format(self, format: OutputFormat) -> DataStreamSink:
        """Deprecated: use `sink_to`. Calls `format.write_record(value)` per record, at least once. TypeError for anything but
        an instance of an `OutputFormat`."""
        _deprecated("write_using_output_format")
        if not isinstance(format, OutputFormat):
            raise TypeError(f"write_using_output_format takes an instance of an OutputFormat subclass, not {format!r}")

        def build(step: str, _: str) -> OutputFormatOperator:
            return OutputFormatOperator(step, format)

        return self._end("write_using_output_format", build, detail=type(format).__qualname__)

    def write_to_socket(self, host: str, port: int, schema: SerializationSchema) -> DataStreamSink:
        """Sends the bytes that `schema` makes of each value to a server, at least once, from one task, which does not get
        faster with more workers. The job fails when there is no connection, or it breaks. TypeError for what is no
        `SerializationSchema`, ValueError for what is no port."""
        if not isinstance(schema, SerializationSchema):
            raise TypeError(f"write_to_socket takes a SerializationSchema, not {schema!r}")
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
            raise ValueError(f"a port is a number from 1 to 65535, not {port!r}")

        def build(step: str, _: str) -> SocketSinkOperator:
            return SocketSinkOperator(step, host, port, schema.encoder())

        one_task = self._without_key().global_()
        return one_task._end("write_to_socket", build, detail=f"{host}:{port}")

    def _write_file(
        self,
        kind: str,
        path: str | os.PathLike[str],
        write_mode: WriteMode | None,
        encode: Callable[[Any], bytes],
    ) -> DataStreamSink:
        mode = WriteMode.NO_OVERWRITE if write_mode is None else write_mode
        if not isinstance(mode, WriteMode):
            raise TypeError(f"{kind}: the write mode is a WriteMode, not {write_mode!r}")
        target = Target(os.fspath(path), mode, encode)

        def build(step: str, uid: str) -> FileSinkOperator:
            return FileSinkOperator(step, uid, target)

        return self._end(kind, build, detail=target.path, stateful=True)

    def _end(self, kind: str, build: Any, *, detail: str, stateful: bool = False) -> DataStreamSink:
        node = StepNode(kind, (self._input(),), build=build, terminal=True, stateful=stateful, detail=detail)
        return DataStreamSink(self._add(node))


def _text(value: Any) -> bytes:
    return f"{value}\n".encode()


def _deprecated(call: str) -> None:
    warnings.warn(
        f"{call} is deprecated, as in Flink: use sink_to(...) with a KafkaSink or a connector's FileSink",
        DeprecationWarning,
        stacklevel=3,
    )
