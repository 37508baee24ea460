"""Windows that overlap and share panes: an element is added to one pane, and a window combines its panes when it fires.

In here: `SharedPanes`. So that a window of 60 panes does not cost 60 merges per key, what a window gives is what the next
one needs: the panes before some point in time are combined from each of them up to that point (`_back`, with what it was
before each pane was added, to take them off again), those after it from that point on (`_front`). When the windows have
passed the point, a new one is made. That is at most three merges per key and pane, over time.

All of it is derived from the panes and made again where it is missing: after a restart, or when memory is short.

Panes are combined in the order of time, and a pane's elements in the order of arrival. So the merge must be associative,
but not commutative; sums of floats differ from those made element by element in their last digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kstreampy.common.copying import copy_value
from kstreampy.operators.pane_firing import Firing
from kstreampy.operators.pane_fold import Entries, Fold, Merge, can_not_change
from kstreampy.operators.pane_result import Fired
from kstreampy.operators.pane_slicing import SlidingSlicing
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Token
from kstreampy.state.pane import PaneCache


class SharedPanes(Firing):
    """Also what the cache knows as `Derived`."""

    def __init__(self, cache: PaneCache, lateness_ms: int, slicing: SlidingSlicing, fold: Fold) -> None:
        super().__init__(cache, lateness_ms)
        assert fold.merge is not None
        self._slicing = slicing
        self._size = slicing.size_ms
        self._merge: Merge = fold.merge
        """As the aggregation has it: it may change what it is given, if that can be changed."""
        self._may_change = fold.aggregation.may_change
        self.clear()
        cache.derived = self

    def __len__(self) -> int:
        return len(self._back) + len(self._front) + sum(map(len, self._undo.values()))

    def clear(self) -> None:
        self._back: Entries = {}
        """Combined from the panes up to `_point`; None is none."""
        self._undo: dict[int, Entries] = {}
        """For each pane in `_back`, what `_back` is without it and those before it."""
        self._point = NO_TIMESTAMP
        self._front: Entries = {}
        """Combined from the panes after `_point` and up to `_taken`."""
        self._front_begins = MAX_WATERMARK
        """The first of them."""
        self._taken = NO_TIMESTAMP
        self._stale: set[Token] = set()
        """Keys of which panes have changed that are combined already."""
        self._safe = True
        """Nothing that is combined can be changed by a merge."""

    def targets(self, slice_end: int, windows: Sequence[int]) -> Sequence[int]:
        return (slice_end,)

    def changed(self, slice_end: int, tokens: list[Token]) -> None:
        if slice_end <= self._taken:
            self._stale.update(tokens)
            if slice_end > self._point:
                self._front_begins = min(self._front_begins, slice_end)

    def accumulator(self, window: int, token: Token) -> Any:
        found = None
        for end in self._between(window - self._size, window):
            pane = self.cache.pane(end)
            self.cache.read(pane, (token,))
            accumulator = pane.entries.get(token)
            if accumulator is not None:
                found = accumulator if found is None else self._merge_copies(found, accumulator)
        return found

    def _between(self, after: int, until: int) -> list[int]:
        return sorted([end for end in self.cache.panes() if after < end <= until])

    # Firing

    def fire(self, before: int, watermark: int) -> Iterator[Fired]:
        least = before + 2
        while (window := self._next_window(least)) <= watermark + 1:
            self._move_to(window)
            yield self._combined(window)
            least = window + 1

    def _next_window(self, least: int) -> int:
        """The first window from `least` on that has panes; beyond all watermarks when there is none."""
        for end in sorted([end for end in self.cache.panes() if end + self._size > least]):
            window = self._slicing.next_window(max(end, least))
            if window < end + self._size:
                return window
        return MAX_WATERMARK + 2

    def _move_to(self, window: int) -> None:
        """Brings what is combined to this window, the next after the one before."""
        start = window - self._size
        for end in sorted([end for end in self._undo if end <= start]):
            self._back.update(self._undo.pop(end))
        if self._taken <= start or self._front_begins <= start:
            self._begin_anew(start, window)
        else:
            self._take(window)
            self._repair(start)

    def _begin_anew(self, start: int, window: int) -> None:
        """All panes of the window go to `_back`, the last first."""
        self.clear()
        panes = self.cache.panes()
        for end in reversed(self._between(start, window)):
            undo = self._undo[end] = {}
            self._add_to_back(self._back, undo, self.cache.whole(panes[end]))
        self._point = self._taken = window

    def _add_to_back(self, back: Entries, undo: Entries, entries: Entries) -> None:
        get = back.get
        merge = self._merge_for(entries)
        for token, accumulator in entries.items():
            later = undo[token] = get(token)
            if later is None:
                back[token] = accumulator
            elif accumulator is not None:
                back[token] = merge(accumulator, later)
        self._made(back, entries)

    def _merge_for(self, entries: Entries) -> Merge:
        """What merges these with what is combined already, and leaves both alone."""
        if self._may_change and self._safe and not can_not_change(list(entries.values())):
            self._safe = False
        return self._merge if self._safe else self._merge_copies

    def _made(self, combined: Entries, entries: Entries) -> None:
        """The keys of `entries` are combined anew."""
        if self._may_change and self._safe and not can_not_change(list(map(combined.get, entries))):
            self._safe = False

    def _merge_copies(self, earlier: Any, later: Any) -> Any:
        if self._may_change:
            return self._merge(copy_value(earlier), copy_value(later))
        return self._merge(earlier, later)

    def _take(self, window: int) -> None:
        """The panes that are new in this window go to `_front`."""
        panes = self.cache.panes()
        for end in self._between(self._taken, window):
            self._front_begins = min(self._front_begins, end)
            self._add_to_front(self.cache.whole(panes[end]))
        self._taken = window

    def _add_to_front(self, entries: Entries) -> None:
        front = self._front
        get = front.get
        merge = self._merge_for(entries)
        for token, accumulator in entries.items():
            earlier = get(token)
            if earlier is None:
                front[token] = accumulator
            elif accumulator is not None:
                front[token] = merge(earlier, accumulator)
        self._made(front, entries)

    def _repair(self, start: int) -> None:
        """Combines anew what late elements have changed: only their keys."""
        if not self._stale:
            return
        stale, self._stale = self._stale, set()
        back: Entries = dict.fromkeys(stale)
        for end in reversed(self._between(start, self._point)):
            self._add_to_back(back, self._undo.setdefault(end, {}), self._some(end, stale))
        self._back.update(back)
        self._front.update(dict.fromkeys(stale))
        for end in self._between(self._point, self._taken):
            self._add_to_front(self._some(end, stale))

    def _some(self, end: int, tokens: set[Token]) -> Entries:
        """What the pane has of these keys."""
        pane = self.cache.panes()[end]
        self.cache.read(pane, tokens)
        get = pane.entries.get
        return {token: accumulator for token in tokens if (accumulator := get(token)) is not None}

    def _combined(self, window: int) -> Fired:
        back, front = self._back, self._front
        merge = self._merge if self._safe else self._merge_copies
        owned = self._may_change and not self._safe  # what was merged is new then, and the others are copied
        own = copy_value if owned else _itself
        get = front.get
        found: list[Any] = []
        for token, earlier in back.items():
            later = get(token)
            if earlier is not None and later is not None:
                found.append(merge(earlier, later))
            else:
                found.append(own(later if earlier is None else earlier))
        only_front = [token for token in front if token not in back]
        found += [own(front[token]) for token in only_front]
        return Fired(window, [*back, *only_front], found, owned)

    # The end of panes

    def clean(self, watermark: int) -> None:
        panes = self.cache.panes()
        for pane in [panes[end] for end in panes if self._over_at(end) <= watermark]:
            self.cache.remove(pane)

    def _over_at(self, end: int) -> int:
        return self._slicing.windows(end)[-1] - 1 + self.lateness_ms

    def next_due(self, watermark: int) -> int:
        if not self.cache.panes():
            return MAX_WATERMARK
        over = min(map(self._over_at, self.cache.panes()))
        return min(over, self._next_window(watermark + 2) - 1)


def _itself(accumulator: Any) -> Any:
    return accumulator
