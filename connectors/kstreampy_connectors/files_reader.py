"""Reads one file as a split: `FileReader`.

In here: reading a block of lines at once, finding a bad record again record by record, timestamps, positions.
Not in here: the file (`files_input.py`) and what its lines mean (`files_format.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kstreampy.operators.connector import Records
from kstreampy.serde.batch import NO_TIMESTAMP
from kstreampy_connectors.files_format import Decoder, Format, IncompleteRecordError, csv_records
from kstreampy_connectors.files_input import LineFile

Timestamp = Callable[[Any], int | None]


class FileReader:
    """The `SplitReader` of one file. Owned by one task.

    Records before a bad one are handed out first; the `read` that raises has stepped over the bad one, so
    that the next goes on behind it. Position: {"offset", "line", "records", "head"}, offset in bytes of
    decompressed text.
    """

    def __init__(
        self, file: LineFile, form: Format, timestamp: Timestamp | None, position: dict[str, Any] | None
    ) -> None:
        self._file = file
        self._format = form
        self._timestamp = timestamp
        self._records = 0
        self._decoder: Decoder | None = None
        if position is None or position["offset"] == 0:
            return
        file.recognise(position)
        self._decoder = self._first_record()
        file.seek(position)
        self._records = position["records"]
        file.release()

    def read(self, max_records: int) -> Records:
        if self._decoder is None:
            self._decoder = self._first_record()
        decoder = self._decoder
        lines = self._file.take(max_records) if decoder is not None else []
        if decoder is None or not lines:
            self._file.release()
            return Records([])
        try:
            values = decoder.block(lines)
            stamps = self._stamps(values) if values is not None else None
        except Exception:
            values = None  # whatever it was, record by record names the line
        if values is None:
            self._file.give_back(lines)
            values, stamps = self._one_by_one(decoder, max_records)
        self._records += len(values)
        self._file.release()
        return Records(values, stamps)

    def position(self) -> dict[str, Any]:
        return {**self._file.position(), "records": self._records}

    def finished(self) -> bool:
        return self._file.drained

    def close(self) -> None:
        self._file.close()

    def _first_record(self) -> Decoder | None:
        """The decoder, for which the first record may have to be read; None while it is not there (yet)."""
        form, file = self._format, self._file
        if not form.shaped:
            return form.decoder([], file.path)
        used: list[bytes] = []
        try:
            first = next(csv_records(self._lines(used), getattr(form, "delimiter", ",")), None)
        except ValueError as error:
            file.give_back(used)
            if file.follow and isinstance(error, IncompleteRecordError):
                return None
            raise ValueError(f"File {file.path}, line 1: {error}") from error
        if first is None:
            return None
        if not form.header:
            file.give_back(used)
        return form.decoder(first, file.path)

    def _one_by_one(self, decoder: Decoder, max_records: int) -> tuple[list[Any], list[int] | None]:
        file = self._file
        values: list[Any] = []
        stamps: list[int] = []
        used: list[bytes] = []
        records = decoder.records(self._lines(used))
        while len(values) < max_records:
            used.clear()
            try:
                record = next(records, None)
                if record is None:
                    break
                value = decoder.value(record)
                if self._timestamp is not None:
                    stamps += self._stamps([value]) or ()
            except Exception as error:
                incomplete = file.follow and isinstance(error, IncompleteRecordError)
                if values or incomplete:
                    file.give_back(used)  # the bad record is met again, as the first of the next read
                    break
                blank = next((i for i, raw in enumerate(used) if not raw.isspace()), 0)
                line = file.line - len(used) + blank + 1
                raise ValueError(f"File {file.path}, line {line}: {_reason(error)}") from error
            values.append(value)
        return values, stamps if self._timestamp is not None else None

    def _lines(self, used: list[bytes]) -> Iterator[bytes]:
        next_line = self._file.next_line
        while (line := next_line()) is not None:
            used.append(line)
            yield line

    def _stamps(self, values: list[Any]) -> list[int] | None:
        timestamp = self._timestamp
        if timestamp is None:
            return None
        stamps = []
        for value in values:
            stamp = timestamp(value)
            if type(stamp) is not int:
                if stamp is not None:
                    raise ValueError(f"timestamp function gave {stamp!r}: give int milliseconds, or None for no time")
                stamp = NO_TIMESTAMP
            stamps.append(stamp)
        return stamps


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
