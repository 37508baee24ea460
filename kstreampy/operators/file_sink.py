"""Plain text files as sinks: `write_as_text` and `write_as_csv`, with what Flink's do not have: nothing is lost or comes twice.

In here: `FileSinkOperator`, and `TargetFile`, the file of one task, which goes back to the length that the last checkpoint had
written. Not in here: part files, rolling, compression (the connector's `FileSink`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kstreampy.errors import JobError, KStreamError
from kstreampy.operators.operator import TaskContext, failed_at, failure
from kstreampy.operators.sink import Terminal
from kstreampy.serde.batch import Batch

_LOCK_WAIT_S = 5.0


class WriteMode(Enum):
    """What becomes of a file that is there before the job."""

    NO_OVERWRITE = "no-overwrite"
    """The job is refused."""
    OVERWRITE = "overwrite"
    """It is written anew."""


@dataclass(frozen=True)
class Target:
    """Where to, and what each value becomes. One task writes the file `path`; of several, task n writes `path/n`, from 1."""

    path: str
    mode: WriteMode
    encode: Callable[[Any], bytes]


class FileSinkOperator(Terminal):
    """Writes each value to its task's file."""

    may_change_values = False
    file: TargetFile | None = None

    def __init__(self, step: str, uid: str, target: Target) -> None:
        super().__init__(step)
        self.uid = uid
        self.target = target

    def open(self, context: TaskContext) -> None:
        super().open(context)
        path = self.target.path
        if context.partitions > 1:
            path = os.path.join(path, str(context.partition + 1))
        owner = f"{context.application_id}/{self.uid}"
        self.file = TargetFile(path, self.target.mode, owner, context.positions.get(self.uid))

    def process(self, batch: Batch) -> None:
        assert self.file is not None, "opened before the first batch"
        encode = self.target.encode
        values = iter(batch.values)
        try:
            lines = [encode(value) for value in values]
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index]) from error
        self.file.write(b"".join(lines))
        self.context.records_out += len(batch.values)

    def flush(self) -> None:
        assert self.file is not None, "opened before the first checkpoint"
        self.context.positions[self.uid] = self.file.flush()

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            file.close()


class TargetFile:
    """One file, written by one task. A position is its length in bytes; to open it at one undoes what was written after.

    Beside a file that no checkpoint is known to have, `.<name>.begun` says which job began it, so that the job finds it to be
    its own after a crash, and never takes another's for it. Nothing is buffered in this process, so that a task which is gone
    writes nothing later.
    """

    def __init__(self, path: str, mode: WriteMode, owner: str, position: int | None) -> None:
        """JobError where the file cannot be what it must be: it is there, or not what the last checkpoint wrote."""
        self._path = path
        directory, name = os.path.split(os.path.abspath(path))
        self._mark = os.path.join(directory, f".{name}.begun")
        self._length = position or 0
        self._dirty = False
        self._flushed_before = False
        try:
            os.makedirs(directory, exist_ok=True)
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise JobError(f"{path} cannot be written: {error.filename}: {error.strerror}") from error
        if position is None:
            self._check_new(mode, owner)
        else:
            self._check_length(position)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._file, path)
            os.ftruncate(self._file, self._length)
            os.lseek(self._file, self._length, os.SEEK_SET)
        except BaseException:
            os.close(self._file)
            raise

    def _check_new(self, mode: WriteMode, owner: str) -> None:
        if os.path.isdir(self._path):
            raise JobError(f"{self._path} is a directory, but one file is to be written: name another path")
        if os.path.exists(self._path) and mode is WriteMode.NO_OVERWRITE and self._begun_by() != owner:
            raise JobError(
                f"File or directory {self._path} already exists. Existing files and directories are not overwritten in "
                "NO_OVERWRITE mode. Use OVERWRITE mode to overwrite existing files, or name another path"
            )
        with open(self._mark, "w") as mark:
            mark.write(owner)
            mark.flush()
            os.fsync(mark.fileno())

    def _begun_by(self) -> str | None:
        try:
            with open(self._mark) as mark:
                return mark.read()
        except FileNotFoundError:
            return None

    def _check_length(self, position: int) -> None:
        size = os.path.getsize(self._path) if os.path.isfile(self._path) else None
        if size is None or size < position:
            found = "is not there" if size is None else f"has {size} bytes"
            raise JobError(
                f"{self._path} {found}, but the last checkpoint had written {position} bytes to it: put it back, or reset the "
                "job to write everything again"
            )
        self._forget_mark()

    def _forget_mark(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._mark)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        self._dirty = self._dirty or bool(data)
        while view:
            view = view[os.write(self._file, view) :]

    def flush(self) -> int:
        """Makes it durable; the position. The second call tells that the checkpoint of the first was made."""
        if self._flushed_before:
            self._forget_mark()
        self._flushed_before = True
        if self._dirty:
            os.fsync(self._file)
            self._length = os.lseek(self._file, 0, os.SEEK_CUR)
            self._dirty = False
        return self._length

    def close(self) -> None:
        """Drops what was not flushed."""
        try:
            if self._dirty:
                os.ftruncate(self._file, self._length)
        finally:
            os.close(self._file)


def _lock(file: int, path: str) -> None:
    """Keeps a process that lost its task from writing on."""
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                raise JobError(f"another process writes to {path}: do two jobs write to it?") from None
            time.sleep(0.05)
