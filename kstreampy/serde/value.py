"""The self-describing codec: values of which no type was declared, each of Python's own types kept apart.

In here: one value as bytes and back. Whole columns, which are faster per value, are in `serde/column.py`;
values with a declared type in `serde/typed.py`.

The bytes are one tag byte and MessagePack. Plain values (None, bool, int of 64 bit, float, str, bytes, and
lists and dicts of these) are MessagePack's own; everything else is an extension of it:

    tuple, set, frozenset, deque, bytearray, int beyond 64 bit, str with lone surrogates, dict with any keys
    (order kept), OrderedDict, Counter, date, time, datetime (zone by name or offset), timedelta, Instant,
    Duration, Time, Decimal, UUID, members of Enums and Flags, named tuples, dataclasses, Row (names, kind),
    and what rooms above have registered: windows (`eventtime/window.py`)

Classes are stored by name and found only among modules that are already imported (`serde/classname.py`);
fields are stored by name, so that a class may gain and lose some (`serde/fields.py`). Nothing is ever
unpickled. Objects that occur twice in a value come back as two.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from enum import Enum, Flag
from itertools import chain
from typing import Any, NoReturn, TypeAlias

from msgspec import msgpack

from kstreampy.common.types import Row, RowKind, new_row
from kstreampy.serde import atom
from kstreampy.serde.classname import class_of, is_storable, name_of
from kstreampy.serde.fields import layout_named, layout_of

TAG = b"\x01"
"""The first byte of a value of this codec."""
MAX_DEPTH = 100
"""How deep values may be nested."""
PLAIN: frozenset[type] = frozenset((type(None), bool, int, float, str, bytes))
"""Types that MessagePack keeps apart by itself, as long as ints have 64 bit and strings are proper
Unicode."""

_SURE: frozenset[type] = PLAIN - {int, str}
_KINDS = tuple(RowKind)


def encode(value: Any) -> bytes:
    """TypeError for a type that is not supported; ValueError for a value that is too deep or contains
    itself."""
    return TAG + encode_bare(value)


_AT_ONCE = 256
"""Values checked and then encoded while the processor's cache still has them."""


def encode_each(values: list[Any]) -> list[bytes]:
    """As `encode` of every value, in order; quicker where they are plain scalars, or flat tuples or dicts of them (checked
    at C speed)."""
    if len(values) <= _AT_ONCE:
        return _encode_each(values)
    encoded: list[bytes] = []
    for start in range(0, len(values), _AT_ONCE):
        encoded += _encode_each(values[start : start + _AT_ONCE])
    return encoded


def _encode_each(values: list[Any]) -> list[bytes]:
    kinds = set(map(type, values))
    try:
        if PLAIN.issuperset(kinds):
            return [TAG + data for data in map(_encode, values)]
        if kinds == {tuple} and _hold_what_is_flat(values):
            return [TAG + _encode(_Ext(_TUPLE, data)) for data in map(_encode, values)]
        if kinds == {dict} and _are_flat(values):
            return [TAG + data for data in map(_encode, values)]
    except (OverflowError, UnicodeEncodeError):
        pass  # an int beyond 64 bit or a lone surrogate: one by one
    return list(map(encode, values))


def _hold_what_is_flat(values: list[tuple[Any, ...]]) -> bool:
    """Tuples of plain scalars and of flat dicts, such as elements that are marked with the stream they came from."""
    inner = set(map(type, chain.from_iterable(values))) - PLAIN
    return not inner or (
        inner == {dict} and _are_flat([item for value in values for item in value if type(item) is dict])
    )


def _are_flat(values: list[dict[Any, Any]]) -> bool:
    return {str}.issuperset(map(type, chain.from_iterable(values))) and PLAIN.issuperset(
        map(type, chain.from_iterable(map(dict.values, values)))
    )


def decode(data: bytes) -> Any:
    """ValueError for bytes that `encode` has not made, or whose classes are not there any more."""
    if data[:1] != TAG:
        raise ValueError(f"not a value of the self-describing codec: {data[:80]!r}")
    return decode_bare(data[1:])


def encode_bare(value: Any) -> bytes:
    """As `encode`, without the tag."""
    try:
        return _encode(_wrap(value, PLAIN, 0))
    except (OverflowError, UnicodeEncodeError):
        return _encode(_wrap(value, _SURE, 0))


def decode_bare(data: bytes | memoryview) -> Any:
    """As `decode`, without the tag."""
    try:
        return _decode(data)
    except Exception as error:
        refuse(data, error)


