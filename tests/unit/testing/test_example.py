"""The examples in docstrings and the one for the README run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import kstreampy.testing
from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import KeyedProcessFunction
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.testing import JobHarness

MODULES = [module.name for module in pkgutil.iter_modules(kstreampy.testing.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    module = importlib.import_module(f"kstreampy.testing.{name}")
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    modules = [importlib.import_module(f"kstreampy.testing.{name}") for name in MODULES]
    assert sum(doctest.testmod(module).attempted for module in modules) >= 15


class Quiet(KeyedProcessFunction):
    """Reports a sensor that has said nothing for a minute."""

    def open(self, runtime_context):  # type: ignore[no-untyped-def]
        self.alarm = runtime_context.get_state(ValueStateDescriptor("alarm", Types.LONG()))

    def process_element(self, reading, ctx):  # type: ignore[no-untyped-def]
        timers = ctx.timer_service()
        if self.alarm.value() is not None:
            timers.delete_event_time_timer(self.alarm.value())
        self.alarm.update(ctx.timestamp() + 60_000)
        timers.register_event_time_timer(ctx.timestamp() + 60_000)

    def on_timer(self, timestamp, ctx):  # type: ignore[no-untyped-def]
        self.alarm.clear()
        yield ctx.get_current_key()


@pytest.mark.parametrize("seed", range(5))
def test_a_quiet_sensor_is_reported_also_after_a_crash(seed: int) -> None:
    with JobHarness(seed=seed) as harness:
        source = harness.source("readings")
        readings = harness.env.from_source(source, source.watermarks(), "readings")
        reports = harness.collect(readings.key_by(lambda reading: reading["sensor"]).process(Quiet()).uid("quiet"))
        source.send({"sensor": "a"}, timestamp=1_000)
        source.send({"sensor": "b"}, timestamp=30_000)
        harness.run()
        assert harness.timers("quiet") == [(61_000, "a"), (90_000, "b")]
        harness.crash()
        source.send({"sensor": "a"}, timestamp=50_000)
        source.watermark(100_000)
        harness.run()
        assert reports.values() == ["b"]
        assert harness.state("quiet", "alarm", "b") is None


def test_the_strategy_of_a_job_is_its_own() -> None:
    with JobHarness() as harness:
        source = harness.source("readings")
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(5_000)
        readings = harness.env.from_source(source, strategy, "readings")
        reports = harness.collect(readings.key_by(lambda reading: reading["sensor"]).process(Quiet()))
        source.send({"sensor": "a"}, timestamp=1_000)
        source.send({"sensor": "b"}, timestamp=66_000)
        harness.run()
        assert reports.values() == []
        source.send({"sensor": "b"}, timestamp=66_001)
        harness.run()
        assert reports.values() == ["a"]
