"""The entries of a map state in front of the store.

In here: `MapCache`. Not in here: what maps have in common with lists (`element_cache.py`), and the handle (`map_state.py`).

An element's id is the token of the map's key (`serde/key.py`): so 1, 1.0, True and "1" are four keys of a map, as they are
four keys of a stream; its entry's key ends with the key's typed bytes.
"""

from __future__ import annotations

from typing import Any

from kstreampy.serde.batch import Token
from kstreampy.serde.key import NO_KEY, from_typed_bytes, key_of, token, typed_bytes
from kstreampy.state.element_cache import ElementCache

_NONE: Any = NO_KEY
"""What None has for typed bytes inside of a key."""


class MapCache(ElementCache):
    """Any number of entries per key."""

    def _suffix(self, element_id: Token) -> bytes:
        return typed_bytes(element_id)

    def _id(self, suffix: bytes) -> Token:
        return _NONE if suffix == _NONE else from_typed_bytes(suffix)


def id_of(key: Any) -> Token:
    """The id of the entry with this key. TypeError for what cannot be a key."""
    if type(key) is str or type(key) is int:
        return key
    return _NONE if key is None else token(key)


def map_key(element_id: Token) -> Any:
    """The inverse of `id_of`."""
    return key_of(element_id) if isinstance(element_id, bytes) else element_id
