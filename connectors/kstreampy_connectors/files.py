"""Files as a source and a sink: CSV, JSON lines and plain text, compressed or not, bounded or followed.

In here: `FileSource` and `FileSink` as the user describes them. How they work: `files_reader.py` over
`files_input.py` and `files_format.py`; `files_writer.py` over `files_encode.py`.

    flights = FileSource.csv("data/flights.csv.zip")
    out = FileSink.json_lines("out", compression="gzip")
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kstreampy.common.serialization import Encoder
from kstreampy.common.typeinfo import RowTypeInfo
from kstreampy.errors import JobError
from kstreampy.operators.connector import SinkWriter, SplitReader
from kstreampy_connectors.files_encode import (
    CsvEncoding,
    Encoding,
    JsonLinesEncoding,
    RowEncoding,
    columns_setting,
)
from kstreampy_connectors.files_format import CsvFormat, Format, JsonLinesFormat
from kstreampy_connectors.files_input import Compression, LineFile, compression_of
from kstreampy_connectors.files_options import OutputFileConfig, RollingPolicy, StreamFormat
from kstreampy_connectors.files_reader import FileReader
from kstreampy_connectors.files_writer import FileWriter, PartSettings

__all__ = [
    "Encoder",
    "FileSink",
    "FileSinkBuilder",
    "FileSource",
    "FileSourceBuilder",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
]

_COMPRESSIONS = ("auto", "gzip", "bz2", "xz", "zip", None)


@dataclass(frozen=True)
class FileSource:
    """Reads files record by record; each file is a split, named by its path as given.

    `paths` are files, globs (`**` for any depth) and directories (their files, without subfolders and names
    that begin with "." or "_"). Relative paths are relative to the worker's directory, and a job that moves
    to another machine must find its files there under the same paths.

    Bounded, each file is read to where it ends when the job opens it. With `follow`, the paths are looked
    through again and again for new files, and plain files (not compressed ones, which are read once) are read
    on as they grow; a last line counts once its newline is there. A file whose directory is there may come
    later. Files must only be appended to: one that was replaced or truncated ends the job with a `JobError`
    that says so. One that was deleted is finished. A file that is to come at once is written under a name
    that begins with ".", then renamed.

    A record that cannot be read is a ValueError naming file, line and column. UTF-8, with or without
    byte-order mark. A zip must hold one file.
    """

    paths: tuple[str, ...]
    format: Format
    compression: Compression | None = "auto"
    follow: bool = False
    timestamp: Callable[[Any], int | None] | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise JobError("FileSource: give at least one path")
        if self.compression not in _COMPRESSIONS:
            raise JobError(f"FileSource: compression must be one of {_COMPRESSIONS}, not {self.compression!r}")

    @staticmethod
    def csv(
        *paths: str | os.PathLike[str],
        schema: RowTypeInfo | None = None,
        header: bool = True,
        delimiter: str = ",",
        null_values: Sequence[str] | None = None,
        compression: Compression | None = "auto",
        follow: bool = False,
        timestamp: Callable[[Any], int | None] | None = None,
    ) -> FileSource:
        """CSV as of RFC 4180: quotes are `"`, doubled inside of quotes; lines end with LF or CRLF; blank
        lines are passed over.

        Without `schema` a value is a dict of str; the names are the header's, or f0, f1 … with
        `header=False`. With one it is a Row with the schema's fields, in its order and types: found by name
        in the header (other columns are left out), or by position with `header=False`. A field whose text is
        in `null_values` is None; the default is the empty text with a schema, and no text without one.
        `compression` "auto" goes by the file name. `timestamp` gives a value's event time in ms, None for no
        time.
        """
        if isinstance(null_values, str):
            raise JobError(f"FileSource: null_values must be a list of texts, not the text {null_values!r}")
        nulls = tuple(null_values) if null_values is not None else ("",) if schema is not None else ()
        form = CsvFormat(schema=schema, header=header, delimiter=delimiter, null_values=nulls)
        return FileSource(_as_text(paths), form, compression, follow, timestamp)

    @staticmethod
    def json_lines(
        *paths: str | os.PathLike[str],
        schema: RowTypeInfo | None = None,
        compression: Compression | None = "auto",
        follow: bool = False,
        timestamp: Callable[[Any], int | None] | None = None,
    ) -> FileSource:
        """One JSON value per line. With `schema` a value is a Row with its fields and types: a field that is
        not in the object is None, one that is not in the schema is left out. Otherwise as `csv`."""
        return FileSource(_as_text(paths), JsonLinesFormat(schema), compression, follow, timestamp)

    @staticmethod
    def for_record_stream_format(stream_format: Format, *paths: str | os.PathLike[str]) -> FileSourceBuilder:
        """PyFlink's way: `FileSource.for_record_stream_format(StreamFormat.text_line_format(),
        path).build()`."""
        return FileSourceBuilder(FileSource(_as_text(paths), stream_format))

    @property
    def bounded(self) -> bool:
        return not self.follow

    def splits(self) -> list[str]:
        """The files there are now, in the order of `paths`, sorted within each. `JobError` for a path that is
        not there; with `follow`, for one that cannot come, as its directory is not there."""
        return list(dict.fromkeys(name for path in self.paths for name in self._files(path)))

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        file = LineFile(split, compression_of(split, self.compression), follow=self.follow)
        try:
            return FileReader(file, self.format, self.timestamp, position)
        except BaseException:
            file.close()
            raise

    def _files(self, path: str) -> list[str]:
        if os.path.isfile(path):
            return [path]
        if os.path.isdir(path):
            found = [entry for entry in glob.iglob(os.path.join(glob.escape(path), "*")) if not _hidden(entry)]
        elif glob.has_magic(path):
            found = glob.glob(path, recursive=True)
        elif self.follow and os.path.isdir(os.path.dirname(path) or "."):
            return []
        else:
            raise JobError(f"FileSource: there is no file or directory {path} (looked from {os.getcwd()})")
        files = sorted(name for name in found if os.path.isfile(name))
        if not files and not self.follow:
            raise JobError(f"FileSource: there is no file in {path} (looked from {os.getcwd()})")
        return files


@dataclass(frozen=True)
class FileSourceBuilder:
    """PyFlink's builder of a `FileSource`; each call returns a builder."""

    source: FileSource

    def monitor_continuously(self, discovery_interval: object = None) -> FileSourceBuilder:
        """Follow: see `FileSource`. How often new files are looked for is the runtime's; `discovery_interval`
        is taken so that PyFlink's programs run, and has no effect."""
        return FileSourceBuilder(replace(self.source, follow=True))

    def process_static_file_set(self) -> FileSourceBuilder:
        """Bounded, the default."""
        return FileSourceBuilder(replace(self.source, follow=False))

    def build(self) -> FileSource:
        return self.source


@dataclass(frozen=True)
class FileSink:
    """Writes part files `part-<task>-<n>.<format>` into `directory`, exactly once.

    Each task appends to a part of its own and begins the next one, at a checkpoint, once it has `roll_bytes`.
    Every checkpoint makes what was written durable; after a crash the part is cut to what the last committed
    checkpoint had written, and later parts are removed. Parts grow under their final names: whoever reads the
    directory while the job runs may see records that a crash will undo and the restarted job will write
    again; parts that are not their task's last one are final from the next checkpoint on. Do not rename or
    remove a task's last part while the job is to be continued. A hidden lock file per task keeps two writers
    apart. A job that begins anew (in memory, or under another application id) removes the parts that are
    there under its tasks' names, whoever wrote them: give each job a directory of its own.

    `compression` "gzip" begins a new gzip member at each checkpoint; every gzip tool reads such files as one.
    """

    directory: str
    encoding: Encoding
    compression: Literal["gzip"] | None = None
    roll_bytes: int | None = None
    parts: OutputFileConfig = field(default_factory=OutputFileConfig)

    def __post_init__(self) -> None:
        if self.compression not in (None, "gzip"):
            raise JobError(f'FileSink: compression must be None or "gzip", not {self.compression!r}')
        if self.roll_bytes is not None and self.roll_bytes <= 0:
            raise JobError(f"FileSink: roll_bytes must be more than 0, not {self.roll_bytes}")

    @staticmethod
    def csv(
        directory: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        header: bool = True,
        delimiter: str = ",",
        null_value: str = "",
        compression: Literal["gzip"] | None = None,
        roll_bytes: int | None = None,
    ) -> FileSink:
        """CSV with LF line ends; a header at the beginning of each part. Values are dicts, Rows, dataclasses,
        Structs or named tuples, whose fields are columns by name (one that is missing is None, one that is
        not a column is a ValueError), or tuples, lists and unnamed Rows by position. `columns` None: those of
        each task's first record. None is written as `null_value`, which should be a text that no field has;
        bool as true and false, dates and times as ISO 8601, bytes as base64; a field that is a list or a dict
        is a ValueError."""
        encoding = CsvEncoding(columns_setting(columns), header, delimiter, null_value)
        return FileSink(os.fspath(directory), encoding, compression, roll_bytes)

    @staticmethod
    def json_lines(
        directory: str | os.PathLike[str],
        *,
        compression: Literal["gzip"] | None = None,
        roll_bytes: int | None = None,
    ) -> FileSink:
        """One JSON value per line: what msgspec encodes (dicts, dataclasses, dates …), and Rows: objects with
        names, arrays without."""
        return FileSink(os.fspath(directory), JsonLinesEncoding(), compression, roll_bytes)

    @staticmethod
    def for_row_format(base_path: str | os.PathLike[str], encoder: Encoder) -> FileSinkBuilder:
        """PyFlink's way: `FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()`."""
        return FileSinkBuilder(FileSink(os.fspath(base_path), RowEncoding(encoder)))

    def open_task(self, task: str, position: Any | None) -> SinkWriter:
        zipped = ".gz" if self.compression == "gzip" else ""
        suffix = (self.parts.part_suffix or self.encoding.suffix) + zipped
        settings = PartSettings(
            self.directory, self.encoding, self.compression, self.roll_bytes, self.parts.part_prefix, suffix
        )
        return FileWriter(settings, task, position)


@dataclass(frozen=True)
class FileSinkBuilder:
    """PyFlink's builder of a `FileSink`; each call returns a builder. There are no buckets: parts lie in the
    base path."""

    sink: FileSink

    def with_output_file_config(self, output_file_config: OutputFileConfig) -> FileSinkBuilder:
        return FileSinkBuilder(replace(self.sink, parts=output_file_config))

    def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSinkBuilder:
        return FileSinkBuilder(replace(self.sink, roll_bytes=rolling_policy.part_bytes))

    def build(self) -> FileSink:
        return self.sink


def _as_text(paths: tuple[str | os.PathLike[str], ...]) -> tuple[str, ...]:
    return tuple(os.fspath(path) for path in paths)


def _hidden(path: str) -> bool:
    return os.path.basename(path).startswith((".", "_"))
