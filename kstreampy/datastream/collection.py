"""Collections as sources: `from_collection`. A connector source with one split, whose position is an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kstreampy.errors import JobError
from kstreampy.operators.connector import Records


class CollectionSource:
    """A list's elements, in order, once. Bounded."""

    bounded = True

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def splits(self) -> Sequence[str]:
        return ("collection",)

    def open_split(self, split: str, position: Any | None) -> CollectionReader:
        return CollectionReader(self.values, int(position or 0))


class CollectionReader:
    """Reads on from an index. The collection must be the same at every start of the job."""

    def __init__(self, values: Sequence[Any], position: int) -> None:
        if position > len(values):
            raise JobError(
                f"from_collection: the job had read {position} elements, but the collection now has {len(values)}: it must "
                "be the same at every start under one application id"
            )
        self._values = values
        self._position = position

    def read(self, max_records: int) -> Records:
        values = list(self._values[self._position : self._position + max_records])
        self._position += len(values)
        return Records(values)

    def position(self) -> int:
        return self._position

    def finished(self) -> bool:
        return self._position >= len(self._values)

    def close(self) -> None: ...
