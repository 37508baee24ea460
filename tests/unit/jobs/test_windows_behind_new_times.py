"""Windows in one chain with a step that gives records their time anew: what is late goes by that step's watermark, also
after a restart."""

from __future__ import annotations

import pytest

from kstreampy.common import Duration, Time, WatermarkStrategy
from kstreampy.datastream import DataStreamUtils
from kstreampy.datastream.window import ContinuousEventTimeTrigger, TumblingEventTimeWindows
from kstreampy.testing import JobHarness


@pytest.mark.parametrize("by_panes", [True, False])
def test_the_steps_own_watermark_is_restored(by_panes: bool) -> None:
    with JobHarness(seed=1, key_groups=1) as harness:
        source = harness.source("pairs")
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
        timed = (
            harness.env.from_source(source, source.watermarks(), "pairs")
            .map(lambda pair: pair)
            .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(lambda pair, _: pair[1]))
        )
        windows = DataStreamUtils.reinterpret_as_keyed_stream(timed, lambda pair: pair[0]).window(
            TumblingEventTimeWindows.of(Time.seconds(10))
        )
        if not by_panes:
            windows = windows.trigger(ContinuousEventTimeTrigger.of(Time.hours(1)))
        sums = harness.collect(windows.sum(1).uid("sums"))
        source.send(("a", 1_000), timestamp=900_000)
        source.watermark(900_000)
        harness.run()
        harness.advance_time(1_000)
        harness.crash()
        source.send(("a", 2_000), timestamp=900_001)
        harness.run()
        harness.advance_time(1_000)
        source.send(("a", 50_000), timestamp=900_002)
        harness.run()
        harness.advance_time(1_000)
        harness.run()
        assert sums.values() == [("a", 3_000)]
