"""What the windows of a step have so far, by key, looked at from outside: nothing is loaded, changed or evicted by it.

In here: `PaneQuery`, over panes; `WindowQuery`, over what is kept per key and window; `MergingWindowQuery`, over windows that
merge. Not in here: state that is kept by key (`query.py`), what a window's bytes mean, and which of these a step has
(`runtime/query_window.py`).

The value of a key is a list of its windows, each a dict that says which one it is, with `value`: what was added up in it so
far, or the list of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

from kstreampy.serde.batch import Token
from kstreampy.serde.json_form import plain
from kstreampy.serde.key import from_typed_bytes, scoped, typed_bytes, unscoped
from kstreampy.state.cache import Cache, ValueCache
from kstreampy.state.committed import Committed
from kstreampy.state.key_range import KeyRange, Place
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import entry_key, pane_prefix, split_prefixed
from kstreampy.state.pane import PaneCache
from kstreampy.state.query import MOST_ELEMENTS, Query, Row, StateQuery, shown_key, walk_in_order

Show: TypeAlias = Callable[[Any], dict[str, Any]]
"""Which window it is, for an answer."""

_CHUNK = 32
"""Keys of a pane that are read at once: many panes are walked over side by side."""


class PaneQuery(Query):
    """A key's panes by their end: `start` and `end` in ms, and the accumulator as `value`."""

    def __init__(self, state: KeyedState, cache: PaneCache, *, live: bool) -> None:
        self._cache = cache
        self._committed = Committed(state, cache.prefix)
        self._panes = cache.panes() if live else {}
        self._live = live
        self._ends = sorted(cache.ends())

    def row(self, token: Token) -> Row | None:
        return self._row(token, self._ends)

    def _row(self, token: Token, ends: Iterable[int]) -> Row | None:
        """What the key has in the panes with these ends, ascending."""
        typed = typed_bytes(token)
        found, unknown = self._in_memory(token, ends) if self._live else ([], list(ends))
        keys = [pane_prefix(self._cache.prefix, end) + typed for end in unknown]
        for end, data in zip(unknown, self._committed.get_many(keys), strict=True):
            if data is not None:
                found.append((end, self._cache.decoded(token, data)))
        if not found:
            return None
        found.sort(key=itemgetter(0))
        begin_of = self._cache.begin_of
        shown = [
            {"start": begin_of(end), "end": end, "value": plain(accumulator)}
            for end, accumulator in found[:MOST_ELEMENTS]
        ]
        return Row(shown_key(token), typed, shown, len(shown), len(found) > MOST_ELEMENTS)

    def _in_memory(self, token: Token, ends: Iterable[int]) -> tuple[list[tuple[int, Any]], list[int]]:
        """Ends and accumulators, and the ends of the panes of which memory does not know whether they have the key."""
        found: list[tuple[int, Any]] = []
        unknown: list[int] = []
        for end in ends:
            pane = self._panes.get(end)
            if pane is None:
                continue
            accumulator = pane.entries.get(token)
            if accumulator is not None:
                found.append((end, accumulator))
            elif token not in pane.entries and not pane.complete:
                unknown.append(end)
        return found, unknown

    def walk(self, keys: KeyRange) -> Generator[Row]:
        changed = [
            [(*one, end) for one in keys.chosen(map(typed_bytes, pane.dirty))] for end, pane in self._panes.items()
        ]
        walks = [self._places(keys, end) for end in self._ends]
        for (_, typed), found in groupby(merge(*changed, *walks), itemgetter(0, 1)):
            ends = dict.fromkeys(end for _, _, end in found)  # they ascend
            row = self._row(from_typed_bytes(typed), ends)
            if row is not None:
                yield row

    def _places(self, keys: KeyRange, end: int) -> Iterator[tuple[Place, bytes, int]]:
        """The keys of the pane, with its end. No scan is open in between."""
        for place, typed in keys.places(partial(self._stored, pane_prefix(self._cache.prefix, end))):
            yield place, typed, end

    def _stored(self, base: bytes, least: bytes, end: bytes) -> Generator[bytes]:
        while True:
            with closing(self._committed.entries(base, base + least)) as entries:
                some = [key[len(base) :] for key, _ in islice(entries, _CHUNK)]
            for typed in some:
                if typed >= end:
                    return
                yield typed
            if len(some) < _CHUNK:
                return
            least = some[-1] + b"\0"


