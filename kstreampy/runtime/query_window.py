"""`<uid>/windows`: what the windows of a step have so far, whatever the step keeps it in.

In here: `windows_query`, and how windows are shown. Not in here: how their contents are read (`state/window_query.py`).
"""

from __future__ import annotations

from typing import Any, Final

from kstreampy.eventtime.window import OWN_TAG, CountWindow, GlobalWindow, TimeWindow, decode_window
from kstreampy.state.cache import ValueCache
from kstreampy.state.keyed import KeyedState
from kstreampy.state.pane import PaneCache
from kstreampy.state.query import Query
from kstreampy.state.window_query import MergingWindowQuery, PaneQuery, WindowQuery

_PER_WINDOW: Final = ("per-window/", "trigger/")
"""What the names of states per key and window begin with, behind the uid."""


def windows_query(state: KeyedState, name: str, *, live: bool) -> Query | None:
    """For `<uid>/windows`, and for the states that a step keeps per window; None for all other names."""
    uid, _, own_name = name.partition("/")
    panes, contents, sets = (state.caches.get(f"{uid}/window/{kind}") for kind in ("panes", "contents", "set"))
    cache = state.caches.get(name)
    if cache is None and own_name == "windows":
        if isinstance(sets, ValueCache) and contents is not None:
            return MergingWindowQuery(state, sets, contents, shown_window, live=live)
        cache = panes if contents is None else contents
    if isinstance(cache, PaneCache):
        return PaneQuery(state, cache, live=live)
    has_windows = panes is not None or contents is not None
    if cache is None or not (cache is contents or (has_windows and own_name.startswith(_PER_WINDOW))):
        return None
    return WindowQuery(state, cache, _shown_bytes, live=live)


def asked_name(name: str) -> str:
    """By which name a state is asked for: one of a step's own for its windows is `<uid>/windows`."""
    uid, _, own_name = name.partition("/")
    return f"{uid}/windows" if own_name.startswith("window/") else name


def shown_window(window: Any) -> dict[str, Any]:
    """`start` and `end` in ms of a `TimeWindow`, `id` of a `CountWindow`, nothing of the global window, and of one of the
    user's own its text as `window`."""
    if isinstance(window, TimeWindow):
        return {"start": window.start, "end": window.end}
    if isinstance(window, CountWindow):
        return {"id": window.id}
    return {} if isinstance(window, GlobalWindow) else {"window": str(window)}


def _shown_bytes(window: bytes) -> dict[str, Any]:
    """Of a window of the user's own, the bytes that its serializer wrote, in hex."""
    return {"window": window[1:].hex()} if window[:1] == OWN_TAG else shown_window(decode_window(window))
