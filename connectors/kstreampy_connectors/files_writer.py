"""Writes the part files of one task: `FileWriter`.

In here: part files, truncation to a position, rolling, gzip members, the lock. Not in here: what a line looks
like (`files_encode.py`).
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import os
import re
import time
from dataclasses import dataclass
from typing import IO, Any

from kstreampy.errors import JobError, KStreamError
from kstreampy.operators.connector import BadValueError
from kstreampy_connectors.files_encode import Encoding, shown

_LOCK_WAIT_S = 5.0


@dataclass(frozen=True)
class PartSettings:
    """Where and how the part files of all tasks are written. `roll_bytes` None: never roll."""

    directory: str
    encoding: Encoding
    compression: str | None
    roll_bytes: int | None
    prefix: str
    suffix: str


class FileWriter:
    """The `SinkWriter` of one task: parts `<prefix>-<task>-<n><suffix>`, of which only the last one grows.

    Position: {"file", "length" in bytes, "columns"}; file is None before the first record. Opening at a
    position truncates that part and removes later ones, so what was written after it is undone. Owned by one
    task.
    """

    def __init__(self, settings: PartSettings, task: str, position: dict[str, Any] | None) -> None:
        if not task or "/" in task:
            raise JobError(f"FileSink: task name {task!r} cannot be part of a file name")
        self._settings = settings
        self._stem = f"{settings.prefix}-{task}-"
        self._part = 0
        self._name: str | None = None
        self._length = 0
        self._file: IO[bytes] | None = None
        self._member: gzip.GzipFile | None = None
        self._dirty = False
        self._encoder = settings.encoding.encoder((position or {}).get("columns"))
        try:
            os.makedirs(settings.directory, exist_ok=True)
            self._lock = _locked(self._path(f".{self._stem}lock"))
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise JobError(f"FileSink: cannot write into {settings.directory}: {error.strerror}") from error
        try:
            self._go_back(position)
        except BaseException:
            os.close(self._lock)
            raise

    def write(self, values: list[Any], timestamps: list[int]) -> None:
        if not values:
            return
        lines = self._encoded(values)
        out = self._out()
        fresh = self._length == 0 and not self._dirty
        self._dirty = True
        if fresh:
            out.write(self._encoder.header())
        out.write(lines)

    def _encoded(self, values: list[Any]) -> bytes:
        try:
            return self._encoder.encode(values)
        except Exception:
            for index, value in enumerate(values):
                self._try(index, value)
            raise

    def _try(self, index: int, value: Any) -> None:
        """`BadValueError` for a value that cannot be encoded."""
        try:
            self._encoder.encode([value])
        except KStreamError:
            raise
        except Exception as error:
            told = type(error) is ValueError
            reason = str(error) if told else f"{shown(value)} cannot be written: {type(error).__name__}: {error}"
            raise BadValueError(reason, index) from error

    def flush(self) -> dict[str, Any]:
        if self._file is not None and self._dirty:
            if self._member is not None:
                self._member.close()
                self._member = None
            self._file.flush()
            os.fsync(self._file.fileno())
            self._length = self._file.tell()
            self._dirty = False
        position: dict[str, Any] = {"file": self._name, "length": self._length}
        columns = self._encoder.columns()
        if columns is not None:
            position["columns"] = columns
        if self._file is not None and self._full():
            self._file.close()
            self._file = None
        return position

    def close(self) -> None:
        """Drops what was not flushed. Safe to call twice."""
        if self._lock < 0:
            return
        try:
            if self._file is not None:
                self._drop_tail(self._file)
        finally:
            os.close(self._lock)
            self._lock = -1

    def _drop_tail(self, file: IO[bytes]) -> None:
        with contextlib.suppress(OSError):  # a full disk: the tail is cut off by the next open
            if self._member is not None:
                self._member.close()
            file.flush()
        with contextlib.suppress(OSError):
            file.close()
        if not self._dirty or self._name is None:
            return
        if self._length == 0:
            os.unlink(self._path(self._name))
        else:
            os.truncate(self._path(self._name), self._length)

    def _full(self) -> bool:
        roll_bytes = self._settings.roll_bytes
        return roll_bytes is not None and self._length >= roll_bytes

    def _out(self) -> IO[bytes] | gzip.GzipFile:
        """What to write to; compressed, each flush ends a gzip member, so that the file can be cut there."""
        file = self._file or self._next_part()
        if self._settings.compression is None:
            return file
        if self._member is None:
            self._member = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
        return self._member

    def _next_part(self) -> IO[bytes]:
        if self._name is not None:
            self._part += 1
        self._name = f"{self._stem}{self._part}{self._settings.suffix}"
        self._length = 0
        self._file = open(self._path(self._name), "xb")  # noqa: SIM115 (closed by flush or close)
        self._sync_directory()
        return self._file

    def _go_back(self, position: dict[str, Any] | None) -> None:
        name = position["file"] if position is not None else None
        last = -1
        if name is not None:
            last = self._number(name)
            if last < 0:
                raise JobError(
                    f"FileSink: the last checkpoint wrote {name} in {self._settings.directory}, but "
                    f"this task's parts are now called {self._stem}<n>: keep prefix and name, or use a "
                    "new directory"
                )
        for other in os.listdir(self._settings.directory):
            if self._number(other) > last:
                os.unlink(self._path(other))
        if position is not None and name is not None:
            self._truncate(name, position["length"])
            self._part, self._name, self._length = last, name, position["length"]
            if name == f"{self._stem}{last}{self._settings.suffix}" and not self._full():
                self._file = open(self._path(name), "r+b")  # noqa: SIM115 (closed by flush or close)
                self._file.seek(self._length)
        self._sync_directory()

    def _truncate(self, name: str, length: int) -> None:
        path = self._path(name)
        size = os.path.getsize(path) if os.path.exists(path) else None
        if size is None or size < length:
            found = "is not there" if size is None else f"has {size} bytes"
            raise JobError(
                f"FileSink: {path} {found}, but the last checkpoint had written {length} bytes to it. "
                "Put it back, or reset the job to write everything again; take away only parts "
                "that are not the last one of a task"
            )
        os.truncate(path, length)
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def _number(self, name: str) -> int:
        """Which part of this task it is; -1 for other files."""
        match = re.fullmatch(re.escape(self._stem) + r"(\d+)(\..+)?", name)
        return int(match[1]) if match else -1

    def _path(self, name: str) -> str:
        return os.path.join(self._settings.directory, name)

    def _sync_directory(self) -> None:
        descriptor = os.open(self._settings.directory, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def _locked(path: str) -> int:
    """A lock that no other writer of the task has: a worker that lost its task may still be writing."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise JobError(
                    f"FileSink: another writer holds {path}. Do two jobs write to this directory under the same names?"
                ) from None
            time.sleep(0.05)
