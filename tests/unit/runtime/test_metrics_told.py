"""What the worker tells its metrics of failures, timers and memory."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kstreampy.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction
from kstreampy.datastream.functions import AsyncRetryStrategy
from kstreampy.errors import RecordError
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime.tally import tell_counts
from kstreampy.testing import JobHarness
from tests.unit.operators.asking import Asking, Gate, asking, done, wall_ms
from tests.unit.operators.standin import batch, context


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


class Unsteady(AsyncFunction):
    """Refuses each odd number once; 4 takes too long."""

    def open(self, runtime_context: Any) -> None:
        self.refused: set[int] = set()

    async def async_invoke(self, value: int) -> list[int]:
        if value % 2 and value not in self.refused:
            self.refused.add(value)
            raise ConnectionError("again")
        await asyncio.sleep(60 if value == 4 else 0)
        return [value]

    def timeout(self, value: int) -> list[int]:
        return [-value]


def test_calls_of_an_asynchronous_step() -> None:
    with JobHarness(seed=1) as harness:
        source = harness.source("numbers")
        numbers = harness.env.from_source(source, source.watermarks(), "numbers")
        again = AsyncRetryStrategy.fixed_delay(3, 1, None, lambda error: isinstance(error, ConnectionError))
        asked = AsyncDataStream.unordered_wait_with_retry(numbers, Unsteady(), 500, again).name("ask").uid("ask")
        found = harness.collect(asked)
        source.send_all(range(6))
        harness.run()
        harness.advance_time(2_000)
        assert sorted(found.values()) == [-4, 0, 1, 2, 3, 5]
        assert total(harness, "kstreampy_async_completed_total") == 6
        assert total(harness, "kstreampy_async_retried_total") == 3
        assert total(harness, "kstreampy_async_timed_out_total") == 1
        in_flight = [name for name in harness.metrics() if name.startswith("kstreampy_async_in_flight{")]
        assert in_flight
        assert all('step="ask"' in name for name in in_flight)
        assert total(harness, "kstreampy_async_in_flight") == 0


def test_records_under_way_in_an_asynchronous_step() -> None:
    gate, task = Gate(), context(clock=wall_ms)
    metrics = Metrics()
    resources: Any = SimpleNamespace(metrics=metrics)
    told: Any = SimpleNamespace(context=task, number=3)
    labels = f'{{partition="3",stage="{task.stage}",step="ask"}}'
    with asking(Asking(gate), capacity=2, task=task) as (operator, _):
        operator.process(batch(1, 2, 3))
        tell_counts(resources, told)
        assert metrics.values()[f"kstreampy_async_in_flight{labels}"] == 3
        gate.let(1)
        done(operator, 2)
        tell_counts(resources, told)
        assert metrics.values()[f"kstreampy_async_in_flight{labels}"] == 2
        gate.let_all()
        operator.flush()
        tell_counts(resources, told)
        assert metrics.values()[f"kstreampy_async_in_flight{labels}"] == 0
        assert metrics.values()[f'kstreampy_async_completed_total{{stage="{task.stage}",step="ask"}}'] == 3
