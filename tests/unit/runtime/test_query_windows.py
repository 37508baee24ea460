"""Questions about windows, answered by real drivers: panes, slices, windows with their elements, sessions, state per window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Duration, WatermarkStrategy
from kstreampy.common.typeinfo import Types
from kstreampy.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from kstreampy.eventtime.window import CountWindow, GlobalWindow, TimeWindow, Window
from kstreampy.graph.plan import Plan
from kstreampy.runtime.query_window import shown_window
from tests.unit.runtime.jobs import GROUPS, compiled, sink, source
from tests.unit.runtime.scene import Scene
from tests.unit.runtime.test_query import Asked

STEPS = ("tumbling", "sliding", "unmerged", "listed", "sessions", "counted")
FIRINGS = ValueStateDescriptor("firings", Types.LONG())


class Unmerged(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, int], accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> tuple[str, int]:
        return "sum", accumulator

    def merge(self, acc_a: int, acc_b: int) -> None:
        return None


class Listed(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Any:
        firings = context.window_state().get_state(FIRINGS)
        firings.update((firings.value() or 0) + 1)
        yield key, len(list(elements))

    def clear(self, context: Any) -> None:
        context.window_state().get_state(FIRINGS).clear()


def parsed(text: str) -> tuple[str, int]:
    user, amount, _ = text.split(":")
    return user, int(amount)


def time_of(text: str, _: int) -> int:
    return int(text.split(":")[2])


@pytest.fixture(scope="module")
def plan() -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(time_of)
    pairs = env.from_source(source().build(), strategy, "in").map(parsed)
    keyed = pairs.key_by(lambda pair: pair[0])
    tumbling = keyed.window(TumblingEventTimeWindows.of(100))
    tumbling.sum(1).uid("tumbling").sink_to(sink())
    keyed.window(SlidingEventTimeWindows.of(100, 50)).sum(1).uid("sliding").sink_to(sink())
    tumbling.allowed_lateness(1000).process(Listed()).uid("listed").sink_to(sink())
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Duration.of_millis(50)))
    sessions.sum(1).uid("sessions").sink_to(sink())
    keyed.count_window(3).sum(1).uid("counted").sink_to(sink())
    keyed.window(SlidingEventTimeWindows.of(100, 50)).aggregate(Unmerged()).uid("unmerged").sink_to(sink())
    pairs.window_all(TumblingEventTimeWindows.of(100)).sum(1).uid("everyone").sink_to(sink())
    return compiled(env)


class AskedOfWindows(Asked):
    def feed(self, *records: tuple[str, int, int]) -> None:
        """(user, amount, time), to both partitions in turn, until every step has committed them."""
        texts = [(user, f"{user}:{amount}:{time}") for user, amount, time in records]
        self.scene.feed([(user, text, number % 2) for number, (user, text) in enumerate(texts)])
        self.scene.turns(40)

    def windows(self, step: str, user: str, query: str = "") -> Any:
        status, said = self.get(f"/{step}/windows/{user}", query)
        return said["value"] if status == 200 else status


@pytest.fixture
def asked(plan: Plan, tmp_path: Path) -> Iterator[AskedOfWindows]:
    with Scene(plan, tmp_path) as scene:
        asked = AskedOfWindows(scene)
        asked.start("w0")
        yield asked
        asked.pool.shutdown(wait=False, cancel_futures=True)


def at(start: int, end: int, value: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "value": value}


def test_the_open_windows_of_a_key_of_every_kind(asked: AskedOfWindows) -> None:
    asked.feed(("a", 1, 10), ("a", 2, 60), ("b", 4, 70), ("a", 8, 210))
    assert asked.windows("tumbling", "a") == [at(0, 100, ["a", 3]), at(200, 300, ["a", 8])]
    assert asked.windows("tumbling", "b") == [at(0, 100, ["b", 4])]
    assert asked.windows("sliding", "a") == [at(0, 50, ["a", 1]), at(50, 100, ["a", 2]), at(200, 250, ["a", 8])]
    first, second = asked.windows("listed", "a")
    assert (sorted(first.pop("value")), first) == ([["a", 1], ["a", 2]], {"start": 0, "end": 100})
    assert second == at(200, 300, [["a", 8]])
    assert asked.windows("sessions", "a") == [at(10, 110, ["a", 3]), at(210, 260, ["a", 8])]
    assert asked.windows("counted", "b") == [{"value": ["b", 4]}]
    assert asked.windows("unmerged", "b") == [at(0, 100, 4), at(50, 150, 4)]
    first, *_ = asked.windows("everyone", "0", "key_type=int")
    assert (first["start"], first["end"], first["value"][1]) == (0, 100, 7)
    for step in STEPS:
        assert asked.windows(step, "nobody") == 404
    assert asked.windows("tumbling", "a", "live=true") == asked.windows("tumbling", "a")


def test_windows_that_are_over_are_gone_and_what_fired_and_may_change_is_not(asked: AskedOfWindows) -> None:
    asked.feed(("a", 1, 10), ("b", 2, 120), ("c", 4, 410), ("c", 8, 420))
    assert asked.windows("tumbling", "a") == 404
    assert asked.windows("sliding", "a") == 404
    assert asked.windows("sessions", "a") == 404
    assert asked.windows("unmerged", "a") == 404
    assert asked.windows("listed", "a") == [at(0, 100, [["a", 1]])], "within its allowed lateness"
    assert asked.get("/listed/per-window%2Ffirings/a")[1]["value"] == [at(0, 100, 1)]
    assert asked.windows("tumbling", "c") == [at(400, 500, ["c", 12])]
    status, said = asked.get("/tumbling/windows")
    assert (status, [row["key"] for row in said["rows"]]) == (200, ["c"])


def test_a_listing_has_the_keys_of_all_tasks_page_by_page(asked: AskedOfWindows) -> None:
    users = [f"user-{number}" for number in range(12)]
    asked.feed(*((user, number, 10) for number, user in enumerate(users)), ("user-1", 100, 110))
    for step in STEPS:
        found: list[Any] = []
        query = "prefix=user-1&limit=2"
        while True:
            status, said = asked.get(f"/{step}/windows", query)
            assert status == 200, said
            found += said["rows"]
            if "next" not in said:
                break
            query = f"prefix=user-1&limit=2&after={said['next']}"
        assert [row["key"] for row in found] == ["user-1", "user-10", "user-11"], step
        assert found[1]["value"] == asked.windows(step, "user-10")
        _, said = asked.get(f"/{step}/windows")
        assert [row["key"] for row in said["rows"]] == sorted(users)
        assert {row["task"] for row in said["rows"]} == set(range(GROUPS))


def test_what_a_task_has_processed_and_not_committed_is_live_only(asked: AskedOfWindows) -> None:
    asked.feed(("a", 1, 10))
    for task in asked.scene.workers["w0"].tasks.values():
        if task.state is not None and "tumbling/window/panes" in task.state.caches:
            cache: Any = task.state.caches["tumbling/window/panes"]
            pane = cache.pane(200)
            pane.entries["a"] = ("a", 5)
            pane.dirty.add("a")
    assert asked.windows("tumbling", "a") == [at(0, 100, ["a", 1])]
    assert asked.windows("tumbling", "a", "live=true") == [at(0, 100, ["a", 1]), at(100, 200, ["a", 5])]


def test_the_same_after_a_restart(asked: AskedOfWindows) -> None:
    asked.feed(("a", 1, 10), ("a", 2, 60), ("b", 4, 70), ("a", 8, 210))
    before = {step: [asked.windows(step, user) for user in "ab"] for step in STEPS}
    asked.scene.workers["w0"].stop()
    asked.start("w0")
    asked.scene.until(lambda: all(task.has_begun() for task in asked.scene.workers["w0"].tasks.values()))
    asked.scene.turns(3)
    for query in ("", "live=true"):
        assert {step: [asked.windows(step, user, query) for user in "ab"] for step in STEPS} == before


class Shift(TimeWindow):
    """A window with bounds, of the user's own."""


class Team(Window):
    def max_timestamp(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Team 7"


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        (TimeWindow(-5, 10), {"start": -5, "end": 10}),
        (Shift(1, 2), {"start": 1, "end": 2}),
        (CountWindow(3), {"id": 3}),
        (GlobalWindow.get(), {}),
        (Team(), {"window": "Team 7"}),
    ],
)
def test_how_windows_are_shown(window: Window, shown: dict[str, Any]) -> None:
    assert shown_window(window) == shown


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/tumbling/other/a", 404, "no state 'tumbling/other'.*'tumbling/windows'"),
        ("/in/windows/a", 404, "no operator 'in'"),
        ("/listed/per-window%2Fother/a", 404, "no state"),
    ],
)
def test_what_is_not_there_is_named(asked: AskedOfWindows, path: str, status: int, message: str) -> None:
    asked.feed(("a", 1, 10))
    found, said = asked.get(path)
    assert found == status
    assert re.search(message, said["error"]), said
