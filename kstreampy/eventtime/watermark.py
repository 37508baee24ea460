"""How far event time has come on several inputs together: `WatermarkMerge`.

Pure: no clock, no I/O. A watermark `t` says that no record with a timestamp `<= t` follows. Semantics: Flink's; the
combined watermark is the minimum over the active inputs and never goes back. Where Flink has two rules for an input that was
idle and returns behind the combined watermark (a source's partition holds it where it is, a network channel counts only once
it has caught up), every input here follows the first: what returns late then makes nothing else late.

Not in here: how one source partition comes to its watermark (`partition_watermark.py`), and a whole source's
(`source_watermark.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP

K = TypeVar("K", bound=Hashable)


class WatermarkMerge(Generic[K]):
    """The minimum over the inputs that are neither idle nor at their end; `NO_TIMESTAMP` until every one of them has spoken.

    When the last active input becomes idle, all of them are: the merge is idle then, and its watermark is the furthest that
    any of them came to, as if they had become idle in the order of their watermarks. An input that has come to
    `MAX_WATERMARK` is at its end for good, and holds nothing back.
    """

    def __init__(
        self, inputs: Iterable[K], known: Mapping[K, int] | None = None, idle: Collection[K] = frozenset()
    ) -> None:
        """`known` and `idle`: what was heard of the inputs before a restart."""
        self._active: dict[K, int] = dict.fromkeys(inputs, NO_TIMESTAMP)
        self._idle: dict[K, int] = {}
        self._ended: set[K] = set()
        self._current = NO_TIMESTAMP
        for name in list(self._active):
            self.advance(name, (known or {}).get(name, NO_TIMESTAMP), idle=name in idle)

    def add(self, name: K) -> None:
        """One more input, active: it holds the watermark where it is until it has come there itself."""
        if name not in self._idle and name not in self._ended:
            self._active.setdefault(name, NO_TIMESTAMP)

    def advance(self, name: K, watermark: int, *, idle: bool = False) -> None:
        """Input `name` has come to `watermark` (going back is ignored), and is active or idle. A name that is not one of the
        inputs is ignored."""
        before = self._active.get(name)
        if before is None:
            before = self._idle.get(name)
            if before is None:
                return
        mark = max(before, watermark)
        if mark == MAX_WATERMARK:
            self._active.pop(name, None)
            self._idle.pop(name, None)
            self._ended.add(name)
        elif idle:
            self._active.pop(name, None)
            self._idle[name] = mark
        else:
            self._idle.pop(name, None)
            self._active[name] = mark

    def current(self) -> int:
        """The combined watermark as of now."""
        if self._active:
            reached = min(self._active.values())
        elif self._idle:
            reached = max(self._idle.values())
        else:
            reached = MAX_WATERMARK if self._ended else NO_TIMESTAMP
        if reached > self._current:
            self._current = reached
        return self._current

    def is_idle(self) -> bool:
        """Nothing comes from any input for now: all that are not at their end are idle (there may be none at all)."""
        return not self._active and (bool(self._idle) or not self._ended)

    def least(self, names: Iterable[K]) -> int | None:
        """How far those of these inputs have come that are neither idle nor at their end; None if there are none such."""
        return min([mark for name in names if (mark := self._active.get(name)) is not None], default=None)

    def has_ended(self, name: K) -> bool:
        return name in self._ended

    def marks(self) -> dict[K, int]:
        """Of each input, the furthest it has said."""
        return {**self._active, **self._idle, **dict.fromkeys(self._ended, MAX_WATERMARK)}
