"""State that expires in tasks that get no records any more: it goes from the store and the changelog, also over crashes, and
what is left is what a run without any gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.time import Time
from kstreampy.datastream import KeyedProcessFunction, RuntimeContext
from kstreampy.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from kstreampy.testing import JobHarness, Output
from tests.unit.jobs.crashes import committed, trouble

TTL_MS = 1_000
STATES = ("value", "list", "map", "kept")


class Remember(KeyedProcessFunction):
    """Keeps each value for a while, in state of three kinds, and the count of a key for ever."""

    def open(self, runtime_context: RuntimeContext) -> None:
        value = ValueStateDescriptor("value", Types.LONG())
        listed = ListStateDescriptor("list", Types.LONG())
        mapped = MapStateDescriptor("map", Types.LONG(), Types.LONG())
        for descriptor in (value, listed, mapped):
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).build())
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(listed)
        self.map = runtime_context.get_map_state(mapped)
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.kept.update((self.kept.value() or 0) + 1)
        self.value.update(value[1])
        self.list.add(value[1])
        self.map.put(value[1], 1)
        yield ctx.get_current_key(), self.kept.value(), sorted(self.list.get())


def draw(harness: JobHarness) -> tuple[Any, Output]:
    source = harness.source("pairs")
    pairs = harness.env.from_source(source, source.watermarks(), "pairs")
    return source, harness.collect(pairs.key_by(lambda pair: pair[0]).process(Remember()).uid("remember"))


def keys(harness: JobHarness) -> dict[str, list[Any]]:
    return {name: sorted(harness.state_keys("remember", name)) for name in STATES}


@pytest.mark.parametrize("store", ["memory", "rocks"])
def test_it_goes_although_nothing_comes(store: Any) -> None:
    with JobHarness(key_groups=4, state_store=store) as harness:
        source, _ = draw(harness)
        source.send_all([(f"k{number}", number) for number in range(20)])
        harness.run()
        everyone = sorted(f"k{number}" for number in range(20))
        harness.advance_time(TTL_MS - 1)
        source.send(("late", 1))
        harness.run()
        assert keys(harness) == dict.fromkeys(STATES, sorted([*everyone, "late"]))
        harness.advance_time(10)
        assert keys(harness) == {**{name: ["late"] for name in STATES}, "kept": sorted([*everyone, "late"])}
        harness.advance_time(TTL_MS)
        assert keys(harness) == {**{name: [] for name in STATES}, "kept": sorted([*everyone, "late"])}


def play(seed: int, *, kills: bool, store: Any) -> tuple[list[Any], list[Any]]:
    """Results, and the keys in state, after each of some rounds; each has a time in which tasks have nothing to do but to
    clean up."""
    script, dice = random.Random(seed), random.Random(seed)
    found = []
    with JobHarness(workers=2, key_groups=4, seed=seed, state_store=store) as harness:
        source, output = draw(harness)
        for _ in range(12):
            for _ in range(script.randrange(8)):
                source.send((f"k{script.randrange(10)}", script.randrange(100)))
            harness.run()
            for _ in range(3):
                if kills:
                    trouble(harness, dice)
                harness.advance_time(script.choice((100, 400, TTL_MS)))
            harness.run()
            found.append(keys(harness))
        if kills:
            assert harness.crashes >= 5
        return committed(output), found


@pytest.mark.parametrize("store", ["memory", "rocks"])
@pytest.mark.parametrize("seed", range(3))
def test_killed_while_it_cleans_up_it_is_equal_to_a_clean_run(seed: int, store: Any) -> None:
    clean = play(seed, kills=False, store="memory")
    assert any(len(one["value"]) < len(one["kept"]) for one in clean[1])
    assert any(one["value"] for one in clean[1])
    assert play(seed, kills=True, store=store) == clean
