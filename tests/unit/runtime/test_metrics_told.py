"""What the worker tells its metrics of failures, timers and memory."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.datastream import KeyedProcessFunction
from kstreampy.errors import RecordError
from kstreampy.testing import JobHarness


class Alarms(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value + 1_000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield timestamp


def total(harness: JobHarness, name: str) -> float:
    return sum(value for sample, value in harness.metrics().items() if sample.split("{")[0] == name)


def test_timers_that_wait_and_objects_in_the_cache() -> None:
    with JobHarness(seed=1) as harness:
        source = harness.source("numbers")
        numbers = harness.env.from_source(source, source.watermarks(), "numbers")
        fired = harness.collect(numbers.key_by(lambda value: value % 3).process(Alarms()).uid("alarms"))
        for value in range(5):
            source.send(value, timestamp=value)
        harness.run()
        harness.advance_time(2_000)
        assert total(harness, "kstreampy_timers") == 5
        assert total(harness, "kstreampy_state_cache_bytes") > 0
        source.watermark(1_002)
        harness.run()
        harness.advance_time(2_000)
        assert sorted(fired.values()) == [1_000, 1_001, 1_002]
        assert total(harness, "kstreampy_timers") == 2


def test_a_record_that_fails_is_counted_with_its_step() -> None:
    with JobHarness(seed=1) as harness:
        source = harness.source("numbers")
        numbers = harness.env.from_source(source, source.watermarks(), "numbers")
        harness.collect(numbers.map(lambda value: 1 // value).name("inverse"))
        source.send(0)
        with pytest.raises(RecordError, match="inverse"):
            harness.run()
        failed = [name for name in harness.metrics() if name.startswith("kstreampy_records_failed_total")]
        assert len(failed) == 1
        assert 'policy="fail"' in failed[0]
        assert 'step="inverse"' in failed[0]
        assert 'stage=""' not in failed[0]
