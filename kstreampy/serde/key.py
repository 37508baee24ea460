"""Keys: what makes two the same, how operators carry them, how they lie in state, on which partition they go.

A key's *typed bytes* are one tag byte and bytes that determine the key exactly; two keys are the same when
their typed bytes are, whatever `==` and `hash` say. So 1, 1.0, True, "1" and b"1" are five keys, also inside
a tuple; a list may be a key and differs from the tuple and the Row of the same items. Two exceptions, where
floats have several forms of one number: all NaNs are one key, and -0.0 is 0.0. Decimal("1.0") and
Decimal("1.00") are two keys, and so is one instant in two time zones: what a function gets as its key is what
was put in.

A key's *token* is what operators carry: an exact `str` or `int` is itself, every other key is its typed
bytes.

In here: tokens, typed bytes, and the choice of the partition. The hash itself is in `serde/murmur2.py`.

Supported: str, int of any size, float, bool, bytes, date, time, datetime, timedelta, Instant, Duration, Time, Decimal, UUID,
members of an Enum or Flag, and tuple, list, frozenset, Row, named tuple and dataclass of these, where None may stand too.
Dataclasses, named tuples and enums are known by `module:qualname` (`serde/classname.py`): renaming one makes other keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, Flag
from struct import Struct, pack, unpack
from typing import Any
from uuid import UUID

from kstreampy.common.kafka_key import double_bytes
from kstreampy.common.types import Row, RowKind, new_row
from kstreampy.serde import atom
from kstreampy.serde.batch import Token
from kstreampy.serde.classname import class_of, is_storable, name_of
from kstreampy.serde.fields import layout_named, layout_of
from kstreampy.serde.murmur2 import partition_of_bytes

MAX_DEPTH = 50
"""How deep keys may be nested."""

NO_KEY: Token = b"0"
"""Stands where a token must stand for what belongs to no key: the typed bytes of None, which no record has for a key."""

_LONG = Struct(">q")
_DOUBLE = Struct(">d")
_SELF_TOKENS = frozenset((str, int))
_KINDS = tuple(RowKind)


def token(key: Any) -> Token:
    """How operators carry `key`. TypeError for None and for types that cannot be keys (see the module)."""
    if type(key) is str or type(key) is int:
        return key
    if key is None:
        raise TypeError("the key is None: every record of a keyed stream needs a key, so give the missing ones a value")
    return _encode(key, 0)


def tokens(keys: list[Any]) -> list[Token]:
    """`token` of each; the same list when all are str or int."""
    if _SELF_TOKENS.issuperset(map(type, keys)):
        return keys
    return [key if type(key) in _SELF_TOKENS else token(key) for key in keys]


def scoped(token: Token, namespace: bytes) -> bytes:
    """The token of `(key, namespace)`: under it lies what is kept per key and namespace (a window)."""
    return b"(" + _join((typed_bytes(token), b"b" + namespace))


def unscoped(scoped: bytes) -> tuple[bytes, bytes]:
    """The inverse of `scoped`: the key's typed bytes, and the namespace. ValueError for other bytes."""
    try:
        typed_key, namespace = _split(scoped[1:])
    except (IndexError, ValueError) as error:
        raise ValueError(f"not a key and a namespace: {scoped[:80]!r}: {error}") from error
    return typed_key, namespace[1:]


def key_of(token: Token) -> Any:
    """The key of a token. ValueError for bytes that are not a key's typed bytes."""
    if not isinstance(token, bytes):
        return token
    if token[:1] == b"b":
        return token[1:]
    try:
        return _decode(token)
    except Exception as error:
        raise ValueError(f"not a key: {token[:80]!r}: {error}") from error


def typed_bytes(token: Token) -> bytes:
    """What stands for the key in state, changelogs and timers."""
    if isinstance(token, str):
        return b"s" + atom.encode_text(token)
    return token if isinstance(token, bytes) else _encode_int(token)


def from_typed_bytes(data: bytes) -> Token:
    """The inverse of `typed_bytes`. ValueError for bytes that are not a key's typed bytes; what is inside of
    tuples and the like is only looked at by `key_of`."""
    tag = data[:1]
    try:
        if tag == b"s":
            return atom.decode_text(data[1:])
        if tag == b"i":
            return _decode_long(data[1:])
        if tag == b"I":
            return atom.decode_int(data[1:])
    except ValueError as error:
        raise ValueError(f"not a key's typed bytes: {data[:80]!r}: {error}") from error
    if tag not in _DECODERS or tag == b"0":
        raise ValueError(f"not a key's typed bytes: {data[:80]!r} begins with no tag of a key")
    return data


