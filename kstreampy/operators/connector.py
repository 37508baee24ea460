"""What an external system must offer to be read from or written to: the protocols behind `connectors/`.

In here: the description (`ConnectorSource`, `ConnectorSink`: frozen, made by the user, shared) and the runner
(`SplitReader`, `SinkWriter`: one per task, opened and closed by it). Not in here: Kafka itself, which is not a
connector but the log the job runs on.

A source that is not Kafka is a stage of its own: its readers' positions are part of its task's checkpoint, so a reader
is always opened at a position it gave before, and reads the same records again from there. A sink's position is what
`SinkWriter.flush` returned at the last committed checkpoint; whatever was written after it must be undone by `open`
(a file is truncated, a transaction is rolled back), which makes the sink exactly-once.

A position is any value of JSON's types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable


class Records(NamedTuple):
    """What a reader read: values, and their timestamps in ms (None: the source knows no time, records have none)."""

    values: list[Any]
    timestamps: list[int] | None = None


class SplitReader(Protocol):
    def read(self, max_records: int) -> Records:
        """Up to `max_records` more; empty when there is nothing at the moment. Never waits long (≤ 0.1 s).
        A record that cannot be decoded raises `ValueError` naming file and line (or the like)."""
        ...

    def position(self) -> Any:
        """Where the next `read` begins."""
        ...

    def finished(self) -> bool:
        """True once everything of a bounded split was read; stays true."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ConnectorSource(Protocol):
    """A source that is not Kafka."""

    @property
    def bounded(self) -> bool: ...

    def splits(self) -> Sequence[str]:
        """Names of the parts that can be read independently, stable over restarts; asked at start, and again now and then
        when not bounded (new ones may appear). A missing input is a `JobError`."""
        ...

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """`position` None: from the beginning."""
        ...


class BadValueError(ValueError):
    """One of the values that `SinkWriter.write` was given cannot be written; the message shows it and says why. `index` is
    its place among them."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class SinkWriter(Protocol):
    def write(self, values: list[Any], timestamps: list[int]) -> None:
        """Raises `BadValueError` for a value that has no form there, which ends the job with that record named."""
        ...

    def flush(self) -> Any:
        """Makes everything written durable and returns the position to go back to. Called once per checkpoint."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class ConnectorSink(Protocol):
    """A sink that is not Kafka."""

    def open_task(self, task: str, position: Any | None) -> SinkWriter:
        """`task` names the writing task, unique in the job and stable over restarts (fit for a file name). `position` None:
        nothing was committed yet, so what an unfinished attempt left is removed."""
        ...
