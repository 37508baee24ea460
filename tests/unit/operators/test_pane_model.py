"""Windows by panes against what Flink's window operator does, written down per element and window: random elements,
watermarks and lateness, with commits, evictions and restarts in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common.output_tag import OutputTag
from kstreampy.eventtime.calendar_window import CalendarEventTimeWindows
from kstreampy.eventtime.time_assigner import SlidingEventTimeWindows, TumblingEventTimeWindows
from kstreampy.operators.field import Field
from kstreampy.operators.function import AggregateFunction
from kstreampy.operators.pane import PaneOperator, can_use_panes
from kstreampy.operators.pane_fold import SumAggregation
from kstreampy.operators.pane_sliding import SharedPanes
from kstreampy.operators.window_spec import AggregateAggregation, Aggregation, ReduceAggregation, WindowSpec
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Store
from kstreampy.state.task_meta import LocalMeta
from tests.unit.operators.standin import Collecting, context

HOUR = 3_600_000


class Joined(AggregateFunction):
    """Its accumulator is a list that is changed in place, also by `merge`; a result is all values in order."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[int]) -> Any:
        return tuple(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        acc_a.extend(acc_b)
        return acc_a


class JoinedWithoutMerge(Joined):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def joined_in_place(first: Any, second: Any) -> Any:
    first[1].extend(second[1])
    return first


ASSIGNERS: list[Any] = [
    TumblingEventTimeWindows.of(10),
    TumblingEventTimeWindows.of(10, -3),
    SlidingEventTimeWindows.of(10, 5),
    SlidingEventTimeWindows.of(12, 3, 1),
    SlidingEventTimeWindows.of(10, 4),
    SlidingEventTimeWindows.of(7, 1),
    SlidingEventTimeWindows.of(5, 8, 2),
    SlidingEventTimeWindows.of(6, 6),
    CalendarEventTimeWindows.hours("America/New_York", 12),
]
# name → (what is aggregated, from a number to a value, whether a window's values are given in order of time)
AGGREGATIONS: dict[str, tuple[Callable[[], Aggregation], Callable[[int], Any]]] = {
    "sum of pairs": (lambda: SumAggregation(Field(1)), lambda n: ("x", n)),
    "sum of dicts": (lambda: SumAggregation(Field("n")), lambda n: {"k": "x", "n": n}),
    "sum of numbers": (lambda: SumAggregation(Field(0)), lambda n: n),
    "mean": (lambda: AggregateAggregation(Mean()), lambda n: ("x", n)),
    "joined": (lambda: AggregateAggregation(Joined()), lambda n: ("x", n)),
    "joined without merge": (lambda: AggregateAggregation(JoinedWithoutMerge()), lambda n: ("x", n)),
    "reduce in place": (lambda: ReduceAggregation(joined_in_place), lambda n: ["x", [n]]),
}
KEYS = ["a", "b", 1, b"(x"]
TAG = OutputTag("late")


def expected_value(kind: str, numbers: list[int]) -> Any:
    """What a window with these numbers gives; where order matters, sorted."""
    if kind == "sum of pairs":
        return ("x", sum(numbers))
    if kind == "sum of dicts":
        return {"k": "x", "n": sum(numbers)}
    if kind == "sum of numbers":
        return sum(numbers)
    if kind == "mean":
        return sum(numbers) / len(numbers)
    if kind == "reduce in place":
        return ["x", sorted(numbers)]
    return tuple(sorted(numbers))


def settled(value: Any) -> Any:
    """A result whose order is of no account."""
    if isinstance(value, tuple) and value[:1] != ("x",):
        return tuple(sorted(value))
    return ["x", sorted(value[1])] if isinstance(value, list) else value


class Brute:
    """Flink's window operator, per element and window."""

    def __init__(self, assigner: Any, lateness: int, kind: str) -> None:
        self.assigner = assigner
        self.lateness = lateness
        self.kind = kind
        self.watermark = NO_TIMESTAMP
        self.contents: dict[Any, list[int]] = defaultdict(list)
        self.results: list[Any] = []
        self.late: list[Any] = []

    def copy(self) -> Brute:
        twin = Brute(self.assigner, self.lateness, self.kind)
        twin.watermark = self.watermark
        twin.contents = defaultdict(list, {place: list(numbers) for place, numbers in self.contents.items()})
        return twin

    def element(self, key: Any, stamp: int, number: int) -> None:
        taken = False
        for window in sorted(self.assigner.assign_windows(None, stamp, None), key=lambda window: window.end):
            if window.max_timestamp() + self.lateness <= self.watermark:
                continue
            taken = True
            self.contents[window, key].append(number)
            if window.max_timestamp() <= self.watermark:
                self.fire(window, key)
        if not taken and stamp + self.lateness <= self.watermark:
            self.late.append((stamp, number))

    def fire(self, window: Any, key: Any) -> None:
        numbers = self.contents[window, key]
        self.results.append((window.max_timestamp(), key, expected_value(self.kind, numbers)))

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        for window, key in sorted(self.contents, key=lambda place: place[0].end):
            if before < window.max_timestamp() <= watermark:
                self.fire(window, key)
            if window.max_timestamp() + self.lateness <= watermark:
                del self.contents[window, key]


class Subject:
    """The operator in a task, with what a driver does to it."""

    def __init__(
        self, assigner: Any, lateness: int, kind: str, store: Callable[[], Store], side: bool, memory: int = 1 << 24
    ) -> None:
        make, self.value_of = AGGREGATIONS[kind]
        tag = TAG.tag_id if side else None
        self.spec = WindowSpec(assigner, None, None, lateness, tag, make(), None, True)
        assert can_use_panes(self.spec)
        self.store = store
        self.memory = memory
        self.commits = count(1)
        self.late_dropped = 0
        self.open(NO_TIMESTAMP)

    def open(self, watermark: int) -> None:
        self.state = KeyedState(
            self.store(), CacheBudget(self.memory), write_behind_ms=1 if self.memory < 10_000 else 0
        )
        self.task = context(state=self.state, watermark=watermark)
        self.operator = PaneOperator("window", "w", self.spec)
        self.out, self.late = Collecting(), Collecting()
        self.operator.out = self.out
        self.operator.sides = {TAG.tag_id: self.late}
        self.out.keeps_values = True
        self.operator.open(self.task)

    def commit(self) -> None:
        dirty = self.state.take_dirty()
        assert dirty.entries == self.state.take_dirty().entries
        assert len({key for key, _ in dirty.entries}) == len(dirty.entries)
        self.state.committed(dirty, LocalMeta("t", next(self.commits), 0))

    def taken(self) -> tuple[list[Any], list[Any]]:
        """Results and late elements since the last call."""
        results = list(zip(self.out.timestamps, self.out.keys, map(settled, self.out.values), strict=True))
        late = list(zip(self.late.timestamps, self.late.values, strict=True))
        self.out.batches.clear()
        self.late.batches.clear()
        return results, late


def unordered(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


ELEMENTS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(-3, 40), st.integers(-5, 5)), min_size=1, max_size=12)
STEPS = st.lists(
    st.tuples(st.just("elements"), ELEMENTS)
    | st.tuples(st.just("advance"), st.integers(1, 15))
    | st.tuples(st.sampled_from(["commit", "evict", "evict some", "reopen", "discard"]), st.just(0)),
    max_size=25,
)


