"""A source that is not Kafka, for tests: named splits, each a list of values, that may grow while the job runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreampy.operators.connector import Records


class Parts:
    """`times` gives a value its timestamp; `bad` is a value that cannot be decoded."""

    def __init__(
        self, splits: dict[str, list[Any]], *, bounded: bool = True, times: bool = False, bad: Any = None
    ) -> None:
        self.values = splits
        self.bounded = bounded
        self.times = times
        self.bad = bad
        self.opened: list[tuple[str, Any]] = []
        self.closed: list[str] = []

    def splits(self) -> Sequence[str]:
        return list(self.values)

    def open_split(self, split: str, position: Any | None) -> PartReader:
        self.opened.append((split, position))
        return PartReader(self, split, position or 0)


class PartReader:
    def __init__(self, parts: Parts, split: str, position: int) -> None:
        self.parts = parts
        self.split = split
        self.at = position

    def read(self, max_records: int) -> Records:
        found = self.parts.values[self.split][self.at : self.at + 2]
        for index, value in enumerate(found):
            if value == self.parts.bad and value is not None:
                raise ValueError(f"{self.split}, line {self.at + index + 1}: bad")
        self.at += len(found)
        return Records(found, [int(value) for value in found] if self.parts.times else None)

    def position(self) -> int:
        return self.at

    def finished(self) -> bool:
        return self.parts.bounded and self.at >= len(self.parts.values[self.split])

    def close(self) -> None:
        self.parts.closed.append(self.split)