def refuse(data: bytes | memoryview, error: Exception) -> NoReturn:
    """Raises what `decode` raises when `error` came up on the way."""
    reason = "it is nested too deep" if isinstance(error, RecursionError) else f"{error}"
    raise ValueError(f"stored value cannot be read: {reason}; its bytes begin {bytes(data[:60])!r}") from error


# Encoding: `_wrap` returns what MessagePack can encode without loss. `plain` are the types that may stay as
# they are.

_Plain: TypeAlias = frozenset[type]
_Wrapper: TypeAlias = Callable[[Any, _Plain, int], Any]


def _wrap(value: Any, plain: _Plain, depth: int) -> Any:
    cls = type(value)
    if cls in plain:
        return value
    if depth > MAX_DEPTH:
        raise ValueError(f"a value is nested deeper than {MAX_DEPTH} levels, or contains itself")
    wrapper = _WRAPPERS.get(cls) or _wrapper_of(value)
    return wrapper(value, plain, depth + 1)


def _wrap_all(values: Any, plain: _Plain, depth: int) -> Any:
    if plain.issuperset(map(type, values)):
        return values
    return [_wrap(value, plain, depth) for value in values]


def _wrap_dict(value: dict[Any, Any], plain: _Plain, depth: int) -> Any:
    if not plain.issuperset(map(type, value)):
        return _Ext(_DICT, _encode(_alternating(value, plain, depth)))
    if plain.issuperset(map(type, value.values())):
        return value
    return {key: _wrap(item, plain, depth) for key, item in value.items()}


def _alternating(value: dict[Any, Any], plain: _Plain, depth: int) -> list[Any]:
    return [_wrap(part, plain, depth) for pair in value.items() for part in pair]


def _wrap_int(value: int, plain: _Plain, depth: int) -> Any:
    return value if -(2**63) <= value < 2**64 else _Ext(_INT, atom.encode_int(value))


def _wrap_str(value: str, plain: _Plain, depth: int) -> Any:
    try:
        value.encode()
    except UnicodeEncodeError:
        return _Ext(_STR, atom.encode_text(value))
    return value


def _wrap_tuple(value: tuple[Any, ...], plain: _Plain, depth: int) -> Any:
    return _Ext(_TUPLE, _encode(_wrap_all(value, plain, depth)))


def _wrap_set(value: set[Any], plain: _Plain, depth: int) -> Any:
    return _Ext(_SET, _encode(_wrap_all(list(value), plain, depth)))


def _wrap_frozenset(value: frozenset[Any], plain: _Plain, depth: int) -> Any:
    return _Ext(_FROZENSET, _encode(_wrap_all(list(value), plain, depth)))


def _wrap_deque(value: deque[Any], plain: _Plain, depth: int) -> Any:
    return _Ext(_DEQUE, _encode([value.maxlen, *_wrap_all(list(value), plain, depth)]))


def _wrap_ordered_dict(value: dict[Any, Any], plain: _Plain, depth: int) -> Any:
    return _Ext(_ORDERED_DICT, _encode(_alternating(value, plain, depth)))


def _wrap_counter(value: dict[Any, Any], plain: _Plain, depth: int) -> Any:
    return _Ext(_COUNTER, _encode(_alternating(value, plain, depth)))


def _wrap_row(value: Row, plain: _Plain, depth: int) -> Any:
    names = value._fields
    texts = None if names is None else _wrap_all(names, plain, depth)
    return _Ext(_ROW, _encode([value._row_kind.value, texts, *_wrap_all(value._values, plain, depth)]))


def _wrap_member(value: Enum, plain: _Plain, depth: int) -> Any:
    identity = _wrap(value.value, plain, depth) if isinstance(value, Flag) else value.name
    return _Ext(_MEMBER, _encode([name_of(type(value)), identity]))


def _wrap_object(value: Any, plain: _Plain, depth: int) -> Any:
    layout = layout_of(type(value))
    values = _wrap_all(layout.take(value), plain, depth)
    return _Ext(_OBJECT, _encode([layout.class_name, layout.names, *values]))


def _wrapper_of(value: Any) -> _Wrapper:
    if isinstance(value, Enum):
        return _wrap_member
    cls = type(value)
    if is_storable(cls):
        return _wrap_object
    raise TypeError(
        f"a value of type {cls.__module__}.{cls.__qualname__} cannot be stored or sent without a declared "
        "type: convert it (a numpy scalar with .item(), a subclass of a built-in type to that type), make "
        "its class a dataclass, or declare a type for it, such as Types.PICKLED_BYTE_ARRAY() for any object"
    )


