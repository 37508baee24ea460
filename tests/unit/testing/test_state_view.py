"""Looking into a job's state and timers: what is committed, and only that."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.time import Time
from kstreampy.datastream import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction, RuntimeContext
from kstreampy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from kstreampy.datastream.window import TimeWindow, TumblingEventTimeWindows
from kstreampy.errors import JobError
from kstreampy.testing import HarnessSource, JobHarness
from tests.unit.testing.jobs import SO_FAR, order, spending, spent


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


VALUE = ValueStateDescriptor("value", Types.LONG())
LIST = ListStateDescriptor("list", Types.LONG())
MAP = MapStateDescriptor("map", Types.LONG(), Types.STRING())
SUM = ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())
MEAN = AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))


class Everything(KeyedProcessFunction):
    """Keeps a pair's second in every kind of state; 0 clears them all."""

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        described = [VALUE, LIST, MAP, SUM, MEAN]
        if self.ttl is not None:
            described = [descriptor_with(descriptor, self.ttl) for descriptor in described]
        value, listed, mapped, total, mean = described
        self.value = runtime_context.get_state(value)
        self.list = runtime_context.get_list_state(listed)
        self.map = runtime_context.get_map_state(mapped)
        self.sum = runtime_context.get_reducing_state(total)
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: tuple[Any, int], ctx: KeyedProcessFunction.Context) -> None:
        number = value[1]
        if number == 0:
            for state in (self.value, self.list, self.map, self.sum, self.mean):
                state.clear()
            return
        self.value.update(number)
        self.list.add(number)
        self.map.put(number, "x" * number)
        self.sum.add(number)
        self.mean.add(number)


def descriptor_with(descriptor: Any, ttl: StateTtlConfig) -> Any:
    copied = copy.copy(descriptor)
    copied.enable_time_to_live(ttl)
    return copied


def everything(harness: JobHarness, ttl: StateTtlConfig | None = None) -> HarnessSource:
    source = harness.source("pairs")
    pairs = harness.env.from_source(source, source.watermarks(), "pairs")
    pairs.key_by(lambda pair: pair[0]).process(Everything(ttl)).uid("all").print()
    return source


WANTED = {"value": 4, "list": [3, 4], "map": {3: "xxx", 4: "xxxx"}, "sum": 7, "mean": 3.5}
EMPTY: dict[str, Any] = {"value": None, "list": [], "map": {}, "sum": None, "mean": None}


