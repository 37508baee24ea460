"""What windows have so far as it is looked at from outside: against plain dicts, committed and live."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.typeinfo import Types
from kstreampy.serde.key import scoped, token, typed_bytes, unscoped
from kstreampy.state.budget import CacheBudget
from kstreampy.state.cache import ValueCache
from kstreampy.state.key_range import ALL_KEYS, KeyRange, place_of
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import list_cache, pane_cache, value_cache
from kstreampy.state.list_cache import ListCache
from kstreampy.state.memory import MemoryStore
from kstreampy.state.pane import PaneCache
from kstreampy.state.query import MOST_ELEMENTS, Query
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.stored_type import AGGREGATING
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.window_query import PaneQuery, WindowQuery
from tests.unit.state.test_state_query import KEYS, RANGES, in_range

Model = dict[bytes, tuple[Any, dict[Any, Any]]]
"""Typed bytes → the key, and what each of its windows has."""


class Kept:
    """State of one task, with a checkpoint that takes nothing but memory."""

    def __init__(self, write_behind_ms: int = 10**9, store: Any = None) -> None:
        self.now_ms = 0
        store = MemoryStore() if store is None else store
        self.state = KeyedState(store, CacheBudget(1 << 20), write_behind_ms=write_behind_ms)

    def panes(self) -> PaneCache:
        return pane_cache(self.state, "uid/window/panes", "window", Types.LONG(), lambda end: end - 10)

    def commit(self) -> None:
        self.now_ms += 1
        self.state.committed(self.state.take_dirty(), LocalMeta("topic", 0, self.now_ms, True, None))


def put(cache: PaneCache, end: int, key: Any, value: int | None) -> None:
    pane = cache.pane(end)
    cache.read(pane, (token(key),))
    pane.entries[token(key)] = value
    pane.dirty.add(token(key))


def rows_of(query: Query, keys: KeyRange, limit: int) -> list[tuple[bytes, Any]]:
    """All pages of a listing."""
    found: list[tuple[bytes, Any]] = []
    more = True
    while more:
        rows, more = query.rows(keys, limit)
        assert len(rows) == limit or not more
        found += [(row.typed_key, row.value) for row in rows]
        if rows:
            keys = KeyRange(keys.prefix, keys.least, keys.most, rows[-1].typed_key)
    return found


def expected(model: Model, keys: KeyRange, shown: Any) -> list[tuple[bytes, Any]]:
    found = [
        (typed, [{**shown(window), "value": value} for window, value in sorted(windows.items())])
        for typed, (key, windows) in model.items()
        if windows and in_range(key, keys)
    ]
    return sorted(found, key=lambda one: place_of(one[0]))


def bounds(end: int) -> dict[str, int]:
    return {"start": end - 10, "end": end}


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([-20, 0, 10, 2**40]), KEYS, st.none() | st.integers(0, 9)),
        st.tuples(st.just("remove"), st.sampled_from([-20, 0, 10, 2**40])),
        st.tuples(st.sampled_from(["commit", "commit and evict", "discard"])),
    ),
    max_size=30,
)


def changed(cache: PaneCache, model: Model, change: tuple[Any, ...]) -> None:
    if change[0] == "put":
        _, end, key, value = change
        put(cache, end, key, value)
        windows = model.setdefault(typed_bytes(token(key)), (key, {}))[1]
        windows.pop(end, None)
        if value is not None:
            windows[end] = value
    elif change[0] == "remove" and change[1] in cache.panes():
        cache.remove(cache.panes()[change[1]])
        for _, windows in model.values():
            windows.pop(change[1], None)


def copied(model: Model) -> Model:
    return {typed: (key, dict(windows)) for typed, (key, windows) in model.items()}


@given(changes=CHANGES, keys=RANGES, limit=st.integers(1, 4), data=st.data())
def test_panes_are_those_of_a_dict(changes: Any, keys: KeyRange, limit: int, data: st.DataObject) -> None:
    kept = Kept(data.draw(st.sampled_from([0, 2, 10**9]), "write_behind_ms"))
    cache = kept.panes()
    live: Model = {}
    committed: Model = {}
    for change in changes:
        changed(cache, live, change)
        if change[0].startswith("commit"):
            kept.commit()
            committed = copied(live)
            if change[0].endswith("evict"):
                kept.state._write_out()
                cache.evict(0)
        elif change[0] == "discard":
            kept.state.discard()
            live = copied(committed)
    before = kept.state.take_dirty()
    for is_live, model in ((False, committed), (True, live)):
        query = PaneQuery(kept.state, cache, live=is_live)
        assert rows_of(query, keys, limit) == expected(model, keys, bounds)
        for typed, (key, windows) in model.items():
            row = query.row(token(key))
            shown = [{**bounds(end), "value": value} for end, value in sorted(windows.items())]
            assert (row.value if row else []) == shown, typed
    assert kept.state.take_dirty() == before
    assert kept.state.store.open_scans == 0


def test_looking_at_panes_loads_nothing(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", RocksBudget(1 << 20))
    kept = Kept(0, store)
    for end in (10, 20, 30):
        for number in range(200):
            put(kept.panes(), end, f"user-{number}", end + number)
    kept.commit()
    kept.state.discard()
    kept.panes().panes()
    before = kept.state.cache_bytes()
    for live in (False, True):
        query = PaneQuery(kept.state, kept.panes(), live=live)
        row = query.row("user-7")
        assert row is not None
        assert [one["value"] for one in row.value] == [17, 27, 37]
        rows, more = query.rows(KeyRange(prefix="user-19"), 3)
        assert ([one.key for one in rows], more) == (["user-19", "user-190", "user-191"], True)
        assert len(query.rows(ALL_KEYS, 1000)[0]) == 200
    assert kept.state.cache_bytes() == before
    assert store.open_scans == 0
    store.close()


def test_very_many_panes_of_a_key_are_cut() -> None:
    kept = Kept()
    for number in range(MOST_ELEMENTS + 5):
        put(kept.panes(), number * 10, "a", number)
    put(kept.panes(), 0, "b", 1)
    rows, more = PaneQuery(kept.state, kept.panes(), live=True).rows(ALL_KEYS, 10)
    assert [(row.key, len(row.value), row.is_cut, more) for row in rows] == [("a", MOST_ELEMENTS, True, True)]


# Windows with state of their own

WINDOWS = st.sampled_from([b"\3", b"\2aaaaaaaa", b"\1" + b"a" * 16, b"\1" + b"b" * 16, b"\xff" + b"c" * 300])


@given(
    changes=st.lists(st.tuples(KEYS, WINDOWS, st.integers(0, 9), st.sampled_from(["add", "add", "clear", "commit"]))),
    keys=RANGES,
    lists=st.booleans(),
    data=st.data(),
)
def test_windows_are_those_of_a_dict(changes: Any, keys: KeyRange, lists: bool, data: st.DataObject) -> None:
    """With all elements as `lists`, otherwise added up."""
    kept = Kept(data.draw(st.sampled_from([0, 2, 10**9]), "write_behind_ms"))
    name = "uid/window/contents"
    cache: ListCache | ValueCache = (
        list_cache(kept.state, name, Types.LONG())
        if lists
        else value_cache(kept.state, name, AGGREGATING, Types.LONG())
    )
    live: Model = {}
    committed: Model = {}
    for key, window, value, what in changes:
        place = scoped(token(key), window)
        windows = live.setdefault(typed_bytes(token(key)), (key, defaultdict(list)))[1]
        if what == "commit":
            kept.commit()
            committed = copied(live)
        elif isinstance(cache, ListCache):
            cache.append(place, value) if what == "add" else cache.clear(place)
            windows[window] = [*windows.get(window, []), value]
        else:
            cache.load([place])
            cache.entries[place] = value if what == "add" else None
            cache.dirty.add(place)
            windows[window] = value
        if what == "clear":
            del windows[window]
    for is_live, model in ((False, committed), (True, live)):
        query = WindowQuery(kept.state, cache, named, live=is_live)
        found = [(typed, sorted(value, key=by_window)) for typed, value in rows_of(query, keys, 3)]
        assert found == expected(model, keys, named)
        for typed, (key, windows) in model.items():
            row = query.row(token(key))
            assert {one["window"]: one["value"] for one in (row.value if row else [])} == {
                window.hex(): value for window, value in windows.items()
            }, typed
    assert kept.state.store.open_scans == 0


def named(window: bytes) -> dict[str, str]:
    return {"window": window.hex()}


def by_window(one: dict[str, Any]) -> bytes:
    return bytes.fromhex(one["window"])


@pytest.mark.parametrize("key", ["", "user", 5, b"bytes", ("a", 1), "x" * 300])
@pytest.mark.parametrize("window", [b"", b"\3", b"w" * 300])
def test_a_token_of_key_and_window_is_taken_apart(key: Any, window: bytes) -> None:
    found = scoped(token(key), window)
    assert isinstance(found, bytes)
    assert unscoped(found) == (typed_bytes(token(key)), window)
    with pytest.raises(ValueError, match="not a key and a namespace"):
        unscoped(found[:-1])
