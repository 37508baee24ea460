"""A slice of event time, with the elements of each key in it.

In here: `Slice`, and how a key's elements are searched. Not in here: which slices there are, and where they are stored
(`timeline.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from kstreampy.serde.batch import MAX_WATERMARK, Token

Row = tuple[int, int, Any]
"""Time in ms, number, value. The number tells rows of one key and time apart, in the order in which they came."""


class Slice:
    """The elements of one slice of time: those of a key in the order of time, equal times as they came."""

    __slots__ = ("begin", "complete", "counted", "end", "entries", "exponent", "new", "stored", "written")

    def __init__(self, number: int, exponent: int, *, complete: bool) -> None:
        self.exponent = exponent
        self.begin = number << exponent
        self.end = min((number + 1) << exponent, MAX_WATERMARK)
        """Event time, ms, exclusive (but at the end of time)."""
        self.entries: dict[Token, list[Row]] = {}
        self.new: list[tuple[Token, Row]] = []
        """Rows that are in no checkpoint yet."""
        self.stored = 0
        """How many rows in `entries` have an entry in the changelog."""
        self.written: list[bytes] = []
        """The keys of entries in the changelog, which leave tombstones; while `complete`, of all of them."""
        self.counted = 0
        """How many keys of `entries` its cache has counted."""
        self.complete = complete
        """All there is of the slice is in `entries`; the store knows the keys of what is not."""

    def add(self, token: Token, time_ms: int, value: Any, number: int = 0) -> None:
        """The rows of the token must be in `entries`, unless it has none (`TimelineCache.read`). `number` is the least that
        the row may have: greater than those of its key and time in slices of another length."""
        rows = self.entries.get(token)
        row: Row = (time_ms, number, value)
        if not rows:
            self.entries[token] = [row]
        elif rows[-1][0] < time_ms:
            rows.append(row)
        else:
            at = bisect_left(rows, (time_ms + 1, -1, None))
            if at and rows[at - 1][0] == time_ms:
                row = (time_ms, max(rows[at - 1][1] + 1, number), value)
            rows.insert(at, row)
        self.new.append((token, row))


def number_behind(slices: list[Slice], token: Token, time_ms: int) -> int:
    """The number of a row that comes behind all of this key and time in these slices."""
    rows = [row for slice_ in slices for row in slice_.entries.get(token, ())]
    return max([number + 1 for time, number, _ in rows if time == time_ms], default=0)


def rows_between(rows: list[Row], first_ms: int, last_ms: int) -> list[Row]:
    """Those at `first_ms` to `last_ms`, both included. `rows` are in the order of time, and not empty."""
    if rows[0][0] >= first_ms and rows[-1][0] <= last_ms:
        return rows
    return rows[bisect_left(rows, (first_ms, -1, None)) : bisect_left(rows, (last_ms + 1, -1, None))]
