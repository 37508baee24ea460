"""Input of the window benchmarks: the records of `data.py`, with event times that are spread evenly over a span.

In here: what each job reads, and what its results must be: every window that closed before the last record. Each side ends
with the last record, so that windows which only the end of the input would close cost nobody anything.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.bench.data import read_committed, record_values, write_topic

BASE_MS = 1_699_920_000_000
"""Midnight in UTC."""
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Windowing:
    """A job: the span of its input's event times, and its windows, all in ms."""

    span_ms: int
    size_ms: int
    slide_ms: int
    sensors: int = 0
    """How many keys; 0: the users of the data."""
    quix_count: int = 100_000
    """Records that Quix Streams gets, where more would take too long."""


WINDOWS = {
    "tumbling": Windowing(20_000, 1_000, 1_000),
    "sliding": Windowing(20_000, 60_000, 1_000, quix_count=5_000),
    "sessions": Windowing(20_000, 500, 0, quix_count=3_000),
    "uc2": Windowing(600_000, 60_000, 60_000),
    "uc3": Windowing(60 * DAY_MS, 30 * DAY_MS, DAY_MS, sensors=100, quix_count=5_000),
}


def topic_of(job: str, count: int) -> str:
    return f"bench-span-{WINDOWS[job].span_ms}-{count}"


def timed_values(job: str, count: int) -> Iterator[tuple[int, int, str, float]]:
    """(time ms, id, user, amount)."""
    span = WINDOWS[job].span_ms
    for record_id, user, amount, _ in record_values(count):
        yield BASE_MS + record_id * span // count, record_id, user, amount


def fill(bootstrap: str, job: str, count: int) -> str:
    """Makes the topic of a job, keyed by user, unless it is there; its name."""
    topic = topic_of(job, count)
    records = (
        (user, f'{{"id": {record_id}, "user": "{user}", "amount": {amount}, "time": {time_ms}}}', time_ms)
        for time_ms, record_id, user, amount in timed_values(job, count)
    )
    write_topic(bootstrap, topic, count, records)
    return topic


def sensor_hour(user: str, time_ms: int) -> str:
    """The key of `uc3`: one of 100 sensors, and the hour of the day."""
    return f"{int(user[5:]) % WINDOWS['uc3'].sensors}-{time_ms // 3_600_000 % 24}"


def check(bootstrap: str, topic: str, job: str, count: int) -> int:
    """Compares the results (key, end and sum, or a whole record with the sum in it, stamped with the window's last
    millisecond) with those of a straightforward computation; how many there are. Windows that close near the
    last record may or may not be there, since each side's watermark is at another place then. AssertionError otherwise."""
    expected = _expected(job, count)
    last = next(reversed(list(timed_values(job, count))))[0]
    sure = last - WINDOWS[job].span_ms // (8 if count >= 500_000 else 2)  # watermarks move five times a second
    found: dict[tuple[str, int], float] = {}
    outputs = 0
    for message in read_committed(bootstrap, topic):
        result = json.loads(message.value())
        end = result["end"] if "end" in result else message.timestamp()[1] + 1
        place = (result["key"] if "key" in result else result["user"], end)
        outputs += 1
        assert place not in found, f"{place} came twice"
        found[place] = result["sum"] if "sum" in result else result["amount"]
    unsure = _on_the_edge(count) if job == "sessions" else set()
    expected = {place: total for place, total in expected.items() if place[0] not in unsure}
    found = {place: total for place, total in found.items() if place[0] not in unsure}
    missing = [place for place in expected if place[1] <= sure and place not in found]
    assert not missing, f"{len(missing)} windows are missing, such as {missing[:3]}"
    wrong = [place for place, total in found.items() if expected.get(place) != total]
    assert not wrong, (
        f"{len(wrong)} windows are wrong, such as {wrong[:3]}: {[expected.get(place) for place in wrong[:3]]}"
    )
    return outputs


def _expected(job: str, count: int) -> dict[tuple[str, int], float]:
    """(key, window end in ms) → sum."""
    if job == "sessions":
        return _sessions(count)
    windowing = WINDOWS[job]
    size, slide = windowing.size_ms, windowing.slide_ms
    panes: defaultdict[tuple[str, int], float] = defaultdict(float)
    for time_ms, _, user, amount in timed_values(job, count):
        key = sensor_hour(user, time_ms) if job == "uc3" else user
        panes[key, time_ms - time_ms % slide] += amount
    sums: defaultdict[tuple[str, int], float] = defaultdict(float)
    for (key, start), amount in panes.items():
        for shift in range(size // slide):
            sums[key, start + slide + shift * slide] += amount
    return dict(sums)


def _sessions(count: int) -> dict[tuple[str, int], float]:
    gap = WINDOWS["sessions"].size_ms
    open_sessions: dict[str, tuple[int, float]] = {}
    done: dict[tuple[str, int], float] = {}
    for time_ms, _, user, amount in timed_values("sessions", count):
        end, total = open_sessions.get(user, (time_ms, 0.0))
        if time_ms > end:
            done[user, end] = total
            total = 0.0
        open_sessions[user] = (time_ms + gap, total + amount)
    done.update({(user, end): total for user, (end, total) in open_sessions.items()})
    return done


def _on_the_edge(count: int) -> set[str]:
    """Users with two records exactly a gap apart: one session, unless the first was closed in between."""
    gap = WINDOWS["sessions"].size_ms
    latest: dict[str, int] = {}
    found: set[str] = set()
    for time_ms, _, user, _ in timed_values("sessions", count):
        if latest.get(user) == time_ms - gap:
            found.add(user)
        latest[user] = time_ms
    return found


def stats_add(stats: tuple[Any, ...] | None, amount: float) -> tuple[Any, ...]:
    """`uc2`: (count, sum, min, max, sum of squares) and one more value."""
    if stats is None:
        return (1, amount, amount, amount, amount * amount)
    count, total, least, most, squares = stats
    return (count + 1, total + amount, min(least, amount), max(most, amount), squares + amount * amount)


def stats_result(key: str, end: int, stats: tuple[Any, ...]) -> dict[str, Any]:
    count, total, least, most, squares = stats
    mean = total / count
    return {
        "key": key, "end": end, "count": count, "sum": total, "min": least, "max": most, "mean": mean,
        "variance": squares / count - mean * mean,
    }  # fmt: skip
