"""`assign_timestamps_and_watermarks` in mid-stream: what it replaces, when it emits, and whose watermark others see."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from kstreampy.errors import RecordError
from kstreampy.eventtime.future import FutureGuard, TimeRules
from kstreampy.operators.assign import AssignOperator
from kstreampy.serde.batch import MAX_WATERMARK
from tests.unit.operators.standin import NONE, Collecting, batch, context, opened

ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


class Watching(Collecting):
    """Notes the task's watermark at every call."""

    def __init__(self):
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def open(self, task):
        self.task = task

    def note(self, name):
        self.seen.append((name, self.task.watermark))

    def process(self, given):
        super().process(given)
        self.note("process")

    def advance(self, watermark):
        super().advance(watermark)
        self.note("advance")

    def wake(self, now_ms):
        self.note("wake")

    def tick(self):
        self.note("tick")

    def flush(self):
        self.note("flush")

    def finish(self):
        self.note("finish")

    def set_idle(self, idle):
        self.calls.append(("idle", idle))


def assigning(strategy=ASCENDING, **task: Any):
    operator = AssignOperator("again", "uid", strategy)
    made = context(**task)
    out = Watching()
    out.task = made
    opened(operator, made, out)
    return operator, out, made


def advances(out):
    return [call[1] for call in out.calls if call[0] == "advance"]


def test_timestamps_are_assigned_and_the_rest_passes():
    operator, out, _ = assigning(ASCENDING.with_timestamp_assigner(lambda value, before: value * 10 + before))
    given_batch = batch(5, 6, keys=["a", "b"], stamps=[1, NONE], headers=[None, [("h", b"1")]])
    operator.process(given_batch)
    assert out.timestamps == [51, 60 + NONE]
    assert (out.values, out.keys, out.headers) == ([5, 6], ["a", "b"], [None, [("h", b"1")]])
    assert given_batch.timestamps == [1, NONE]


def test_without_an_assigner_timestamps_stay():
    operator, out, _ = assigning()
    operator.process(batch(5, stamps=[7]))
    assert out.timestamps == [7]


def test_an_assigner_that_fails_names_the_record():
    operator, _, _ = assigning(ASCENDING.with_timestamp_assigner(lambda value, before: 1 // value))
    with pytest.raises(RecordError, match=r"again \(timestamp\): ZeroDivisionError") as caught:
        operator.process(batch(1, 0))
    assert caught.value.index == 1


def test_a_generator_that_fails_is_placed():
    class Broken(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            raise KeyError("time")

        def on_periodic_emit(self, output): ...

    operator, _, _ = assigning(WatermarkStrategy.for_generator(Broken))
    with pytest.raises(KeyError) as caught:
        operator.process(batch(1))
    assert caught.value.__notes__ == ["in the watermark strategy of again"]


def test_watermarks_come_with_the_interval_and_only_when_they_grow():
    operator, out, _ = assigning()
    operator.tick()
    operator.process(batch(1, stamps=[100]))
    assert advances(out) == []
    operator.tick()
    operator.tick()
    operator.process(batch(1, stamps=[50]))
    operator.tick()
    assert advances(out) == [99]


class Punctuated(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        if event == "mark":
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output): ...


def test_a_watermark_for_a_record_comes_behind_its_batch():
    operator, out, _ = assigning(WatermarkStrategy.for_generator(Punctuated))
    operator.process(batch("x", "mark", "x", stamps=[1, 2, 3]))
    assert out.seen == [("process", NONE), ("advance", 2)]


def test_periodic_emission_may_be_off():
    operator, out, _ = assigning(time=TimeRules(periodic=False))
    operator.process(batch(1, stamps=[100]))
    operator.tick()
    assert advances(out) == []


def test_watermarks_and_idleness_from_before_are_dropped_except_the_end():
    operator, out, task = assigning()
    task.watermark = 500
    operator.advance(500)
    operator.set_idle(True)
    assert out.calls == []
    operator.process(batch(1, stamps=[100]))
    task.watermark = MAX_WATERMARK
    operator.advance(MAX_WATERMARK)
    operator.finish()
    assert advances(out) == [MAX_WATERMARK]
    assert out.seen[-1] == ("finish", MAX_WATERMARK)


def test_the_generator_is_asked_once_more_at_the_end():
    asked = []

    class Asked(WatermarkGenerator):
        def on_event(self, event, timestamp, output): ...

        def on_periodic_emit(self, output):
            asked.append(1)

    operator, _, _ = assigning(WatermarkStrategy.for_generator(Asked), time=TimeRules(periodic=False))
    operator.advance(MAX_WATERMARK)
    operator.finish()
    assert asked == [1]


def test_an_end_without_a_last_watermark_emits_what_there_is():
    operator, out, _ = assigning()
    operator.process(batch(1, stamps=[100]))
    operator.finish()
    assert advances(out) == [99]


def test_what_follows_sees_this_steps_watermark_and_nobody_else_does():
    operator, out, task = assigning()
    task.watermark = 7_000
    operator.process(batch(1, stamps=[100]))
    operator.tick()
    operator.process(batch(1, stamps=[101]))
    operator.wake(5)
    operator.flush()
    assert out.seen == [
        ("process", NONE),
        ("advance", 99),
        ("tick", 99),
        ("process", 99),
        ("wake", 99),
        ("flush", 99),
    ]
    assert task.watermark == 7_000


def test_goes_on_where_the_checkpoint_was():
    operator, out, task = assigning(step_watermarks={"uid": 500, "other": 9})
    operator.process(batch(1, stamps=[100]))
    operator.tick()
    assert advances(out) == []
    assert out.seen[0] == ("process", 500)
    assert not task.moved
    operator.process(batch(1, stamps=[701]))
    operator.tick()
    assert advances(out) == [700]
    assert task.step_watermarks == {"uid": 700, "other": 9}
    assert task.moved, "though nothing came in with the interval, there is something for the checkpoint"


def test_idle_after_the_timeout_and_active_with_the_next_record():
    clock = [0]
    operator, out, task = assigning(ASCENDING.with_idleness(100), clock=lambda: clock[0])
    operator.process(batch(1, stamps=[100]))
    operator.tick()
    clock[0] = 100
    operator.tick()
    operator.tick()
    assert out.calls == [("advance", 99), ("idle", True)]
    assert task.moved
    operator.process(batch(1, stamps=[200]))
    assert out.calls == [("advance", 99), ("idle", True), ("idle", False)]


def test_the_guard_against_the_future_is_here_too():
    guard = FutureGuard(10, "drop_from_watermark", lambda: 1_000)
    operator, out, _ = assigning(time=TimeRules(future=guard))
    operator.process(batch("a", "b", stamps=[500, 99_999]))
    operator.tick()
    assert out.timestamps == [500, 99_999]
    assert advances(out) == [499]
    assert guard.count == 1


@given(st.lists(st.lists(st.integers(0, 1000), max_size=4) | st.none(), max_size=30), st.integers(0, 20))
def test_over_any_course_it_is_the_latest_less_the_bound(courses, bound):
    """None is the interval; what comes out grows strictly and never promises more than the bound allows."""
    operator, out, _ = assigning(WatermarkStrategy.for_bounded_out_of_orderness(bound))
    latest, expected = None, []
    for stamps in courses:
        if stamps:
            operator.process(batch(*stamps, stamps=stamps))
            latest = max(stamps) if latest is None else max(latest, *stamps)
        elif stamps is None:
            operator.tick()
            if latest is not None and latest - bound - 1 not in expected:
                expected.append(latest - bound - 1)
    assert advances(out) == expected