class WindowQuery(Query):
    """A key's windows in the order of their bytes."""

    def __init__(self, state: KeyedState, contents: Cache, show: Show, *, live: bool) -> None:
        """`contents` are kept under tokens of key and window. `show` is given a window's bytes."""
        self._contents = StateQuery(state, contents, live=live)
        self._prefix = self._contents.prefix
        self._committed = Committed(state, self._prefix)
        self._show = show
        self._groups = list(self._all_groups())
        self._changed: dict[bytes, set[bytes]] = {}
        for token in self._contents.changed:
            typed, window = unscoped(typed_bytes(token))
            self._changed.setdefault(typed, set()).add(window)

    def row(self, token: Token) -> Row | None:
        typed = typed_bytes(token)
        windows = sorted(self._changed.get(typed, set()).union(self._stored_windows(typed)))
        return _row_of(token, ((self._show(window), scoped(token, window)) for window in windows), self._contents)

    def _stored_windows(self, typed: bytes) -> Iterator[bytes]:
        for base, length, window_length in self._groups:
            if length == len(typed):
                base_of_key = base + typed + b"b"
                begin = len(base_of_key)
                with closing(self._committed.entries(base_of_key, base_of_key)) as entries:
                    windows = (key[begin : begin + window_length] for key, _ in entries)
                    yield from (window for window, _ in groupby(windows))

    def walk(self, keys: KeyRange) -> Generator[Row]:
        groups = [(base, length) for base, length, _ in self._groups]
        with closing(walk_in_order(self._committed, keys, groups, self._changed)) as found:
            for typed in found:
                row = self.row(from_typed_bytes(typed))
                if row is not None:
                    yield row

    def _all_groups(self) -> Iterator[tuple[bytes, int, int]]:
        """What the entries begin with of all keys and windows whose bytes have the same lengths, and these lengths."""
        raw = self._committed.first(self._prefix)
        while raw is not None:
            both = split_prefixed(raw[len(self._prefix) :])[0]
            base = entry_key(self._prefix, both)[: -len(both) or None]
            if both:  # otherwise it is the counter of a list
                typed, window = unscoped(both)
                base += both[: -len(typed) - 1 - len(window)]
                yield base, len(typed), len(window)
            raw = self._committed.first(base + b"\xff" if both else base[:-1] + b"\1")


class MergingWindowQuery(Query):
    """A key's windows in flight, which may hold what was kept for others before."""

    def __init__(self, state: KeyedState, sets: ValueCache, contents: Cache, show: Show, *, live: bool) -> None:
        """`sets` has for each key something with `items()`: its windows and the tokens of their contents. `show` is given a
        window."""
        self._sets = StateQuery(state, sets, live=live)
        self._contents = StateQuery(state, contents, live=live)
        self._show = show

    def row(self, token: Token) -> Row | None:
        in_flight = self._sets.value(token, typed_bytes(token)) or {}
        windows = [(self._show(window), place) for window, place in in_flight.items()]
        windows.sort(key=lambda one: one[0].get("end", 0))
        return _row_of(token, windows, self._contents)

    def walk(self, keys: KeyRange) -> Generator[Row]:
        with closing(self._sets.typed_keys(keys)) as found:
            for typed in found:
                row = self.row(from_typed_bytes(typed))
                if row is not None:
                    yield row


def _row_of(token: Token, windows: Iterable[tuple[dict[str, Any], Token]], contents: StateQuery) -> Row | None:
    """Of windows, shown and as the tokens of their contents; those that are empty are left out."""
    shown: list[dict[str, Any]] = []
    elements = 0
    is_cut = False
    for window, place in windows:
        if elements >= MOST_ELEMENTS:
            is_cut = True
            break
        row = contents.row(place)
        if row is not None:
            shown.append({**window, "value": row.value})
            elements += row.elements
            is_cut = is_cut or row.is_cut
    return Row(shown_key(token), typed_bytes(token), shown, elements, is_cut) if shown else None
