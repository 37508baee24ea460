"""Interval join against brute force: every pair that fits and was in time, once, when its second element comes; with commits,
evictions, restarts, and other bounds after one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import Types
from kstreampy.operators.interval_join import IntervalJoinOperator, IntervalJoinSpec
from kstreampy.operators.join_function import ProcessJoinFunction
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.state import timeline
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Store
from kstreampy.state.task_meta import LocalMeta
from tests.unit.operators.standin import Collecting, context
from tests.unit.operators.test_pane_model import KeptStore

LEFT, RIGHT, SEEN = OutputTag("left"), OutputTag("right"), OutputTag("seen")
TYPE = Types.TUPLE([Types.STRING(), Types.INT()])
# Bounds from an empty interval to one that is far longer than a slice, on either side of the element.
BOUNDS = [(0, 0), (-5, 5), (0, 300), (-300, 0), (40, 700), (-700, -40), (-2000, 1500), (3, 2), (5000, 5000)]


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        times = (ctx.get_left_timestamp(), ctx.get_right_timestamp())
        if left[1] == 0:
            ctx.output(SEEN, right)
        yield left, right, times, ctx.get_timestamp()


class Brute:
    def __init__(self, bounds: tuple[int, int]) -> None:
        self.bounds = bounds
        self.watermark = NO_TIMESTAMP
        self.kept: tuple[list[Any], list[Any]] = ([], [])
        self.results: list[Any] = []
        self.late: list[Any] = []

    def copy(self) -> Brute:
        twin = Brute(self.bounds)
        twin.watermark = self.watermark
        twin.kept = (list(self.kept[0]), list(self.kept[1]))
        return twin

    def element(self, side: int, key: Any, stamp: int, value: Any) -> None:
        if stamp < self.watermark:
            self.late.append((side, stamp, value))
            return
        self.kept[side].append((key, stamp, value))
        lower, upper = self.bounds
        for other_key, time, other in sorted(self.kept[1 - side], key=lambda row: row[1]):
            left, right = (stamp, time) if side == 0 else (time, stamp)
            if other_key == key and type(other_key) is type(key) and left + lower <= right <= left + upper:
                pair = (value, other) if side == 0 else (other, value)
                self.results.append((max(left, right), key, (*pair, (left, right), max(left, right))))


class Subject:
    def __init__(self, store: Callable[[], Store], memory: int, tags: tuple[Any, Any]) -> None:
        self.store = store
        self.memory = memory
        self.tags = tags
        self.commits = count(1)

    def open(self, bounds: tuple[int, int], watermark: int) -> None:
        self.state = KeyedState(
            self.store(), CacheBudget(self.memory), write_behind_ms=1 if self.memory < 10_000 else 0
        )
        self.task = context(state=self.state, watermark=watermark)
        spec = IntervalJoinSpec(*bounds, Pair(), (TYPE, TYPE), self.tags)
        self.operator = IntervalJoinOperator("join", "j", spec)
        self.out, self.seen = Collecting(), Collecting()
        self.late = {tag.tag_id: Collecting() for tag in (LEFT, RIGHT)}
        self.operator.out = self.out
        self.operator.sides = {**self.late, SEEN.tag_id: self.seen}
        self.operator.open(self.task)
        self.doors = self.operator.inputs()

    def commit(self) -> None:
        dirty = self.state.take_dirty()
        assert dirty.entries == self.state.take_dirty().entries
        assert len({key for key, _ in dirty.entries}) == len(dirty.entries)
        self.state.committed(dirty, LocalMeta("t", next(self.commits), 0))

    def taken(self) -> tuple[list[Any], list[Any]]:
        """Results and late elements since the last call."""
        results = list(zip(self.out.timestamps, self.out.keys, self.out.values, strict=True))
        late = [
            (side, stamp, value)
            for side, out in enumerate(self.late.values())
            for stamp, value in zip(out.timestamps, out.values, strict=True)
        ]
        for out in (self.out, *self.late.values()):
            out.batches.clear()
        return results, late

    def slices(self) -> list[Any]:
        return [each for side in (self.operator.left, self.operator.right) for each in side.cache._slices()]


ELEMENTS = st.lists(st.tuples(st.sampled_from(["a", "b", 1]), st.integers(-3, 60)), min_size=1, max_size=10)
STEPS = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), ELEMENTS)
    | st.tuples(st.just("advance"), st.integers(1, 30))
    | st.tuples(st.just("reopen"), st.sampled_from([None, *BOUNDS]))
    | st.tuples(st.sampled_from(["commit", "evict", "evict some", "discard"]), st.just(0)),
    max_size=25,
)


def run(
    store: Callable[[], Store], bounds: tuple[int, int], unit: int, steps: list[Any], memory: int, tags: tuple[Any, Any]
) -> None:
    """Times are in `unit` ms. With little `memory` elements are evicted at every commit."""
    subject, brute = Subject(store, memory, tags), Brute(bounds)
    subject.open(bounds, NO_TIMESTAMP)
    committed = brute.copy()
    numbers = count()
    dropped_before = 0
    for name, given_ in [*steps, ("end", 0)]:
        if name in ("left", "right"):
            side = 0 if name == "left" else 1
            elements = [(key, stamp * unit, (name, next(numbers) % 7)) for key, stamp in given_]
            batch = Batch([v for _, _, v in elements], [t for _, t, _ in elements], [k for k, _, _ in elements])
            subject.doors[side].process(batch)
            for element in elements:
                brute.element(side, *element)
        elif name in ("advance", "end"):
            base = 0 if brute.watermark == NO_TIMESTAMP else brute.watermark
            brute.watermark = MAX_WATERMARK if name == "end" else base + given_ * unit
            subject.task.watermark = brute.watermark
            subject.operator.advance(brute.watermark)
            assert subject.out.calls[-1] == ("advance", brute.watermark)
        elif name == "discard":
            subject.state.close()
            subject.open(committed.bounds, committed.watermark)
            brute = committed.copy()
            dropped_before = 0
        else:
            subject.commit()
            if name.startswith("evict") and memory > 10_000:
                for cache in (subject.operator.left.cache, subject.operator.right.cache):
                    cache.evict(0 if name == "evict" else cache.size_bytes() // 2)
            elif name == "reopen":
                subject.state.close()
                if (
                    given_ is not None and brute.watermark == NO_TIMESTAMP
                ):  # so that nothing was freed by the old bounds
                    brute.bounds = given_
                subject.open(brute.bounds, brute.watermark)
                dropped_before = 0
            committed = brute.copy()
        results, late = subject.taken()
        assert results == brute.results
        expected_late = [each for each in brute.late if tags[each[0]] is not None]
        assert late == expected_late
        assert subject.task.late_dropped - dropped_before == len(brute.late) - len(expected_late)
        dropped_before = subject.task.late_dropped
        brute.results.clear()
        brute.late.clear()
    assert not subject.slices()
    subject.commit()
    subject.state.discard()
    assert subject.state.store.is_empty(), "everything that was written has its tombstone"


@settings(deadline=None, max_examples=150)
@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
@given(
    unit=st.sampled_from([1, 20, 50]),
    steps=STEPS,
    memory=st.sampled_from([1 << 24, 3_000, 1]),
    at_once=st.sampled_from([20_000, 2]),
    tags=st.sampled_from([(None, None), (LEFT, None), (LEFT, RIGHT)]),
)
def test_pairs_are_those_of_brute_force(
    bounds: tuple[int, int], unit: int, steps: list[Any], memory: int, at_once: int, tags: tuple[Any, Any]
) -> None:
    store = KeptStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline, "_AT_ONCE", at_once)  # more than that is read by key
        run(lambda: store, bounds, unit, steps, memory, tags)


def test_the_same_on_disk(tmp_path: Path) -> None:
    budget = RocksBudget(1 << 24)
    numbers = count()

    @settings(deadline=None, max_examples=60)
    @given(bounds=st.sampled_from(BOUNDS), unit=st.sampled_from([1, 50]), steps=STEPS)
    def holds(bounds: tuple[int, int], unit: int, steps: list[Any]) -> None:
        path = tmp_path / str(next(numbers))
        run(lambda: RocksStore(path, budget), bounds, unit, steps, 3_000, (LEFT, RIGHT))

    holds()
