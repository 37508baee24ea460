"""Ten kills in the middle of open windows, pending timers of both domains and state that expires: equal to a clean run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.time import Time
from kstreampy.datastream import KeyedProcessFunction, RuntimeContext
from kstreampy.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from kstreampy.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from kstreampy.testing import JobHarness, Output
from tests.unit.jobs.crashes import committed, trouble

STEPS = 40
KEYS = 5


class Everything(KeyedProcessFunction):
    """Counts within a TTL, and reminds of each record by both clocks."""

    def open(self, runtime_context: RuntimeContext) -> None:
        counted = ValueStateDescriptor("counted", Types.LONG())
        counted.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(250)).build())
        self.counted = runtime_context.get_state(counted)
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.counted.value() or 0) + 1
        self.counted.update(count)
        self.waiting.add(value[1])
        timers = ctx.timer_service()
        timers.register_event_time_timer((ctx.timestamp() or 0) + 70)
        timers.register_processing_time_timer(timers.current_processing_time() + 130)
        yield "count", value, count

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if ctx.time_domain().name == "EVENT_TIME":
            yield "event", ctx.get_current_key(), timestamp, sorted(self.waiting.get())
            self.waiting.clear()
        else:
            yield "processing", ctx.get_current_key(), timestamp, self.counted.value()


def draw(harness: JobHarness) -> tuple[Any, list[Output]]:
    source = harness.source("pairs")
    pairs = harness.env.from_source(source, source.watermarks(), "pairs")
    keyed = pairs.key_by(lambda pair: pair[0])
    windows = [
        ("tumbling", TumblingEventTimeWindows.of(Time.milliseconds(200))),
        ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(60))),
        ("by clock", TumblingProcessingTimeWindows.of(Time.milliseconds(300))),
    ]
    outputs = [harness.collect(keyed.process(Everything()).uid("all"), "all")]
    for name, assigner in windows:
        sums = keyed.window(assigner).reduce(lambda one, other: (one[0], one[1] + other[1])).uid(name.replace(" ", "-"))
        outputs.append(harness.collect(sums, name.replace(" ", "-")))
    return source, outputs


def play(seed: int, *, kills: bool, state_store: Any = "memory") -> list[list[Any]]:
    script, dice = random.Random(seed), random.Random(seed)
    with JobHarness(workers=2, seed=seed, state_store=state_store) as harness:
        source, outputs = draw(harness)
        for step in range(STEPS):
            for _ in range(script.randrange(4)):
                late = script.choice((0, 0, 20, 60, 150))
                number = script.randrange(100)
                source.send((f"k{script.randrange(KEYS)}", number), timestamp=max(step * 40 - late, 0))
            if script.random() < 0.5:
                source.watermark(step * 40 - 50)
            if kills:
                trouble(harness, dice)
            harness.advance_time(script.choice((0, 10, 50, 200)))
        source.end()
        harness.run()
        if kills:
            assert harness.crashes >= 10
        return [committed(output) for output in outputs]


@pytest.mark.parametrize("seed", range(5))
def test_equal_to_a_clean_run(seed: int) -> None:
    clean = play(seed, kills=False)
    assert all(len(found) >= 5 for found in clean)
    assert play(seed, kills=True) == clean


def test_on_rocksdb() -> None:
    assert play(100, kills=True, state_store="rocks") == play(100, kills=False)
