"""Values to the lines of a file: CSV, JSON lines, plain text, each as a frozen encoding and the encoder of
one task.

In here: what a dict, a Row, a dataclass … looks like as a line. Not in here: files, parts, positions
(`files_writer.py`) and reading (`files_format.py`).
"""

from __future__ import annotations

import base64
import csv
import dataclasses
import datetime
import decimal
import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from kstreampy.common.serialization import Encoder
from kstreampy.common.types import Row
from kstreampy.errors import JobError


class LineEncoder(Protocol):
    """Values of one task to bytes."""

    def encode(self, values: list[Any]) -> bytes:
        """Whole lines. Raises a plain ValueError that shows the value which cannot be written and says why, or anything
        else: the writer finds out which value it was."""
        ...

    def header(self) -> bytes:
        """What a new file begins with; called after the first `encode`."""
        ...

    def columns(self) -> list[str] | None:
        """What must be remembered over a restart, and given to `Encoding.encoder`."""
        ...


class Encoding(Protocol):
    @property
    def suffix(self) -> str: ...
    def encoder(self, columns: list[str] | None) -> LineEncoder: ...


@dataclass(frozen=True)
class RowEncoding:
    """What a PyFlink `Encoder` makes of each value, one after the other."""

    row_encoder: Encoder
    suffix = ""

    def encoder(self, columns: list[str] | None) -> LineEncoder:
        return _RowEncoder(self.row_encoder)


class _RowEncoder:
    def __init__(self, row_encoder: Encoder) -> None:
        self._encode = row_encoder.encode

    def encode(self, values: list[Any]) -> bytes:
        return b"".join(map(self._encode, values))

    def header(self) -> bytes:
        return b""

    def columns(self) -> list[str] | None:
        return None


@dataclass(frozen=True)
class JsonLinesEncoding:
    """One JSON value per line. A Row with names is an object, one without an array."""

    suffix = ".jsonl"

    def encoder(self, columns: list[str] | None) -> LineEncoder:
        return _JsonEncoder()


class _JsonEncoder:
    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=_json_value)

    def encode(self, values: list[Any]) -> bytes:
        return self._encoder.encode_lines(values)

    def header(self) -> bytes:
        return b""

    def columns(self) -> list[str] | None:
        return None


def _json_value(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict() if value.get_field_names() is not None else list(value)
    raise TypeError(f"{type(value).__name__} is not a type JSON knows; map it to a dict, a Row or a dataclass first")


@dataclass(frozen=True)
class CsvEncoding:
    """Records of fields; see `FileSink.csv` for the meaning of each setting."""

    column_names: tuple[str, ...] | None
    header: bool
    delimiter: str
    null_value: str
    suffix = ".csv"

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n' or ord(self.delimiter) > 127:
            raise JobError(f"CSV delimiter must be one ASCII character, not {self.delimiter!r}")

    def encoder(self, columns: list[str] | None) -> LineEncoder:
        return _CsvEncoder(self, list(self.column_names) if self.column_names is not None else columns)


class _CsvEncoder:
    """The columns are those of the first value, unless they were given."""

    def __init__(self, encoding: CsvEncoding, columns: list[str] | None) -> None:
        self._encoding = encoding
        self._columns = columns
        self._known = frozenset(columns or ())

    def encode(self, values: list[Any]) -> bytes:
        if self._columns is None and values:
            self._columns = _columns_of(values[0])
            self._known = frozenset(self._columns)
        return self._lines([self._fields(value) for value in values])

    def header(self) -> bytes:
        return self._lines([self._columns or []]) if self._encoding.header else b""

    def columns(self) -> list[str] | None:
        return self._columns

    def _fields(self, value: Any) -> list[Any]:
        columns = self._columns or []
        named = value if isinstance(value, dict) else _named(value)
        if named is None:
            fields = list(value) if isinstance(value, (Row, tuple, list)) else [value]
            if len(fields) != len(columns):
                raise ValueError(
                    f"{shown(value)} has {len(fields)} fields where the file has {len(columns)}: {columns}"
                )
        else:
            if not named.keys() <= self._known:
                more = [name for name in named if name not in self._known]
                raise ValueError(f"{shown(value)} has fields {more}, which the file has not: {columns}")
            fields = [named.get(name) for name in columns]
        for i, field in enumerate(fields):
            if type(field) not in _AS_THEY_ARE:
                fields[i] = self._text(field, value)
        return fields

    def _text(self, field: Any, value: Any) -> str:
        match field:
            case None:
                return self._encoding.null_value
            case bool():
                return "true" if field else "false"
            case datetime.date() | datetime.time():
                return field.isoformat()
            case bytes():
                return base64.b64encode(field).decode()
            case str() | int() | float() | decimal.Decimal() | uuid.UUID():
                return str(field)
        raise ValueError(
            f"{type(field).__name__} in {shown(value)} has no form in CSV: map it to text, or use JSON lines"
        )

    def _lines(self, rows: list[list[Any]]) -> bytes:
        text = self._written(rows, csv.QUOTE_MINIMAL)
        if "\r" in text or text.startswith("\ufeff"):  # left bare, a reader takes it for a line end, a byte-order mark
            text = self._written(rows, csv.QUOTE_ALL)
        return text.encode()

    def _written(self, rows: list[list[Any]], quoting: Any) -> str:
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=self._encoding.delimiter, lineterminator="\n", quoting=quoting).writerows(rows)
        return out.getvalue()


_AS_THEY_ARE = frozenset({str, int, float})


def _named(value: Any) -> dict[str, Any] | None:
    """Name to value, or None for a value whose fields have no names."""
    if isinstance(value, Row):
        return value.as_dict() if value.get_field_names() is not None else None
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        return dict(zip(names, value, strict=True)) if names else None
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _columns_of(value: Any) -> list[str]:
    named: dict[str, Any] | None = value if isinstance(value, dict) else _named(value)
    if named is not None:
        strange = [name for name in named if type(name) is not str]
        if strange or not named:
            raise ValueError(f"{shown(value)} gives no columns: a CSV record needs str names, at least one")
        return list(named)
    width = len(value) if isinstance(value, Row | tuple | list) else 1
    return [f"f{i}" for i in range(width)]


def shown(value: Any) -> str:
    """A value for a message."""
    return repr(value)[:200]


def columns_setting(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The `columns` of a user, checked."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise JobError(f"CSV columns must be a list of names, not the text {columns!r}")
    if not columns or len(set(columns)) < len(columns):
        raise JobError(f"CSV columns must be different names, at least one, not {list(columns)}")
    return tuple(columns)