def run(
    assigner: Any, lateness: int, kind: str, store: Callable[[], Store], side: bool, steps: list[Any], memory: int
) -> None:
    """With little `memory` panes are evicted at every commit, and what is committed reaches the store late."""
    unit = HOUR if isinstance(assigner, CalendarEventTimeWindows) else 1
    lateness *= unit
    subject = Subject(assigner, lateness, kind, store, side, memory)
    brute = Brute(assigner, lateness, kind)
    committed = brute.copy()
    for name, given_ in [*steps, ("end", 0)]:
        if name == "elements":
            elements = [(key, stamp * unit, number) for key, stamp, number in given_]
            keys, stamps = [key for key, _, _ in elements], [stamp for _, stamp, _ in elements]
            subject.operator.process(Batch([subject.value_of(number) for _, _, number in elements], stamps, keys))
            for element in elements:
                brute.element(*element)
        elif name in ("advance", "end"):
            base = 0 if brute.watermark == NO_TIMESTAMP else brute.watermark
            watermark = MAX_WATERMARK if name == "end" else base + given_ * unit
            subject.task.watermark = watermark
            subject.operator.advance(watermark)
            brute.advance(watermark)
            assert subject.out.calls[-1] == ("advance", watermark)
        elif name == "discard":
            subject.state.close()
            subject.open(committed.watermark)
            brute = committed.copy()
        else:
            subject.commit()
            committed = brute.copy()
            if name.startswith("evict") and memory > 10_000:
                size = subject.operator.cache.size_bytes()
                subject.operator.cache.evict(0 if name == "evict" else size // 2)
            elif name == "reopen":
                subject.state.close()
                subject.open(brute.watermark)
        results, late = subject.taken()
        assert unordered(results) == unordered(brute.results)
        assert [stamp for stamp, _, _ in results] == [stamp for stamp, _, _ in brute.results] or name == "elements"
        if side:
            assert late == [(stamp, subject.value_of(number)) for stamp, number in brute.late]
        else:
            assert subject.task.late_dropped == len(brute.late)
            subject.task.late_dropped = 0
        brute.results.clear()
        brute.late.clear()
    assert not subject.operator.cache.panes()
    subject.commit()
    subject.state.discard()
    assert subject.state.store.is_empty(), "everything that was written has its tombstone"


class KeptStore(MemoryStore):
    """Survives its closing, as one on disk does."""

    def close(self) -> None: ...


@settings(deadline=None)
@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@given(
    lateness=st.sampled_from([0, 0, 1, 6, 30]),
    kind=st.sampled_from(list(AGGREGATIONS)),
    side=st.booleans(),
    steps=STEPS,
    memory=st.sampled_from([1 << 24, 3_000, 1]),
)
def test_panes_give_what_windows_give(
    assigner: Any, lateness: int, kind: str, side: bool, steps: list[Any], memory: int
) -> None:
    store = KeptStore()
    run(assigner, lateness, kind, lambda: store, side, steps, memory)


def test_the_same_on_disk(tmp_path: Path) -> None:
    budget = RocksBudget(1 << 24)
    numbers = count()

    @settings(deadline=None)
    @given(
        assigner=st.sampled_from(ASSIGNERS),
        lateness=st.sampled_from([0, 6]),
        kind=st.sampled_from(list(AGGREGATIONS)),
        steps=STEPS,
    )
    def holds(assigner: Any, lateness: int, kind: str, steps: list[Any]) -> None:
        path = tmp_path / str(next(numbers))
        run(assigner, lateness, kind, lambda: RocksStore(path, budget), True, steps, 3_000)

    holds()


def test_aggregations_that_merge_share_panes_and_the_others_do_not() -> None:
    for kind in AGGREGATIONS:
        subject = Subject(SlidingEventTimeWindows.of(60, 1), 0, kind, MemoryStore, side=False)
        assert isinstance(subject.operator.firing, SharedPanes) == (kind != "joined without merge")
