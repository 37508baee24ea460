"""What the lines of a file mean: CSV, JSON lines, plain text, each as a frozen format and the decoder made
for one file.

In here: lines to values, all at once where that is safe, else record by record. Not in here: files and
positions (`files_input.py`), the types of a schema (`files_schema.py`), and writing (`files_encode.py`).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

import msgspec

from kstreampy.common.typeinfo import RowTypeInfo
from kstreampy.errors import JobError
from kstreampy_connectors.files_schema import json_converter, text_converter


class IncompleteRecordError(ValueError):
    """The lines ended within a record."""


class Decoder(Protocol):
    """Lines of one file to values. `block` and the other two give the same values."""

    def block(self, lines: list[bytes]) -> list[Any] | None:
        """All of the lines' values, or None where it takes `records` to know where a record ends. Raises
        anything."""
        ...

    def records(self, lines: Iterator[bytes]) -> Iterator[Any]:
        """Undecoded records, taking no more lines than each one needs. Raises ValueError."""
        ...

    def value(self, record: Any) -> Any:
        """One record's value. Raises ValueError saying what is wrong, and where in the record."""
        ...


class Format(Protocol):
    @property
    def header(self) -> bool:
        """The file's first record is a header."""
        ...

    @property
    def shaped(self) -> bool:
        """`decoder` needs the fields of the file's first record."""
        ...

    def decoder(self, first: list[str], path: str) -> Decoder: ...


@dataclass(frozen=True)
class JsonLinesFormat:
    """One JSON value per line; blank lines are passed over. With a schema each is an object, and becomes a
    Row."""

    schema: RowTypeInfo | None = None
    header = False
    shaped = False

    def decoder(self, first: list[str], path: str) -> Decoder:
        if self.schema is None:
            return _LineDecoder(msgspec.json.Decoder().decode)
        return _LineDecoder(json_converter(self.schema))


@dataclass(frozen=True)
class TextFormat:
    """Each line is a str, without its newline."""

    charset: str = "UTF-8"
    header = False
    shaped = False

    def decoder(self, first: list[str], path: str) -> Decoder:
        charset = self.charset
        return _LineDecoder(lambda line: line.rstrip(b"\r\n").decode(charset), blank_lines=True)


class _LineDecoder:
    """A record is a line."""

    def __init__(self, decode: Callable[[bytes], Any], *, blank_lines: bool = False) -> None:
        self._decode = decode
        self._blank_lines = blank_lines

    def block(self, lines: list[bytes]) -> list[Any]:
        decode = self._decode
        if self._blank_lines:
            return [decode(line) for line in lines]
        return [decode(line) for line in lines if not line.isspace()]

    def records(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        return lines if self._blank_lines else (line for line in lines if not line.isspace())

    def value(self, record: bytes) -> Any:
        try:
            return self._decode(record)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{error} (in {_shown(record)})") from error


@dataclass(frozen=True)
class CsvFormat:
    """Records of fields; see `FileSource.csv` for the meaning of each setting."""

    schema: RowTypeInfo | None
    header: bool
    delimiter: str
    null_values: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or ord(self.delimiter) > 127:
            raise JobError(f"CSV delimiter must be one ASCII character, not {self.delimiter!r}")

    @property
    def shaped(self) -> bool:
        return self.header or self.schema is None

    def decoder(self, first: list[str], path: str) -> Decoder:
        names = first if self.header else [f"f{i}" for i in range(len(first))]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise JobError(f"File {path}: column {twice!r} is twice in the header")
        if self.schema is None:
            return _CsvDecoder(self, names, lambda fields: dict(zip(names, fields)))  # noqa: B905 (checked)
        wanted = self.schema.get_field_names()
        convert = text_converter(self.schema)
        if not self.header or names == wanted:
            return _CsvDecoder(self, wanted, convert)
        missing = [name for name in wanted if name not in names]
        if missing:
            raise JobError(
                f"File {path} has no column {', '.join(map(repr, missing))}, which the schema names; "
                f"its header is {', '.join(names)}"
            )
        places = [names.index(name) for name in wanted]
        pick = itemgetter(*places, places[0])  # one more, so that it is a tuple for a single column too
        return _CsvDecoder(self, names, lambda fields: convert(pick(fields)[:-1]))


class _CsvDecoder:
    def __init__(self, form: CsvFormat, names: Sequence[str], convert: Callable[[Sequence[str | None]], Any]) -> None:
        self._delimiter = form.delimiter
        self._nulls = frozenset(form.null_values)
        self._names = names
        self._convert = convert

    def block(self, lines: list[bytes]) -> list[Any] | None:
        joined = b"".join(lines)
        if b"\r" in joined:
            joined = joined.replace(b"\r\n", b"\n")
        if b'"' in joined or b"\r" in joined or b"\n\n" in joined or joined.startswith(b"\n"):
            return None
        delimiter = self._delimiter
        text = joined.decode()
        rows = [line.split(delimiter) for line in text.removesuffix("\n").split("\n")]
        if set(map(len, rows)) != {len(self._names)}:
            return None
        if self._nulls:
            nulls = self._nulls
            rows = [row if nulls.isdisjoint(row) else self._with_nulls(row) for row in rows]
        return list(map(self._convert, rows))

    def records(self, lines: Iterator[bytes]) -> Iterator[list[str]]:
        return csv_records(lines, self._delimiter)

    def value(self, record: list[str]) -> Any:
        if len(record) != len(self._names):
            shown = self._delimiter.join(record)[:200]
            raise ValueError(f"{len(record)} fields where there should be {len(self._names)}: {shown!r}")
        return self._convert(record if self._nulls.isdisjoint(record) else self._with_nulls(record))

    def _with_nulls(self, row: list[str]) -> list[Any]:
        nulls = self._nulls
        return [None if text in nulls else text for text in row]


def csv_records(lines: Iterator[bytes], delimiter: str) -> Iterator[list[str]]:
    """Records of a CSV file as lists of fields, blank lines left out. Raises ValueError,
    `IncompleteRecordError` when the lines end within quotes."""
    drained = False

    def texts() -> Iterator[str]:
        nonlocal drained
        for line in lines:
            yield line.decode()
        drained = True

    try:
        for row in csv.reader(texts(), delimiter=delimiter, strict=True):
            if row:
                yield row
    except csv.Error as error:
        if drained:
            raise IncompleteRecordError("a quoted field is not closed before the end of the file") from None
        hint = ""
        if "field limit" in str(error):
            hint = "; is a quote not closed? Else raise csv.field_size_limit()"
        if "new-line character" in str(error):
            raise ValueError("not CSV: a carriage return outside of quotes; lines end with LF or CRLF") from None
        raise ValueError(f"not CSV: {error}{hint}") from None


def _shown(record: bytes) -> str:
    return repr(record.rstrip(b"\r\n")[:200].decode(errors="replace"))
