"""Types that changed between what is stored and what a job declares: which changes are harmless, and how old values are
read.

In here: `step`, what becomes of a value of one type as it becomes one of the next, and `ReadingOlder`, a codec that reads
what was written under older types. Not in here: where the older types are kept (`state/stored_type.py`).

A field is found by its name. Harmless are:

    a field that is gone            its values are dropped
    a field that is new             None in a row, the default in a dataclass or named tuple (it must have one)
    BYTE, SHORT, INT, LONG, BIG_INT to one further right, to FLOAT, DOUBLE or BIG_DEC; FLOAT to DOUBLE; CHAR to STRING
    int to float, T to T | None and other unions that T fits into, anything to Any, in a dataclass or named tuple
    nothing declared to something declared, and the other way round
    any of these inside of lists, maps, tuples, rows and objects

A value that was written without its declared type, because it did not fit, is left as it is, unless it is a row with the
older fields or an object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from kstreampy.common.types import Row, new_row
from kstreampy.serde import value
from kstreampy.serde.classname import class_of
from kstreampy.serde.fields import layout_of
from kstreampy.serde.type_tree import ANY, Tree, info_of, shown
from kstreampy.serde.typed import Codec, codec_for, prefix_of

Convert: TypeAlias = Callable[[Any], Any]

_INTS = ("BYTE", "SHORT", "INT", "LONG", "BIG_INT")
_PICKLED = "PICKLED_BYTE_ARRAY"


class IncompatibleTypeError(ValueError):
    """A change that old values do not survive; says what changed, from what to what."""


def step(old: Tree, new: Tree, at: str = "") -> Convert | None:
    """What makes a value of the old type one of the new; None when nothing has to. It leaves alone what is not of the old
    type. IncompatibleTypeError with the place (`at` is where these types stand), the old and the new type."""
    if old == new:
        return None
    if _has_pickled(old) and not _has_pickled(new):
        raise IncompatibleTypeError(f"{at or 'it'} was pickled, and nothing is unpickled unless its type says so")
    if ANY in (old, new):
        return None
    if isinstance(old, list) and isinstance(new, list) and old[0] == new[0] and old[0] in _KINDS:
        return _KINDS[old[0]](old, new, at)
    if isinstance(new, list) and new[0] == "UNION":
        return _into_union([old], new[1], at, old, new)
    if isinstance(old, str) and isinstance(new, str):
        return _scalar(old, new, at)
    raise _changed(at, old, new)


def _changed(at: str, old: Tree, new: Tree, why: str = "") -> IncompatibleTypeError:
    return IncompatibleTypeError(f"{at or 'it'} was {shown(old)} and is now {shown(new)}{why}")


def _has_pickled(tree: Tree) -> bool:
    return tree == _PICKLED or (isinstance(tree, list) and any(map(_has_pickled, tree)))


def _scalar(old: str, new: str, at: str) -> Convert | None:
    if old in _INTS and new in _INTS and _INTS.index(old) < _INTS.index(new):
        return None
    if (old in _INTS and new in ("FLOAT", "DOUBLE")) or (old, new) == ("int", "float"):
        return lambda item: float(item) if type(item) is int else item
    if old in _INTS and new == "BIG_DEC":
        return lambda item: Decimal(item) if type(item) is int else item
    if (old, new) in (("FLOAT", "DOUBLE"), ("CHAR", "STRING")):
        return None
    raise _changed(at, old, new)


def _list(old: Tree, new: Tree, at: str) -> Convert | None:
    convert = step(old[1], new[1], f"{at}[]")
    if convert is None:
        return None
    return lambda items: [convert(item) for item in items] if type(items) is list else items


def _map(old: Tree, new: Tree, at: str) -> Convert | None:
    key, item = step(old[1], new[1], f"{at}{{key}}"), step(old[2], new[2], f"{at}{{value}}")
    if key is None and item is None:
        return None
    key, item = key or _same, item or _same
    return lambda pairs: {key(k): item(v) for k, v in pairs.items()} if type(pairs) is dict else pairs


def _tuple(old: Tree, new: Tree, at: str) -> Convert | None:
    if len(old[1]) != len(new[1]):
        raise _changed(at, old, new, " (a tuple's fields have no names to find them by: use a row or a dataclass)")
    if "..." in (*old[1], *new[1]):
        if len(old[1]) != 2 or old[1][1] != new[1][1]:
            raise _changed(at, old, new)
        each = step(old[1][0], new[1][0], f"{at}[]")
        return None if each is None else lambda parts: tuple(map(each, parts)) if type(parts) is tuple else parts
    converts = [step(*pair, f"{at}[{index}]") for index, pair in enumerate(zip(old[1], new[1], strict=True))]
    if not any(converts):
        return None
    functions = [convert or _same for convert in converts]

    def convert_tuple(parts: Any) -> Any:
        if type(parts) is not tuple or len(parts) != len(functions):
            return parts
        return tuple([function(part) for function, part in zip(functions, parts, strict=True)])

    return convert_tuple


def _row(old: Tree, new: Tree, at: str) -> Convert | None:
    before = dict(old[1])
    old_names, new_names = tuple(before), tuple(name for name, _ in new[1])
    sources: list[tuple[int, Convert]] = []
    for name, field in new[1]:
        convert = step(before[name], field, _field(at, name)) if name in before else None
        sources.append((old_names.index(name) if name in before else -1, convert or _same))

    def convert_row(row: Any) -> Any:
        if type(row) is not Row or row._fields != old_names:
            return row
        values = row._values
        taken = [None if index < 0 else convert(values[index]) for index, convert in sources]
        return new_row(new_names, taken, row._row_kind)

    return convert_row


def _object(old: Tree, new: Tree, at: str) -> Convert | None:
    """Objects are put together as they are read (`fields.Layout.restore`); what is left to do is to widen fields."""
    _same_class(old, new, at)
    if not old[2] or not new[2]:
        return None  # inside of an object of the same class, where its fields are not told again
    before = {name: hint for name, hint, _ in old[2]}
    converts: dict[str, Convert] = {}
    for name, hint, has_default in new[2]:
        if name in before:
            convert = step(before[name], hint, _field(at, name))
            if convert is not None:
                converts[name] = convert
        elif not has_default:
            raise IncompatibleTypeError(
                f"{_field(at, name)} is new and has no default, which old values need: give it one"
            )
    if not converts:
        return None
    cls = class_of(new[1])
    layout = layout_of(cls)
    places = [(index, converts[name]) for index, name in enumerate(layout.names) if name in converts]

    def convert_object(item: Any) -> Any:
        if type(item) is not cls:
            return item
        values = list(layout.take(item))
        for index, convert in places:
            values[index] = convert(values[index])
        return layout.build(values)

    return convert_object


def _same_class(old: Tree, new: Tree, at: str) -> None:
    if old[1] == new[1]:
        return
    try:
        same = class_of(old[1]) is class_of(new[1])
    except ValueError:
        same = False
    if not same:
        raise _changed(at, old[1], new[1], " (if it is the same class by another name, keep the old name as an alias)")


def _union(old: Tree, new: Tree, at: str) -> Convert | None:
    return _into_union(old[1], new[1], at, old, new)


def _into_union(members: Sequence[Tree], others: Sequence[Tree], at: str, old: Tree, new: Tree) -> Convert | None:
    converts: list[Convert] = []
    for member in members:
        if member in others:
            continue
        found = _into_any(member, others, at)
        if found is None:
            raise _changed(at, old, new)
        if found[0] is not None:
            converts.append(found[0])
    if not converts:
        return None

    def convert_member(item: Any) -> Any:
        for convert in converts:
            item = convert(item)
        return item

    return convert_member


def _into_any(member: Tree, others: Sequence[Tree], at: str) -> tuple[Convert | None] | None:
    for other in others:
        try:
            return (step(member, other, at),)
        except IncompatibleTypeError:
            continue
    return None


def _field(at: str, name: str) -> str:
    return f"{at}.{name}" if at else f"field {name!r}"


def _same(item: Any) -> Any:
    return item


_KINDS: dict[str, Callable[[Tree, Tree, str], Convert | None]] = {
    "LIST": _list,
    "list": _list,
    "MAP": _map,
    "dict": _map,
    "TUPLE": _tuple,
    "tuple": _tuple,
    "ROW": _row,
    "OBJECT": _object,
    "UNION": _union,
}


class ReadingOlder:
    """A codec that writes as `codec` and also reads what was written under older types."""

    __slots__ = ("_codec", "_read_plain", "_readers", "decode_many", "encode", "encode_each", "encode_many")

    def __init__(self, codec: Codec, current: Tree, older: Sequence[Tree]) -> None:
        """`older`: the types that values were written under, the latest first. IncompatibleTypeError when one of them cannot be
        told from the current one."""
        self._codec = codec
        self.encode = codec.encode
        self.encode_each = codec.encode_each
        self.encode_many = codec.encode_many
        self.decode_many = codec.decode_many
        self._readers: dict[bytes, Convert] = {}
        steps: list[Convert] = []
        newer = current
        for tree in older:
            convert = step(tree, newer)
            if convert is not None:
                steps.insert(0, convert)
            self._add_reader(tree, current, list(steps))
            newer = tree
        self._read_plain = _decode_then(codec.decode, steps) if steps else codec.decode

    def _add_reader(self, tree: Tree, current: Tree, steps: list[Convert]) -> None:
        info, own = info_of(tree), info_of(current)
        if info is None:
            return  # it was written self-describing
        prefix = prefix_of(info)
        if own is not None and prefix == prefix_of(own):
            if tree != current:
                raise IncompatibleTypeError(f"what was written as {shown(tree)} cannot be told from {shown(current)}")
        else:
            self._readers.setdefault(prefix, _decode_then(codec_for(info).decode, steps))

    def decode(self, data: bytes, /) -> Any:
        if data[:1] == value.TAG:
            return self._read_plain(data)
        reader = self._readers.get(data[:3]) or self._readers.get(data[:1])
        return self._codec.decode(data) if reader is None else reader(data)


def _decode_then(decode: Convert, steps: Sequence[Convert]) -> Convert:
    if not steps:
        return decode

    def read(data: bytes) -> Any:
        item = decode(data)
        for convert in steps:
            item = convert(item)
        return item

    return read
