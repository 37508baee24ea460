"""Watermark strategies as data, and the built-in generators."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Duration
from kstreampy.common.watermark_strategy import (
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)

MIN = -(2**63)


class Output(WatermarkOutput):
    def __init__(self):
        self.seen = []

    def emit_watermark(self, watermark):
        self.seen.append(watermark)

    def mark_idle(self):
        self.seen.append("idle")

    def mark_active(self):
        self.seen.append("active")


class Punctuated(WatermarkGenerator):
    def on_event(self, event, timestamp, output):
        if event == "end":
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output):
        output.mark_idle()


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def watermark_after(strategy, *timestamps):
    generator, output = strategy.create_generator(), Output()
    for timestamp in timestamps:
        generator.on_event(None, timestamp, output)
    assert output.seen == [], "built-in generators emit periodically only"
    generator.on_periodic_emit(output)
    return output.seen


def test_bounded_out_of_orderness():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    assert watermark_after(strategy) == [MIN]
    assert watermark_after(strategy, 10_000) == [4999]
    assert watermark_after(strategy, 10_000, 3_000) == [4999]
    assert watermark_after(strategy, MIN) == [MIN], "a record without a timestamp says nothing"
    assert watermark_after(WatermarkStrategy.for_bounded_out_of_orderness(5000), 10_000) == [4999]
    with pytest.raises(ValueError, match="negative"):
        WatermarkStrategy.for_bounded_out_of_orderness(-1)


def test_monotonous_timestamps():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert watermark_after(strategy) == [MIN]
    assert watermark_after(strategy, 7, 8) == [7]


@given(st.integers(0, 10**12), st.lists(st.integers(-(10**15), 10**15), min_size=1))
def test_a_batch_counts_as_its_elements(bound, timestamps):
    one_by_one, at_once = BoundedOutOfOrdernessWatermarks(bound), BoundedOutOfOrdernessWatermarks(bound)
    for timestamp in timestamps:
        one_by_one.on_event(None, timestamp, Output())
    at_once.on_timestamps(timestamps)
    output = Output()
    at_once.on_periodic_emit(output)
    assert output.seen == [at_once.current_watermark] == [one_by_one.current_watermark]
    assert at_once.current_watermark == max(timestamps) - bound - 1


def test_no_watermarks():
    assert WatermarkStrategy.no_watermarks().create_generator() is None
    output = Output()
    NoWatermarksGenerator().on_event(1, 1, output)
    NoWatermarksGenerator().on_periodic_emit(output)
    assert output.seen == []


def test_own_generators():
    for factory in (Punctuated, lambda: Punctuated()):
        strategy = WatermarkStrategy.for_generator(factory)
        first, second = strategy.create_generator(), strategy.create_generator()
        assert isinstance(first, Punctuated)
        assert first is not second, "each partition has its own"
    output = Output()
    first.on_event("x", 5, output)
    first.on_event("end", 6, output)
    first.on_periodic_emit(output)
    assert output.seen == [6, "idle"]
    with pytest.raises(TypeError, match="each partition"):
        WatermarkStrategy.for_generator(Punctuated())
    with pytest.raises(TypeError, match="no WatermarkGenerator"):
        WatermarkStrategy.for_generator(lambda: 5).create_generator()


def test_timestamp_assigners():
    plain = WatermarkStrategy.no_watermarks()
    assert plain.timestamp_assigner is None
    assert plain.with_timestamp_assigner(Second()).timestamp_assigner(("a", 5), MIN) == 5
    assert plain.with_timestamp_assigner(lambda value, ts: value + ts).timestamp_assigner(1, 2) == 3
    for wrong in (5, Second):
        with pytest.raises(TypeError, match="TimestampAssigner"):
            plain.with_timestamp_assigner(wrong)


_settings = {
    "assigner": lambda s: s.with_timestamp_assigner(Second()),
    "idleness": lambda s: s.with_idleness(Duration.of_seconds(3)),
    "alignment": lambda s: s.with_watermark_alignment("group", Duration.of_seconds(1)),
}


@given(st.permutations(list(_settings)))
def test_no_setting_is_lost_in_any_order(order):
    start = WatermarkStrategy.for_bounded_out_of_orderness(10)
    strategy = start
    for name in order:
        strategy = _settings[name](strategy)
    assert strategy.timestamp_assigner(("a", 5), MIN) == 5
    assert strategy.idle_timeout_ms == 3000
    assert strategy.alignment == WatermarkAlignment("group", 1000, 1000)
    assert watermark_after(strategy, 100) == [89]
    assert start == WatermarkStrategy.for_bounded_out_of_orderness(10), "the strategy it began with is unchanged"
    assert start.timestamp_assigner is start.idle_timeout_ms is start.alignment is None


def test_idleness_and_alignment_are_checked():
    plain = WatermarkStrategy.for_monotonous_timestamps()
    assert plain.with_idleness(1).idle_timeout_ms == 1
    assert plain.with_watermark_alignment("g", 5, Duration.of_millis(7)).alignment == WatermarkAlignment("g", 5, 7)
    for timeout in (0, -1, Duration.of_nanos(5)):
        with pytest.raises(ValueError, match="at least 1 ms"):
            plain.with_idleness(timeout)
    for arguments in (("", 1), ("g", -1), ("g", 1, 0)):
        with pytest.raises(ValueError, match="with_watermark_alignment"):
            plain.with_watermark_alignment(*arguments)


def test_strategies_pickle():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(10).with_timestamp_assigner(Second())
    twin = pickle.loads(pickle.dumps(strategy))
    assert watermark_after(twin, 100) == [89]
    assert twin.timestamp_assigner((1, 2), 0) == 2
