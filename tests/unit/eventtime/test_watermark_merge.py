"""How far event time has come, per partition and over several inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from kstreampy.eventtime.watermark import PartitionWatermark, WatermarkMerge
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch


def test_the_minimum_counts_once_everybody_has_spoken():
    merge = WatermarkMerge(["a", "b", "c"])
    assert merge.current() == NO_TIMESTAMP
    merge.advance("a", 10)
    merge.advance("b", 5)
    assert merge.current() == NO_TIMESTAMP
    merge.advance("c", 7)
    assert merge.current() == 5
    merge.advance("b", MAX_WATERMARK)
    assert merge.current() == 7
    assert merge.marks() == {"a": 10, "b": MAX_WATERMARK, "c": 7}


def test_going_back_and_strangers_are_ignored():
    merge = WatermarkMerge(["a"])
    merge.advance("a", 10)
    merge.advance("a", 9)
    merge.advance("stranger", 1)
    assert merge.current() == 10
    assert merge.marks() == {"a": 10}


def test_what_was_known_before_a_restart_holds():
    merge = WatermarkMerge(["a", "b"], {"a": 5, "b": 7, "gone": 1})
    assert merge.current() == 5
    merge.advance("a", 3)
    assert merge.current() == 5


def test_marks_are_a_copy():
    merge = WatermarkMerge(["a"])
    merge.marks()["a"] = 99
    assert merge.current() == NO_TIMESTAMP


def test_without_inputs_there_is_no_watermark():
    assert WatermarkMerge([]).current() == NO_TIMESTAMP


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, st.integers(-100, 100)), max_size=40))
def test_the_merge_is_the_minimum_of_maxima_and_never_goes_back(steps):
    merge = WatermarkMerge("abc")
    seen = dict.fromkeys("abc", NO_TIMESTAMP)
    before = NO_TIMESTAMP
    for name, mark in steps:
        merge.advance(name, mark)
        seen[name] = max(seen[name], mark)
        assert merge.current() == min(seen.values())
        assert merge.current() >= before
        before = merge.current()


def batch(*stamps):
    return Batch(list(stamps), list(stamps))


@pytest.mark.parametrize(
    ("strategy", "late"),
    [
        (WatermarkStrategy.for_monotonous_timestamps(), 0),
        (WatermarkStrategy.for_bounded_out_of_orderness(20), 20),
    ],
)
def test_a_partition_lags_behind_its_latest_record(strategy, late):
    clock = PartitionWatermark(strategy)
    assert clock.probe() == NO_TIMESTAMP
    clock.observe(batch(100, 300, 200))
    assert clock.probe() == 300 - late - 1
    clock.observe(batch(50))
    assert clock.probe() == 300 - late - 1
    clock.end()
    assert clock.probe() == MAX_WATERMARK


@pytest.mark.parametrize("strategy", [None, WatermarkStrategy.no_watermarks()])
def test_without_watermarks_only_the_end_is_told(strategy):
    clock = PartitionWatermark(strategy)
    clock.observe(batch(100))
    assert clock.probe() == NO_TIMESTAMP
    clock.end()
    assert clock.probe() == MAX_WATERMARK


class Punctuated(WatermarkGenerator):
    def __init__(self):
        self.seen = []

    def on_event(self, event, timestamp, output):
        self.seen.append((event, timestamp))
        if event % 2 == 0:
            output.emit_watermark(event)
        output.mark_idle()
        output.mark_active()

    def on_periodic_emit(self, output):
        output.emit_watermark(len(self.seen))


def test_a_generator_of_ones_own_sees_every_record_and_may_emit_at_any_time():
    made = []

    def make():
        made.append(Punctuated())
        return made[-1]

    clock = PartitionWatermark(WatermarkStrategy.for_generator(make))
    clock.observe(Batch([5, 8, 6], [1, 2, 3]))
    assert made[0].seen == [(5, 1), (8, 2), (6, 3)]
    assert clock.probe() == 8
    clock.observe(Batch(list(range(1, 20, 2)), [0] * 10))
    assert clock.probe() == 13


def test_partitions_do_not_share_a_generator():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    first, second = PartitionWatermark(strategy), PartitionWatermark(strategy)
    first.observe(batch(100))
    assert second.probe() == NO_TIMESTAMP


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=6), max_size=8), st.integers(0, 50))
def test_a_partition_never_goes_back_over_any_batches(batches, late):
    clock = PartitionWatermark(WatermarkStrategy.for_bounded_out_of_orderness(late))
    latest, before = None, NO_TIMESTAMP
    for stamps in batches:
        clock.observe(batch(*stamps))
        latest = max(stamps) if latest is None else max(latest, *stamps)
        assert clock.probe() == latest - late - 1 >= before
        before = clock.probe()
