"""The unit that flows: records of one task as parallel columns.

In here: `Batch` and nothing else. How a batch travels as one Kafka message is `serde/packed.py`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

NO_TIMESTAMP = -(2**63)
"""Timestamp of a record that has none (Flink's Long.MIN_VALUE); also the watermark before the first one."""
MAX_WATERMARK = 2**63 - 1
"""The watermark that says: the input is finished (Flink's Long.MAX_VALUE)."""

Token: TypeAlias = str | int | bytes
"""A key as operators carry it: a `str` or `int` key is itself, any other key is its typed bytes (`serde/key.py`)."""
Headers: TypeAlias = list[tuple[str, bytes | None]]


class Batch:
    """Records as columns of equal length, in order. Columns are never changed in place: a step that leaves a column
    alone passes the same list on.

    `values` any Python objects; `timestamps` int milliseconds (`NO_TIMESTAMP` where there is none); `keys` key tokens,
    or None before the stream is keyed; `headers` one list of pairs or None per record, or None when no record has any.
    """

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(
        self,
        values: list[Any],
        timestamps: list[int],
        keys: list[Token] | None = None,
        headers: list[Headers | None] | None = None,
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.keys = keys
        self.headers = headers

    def __len__(self) -> int:
        return len(self.values)
