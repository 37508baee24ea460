"""Which partition a key belongs to: murmur2 as Kafka's Java clients compute it.

In here: the hash and the choice for keyed messages. Messages without a key are dealt out by the producer.
"""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The unsigned 32-bit hash of `data` (Java's `Utils.murmur2`, whose signed result has the same bits)."""
    length = len(data)
    hashed = _SEED ^ length
    words = length // 4
    for word in struct.unpack_from(f"<{words}I", data):
        word = word * _MULTIPLIER & _MASK
        word ^= word >> 24
        hashed = (hashed * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    rest = data[words * 4 :]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _MULTIPLIER & _MASK
    return hashed ^ (hashed >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key among `partitions`: the hash without its sign bit, modulo their number."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
