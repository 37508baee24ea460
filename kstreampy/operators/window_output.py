"""What a windowed step emits, held until the batch (or the timers that are due) is worked off.

In here: `WindowOutput`, owned by one operator. Every result of a firing has the same timestamp and key, and is known by the
record that made the window fire, so that what follows can name it. Not in here: side outputs as such (`side_output.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kstreampy.common.output_tag import OutputTag
from kstreampy.errors import RecordError
from kstreampy.operators.function import settle
from kstreampy.operators.operator import Operator
from kstreampy.operators.side_output import SideOutputs
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Token

FULL = 10_000
"""Results that are handed on at once when many windows close together."""


class WindowOutput:
    """`begin`, then for each firing set `timestamp` and `token` and call `results`; `emit` at the end."""

    __slots__ = ("_keys", "_out", "_records", "_sides", "_timestamps", "_values", "index", "timestamp", "token")

    def __init__(self, out: Operator, sides: SideOutputs, *, is_keyed: bool) -> None:
        self._out = out
        self._sides = sides
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._records: list[int] = []
        self._keys: list[Token] | None = [] if is_keyed else None
        self.index = 0
        """The record in hand."""
        self.timestamp = NO_TIMESTAMP
        self.token: Token = b""

    def __len__(self) -> int:
        """The record in hand, as `SideOutputs` asks for it."""
        return self.index

    def begin(self) -> None:
        """Nothing is held (also where the batch before failed)."""
        self.index = 0
        self._clear()
        self._sides.begin(self)

    def _clear(self) -> None:
        self._values = []
        self._timestamps = []
        self._records = []
        if self._keys is not None:
            self._keys = []

    def results(self, produced: Iterable[Any]) -> None:
        """The results of one firing; copies of what could change. `tag, value` pairs go to the side output."""
        values = self._values
        before = len(values)
        settle(produced, values.append, self.output)
        count = len(values) - before
        if count == 1:
            self._timestamps.append(self.timestamp)
            self._records.append(self.index)
            if self._keys is not None:
                self._keys.append(self.token)
        elif count:
            self._timestamps += [self.timestamp] * count
            self._records += [self.index] * count
            if self._keys is not None:
                self._keys += [self.token] * count

    def output(self, tag: OutputTag, value: Any) -> None:
        """A value for a side output, with the timestamp of the firing in hand."""
        self._sides.add(tag, value, self.timestamp)

    def late(self, tag: OutputTag, value: Any, timestamp: int) -> None:
        """A late element, with its own timestamp."""
        self._sides.add(tag, value, timestamp)

    def is_full(self) -> bool:
        return len(self._values) >= FULL

    def emit(self) -> None:
        """Hands on what is held, the main results first."""
        if self._values:
            batch, records = Batch(self._values, self._timestamps, self._keys), self._records
            self._clear()
            try:
                self._out.process(batch)
            except RecordError as error:
                error.index = records[error.index]
                raise
        self._sides.emit()