def partition_bytes(key: Any) -> bytes | None:
    """The bytes that Kafka's own serializer makes of the key: what is hashed for its partition, and what a
    sink writes.

    str: UTF-8. bytes: as they are. int: LongSerializer, 8 bytes, big endian (beyond 64 bit: typed bytes).
    float: DoubleSerializer. bool: BooleanSerializer. UUID: UUIDSerializer, its text. None: None. All others:
    typed bytes.
    """
    return None if key is None else _hashed_bytes(token(key))


def partition_of(token: Token, partitions: int) -> int:
    """The partition of the key among `partitions`, as Java's default partitioner chooses it."""
    return partition_of_bytes(_hashed_bytes(token), partitions)


class Partitioner:
    """Partitions of many tokens, remembered up to `limit` keys (then all are forgotten and learnt again).

    `hash_to_partition(data, partitions)` may be handed in where a faster one than our own exists, such as the
    Kafka client's `murmur2`. One per topic written to; owned by the operator that writes.
    """

    __slots__ = ("_known",)

    def __init__(
        self,
        partitions: int,
        hash_to_partition: Callable[[bytes, int], int] = partition_of_bytes,
        limit: int = 100_000,
    ) -> None:
        if partitions < 1:
            raise ValueError(f"a topic has at least 1 partition, not {partitions}")
        self._known = _KnownPartitions(partitions, hash_to_partition, limit)

    def partitions(self, tokens: list[Token]) -> list[int]:
        return list(map(self._known.__getitem__, tokens))


class _KnownPartitions(dict[Token, int]):
    """Tokens of the three types are never equal to each other, so a dict may hold them side by side."""

    __slots__ = ("_hash_to_partition", "_limit", "_partitions")

    def __init__(self, partitions: int, hash_to_partition: Callable[[bytes, int], int], limit: int) -> None:
        super().__init__()
        self._partitions = partitions
        self._hash_to_partition = hash_to_partition
        self._limit = limit

    def __missing__(self, token: Token) -> int:
        if len(self) >= self._limit:
            self.clear()
        found = self[token] = self._hash_to_partition(_hashed_bytes(token), self._partitions)
        return found


def _hashed_bytes(token: Token) -> bytes:
    if isinstance(token, str):
        return atom.encode_text(token)
    data = typed_bytes(token)
    tag = data[:1]
    if tag in _BARE_TAGS:
        return data[1:]
    if tag == b"U":
        return str(UUID(bytes=data[1:])).encode("ascii")
    return data


_BARE_TAGS = frozenset((b"b", b"i", b"d", b"?"))
"""Tags of types whose typed bytes are the tag and the bytes of Kafka's own serializer."""


# Typed bytes: one function per type and direction. Containers are `_join`ed parts.


def _encode(key: Any, depth: int) -> bytes:
    encoder = _ENCODERS.get(type(key))
    if encoder is not None:
        return encoder(key)
    if depth > MAX_DEPTH:
        raise ValueError(f"the key is nested deeper than {MAX_DEPTH} levels, or contains itself")
    depth += 1
    cls = type(key)
    if cls is tuple:
        return b"(" + _join([_encode(item, depth) for item in key])
    if cls is list:
        return b"[" + _join([_encode(item, depth) for item in key])
    if cls is Row:
        return _encode_row(key, depth)
    if cls is frozenset:
        return b"{" + _join(sorted(_encode(item, depth) for item in key))
    if isinstance(key, Enum):
        return _encode_member(key, depth)
    if not is_storable(cls):
        raise _unsupported(key)
    layout = layout_of(cls)
    parts = [layout.class_name.encode()]
    for name, value in zip(layout.names, layout.take(key), strict=True):
        parts += (name.encode(), _encode(value, depth))
    return b"C" + _join(parts)


def _decode(data: bytes) -> Any:
    return _DECODERS[data[:1]](data[1:])


def _encode_int(key: int) -> bytes:
    return b"i" + _LONG.pack(key) if -(2**63) <= key < 2**63 else b"I" + atom.encode_int(key)


