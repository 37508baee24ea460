"""The window jobs as good hand-written loops: a dict per window, closed when every partition has come past its end.

Run by `hand_loops.py`, whose clients, commits and settings they share. Nothing here restores anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.bench.data import PARTITIONS
from tests.bench.window_data import WINDOWS, sensor_hour, stats_add, stats_result

if TYPE_CHECKING:
    from tests.bench.hand_loops import Loop


def tumbling(loop: Loop, source: str, target: str) -> None:
    """One dict per window."""
    size = WINDOWS["tumbling"].size_ms
    consumer, decode = loop.consumer(source), loop.decode
    windows: dict[int, dict[str, float]] = {}
    latest = [0] * PARTITIONS
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            latest[message.partition()] = time_ms
            end = time_ms - time_ms % size + size
            window = windows.get(end)
            if window is None:
                window = windows[end] = {}
            user = record["user"]
            window[user] = window.get(user, 0.0) + record["amount"]
        watermark = min(latest) - 1
        for end in sorted(end for end in windows if end - 1 <= watermark):
            for user, total in windows.pop(end).items():
                write(loop, target, user, end, {"key": user, "end": end, "sum": total})
        loop.turn()
    loop.commit()


def sliding(loop: Loop, source: str, target: str) -> None:
    """One dict per slide, and a running total per key: what leaves the window is taken off again."""
    windowing = WINDOWS["sliding"]
    size, slide = windowing.size_ms, windowing.slide_ms
    consumer, decode = loop.consumer(source), loop.decode
    panes: dict[int, dict[str, tuple[float, int]]] = {}
    running: dict[str, tuple[float, int]] = {}
    latest = [0] * PARTITIONS
    closed = 0
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            latest[message.partition()] = time_ms
            end = time_ms - time_ms % slide + slide
            pane = panes.get(end)
            if pane is None:
                pane = panes[end] = {}
            user = record["user"]
            total, number = pane.get(user, (0.0, 0))
            pane[user] = (total + record["amount"], number + 1)
        watermark = min(latest) - 1
        while panes and (end := closed + slide if closed else min(panes)) - 1 <= watermark:
            closed = end
            for user, (amount, added) in panes.get(end, {}).items():
                total, number = running.get(user, (0.0, 0))
                running[user] = (total + amount, number + added)
            for user, (amount, gone) in panes.pop(end - size, {}).items():
                total, number = running.pop(user)
                if number > gone:
                    running[user] = (total - amount, number - gone)
            for user, (total, _) in running.items():
                write(loop, target, user, end, {"key": user, "end": end, "sum": total})
        loop.turn()
    loop.commit()


def sessions(loop: Loop, source: str, target: str) -> None:
    """An open session per key. Records come in order per key here, so none ever merges with another."""
    gap = WINDOWS["sessions"].size_ms
    consumer, decode = loop.consumer(source), loop.decode
    open_sessions: dict[str, tuple[int, float]] = {}
    latest = [0] * PARTITIONS
    left, looked = loop.count, 0
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            latest[message.partition()] = time_ms
            user = record["user"]
            end, total = open_sessions.get(user, (time_ms, 0.0))
            if time_ms > end:
                write(loop, target, user, end, {"key": user, "end": end, "sum": total})
                total = 0.0
            open_sessions[user] = (time_ms + gap, total + record["amount"])
        watermark = min(latest) - 1
        if watermark - looked >= gap:
            looked = watermark
            for user in [user for user, (end, _) in open_sessions.items() if end - 1 <= watermark]:
                end, total = open_sessions.pop(user)
                write(loop, target, user, end, {"key": user, "end": end, "sum": total})
        loop.turn()
    loop.commit()


def uc2(loop: Loop, source: str, target: str) -> None:
    """As `tumbling`, with six statistics of each window."""
    size = WINDOWS["uc2"].size_ms
    consumer, decode = loop.consumer(source), loop.decode
    windows: dict[int, dict[str, tuple[Any, ...]]] = {}
    latest = [0] * PARTITIONS
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            latest[message.partition()] = time_ms
            end = time_ms - time_ms % size + size
            window = windows.setdefault(end, {})
            user = record["user"]
            window[user] = stats_add(window.get(user), record["amount"])
        watermark = min(latest) - 1
        for end in sorted(end for end in windows if end - 1 <= watermark):
            for user, stats in windows.pop(end).items():
                write(loop, target, user, end, stats_result(user, end, stats))
        loop.turn()
    loop.commit()


def uc3(loop: Loop, source: str, target: str) -> None:
    """One dict per day, summed up over 30 of them when a day closes. In one process no key has to move, so unlike the
    others this loop sends nothing through a second topic."""
    windowing = WINDOWS["uc3"]
    size, slide = windowing.size_ms, windowing.slide_ms
    consumer, decode = loop.consumer(source), loop.decode
    panes: dict[int, dict[str, float]] = {}
    latest = [0] * PARTITIONS
    closed = 0
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            latest[message.partition()] = time_ms
            pane = panes.setdefault(time_ms - time_ms % slide + slide, {})
            key = sensor_hour(record["user"], time_ms)
            pane[key] = pane.get(key, 0.0) + record["amount"]
        watermark = min(latest) - 1
        while panes and (end := closed + slide if closed else min(panes)) - 1 <= watermark:
            closed = end
            panes.pop(end - size, None)
            totals: dict[str, float] = {}
            for at in range(end - size + slide, end + 1, slide):
                for key, amount in panes.get(at, {}).items():
                    totals[key] = totals.get(key, 0.0) + amount
            for key, total in totals.items():
                write(loop, target, key, end, {"key": key, "end": end, "sum": total})
        loop.turn()
    loop.commit()


def write(loop: Loop, target: str, key: str, end: int, result: dict[str, Any]) -> None:
    value = loop.encode(result)
    try:
        loop.producer.produce(target, value, key, -1, None, None, end - 1)
    except BufferError:
        loop.produce_when_room(target, value, key)


LOOPS: dict[str, Callable[[Loop, str, str], None]] = {
    "tumbling": tumbling,
    "sliding": sliding,
    "sessions": sessions,
    "uc2": uc2,
    "uc3": uc3,
}
