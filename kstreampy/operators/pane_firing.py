"""Which windows fire and end as the watermark moves, where each window has a pane of its own.

In here: `Firing`, what `pane.py` asks of any arrangement of panes, and `OwnPanes`: tumbling and calendar windows, and
overlapping ones whose accumulators cannot be merged, so that each element is added to every window it is in. Not in here:
windows that share panes (`pane_sliding.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from kstreampy.operators.pane_result import Fired
from kstreampy.serde.batch import MAX_WATERMARK, Token
from kstreampy.state.pane import PaneCache


class Firing(ABC):
    """Panes and windows are known by their end; a window is due when the watermark has come to its end - 1, and over when
    `lateness_ms` more have passed."""

    def __init__(self, cache: PaneCache, lateness_ms: int) -> None:
        self.cache = cache
        self.lateness_ms = lateness_ms

    @abstractmethod
    def targets(self, slice_end: int, windows: Sequence[int]) -> Sequence[int]:
        """The panes that take an element of this slice, which is in these windows."""

    @abstractmethod
    def changed(self, slice_end: int, tokens: list[Token]) -> None:
        """Elements of these keys came into the slice."""

    @abstractmethod
    def accumulator(self, window: int, token: Token) -> Any:
        """What the window has for one key; None when nothing. It stays in use."""

    @abstractmethod
    def fire(self, before: int, watermark: int) -> Iterator[Fired]:
        """The windows that become due as the watermark goes from `before` to `watermark`, by their end."""

    @abstractmethod
    def clean(self, watermark: int) -> None:
        """Removes the panes of which all windows are over."""

    @abstractmethod
    def next_due(self, watermark: int) -> int:
        """The watermark, above this one, at which there is something to do next."""


class OwnPanes(Firing):
    def targets(self, slice_end: int, windows: Sequence[int]) -> Sequence[int]:
        return windows

    def changed(self, slice_end: int, tokens: list[Token]) -> None: ...

    def accumulator(self, window: int, token: Token) -> Any:
        pane = self.cache.pane(window)
        self.cache.read(pane, (token,))
        return pane.entries.get(token)

    def fire(self, before: int, watermark: int) -> Iterator[Fired]:
        panes = self.cache.panes()
        for end in sorted([end for end in panes if before < end - 1 <= watermark]):
            last = end - 1 + self.lateness_ms <= watermark
            for tokens, accumulators in self.cache.chunks(panes[end], remove=last):
                yield Fired(end, tokens, accumulators, owned=last)

    def clean(self, watermark: int) -> None:
        panes = self.cache.panes()
        for pane in [panes[end] for end in panes if end - 1 + self.lateness_ms <= watermark]:
            self.cache.remove(pane)

    def next_due(self, watermark: int) -> int:
        lateness = self.lateness_ms
        return min(
            [end - 1 if end - 1 > watermark else end - 1 + lateness for end in self.cache.panes()],
            default=MAX_WATERMARK,
        )
