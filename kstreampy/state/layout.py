"""The bytes of one entry of state, the same in the changelog and in the store.

In here: building and taking apart the key of an entry:

    name (UTF-8) · 0x00 · length of the typed key (varint) · typed key · suffix

The suffix is empty for a ValueState; states with several entries per key put the number of an element or a map key there.
An empty typed key, which no key has, stands for the state as a whole (what a list state counts on from). Where
entries are read by time and not by key (the panes of windows), they lie in the order of time:

    name (UTF-8) · 0x00 · pane end (8 bytes, big endian, sign bit flipped) · typed key

Not in here: how a key becomes typed bytes (`serde/key.py`) and how a value becomes bytes (codecs).

A name is never empty and never holds 0x00, so no name's entries lie among another's, and no entry's key
begins with 0x00: such keys are reserved (`store.META_KEY`). Entries of one state key lie together, ordered by
suffix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kstreampy.errors import JobError

_SIGN = 1 << 63
_SHORT = tuple(bytes((length,)) for length in range(128))


class EntryKey(NamedTuple):
    """An entry's key, taken apart."""

    name: str
    typed_key: bytes
    suffix: bytes


def check_name(name: str) -> str:
    """Returns the state's name; JobError when it cannot be one."""
    if not isinstance(name, str) or not name or "\x00" in name or not _is_unicode(name):
        raise JobError(f"a state's name must be a non-empty str without 0x00, not {name!r}")
    return name


def _is_unicode(text: str) -> bool:
    return text.encode(errors="ignore").decode() == text


def name_prefix(name: str) -> bytes:
    """What the keys of all entries of a state begin with, and no others. JobError for a name that cannot be
    one."""
    return check_name(name).encode() + b"\x00"


def entry_key(prefix: bytes, typed_key: bytes, suffix: bytes = b"") -> bytes:
    """The key of one entry; `prefix` is `name_prefix(name)`. Without a suffix it is also the prefix of all
    entries of that key."""
    return prefix + _varint(len(typed_key)) + typed_key + suffix


def entry_keys(prefix: bytes, typed_keys: Iterable[bytes]) -> list[bytes]:
    """`entry_key` of many keys, without suffix, in order."""
    short = _SHORT
    return [
        prefix + short[len(key)] + key if len(key) < 128 else prefix + _varint(len(key)) + key for key in typed_keys
    ]


def pane_prefix(prefix: bytes, end_ms: int) -> bytes:
    """What the keys of all entries of one pane begin with; `prefix` is `name_prefix(name)`. In the order of `end_ms`,
    which has 64 bit: OverflowError beyond."""
    return prefix + (end_ms + _SIGN).to_bytes(8, "big")


def pane_end(prefix: bytes, key: bytes) -> int:
    """The end of the pane that the entry with this key belongs to."""
    at = len(prefix)
    return int.from_bytes(key[at : at + 8], "big") - _SIGN


def parse(key: bytes) -> EntryKey:
    """Takes the key of an entry that lies by key apart; ValueError when it is not one."""
    name, _, rest = key.partition(b"\x00")
    try:
        if not name:
            raise ValueError("a name is missing")
        return EntryKey(name.decode(), *split_prefixed(rest))
    except ValueError as error:
        raise ValueError(f"not the key of a state entry: {key[:80]!r} ({error})") from error


def length_prefixed(data: bytes) -> bytes:
    """The length of `data` (varint), then `data`."""
    return (_SHORT[len(data)] if len(data) < 128 else _varint(len(data))) + data


def split_prefixed(data: bytes) -> tuple[bytes, bytes]:
    """The inverse of `length_prefixed`, and what comes behind. ValueError when it is not that."""
    length = shift = at = 0
    try:
        while True:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    except IndexError:
        raise ValueError("a length is missing") from None
    if at + length > len(data):
        raise ValueError("an end is missing")
    return data[at : at + length], data[at + length :]


def _varint(number: int) -> bytes:
    if number < 128:
        return _SHORT[number]
    out = bytearray()
    while number >= 128:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
