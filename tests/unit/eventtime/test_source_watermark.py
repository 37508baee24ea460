"""Partitions of a source together: the least of the active ones counts, by records, time and ends."""

from typing import ClassVar

from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from kstreampy.eventtime.future import FutureGuard, TimeRules
from kstreampy.eventtime.source_watermark import SourceWatermark
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch

ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


class Time:
    """A clock that is set by hand."""

    def __init__(self):
        self.now_ms = 0

    def __call__(self):
        return self.now_ms


def source(strategy=ASCENDING, partitions="ab", rules=None, clock=None):
    return SourceWatermark("numbers", strategy, rules or TimeRules(), clock or Time(), partitions)


def batch(*stamps):
    return Batch(list(stamps), list(stamps))


def probed(made):
    made.probe(lambda _: True)
    return made.current()


def test_the_least_of_the_partitions():
    made = source()
    made.observe("a", batch(100))
    assert probed(made) == NO_TIMESTAMP
    made.observe("b", batch(50, 70))
    assert probed(made) == 69
    made.end("b")
    assert probed(made) == 99
    made.end("a")
    assert probed(made) == MAX_WATERMARK


def test_a_partition_that_is_none_of_them_cannot_end():
    made = source()
    made.end("c")
    assert made.current() == NO_TIMESTAMP


class Punctuated(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output): ...


def test_what_is_emitted_for_a_record_counts_with_its_batch():
    made = source(WatermarkStrategy.for_generator(Punctuated))
    made.observe("a", batch(100))
    made.observe("b", batch(60))
    assert made.current() == 60


def test_one_partition_idle_and_back():
    clock = Time()
    made = source(ASCENDING.with_idleness(100), clock=clock)
    made.observe("a", batch(500))
    made.observe("b", batch(50))
    assert probed(made) == 49
    clock.now_ms = 60
    made.observe("a", batch(600))
    assert probed(made) == 49
    clock.now_ms = 100
    assert probed(made) == 599
    assert made.active() == {"a": 599}
    made.observe("b", batch(51))
    made.observe("a", batch(700))
    assert probed(made) == 599
    made.observe("b", batch(650))
    assert probed(made) == 649


def test_all_idle():
    clock = Time()
    made = source(ASCENDING.with_idleness(100), clock=clock)
    made.observe("a", batch(500))
    probed(made)
    clock.now_ms = 100
    assert probed(made) == 499
    assert made.is_idle()
    made.observe("b", batch(5))
    assert not made.is_idle()


def test_the_default_of_the_settings():
    clock = Time()
    made = source(rules=TimeRules(idle_timeout_ms=100), clock=clock)
    clock.now_ms = 100
    probed(made)
    assert made.is_idle()


def test_periodic_emission_switched_off():
    made = source(rules=TimeRules(periodic=False))
    for partition in "ab":
        made.observe(partition, batch(500))
    assert probed(made) == NO_TIMESTAMP
    made.emit_last()
    assert made.current() == 499


def test_one_bad_clock_does_not_close_everything():
    """P41: ten years ahead, then normal data, which is not late."""
    clock = Time()
    clock.now_ms = 10_000
    guard = FutureGuard(3_600_000, "drop_from_watermark", clock)
    made = source(partitions="a", rules=TimeRules(future=guard), clock=clock)
    made.observe("a", batch(9_000))
    passed = made.observe("a", batch(clock.now_ms + 10 * 365 * 86_400_000))
    assert len(passed) == 1
    assert probed(made) == 8_999
    made.observe("a", batch(9_500))
    assert probed(made) == 9_499
    assert guard.take() == 1


def test_only_partitions_that_make_watermarks_are_aligned():
    assert source(None).active() == {}
    assert source().active() == {"a": NO_TIMESTAMP, "b": NO_TIMESTAMP}
    ended = source()
    ended.end("a")
    assert ended.active() == {"b": NO_TIMESTAMP}


class Model:
    """Two partitions by their definition: what each has had, when, and how far it was read."""

    TIMEOUT: ClassVar[int] = 10

    def __init__(self):
        self.latest = {"a": None, "b": None}
        self.asked = {"a": NO_TIMESTAMP, "b": NO_TIMESTAMP}
        self.since = {"a": 0, "b": 0}
        self.heard = {"a": False, "b": False}
        self.idle = {"a": False, "b": False}
        self.output = NO_TIMESTAMP

    def record(self, name, stamp):
        self.latest[name] = stamp if self.latest[name] is None else max(stamp, self.latest[name])
        self.heard[name], self.idle[name] = True, False

    def probe(self, now, behind):
        for name in "ab":
            if self.heard[name]:
                self.heard[name], self.since[name] = False, now
            silent = now - self.since[name] >= self.TIMEOUT
            if silent and name == behind:
                self.since[name] = now
            self.idle[name] = silent and name != behind
            if not self.idle[name] and self.latest[name] is not None:
                self.asked[name] = self.latest[name] - 1
        self.combine()

    def combine(self):
        active = [self.asked[name] for name in "ab" if not self.idle[name]]
        self.output = max(self.output, min(active) if active else max(self.asked.values()))


RECORD = st.tuples(st.sampled_from("ab"), st.integers(0, 100))
PROBE = st.tuples(st.integers(0, 8), st.sampled_from(["a", "b", None]))


@given(st.lists(RECORD | PROBE, max_size=60))
def test_any_course_of_records_and_time_is_as_the_definition_says(steps):
    clock, model = Time(), Model()
    made = source(ASCENDING.with_idleness(Model.TIMEOUT), clock=clock)
    for first, second in steps:
        if isinstance(first, str):
            made.observe(first, batch(second))
            model.record(first, second)
            model.combine()
        else:
            clock.now_ms += first
            made.probe(lambda name, behind=second: name != behind)
            model.probe(clock.now_ms, second)
        assert made.current() == model.output
        assert made.is_idle() == all(model.idle.values())
