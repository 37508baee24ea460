"""Columns of values without a declared type: many at once, at a fraction of the cost of one by one.

In here: how a list of values becomes one piece of bytes, self-describing as in `serde/value.py`. What the
values have in common is found by checks that run in C over the whole list, and decides the form, which is the
first byte:

    plain     None, bool, int, float, str, bytes, and lists and dicts of these: one MessagePack array
    tuples    tuples of plain scalars: the same
    records   tuples, named tuples, dataclasses, Rows or dicts of one shape: a column per field, each in its form
    atoms     datetimes, Decimals and the like, all of one type (or None): their bytes
    members   members of one Enum: their names
    general   anything else: one by one
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, Flag
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec import msgpack

from kstreampy.common.types import Row, RowKind, new_row
from kstreampy.serde import atom, value
from kstreampy.serde.classname import class_of, is_named_tuple, is_storable_dataclass, name_of
from kstreampy.serde.fields import layout_named, layout_of
from kstreampy.serde.value import PLAIN

TAGS = frozenset((b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", b"\x07"))
"""The first bytes of columns of this codec."""

_PLAIN, _TUPLES, _RECORDS, _ATOMS, _MEMBERS, _GENERAL = (bytes((tag,)) for tag in range(2, 8))
_DOCUMENT = PLAIN | {list, dict}
_NONE = type(None)
_MAX_LEVELS = 16
"""Of nested plain lists and dicts; what is deeper goes one by one."""
_MAX_COLUMN_DEPTH = 8
"""Of records in records, for the same reason."""


def encode_many(values: list[Any]) -> bytes:
    """TypeError for a type that is not supported; ValueError for a value too deep or containing itself."""
    return _encode_column(values, 0)


def decode_many(data: bytes) -> list[Any]:
    """ValueError for bytes that `encode_many` has not made, or whose classes are not there any more."""
    try:
        return _decode_column(data)
    except Exception as error:
        value.refuse(data, error)


def _encode_column(values: Sequence[Any], depth: int) -> bytes:
    types = set(map(type, values))
    try:
        if PLAIN.issuperset(types):
            return _PLAIN + _encode(values)
        if len(types) == 1:
            form = _encode_uniform(values, next(iter(types)), depth)
            if form is not None:
                return form
        elif len(types) == 2 and _NONE in types:
            (cls,) = types - {_NONE}
            if cls in atom.ATOMS:
                return _encode_atoms(values, cls)
        if _DOCUMENT.issuperset(types) and _is_plain(values):
            return _PLAIN + _encode(values)
    except (OverflowError, UnicodeEncodeError):
        pass  # an int beyond 64 bit or a lone surrogate
    return _GENERAL + value.encode_bare(list(values))


def _encode_uniform(values: Sequence[Any], cls: type, depth: int) -> bytes | None:
    """All values are of this one class. None where no form but the general one (or plain) fits."""
    if cls is tuple:
        if PLAIN.issuperset(map(type, chain.from_iterable(values))):
            return _TUPLES + _encode(values)
        return _encode_records([0], values, depth)
    if cls is dict:
        if _is_plain(values):
            return _PLAIN + _encode(values)
        return _encode_dicts(values, depth)
    if cls is Row:
        return _encode_rows(values, depth)
    if cls in atom.ATOMS:
        return _encode_atoms(values, cls)
    if issubclass(cls, Enum):
        if issubclass(cls, Flag):
            return None
        return _MEMBERS + _encode([name_of(cls), [member.name for member in values]])
    if is_storable_dataclass(cls) or is_named_tuple(cls):
        layout = layout_of(cls)
        return _encode_records([3, layout.class_name, layout.names], list(map(layout.take, values)), depth)
    return None


def _is_plain(values: Iterable[Any]) -> bool:
    """Whether there is nothing but plain scalars in these lists and dicts: level by level, each level at
    once."""
    level: list[Any] = list(values)
    for _ in range(_MAX_LEVELS):
        types = set(map(type, level))
        if PLAIN.issuperset(types):
            return True
        if not _DOCUMENT.issuperset(types):
            return False
        dicts = level if len(types) == 1 else [item for item in level if type(item) is dict]
        lists: list[Any] = []
        if list in types:
            lists = level if len(types) == 1 else [item for item in level if type(item) is list]
            dicts = dicts if dict in types and dicts is not level else []
        if dicts and not PLAIN.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
    return False


def _encode_atoms(values: Sequence[Any], cls: type) -> bytes:
    form = atom.ATOMS[cls]
    encode = form.encode
    return _ATOMS + _encode([form.tag, [None if item is None else encode(item) for item in values]])


def _encode_dicts(values: Sequence[dict[Any, Any]], depth: int) -> bytes | None:
    shapes = set(map(tuple, values))
    if len(shapes) != 1 or not {str}.issuperset(map(type, chain.from_iterable(values))):
        return None
    return _encode_records([1, *shapes], [tuple(item.values()) for item in values], depth)


def _encode_rows(values: Sequence[Row], depth: int) -> bytes | None:
    names = set(map(attrgetter("_fields"), values))
    if len(names) != 1:
        return None
    kinds = [kind.value for kind in map(attrgetter("_row_kind"), values)]
    shape = [2, *names, kinds if any(kinds) else None]
    return _encode_records(shape, list(map(attrgetter("_values"), values)), depth)


def _encode_records(shape: list[Any], rows: Sequence[Sequence[Any]], depth: int) -> bytes | None:
    if depth >= _MAX_COLUMN_DEPTH or len(set(map(len, rows))) != 1 or not rows[0]:
        return None
    columns = zip(*rows, strict=True)
    return _RECORDS + _encode([shape, [_encode_column(column, depth + 1) for column in columns]])


def _decode_column(data: bytes) -> list[Any]:
    decoder = _DECODERS.get(data[:1])
    if decoder is None:
        raise ValueError("no column of the self-describing codec")
    return decoder(data[1:])


def _decode_records(data: bytes) -> list[Any]:
    shape, columns = _decode_pair(data)
    kind, *rest = shape
    rows: Iterable[tuple[Any, ...]] = zip(*map(_decode_column, columns), strict=True)
    if not columns:
        raise ValueError("records without columns")
    if kind == 0:
        return list(rows)
    if kind == 1:
        (keys,) = rest
        if not {str}.issuperset(map(type, keys)) or len(keys) != len(columns):
            raise ValueError("the keys of dicts do not fit their columns")
        return [dict(zip(keys, row, strict=True)) for row in rows]
    if kind == 2:
        return _decode_rows(rest, rows, len(columns))
    class_name, names = rest
    layout = layout_named(class_name)
    if tuple(names) == layout.names and len(names) == len(columns):
        return list(map(layout.build, rows))
    return [layout.restore(names, row) for row in rows]


def _decode_rows(rest: list[Any], rows: Iterable[tuple[Any, ...]], width: int) -> list[Row]:
    names, kinds = rest
    names = value.checked_names(names)
    if kinds is None:
        return [new_row(names, list(row)) for row in rows]
    known = tuple(RowKind)
    return [new_row(names, list(row), known[kind]) for kind, row in zip(kinds, rows, strict=True)]


def _decode_atoms(data: bytes) -> list[Any]:
    tag, parts = _decode_pair(data)
    decode = _ATOM_DECODERS[tag]
    return [None if part is None else decode(part) for part in parts]


def _decode_members(data: bytes) -> list[Any]:
    class_name, names = _decode_pair(data)
    cls = class_of(class_name)
    if not issubclass(cls, Enum):
        raise ValueError(f"{class_name!r} is in stored data as an Enum, but it is none here")
    members = cls.__members__
    for name in set(names).difference(members):
        raise ValueError(f"{class_name} has no member {name!r} any more: keep it, or an alias of that name")
    return [members[name] for name in names]


def _decode_general(data: bytes) -> list[Any]:
    values = value.decode_bare(data)
    if type(values) is not list:
        raise ValueError("not a column")
    return values


_ATOM_DECODERS = {form.tag: form.decode for form in atom.ATOMS.values()}


def _no_extension(code: int, data: memoryview) -> Any:
    raise ValueError(f"a value of kind {code} where only plain ones can be")


_encode = msgpack.Encoder().encode
_decode_pair = msgpack.Decoder(tuple[Any, list[Any]], ext_hook=_no_extension).decode
_DECODERS: dict[bytes, Callable[[bytes], list[Any]]] = {
    _PLAIN: msgpack.Decoder(list[Any], ext_hook=_no_extension).decode,
    _TUPLES: msgpack.Decoder(list[tuple[Any, ...]], ext_hook=_no_extension).decode,
    _RECORDS: _decode_records,
    _ATOMS: _decode_atoms,
    _MEMBERS: _decode_members,
    _GENERAL: _decode_general,
}
