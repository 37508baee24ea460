"""Kafka's hash, so that a key lies on the same partition whoever wrote it.

In here: the murmur2 of the Java client (`org.apache.kafka.common.utils.Utils.murmur2`) in plain Python.
Which bytes of a key are hashed is decided in `serde/key.py`.
"""

from __future__ import annotations

from struct import Struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_WORDS = [Struct(f"<{count}I") for count in range(17)]


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32 bit int (Java shows the same bits as a signed one)."""
    length = len(data)
    count = length >> 2
    words = _WORDS[count] if count < 17 else Struct(f"<{count}I")
    h = _SEED ^ length
    for k in words.unpack_from(data):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if length & 3:
        h = (h ^ int.from_bytes(data[count << 2 :], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of_bytes(data: bytes, partitions: int) -> int:
    """The partition Java's default partitioner chooses for a message whose serialized key is `data`."""
    return (murmur2(data) & 0x7FFFFFFF) % partitions
