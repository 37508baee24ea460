"""Keys in order, and ranges of them: those that are str in the order of their text, behind them int of 64 bit by their number,
behind them all others by their typed bytes.

In here: `KeyRange`, `place_of`. Not in here: what lies under the keys (`query.py`, `window_query.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from kstreampy.serde.key import from_typed_bytes, typed_bytes

Place: TypeAlias = tuple[int, Any, bytes]
"""Where a key stands in the order of keys."""

Places: TypeAlias = Generator[tuple[Place, bytes]]
"""Keys in order: where each stands, and its typed bytes."""

_TEXT, _NUMBER, _OTHER = range(3)
_OTHERS = (b"", b"i"), (b"j", b"s"), (b"t", b"\xff")
"""Where the typed bytes of the others lie."""


def place_of(typed_key: bytes) -> Place:
    """Where the key with these typed bytes stands. ValueError when they are not a key's."""
    token = from_typed_bytes(typed_key)
    if isinstance(token, str):
        return _TEXT, token, b""
    if typed_key[:1] == b"i":
        return _NUMBER, token, b""
    return _OTHER, 0, typed_key


@dataclass(frozen=True)
class KeyRange:
    """Which keys a listing has: all, or those that are str, or int, within bounds, the bounds among them."""

    prefix: str | None = None
    least: str | int | None = None
    most: str | int | None = None
    after: bytes | None = None
    """Typed bytes: only keys that stand behind this one."""

    def kind(self) -> int | None:
        """Which keys it is about; None: all."""
        if self.prefix is not None:
            return _TEXT
        bound = self.most if self.least is None else self.least
        return None if bound is None else _TEXT if isinstance(bound, str) else _NUMBER

    def floor(self) -> Place:
        """No key of the range stands before this."""
        kind = self.kind()
        bounds = [bound for bound in (self.prefix, self.least) if bound is not None]
        floor: Place = (_TEXT, "", b"")
        if kind is not None:
            floor = (kind, max(bounds, default="" if kind == _TEXT else -(2**63)), b"")
        return floor if self.after is None else max(floor, place_of(self.after))

    def ends_before(self, place: Place) -> bool:
        """Whether all of the range stands before a place that is not before its floor."""
        kind = self.kind()
        if kind is None:
            return False
        if place[0] != kind or (self.most is not None and place[1] > self.most):
            return True
        return self.prefix is not None and not place[1].startswith(self.prefix)

    def parts(self, floor: Place) -> Iterator[tuple[bytes, bytes]]:
        """The typed bytes of its keys in the order of keys: parts within which that is the order of the bytes, each from its
        least on and before its end. `floor`: as `floor()`."""
        kind = self.kind()
        if floor[0] == _TEXT and kind in (None, _TEXT):
            yield typed_bytes(floor[1]), b"t"
        if floor[0] <= _NUMBER and kind in (None, _NUMBER):
            least = floor[1] if floor[0] == _NUMBER else -(2**63)
            if least < 0:
                yield typed_bytes(least), b"j"
            yield typed_bytes(max(least, 0)), b"i\x80"
        if kind is None:
            yield from ((max(least, floor[2]), end) for least, end in _OTHERS if end > floor[2])

    def places(self, stored: Callable[[bytes, bytes], Generator[bytes]]) -> Places:
        """The keys of the range, of those that `stored(least, end)` gives: typed bytes, ascending."""
        floor = self.floor()
        for least, end in self.parts(floor):
            with closing(stored(least, end)) as keys:
                for typed in keys:
                    place = place_of(typed)
                    if self.ends_before(place):
                        return
                    if place >= floor and typed != self.after:
                        yield place, typed

    def chosen(self, typed_keys: Iterable[bytes]) -> list[tuple[Place, bytes]]:
        """Those of the range, in order."""
        floor = self.floor()
        found = [(place_of(typed), typed) for typed in typed_keys if typed != self.after]
        return sorted(one for one in found if one[0] >= floor and not self.ends_before(one[0]))


ALL_KEYS = KeyRange()
