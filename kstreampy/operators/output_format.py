"""Sinks that write record by record, at least once: `write_using_output_format` and `write_to_socket`.

In here: `OutputFormat`, what a user writes for the former, and the operators of both. Not in here: files (`file_sink.py`).
"""

from __future__ import annotations

import copy
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from kstreampy.errors import JobError, KStreamError
from kstreampy.operators.function import where
from kstreampy.operators.operator import TaskContext, failed_at, failure
from kstreampy.operators.sink import Terminal
from kstreampy.serde.batch import Batch

_CONNECT_S = 20.0


class OutputFormat(ABC):
    """Writes records somewhere. Each task has a copy. It has no part in checkpoints: records that were written before a crash
    may be written again, so a `ConnectorSink` (`kstreampy.operators.connector`) is the better choice."""

    @abstractmethod
    def open(self, task_number: int, num_tasks: int) -> None:
        """Called once before the first record; task numbers begin at 0."""

    @abstractmethod
    def write_record(self, record: Any) -> None:
        """One record."""

    @abstractmethod
    def close(self) -> None:
        """Called once at the end of the task, also after an error, and also when `open` itself failed."""


class OutputFormatOperator(Terminal):
    """Calls an `OutputFormat` per record."""

    def __init__(self, step: str, given: OutputFormat) -> None:
        super().__init__(step)
        self.where = where(type(given))
        try:
            self.format = copy.deepcopy(given)
        except Exception as error:
            raise JobError(
                f"{type(given).__name__} cannot be copied for a task ({error}): create files, connections and the like in "
                "open(), not in __init__()"
            ) from error
        self._opened = False

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self._opened = True
        self.format.open(context.partition, context.partitions)

    def process(self, batch: Batch) -> None:
        write = self.format.write_record
        values = iter(batch.values)
        try:
            for value in values:
                write(value)
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        self.context.records_out += len(batch.values)

    def close(self) -> None:
        opened, self._opened = self._opened, False
        if opened:
            self.format.close()


class SocketSinkOperator(Terminal):
    """Sends each value's bytes, one after the other, to a server. Only the first task has a connection: all records come to
    it."""

    may_change_values = False
    connection: socket.socket | None = None

    def __init__(self, step: str, host: str, port: int, encode: Callable[[Any], bytes | None]) -> None:
        super().__init__(step)
        self.address = (host, port)
        self.encode = encode

    def open(self, context: TaskContext) -> None:
        super().open(context)
        if context.partition == 0:
            try:
                self.connection = socket.create_connection(self.address, _CONNECT_S)
                self.connection.settimeout(None)
            except OSError as error:
                raise self._broken("cannot connect to", error) from error

    def process(self, batch: Batch) -> None:
        encode = self.encode
        values = iter(batch.values)
        try:
            parts = [encode(value) or b"" for value in values]
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index], "its schema") from error
        assert self.connection is not None, "all records come to the first task"
        try:
            self.connection.sendall(b"".join(parts))
        except OSError as error:
            raise self._broken("cannot send to", error) from error
        self.context.records_out += len(batch.values)

    def _broken(self, what: str, error: OSError) -> KStreamError:
        host, port = self.address
        return KStreamError(f"{self.step}: {what} {host}:{port}: {error}")

    def close(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