# Decoding: `_unwrap` is called for each extension, innermost last.


def _unwrap(code: int, data: memoryview) -> Any:
    decoder = _UNWRAPPERS.get(code)
    if decoder is None:
        raise ValueError(f"unknown kind of value {code}")
    return decoder(data)


def _unwrap_deque(data: memoryview) -> deque[Any]:
    maxlen, *values = _decode_list(data)
    return deque(values, maxlen)


def _pairs(data: memoryview) -> Any:
    parts = iter(_decode_list(data))
    return zip(parts, parts, strict=True)


def _unwrap_counter(data: memoryview) -> Counter[Any]:
    return Counter(dict(_pairs(data)))


def _unwrap_row(data: memoryview) -> Row:
    kind, names, *values = _decode_list(data)
    return new_row(checked_names(names), values, _KINDS[kind])


def checked_names(names: Any) -> tuple[str, ...] | None:
    """Field names of a Row as they were stored."""
    if names is None:
        return None
    if not {str}.issuperset(map(type, names)):
        raise ValueError(f"field names are not strings: {names!r}")
    return tuple(names)


def _unwrap_member(data: memoryview) -> Any:
    class_name, identity = _decode_list(data)
    cls = class_of(class_name)
    if not issubclass(cls, Enum):
        raise ValueError(f"{class_name!r} is in stored data as an Enum, but it is none here")
    if issubclass(cls, Flag):
        return cls(identity)
    member = cls.__members__.get(identity)
    if member is None:
        raise ValueError(f"{class_name} has no member {identity!r} any more: keep it, or an alias of that name")
    return member


def _unwrap_object(data: memoryview) -> Any:
    class_name, names, *values = _decode_list(data)
    return layout_named(class_name).restore(names, values)


_ATOMS: dict[type, atom.Atom] = {**atom.ATOMS, bytearray: atom.Atom(b"Y", bytes, bytearray)}
_TUPLE, _SET, _FROZENSET, _DICT, _INT, _STR, _DEQUE, _ORDERED_DICT, _COUNTER, _ROW, _MEMBER, _OBJECT = range(1, 13)


def _atom_wrapper(code: int, encode_atom: Callable[[Any], bytes]) -> _Wrapper:
    return lambda value, plain, depth: _Ext(code, encode_atom(value))


def _atom_unwrapper(decode_atom: Callable[[bytes], Any]) -> Callable[[memoryview], Any]:
    return lambda data: decode_atom(bytes(data))


_WRAPPERS: dict[type, _Wrapper] = {
    int: _wrap_int,
    str: _wrap_str,
    list: _wrap_all,
    dict: _wrap_dict,
    tuple: _wrap_tuple,
    set: _wrap_set,
    frozenset: _wrap_frozenset,
    deque: _wrap_deque,
    OrderedDict: _wrap_ordered_dict,
    Counter: _wrap_counter,
    Row: _wrap_row,
    **{cls: _atom_wrapper(form.tag[0], form.encode) for cls, form in _ATOMS.items()},
}
_UNWRAPPERS: dict[int, Callable[[memoryview], Any]] = {
    _TUPLE: msgpack.Decoder(tuple, ext_hook=_unwrap).decode,
    _SET: lambda data: set(_decode_list(data)),
    _FROZENSET: lambda data: frozenset(_decode_list(data)),
    _DICT: lambda data: dict(_pairs(data)),
    _INT: lambda data: atom.decode_int(bytes(data)),
    _STR: lambda data: atom.decode_text(bytes(data)),
    _DEQUE: _unwrap_deque,
    _ORDERED_DICT: lambda data: OrderedDict(_pairs(data)),
    _COUNTER: _unwrap_counter,
    _ROW: _unwrap_row,
    _MEMBER: _unwrap_member,
    _OBJECT: _unwrap_object,
    **{form.tag[0]: _atom_unwrapper(form.decode) for form in _ATOMS.values()},
}


def register(cls: type, form: atom.Atom) -> None:
    """Values of this class, which a room above defines, can be stored from now on. Classes that share a tag share a form."""
    _WRAPPERS[cls] = _atom_wrapper(form.tag[0], form.encode)
    _UNWRAPPERS[form.tag[0]] = _atom_unwrapper(form.decode)


_Ext = msgpack.Ext
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(ext_hook=_unwrap).decode
_decode_list: Callable[[memoryview], list[Any]] = msgpack.Decoder(list[Any], ext_hook=_unwrap).decode
