"""Values to be written as entries and read again, with errors that name the state and the key.

In here: `encode_entries`, what every cache's `encode_dirty` ends in, what is done where bytes cannot be read as declared,
and how a key is shown in a message. Not in here: the
form of the bytes (`serde/`) and of the entries' keys (`layout.py`).
"""

from __future__ import annotations

from typing import Any

from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.serde.key import key_of
from kstreampy.serde.typed import Codec
from kstreampy.state.stamped import without_time
from kstreampy.state.store import Entry


def encode_entries(
    name: str,
    codec: Codec,
    tokens: list[Token],
    keys: list[bytes],
    values: list[Any],
    absent: Any,
    max_bytes: int,
) -> list[Entry]:
    """The entries of the state `name` with these keys; those whose value is `absent` are tombstones. `tokens` are the
    keys that the values are kept for. JobError for a value that its type cannot encode, or that takes more than
    `max_bytes` with its key."""
    try:
        encoded = _encoded(codec, values, absent)
    except Exception as error:
        raise encode_error(name, codec, tokens, values, absent, error) from error
    entries: list[Entry] = list(zip(keys, encoded, strict=True))
    largest = max((len(data) for data in encoded if data is not None), default=0)
    if entries and max(map(len, keys)) + largest > max_bytes:
        _check_sizes(name, tokens, entries, max_bytes)
    return entries


def _encoded(codec: Codec, values: list[Any], absent: Any) -> list[bytes | None]:
    if type(absent) not in set(map(type, values)):
        return list(codec.encode_each(values))
    present = iter(codec.encode_each([value for value in values if value is not absent]))
    return [None if value is absent else next(present) for value in values]


def encode_error(
    name: str, codec: Codec, tokens: list[Token], values: list[Any], absent: Any, first: Exception
) -> JobError:
    """The error that names the value which cannot be encoded."""
    for token, value in zip(tokens, values, strict=True):
        try:
            if value is not absent:
                codec.encode(value)
        except Exception as error:
            return JobError(
                f"state {name!r}: the value of key {shown_key(token)}, a {type(value).__name__}, "
                f"cannot be stored ({error}): declare the type that the state really holds"
            )
    return JobError(f"state {name!r}: a value cannot be stored ({first})")


def _check_sizes(name: str, tokens: list[Token], entries: list[Entry], max_bytes: int) -> None:
    sizes = [len(key) if value is None else len(key) + len(value) for key, value in entries]
    largest = max(sizes)
    if largest > max_bytes:
        raise JobError(
            f"state {name!r}: the value of key {shown_key(tokens[sizes.index(largest)])} takes {largest:,} bytes, "
            f"more than the {max_bytes:,} that one entry may: keep less per key, or keep it in a ListState or MapState, whose "
            "elements are entries of their own"
        )


def decoded_otherwise(name: str, codec: Codec, token: Token, data: bytes, error: Exception) -> Any:
    """The value of stored bytes that the codec refuses with this error: perhaps they have a time, from when the state had a
    TTL. JobError when it refuses them without it too."""
    bare = without_time(data)
    try:
        if bare is not None:
            return codec.decode(bare)
    except Exception as other:
        error = other
    raise JobError(
        f"state {name!r}: what is stored for key {shown_key(token)} cannot be read ({error}). "
        "If the type of this state was changed, change it back or give the state another name"
    ) from error


def shown_key(token: Token) -> str:
    """A key for a message, cut where it is long."""
    try:
        text = repr(key_of(token))
    except ValueError:
        text = repr(token)
    return text if len(text) <= 80 else f"{text[:60]}…{text[-16:]}"