def _decode_long(data: bytes) -> int:
    if len(data) != 8:
        raise ValueError(f"an int of 64 bit has 8 bytes, not {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def _encode_float(key: float) -> bytes:
    return b"d" + double_bytes(key)


def _encode_row(key: Row, depth: int) -> bytes:
    names = key.get_field_names()
    named = b"-" if names is None else b"+" + _join([atom.encode_text(name) for name in names])
    return b"R" + _join([bytes((key.get_row_kind().value,)), named, *(_encode(item, depth) for item in key)])


def _decode_row(data: bytes) -> Row:
    kind, named, *values = _split(data)
    names = tuple(map(atom.decode_text, _split(named[1:]))) if named[:1] == b"+" else None
    return new_row(names, [_decode(value) for value in values], _KINDS[kind[0]])


def _encode_member(key: Enum, depth: int) -> bytes:
    identity = _encode(key.value, depth) if isinstance(key, Flag) else _encode(key.name, depth)
    return b"E" + _join([name_of(type(key)).encode(), identity])


def _decode_member(data: bytes) -> Enum:
    class_name, identity = _split(data)
    cls = class_of(class_name.decode())
    if not issubclass(cls, Enum):
        raise ValueError(f"{class_name.decode()!r} is not an Enum here")
    return cls(_decode(identity)) if issubclass(cls, Flag) else cls[_decode(identity)]


def _decode_object(data: bytes) -> Any:
    class_name, *parts = _split(data)
    names = [name.decode() for name in parts[::2]]
    return layout_named(class_name.decode()).restore(names, [_decode(value) for value in parts[1::2]])


def _join(parts: Sequence[bytes]) -> bytes:
    """The number of parts, the length of each, the parts. All in one byte, or if one of these does not fit:
    255 and all in four."""
    count = len(parts)
    if count < 255:
        try:
            return bytes((count, *map(len, parts))) + b"".join(parts)
        except ValueError:  # a length of 256 or more
            pass
    return b"\xff" + pack(f">{count + 1}I", count, *map(len, parts)) + b"".join(parts)


def _split(data: bytes) -> list[bytes]:
    count = data[0]
    if count < 255:
        at = count + 1
        lengths: Sequence[int] = data[1:at]
    else:
        count = int.from_bytes(data[1:5], "big")
        at = 4 * count + 5
        lengths = unpack(f">{count}I", data[5:at]) if at <= len(data) else ()
    if len(lengths) != count or at + sum(lengths) != len(data):
        raise ValueError("its parts do not have the lengths it says")
    parts = []
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts


def _unsupported(key: Any) -> TypeError:
    cls = type(key)
    return TypeError(
        f"a value of type {cls.__module__}.{cls.__qualname__} cannot be a key: use str, int, bytes or another "
        "of the types listed in kstreampy.serde.key, such as a tuple or a dataclass of these; turn numpy "
        "scalars and subclasses of str, int, float or bytes into these, for example with str(key)"
    )


def _atom_encoder(tag: bytes, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    return lambda key: tag + encode(key)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    str: lambda key: b"s" + atom.encode_text(key),
    int: _encode_int,
    float: _encode_float,
    bool: lambda key: b"?\1" if key else b"?\0",
    bytes: lambda key: b"b" + key,
    type(None): lambda _: b"0",
    **{cls: _atom_encoder(form.tag, form.encode) for cls, form in atom.ATOMS.items()},
}
_BOOLS = {b"\0": False, b"\1": True}
_NONE = {b"": None}
_DECODERS: dict[bytes, Callable[[bytes], Any]] = {
    b"s": atom.decode_text,
    b"i": _decode_long,
    b"I": atom.decode_int,
    b"d": lambda data: _DOUBLE.unpack(data)[0],
    b"?": _BOOLS.__getitem__,
    b"b": bytes,
    b"0": _NONE.__getitem__,
    b"(": lambda data: tuple(map(_decode, _split(data))),
    b"[": lambda data: list(map(_decode, _split(data))),
    b"{": lambda data: frozenset(map(_decode, _split(data))),
    b"R": _decode_row,
    b"E": _decode_member,
    b"C": _decode_object,
    **{form.tag: form.decode for form in atom.ATOMS.values()},
}
