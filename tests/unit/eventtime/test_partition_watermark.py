"""The watermark of one source partition: generators of all kinds, idleness by an injected clock, the end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from kstreampy.eventtime.partition_watermark import PartitionWatermark
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch

ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


def batch(*stamps):
    return Batch(list(stamps), list(stamps))


def probed(watermark, now_ms=0, *, caught_up=True):
    watermark.probe(now_ms, lambda: caught_up)
    return watermark.watermark


@pytest.mark.parametrize(
    ("strategy", "late"), [(ASCENDING, 0), (WatermarkStrategy.for_bounded_out_of_orderness(20), 20)]
)
def test_a_partition_lags_behind_its_latest_record(strategy, late):
    partition = PartitionWatermark(strategy, 0)
    assert probed(partition) == NO_TIMESTAMP
    partition.observe(batch(100, 300, 200))
    assert partition.watermark == NO_TIMESTAMP, "periodic: only when it is asked"
    assert probed(partition) == 300 - late - 1
    partition.observe(batch(50))
    assert probed(partition) == 300 - late - 1
    partition.end()
    assert probed(partition) == MAX_WATERMARK


@pytest.mark.parametrize("strategy", [None, WatermarkStrategy.no_watermarks()])
def test_without_watermarks_only_the_end_is_told(strategy):
    partition = PartitionWatermark(strategy, 0)
    partition.observe(batch(100))
    assert not partition.generates
    assert probed(partition) == NO_TIMESTAMP
    partition.end()
    assert probed(partition) == MAX_WATERMARK


class Counting(WatermarkGenerator):
    """Emits even events at once and, when asked, how many it has seen."""

    def __init__(self):
        self.seen = []

    def on_event(self, event, timestamp, output):
        self.seen.append((event, timestamp))
        if event % 2 == 0:
            output.emit_watermark(event)

    def on_periodic_emit(self, output):
        output.emit_watermark(len(self.seen))


def test_a_generator_of_ones_own_sees_every_record_and_may_emit_at_any_time():
    made = []

    def make():
        made.append(Counting())
        return made[-1]

    partition = PartitionWatermark(WatermarkStrategy.for_generator(make), 0)
    partition.observe(Batch([5, 8, 6], [1, 2, 3]))
    assert made[0].seen == [(5, 1), (8, 2), (6, 3)]
    assert partition.watermark == 8, "at once"
    assert probed(partition) == 8
    partition.observe(Batch(list(range(1, 20, 2)), [0] * 10))
    assert partition.watermark == 8
    assert probed(partition) == 13


def test_not_asked_where_periodic_watermarks_are_off():
    partition = PartitionWatermark(WatermarkStrategy.for_generator(Counting), 0)
    partition.observe(Batch([1, 3, 5], [0, 0, 0]))
    partition.probe(0, lambda: True, periodic=False)
    assert partition.watermark == NO_TIMESTAMP
    partition.observe(Batch([2], [0]))
    assert partition.watermark == 2
    partition.ask()
    assert partition.watermark == 4


@pytest.mark.parametrize("wrong", ["10", 1.5, None])
def test_a_watermark_is_an_int(wrong):
    class Wrong(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            output.emit_watermark(wrong)

        def on_periodic_emit(self, output): ...

    with pytest.raises(TypeError):
        PartitionWatermark(WatermarkStrategy.for_generator(Wrong), 0).observe(batch(1))


def test_beyond_the_last_watermark_there_is_none():
    class Beyond(WatermarkGenerator):
        def on_event(self, event, timestamp, output):
            output.emit_watermark(2**70)

        def on_periodic_emit(self, output): ...

    partition = PartitionWatermark(WatermarkStrategy.for_generator(Beyond), 0)
    partition.observe(batch(1))
    assert partition.watermark == MAX_WATERMARK


def test_partitions_do_not_share_a_generator():
    first, second = PartitionWatermark(ASCENDING, 0), PartitionWatermark(ASCENDING, 0)
    first.observe(batch(100))
    assert probed(second) == NO_TIMESTAMP


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=1, max_size=6), max_size=8), st.integers(0, 50))
def test_a_partition_never_goes_back_over_any_batches(batches, late):
    partition = PartitionWatermark(WatermarkStrategy.for_bounded_out_of_orderness(late), 0)
    latest, before = None, NO_TIMESTAMP
    for stamps in batches:
        partition.observe(batch(*stamps))
        latest = max(stamps) if latest is None else max(latest, *stamps)
        assert probed(partition) == latest - late - 1 >= before
        before = probed(partition)


class TestIdleness:
    def partition(self, now_ms=1_000):
        return PartitionWatermark(ASCENDING.with_idleness(100), now_ms)

    def test_never_without_a_timeout(self):
        partition = PartitionWatermark(ASCENDING, 0)
        probed(partition, 10**12)
        assert not partition.idle

    @pytest.mark.parametrize(("passed", "idle"), [(99, False), (100, True)])
    def test_after_so_long_without_any_record(self, passed, idle):
        partition = self.partition()
        probed(partition, 1_000 + passed)
        assert partition.idle is idle

    def test_time_counts_from_the_probe_behind_the_last_record(self):
        partition = self.partition()
        partition.hear()
        probed(partition, 1_090)
        probed(partition, 1_189)
        assert not partition.idle
        probed(partition, 1_190)
        assert partition.idle
        partition.hear()
        assert not partition.idle

    def test_not_while_there_is_more_to_read(self):
        """A worker that is slow, or a broker that is away, must not make good records late."""
        partition = self.partition()
        probed(partition, 5_000, caught_up=False)
        assert not partition.idle
        probed(partition, 5_099)
        assert not partition.idle, "the time began anew"
        probed(partition, 5_100)
        assert partition.idle
        probed(partition, 5_200, caught_up=False)
        assert not partition.idle, "there is something again, though it did not arrive yet"

    def test_caught_up_is_asked_only_when_it_matters(self):
        def fail():
            raise AssertionError("asked")

        self.partition().probe(1_099, fail)

    def test_a_clock_that_is_set_back(self):
        partition = self.partition()
        probed(partition, 200)
        assert not partition.idle
        probed(partition, 300)
        assert partition.idle

    def test_an_idle_partition_is_not_asked_for_watermarks(self):
        partition = PartitionWatermark(WatermarkStrategy.for_generator(Counting).with_idleness(100), 0)
        partition.observe(Batch([1], [0]))
        probed(partition, 100)
        assert partition.watermark == NO_TIMESTAMP
        probed(partition, 100)

    def test_the_setting_is_for_strategies_that_say_nothing(self):
        by_setting = PartitionWatermark(ASCENDING, 0, 50)
        by_strategy = PartitionWatermark(ASCENDING.with_idleness(100), 0, 50)
        without = PartitionWatermark(None, 0, 50)
        for partition in (by_setting, by_strategy, without):
            probed(partition, 60)
        assert [p.idle for p in (by_setting, by_strategy, without)] == [True, False, True]

    def test_a_generator_may_say_so(self):
        class Saying(WatermarkGenerator):
            def on_event(self, event, timestamp, output):
                if event == "idle":
                    output.mark_idle()
                elif event == "active":
                    output.mark_active()
                elif event != "silent":
                    output.emit_watermark(event)

            def on_periodic_emit(self, output):
                output.mark_idle()

        partition = PartitionWatermark(WatermarkStrategy.for_generator(Saying), 0)

        def after(event):
            partition.observe(Batch([event], [0]))
            return partition.idle

        assert [after(e) for e in ("idle", "silent", "active", "idle", 5, "idle", 5, 4, 6)] == [
            True, True, False, True, False, True, True, True, False,
        ]  # fmt: skip
        probed(partition)
        assert partition.idle
        partition.hear()
        assert not partition.idle
