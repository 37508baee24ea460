"""A batch as one Kafka message between two stages, and the marks by which senders say how far they are.

In here: `pack`, `pack_split`, `pack_marks` and `unpack`. The form of the values is the codec's
(`serde/typed.py`).

A message is one version byte and one MessagePack array: marks, values (bytes of the codec), keys,
timestamps, headers, and how keys and timestamps were written. The first mark is that of the task whose
records these are; a message without records may carry marks of several tasks. A mark's watermark, its
`final` and its `idle` hold *after* the records of its message, not before. Version 1 had no `idle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import sub
from typing import Any, NamedTuple

import msgspec
from msgspec import msgpack

from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Headers, Token
from kstreampy.serde.key import from_typed_bytes, typed_bytes
from kstreampy.serde.typed import Codec

VERSION = b"\x02"
_READABLE = (b"\x01", VERSION)
_KEY_TYPES = frozenset((str, int, bytes))
_RARE_KEY_TYPES = frozenset((bytes,))


class Mark(NamedTuple):
    """How far one task of the sending stage is. `final`: it has ended, nothing follows. `idle`: nothing comes to it for
    now, so that nobody should wait for its watermark."""

    stage: str
    task: int
    watermark: int = NO_TIMESTAMP
    final: bool = False
    idle: bool = False


class Packed(NamedTuple):
    """What a message held. `batch` is empty when it held marks only; otherwise its sender is `marks[0]`."""

    marks: list[Mark]
    batch: Batch


class _Message(msgspec.Struct, array_like=True, gc=False):
    """`keys` are tokens, or all of them typed bytes when `rare_keys`; `timestamps` are steps from the one
    before when `steps`, a single one when all are the same."""

    marks: list[Mark]
    values: bytes | None = None
    keys: list[Any] | None = None
    timestamps: list[int] = []
    headers: list[list[tuple[str, bytes | None]] | None] | None = None
    rare_keys: bool = False
    steps: bool = False


_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(_Message).decode


def pack(batch: Batch, codec: Codec, mark: Mark) -> bytes:
    """One message of all records of the batch (none is fine). Errors are the codec's."""
    if not batch.values:
        return pack_marks([mark])
    values = codec.encode_many(batch.values)
    timestamps, steps = _steps(batch.timestamps)
    try:
        return VERSION + _encode(_Message([mark], values, batch.keys, timestamps, batch.headers, False, steps))
    except (
        OverflowError,
        UnicodeEncodeError,
    ):  # a key beyond 64 bit or with lone surrogates; steps beyond 64 bit
        keys: list[Token] | None = None if batch.keys is None else [typed_bytes(key) for key in batch.keys]
        return VERSION + _encode(_Message([mark], values, keys, batch.timestamps, batch.headers, True, False))


def pack_split(batch: Batch, codec: Codec, mark: Mark, max_bytes: int) -> list[bytes]:
    """As `pack`, in as many messages as keep each at or below `max_bytes`; only a single record may exceed
    it.

    The messages must be sent in order: the mark's watermark, `final` and `idle` are in the last, the others
    move nothing.
    """
    whole = pack(batch, codec, mark)
    count = len(batch)
    if len(whole) <= max_bytes or count < 2:
        return [whole]
    pieces = min(count, len(whole) // max_bytes + 1)
    bounds = [count * piece // pieces for piece in range(pieces + 1)]
    marks = [Mark(mark.stage, mark.task)] * (pieces - 1) + [mark]
    parts = [
        pack_split(_slice(batch, start, end), codec, part_mark, max_bytes)
        for start, end, part_mark in zip(bounds, bounds[1:], marks, strict=False)
    ]
    return list(chain.from_iterable(parts))


def pack_marks(marks: Sequence[Mark]) -> bytes:
    """A message without records."""
    return VERSION + _encode(_Message(list(marks)))


def unpack(data: bytes, codec: Codec) -> Packed:
    """ValueError for bytes that `pack` has not made, of another version, or damaged."""
    if data[:1] not in _READABLE:
        raise ValueError(
            f"not a packed batch of version {VERSION[0]}, it begins {data[:20]!r}: the topic holds something "
            "else, or was written by another version of kstreampy, which has to finish what it has written"
        )
    try:
        message = _decode(memoryview(data)[1:])
        if not message.marks:
            raise ValueError("it has no sender")
        return Packed(message.marks, _batch_of(message, codec))
    except (ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"a packed batch of {len(data)} bytes cannot be read: {error}") from error


def _batch_of(message: _Message, codec: Codec) -> Batch:
    if message.values is None:
        return Batch([], [])
    values = codec.decode_many(message.values)
    keys = message.keys
    if keys is not None:
        allowed = _RARE_KEY_TYPES if message.rare_keys else _KEY_TYPES
        if not allowed.issuperset(map(type, keys)):
            raise ValueError("some of its keys are of a type that keys do not have")
        if message.rare_keys:
            keys = [from_typed_bytes(key) for key in keys]
    timestamps = message.timestamps
    if message.steps:
        timestamps = timestamps * len(values) if len(timestamps) == 1 else list(accumulate(timestamps))
    headers: list[Headers | None] | None = message.headers
    for column in (keys, timestamps, headers):
        if column is not None and len(column) != len(values):
            raise ValueError(f"its columns differ in length: {len(values)} values, but {len(column)}")
    return Batch(values, timestamps, keys, headers)


def _steps(timestamps: list[int]) -> tuple[list[int], bool]:
    first = timestamps[0]
    if timestamps.count(first) == len(timestamps):
        return [first], True
    return [first, *map(sub, timestamps[1:], timestamps)], True


def _slice(batch: Batch, start: int, end: int) -> Batch:
    keys, headers = batch.keys, batch.headers
    return Batch(
        batch.values[start:end],
        batch.timestamps[start:end],
        None if keys is None else keys[start:end],
        None if headers is None else headers[start:end],
    )