class TestState:
    @pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP, SUM, MEAN])
    @pytest.mark.parametrize("key", ["a", 1, 1.5, ("a", 2), b"raw"])
    def test_every_kind(self, descriptor: Any, key: Any) -> None:
        name = descriptor.get_name()
        with JobHarness() as harness:
            pairs = everything(harness)
            harness.run()
            assert harness.state("all", descriptor, key) == EMPTY[name]
            pairs.send_all([(key, 3), ("other", 9), (key, 4)])
            harness.run()
            assert harness.state("all", descriptor, key) == WANTED[name]
            assert harness.state("all", name, key) == ((7, 2) if name == "mean" else WANTED[name])
            assert sorted(map(repr, harness.state_keys("all", name))) == sorted(map(repr, [key, "other"]))
            pairs.send((key, 0))
            harness.run()
            assert harness.state("all", descriptor, key) == EMPTY[name]
            assert harness.state_keys("all", name) == ["other"]

    def test_only_what_is_committed(self) -> None:
        with JobHarness() as harness:
            pairs = everything(harness)
            pairs.send(("a", 3))
            harness.run()
            pairs.send(("a", 4))
            harness.run(commit=False)
            assert harness.state("all", "value", "a") == 3
            harness.run()
            assert harness.state("all", "value", "a") == 4

    def test_looking_changes_nothing(self) -> None:
        """What is given may be changed, and a task's own state is not touched."""
        with JobHarness() as harness:
            pairs = everything(harness)
            pairs.send_all([("a", 3), ("a", 4)])
            harness.run()
            harness.state("all", "list", "a").append(99)
            harness.state("all", "map", "a")[99] = "y"
            before = harness._simulation.cluster.version
            assert harness.state("all", "list", "a") == [3, 4]
            assert harness._simulation.cluster.version == before

    @pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
    def test_while_workers_are_down_and_after_the_end(self, guarantee: Any) -> None:
        with JobHarness(lambda env: spending(env, bounded=True), guarantee=guarantee) as harness:
            harness.topic("orders").send_all(map(order, range(10)))
            harness.run()
            assert harness.ended
            assert harness.state("spending", SO_FAR, "c1") == (2, spent(10)["c1"][-1]["amount"])

    @pytest.mark.parametrize("descriptor", [VALUE, LIST, MAP, SUM, MEAN])
    def test_what_has_expired(self, descriptor: Any) -> None:
        ttl = StateTtlConfig.new_builder(Time.seconds(1)).build()
        with JobHarness() as harness:
            pairs = everything(harness, ttl)
            pairs.send_all([("a", 3), ("a", 4)])
            harness.run()
            described = descriptor_with(descriptor, ttl)
            assert harness.state("all", described, "a") == WANTED[descriptor.get_name()]
            harness.advance_time(999)
            assert harness.state("all", described, "a") == WANTED[descriptor.get_name()]
            if descriptor is not MEAN:
                assert harness.state("all", descriptor.get_name(), "a") == WANTED[descriptor.get_name()]
            harness.advance_time(1)
            assert harness.state("all", described, "a") == EMPTY[descriptor.get_name()]

    def test_per_window(self) -> None:
        with JobHarness() as harness:
            source = harness.source("pairs")
            pairs = harness.env.from_source(source, source.watermarks(), "pairs")

            class Seen(ProcessWindowFunction):
                def process(self, key: Any, context: Any, elements: Any) -> Any:
                    context.window_state().get_state(VALUE).update(len(list(elements)))
                    return []

                def clear(self, context: Any) -> None: ...

            keyed = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Time.seconds(1)))
            keyed.allowed_lateness(5_000).process(Seen()).uid("seen").print()
            source.send(("a", 1), timestamp=10)
            source.send(("a", 2), timestamp=20)
            source.watermark(999)
            harness.run()
            assert harness.state("seen", VALUE, "a", window=TimeWindow(0, 1000)) == 2
            assert harness.state("seen", VALUE, "a", window=TimeWindow(1000, 2000)) is None
            assert harness.state("seen", VALUE, "a") is None


class TestWhatIsNotThere:
    def test_before_anything_ran(self) -> None:
        with JobHarness(spending) as harness:
            harness.topic("orders")
            for look in (lambda: harness.state("spending", "so far", "c0"), lambda: harness.timers("spending")):
                with pytest.raises(JobError, match="operator 'spending' has no state yet: let the harness run first"):
                    look()
            harness.run()
            assert harness.state("spending", "so far", "c0") is None

    def test_an_unknown_name(self) -> None:
        with JobHarness(spending) as harness:
            harness.run()
            with pytest.raises(JobError, match="operator 'spending' has declared no state 'sofar': it has 'so far'"):
                harness.state("spending", "sofar", "c0")
            with pytest.raises(JobError, match="no operator 'spendin' with state in this job: it has 'spending'"):
                harness.state("spendin", "so far", "c0")

    def test_another_type(self) -> None:
        with JobHarness(spending) as harness:
            harness.topic("orders").send(order(0))
            harness.run()
            with pytest.raises(JobError, match="'spending/so far'"):
                harness.state("spending", ValueStateDescriptor("so far", Types.STRING()), "c0")

    def test_a_key_that_cannot_be_one(self) -> None:
        with JobHarness(spending) as harness:
            harness.run()
            with pytest.raises(TypeError, match="key is None"):
                harness.state("spending", "so far", None)

    def test_timers_of_no_domain(self) -> None:
        with JobHarness(spending) as harness, pytest.raises(JobError, match="'event' or 'processing'"):
            harness.timers("spending", "wall")  # type: ignore[arg-type]

    def test_timers_of_an_operator_that_sets_none(self) -> None:
        with JobHarness(spending) as harness:
            harness.run()
            assert harness.timers("spending") == []


def test_metrics() -> None:
    with JobHarness(spending, workers=2) as harness:
        harness.topic("orders").send_all(map(order, range(10)))
        harness.run()
        found = harness.metrics()
        assert found['kstreampy_records_in_total{stage="orders"}'] == 10
        assert found['kstreampy_records_in_total{stage="spending"}'] == 10
        assert all(name.startswith("kstreampy_") for name in found)
