"""`NumberSequenceSource`: the whole numbers from here to there, in order. For examples and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreampy.datastream.connectors.base import Source
from kstreampy.errors import JobError
from kstreampy.operators.connector import Records

__all__ = ["NumberSequenceSource"]


class NumberSequenceSource(Source):
    """Emits `start`, `start + 1`, … `end`, both included. One split, so that their order is kept (Flink deals
    them out to its parallel readers). `JobError` when `start` is above `end`."""

    bounded = True

    def __init__(self, start: int, end: int) -> None:
        if type(start) is not int or type(end) is not int:
            raise JobError(f"NumberSequenceSource: start and end must be int, not {start!r} and {end!r}")
        if start > end:
            raise JobError(f"NumberSequenceSource: start must not be above end: {start} > {end}")
        self.start = start
        self.end = end

    def splits(self) -> Sequence[str]:
        return ("numbers",)

    def open_split(self, split: str, position: Any | None) -> NumberReader:
        return NumberReader(self.start if position is None else position, self.end)

    def __repr__(self) -> str:
        return f"NumberSequenceSource({self.start}, {self.end})"


class NumberReader:
    """The position is the next number."""

    def __init__(self, following: int, end: int) -> None:
        self._next = following
        self._end = end

    def read(self, max_records: int) -> Records:
        values = list(range(self._next, min(self._next + max_records, self._end + 1)))
        self._next += len(values)
        return Records(values)

    def position(self) -> int:
        return self._next

    def finished(self) -> bool:
        return self._next > self._end

    def close(self) -> None: ...
