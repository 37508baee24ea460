"""Placings as they are drawn and run: what begins a stage, where records go, what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import DataStream, MapFunction, Partitioner, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness
from tests.unit.datastream.crashing import results_under_crashes
from tests.unit.datastream.running import environment, results, stream_of
from tests.unit.graph.drawing import compiled, from_topic, shape, to_topic

PLACINGS: dict[str, Callable[[DataStream], DataStream]] = {
    "shuffle": lambda stream: stream.shuffle(),
    "rebalance": lambda stream: stream.rebalance(),
    "rescale": lambda stream: stream.rescale(),
    "global": lambda stream: stream.global_(),
    "broadcast": lambda stream: stream.broadcast(),
    "partition_custom": lambda stream: stream.partition_custom(lambda key, n: key % n, lambda value: value),
}


class Where(MapFunction):
    """The task that each record came to."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.task = runtime_context.get_index_of_this_subtask()
        self.tasks = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value: Any) -> Any:
        return self.task, value


def placed(stream: DataStream) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for task, value in results(stream.map(Where())):
        found.setdefault(task, []).append(value)
    return found


def numbers(count: int = 24) -> DataStream:
    env = environment()
    env.set_max_parallelism(4)
    return env.from_collection(list(range(count)))


@pytest.mark.parametrize("kind", PLACINGS)
def test_the_operator_behind_a_placing_begins_a_stage(kind: str) -> None:
    env = environment()
    PLACINGS[kind](from_topic(env).map(int)).map(str).sink_to(to_topic())
    plan = compiled(env)
    assert shape(plan) == {"source-1": [["map", "route"]], "map-2": [["map", "sink"]]}
    assert plan.stage("map-2").partitions == 12
    assert f"route {kind}-1 → app-map-2-repartition" in plan.explain("text")


def test_rebalance_gives_all_tasks_as_many() -> None:
    assert placed(numbers().rebalance()) == {task: list(range(task, 24, 4)) for task in range(4)}


def test_rescale_of_one_task_is_rebalance() -> None:
    assert placed(numbers().rescale()) == {task: list(range(task, 24, 4)) for task in range(4)}


def test_rescale_keeps_to_a_share_of_the_tasks() -> None:
    with JobHarness(partitions=2, key_groups=4) as harness:
        harness.create_topic("orders", 2)
        found = harness.collect(from_topic(harness.env).rescale().map(Where()))
        for number in range(8):
            harness.topic("orders", value="str").send(str(number), partition=number % 2)
        harness.run()
        for task, value in found.values():
            assert task // 2 == int(value) % 2
        assert {task for task, _ in found.values()} == {0, 1, 2, 3}


def test_shuffle_loses_nothing() -> None:
    found = placed(numbers(400).shuffle())
    assert sorted(value for values in found.values() for value in values) == list(range(400))
    assert set(found) == {0, 1, 2, 3}


def test_global_is_the_first_task() -> None:
    assert placed(numbers().global_()) == {0: list(range(24))}


def test_broadcast_is_every_task() -> None:
    assert placed(numbers(5).broadcast()) == {task: list(range(5)) for task in range(4)}


class Last(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        return num_partitions - 1 if key else 0


def test_custom_goes_where_the_partitioner_says() -> None:
    found = placed(numbers().partition_custom(Last(), lambda value: value > 20))
    assert found == {0: list(range(21)), 3: [21, 22, 23]}


@pytest.mark.parametrize("field", [1, "f1"])
def test_custom_by_a_field_is_deprecated_and_works(field: int | str) -> None:
    env = environment()
    env.set_max_parallelism(4)
    stream = env.from_collection([("a", 1), ("b", 2)])
    with pytest.warns(DeprecationWarning, match="partition_custom by a position or field name"):
        by_field = stream.partition_custom(lambda key, count: key, field)
    assert placed(by_field) == {1: [("a", 1)], 2: [("b", 2)]}


@pytest.mark.parametrize("bad", [(None, len), ("no", len), (Last, len), (Last(), None), (Last(), 1.5)])
def test_custom_refuses_what_is_no_function(bad: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError):
        stream_of([1]).partition_custom(*bad)


def test_a_place_that_is_none_fails_the_job() -> None:
    with pytest.raises(RecordError, match=r"partition_custom-1: .* returned 12 for the key 1: .* 0 to 11"):
        results(stream_of([1]).partition_custom(lambda key, count: count, lambda value: value).map(str))


def test_forward_is_no_cut() -> None:
    env = environment()
    from_topic(env).forward().map(int).forward().map(str).sink_to(to_topic())
    assert shape(compiled(env)) == {"source-1": [["map", ["map", "sink"]]]}
    assert results(stream_of([1, 2]).forward()) == [1, 2]


@pytest.mark.parametrize("first", PLACINGS)
@pytest.mark.parametrize("last", PLACINGS)
def test_the_last_of_several_placings_counts(first: str, last: str) -> None:
    env = environment()
    PLACINGS[last](PLACINGS[first](from_topic(env))).map(str).sink_to(to_topic())
    plan = compiled(env)
    (route,) = plan.stage("source-1").chain
    assert len(plan.stages) == 2
    assert route.step.uid.startswith(last)


@pytest.mark.parametrize("first", PLACINGS)
def test_forward_withdraws_a_placing_and_key_by_replaces_it(first: str) -> None:
    env = environment()
    PLACINGS[first](from_topic(env)).forward().map(str).sink_to(to_topic())
    assert len(compiled(env).stages) == 1
    env = environment()
    PLACINGS[first](from_topic(env)).key_by(len).reduce(max).uid("most").sink_to(to_topic())
    plan = compiled(env)
    assert len(plan.stages) == 2
    assert plan.stage("source-1").chain[0].step.uid == "key_by-1"


@pytest.mark.parametrize("kind", [*PLACINGS, "forward", "broadcast_state"])
def test_streams_by_key_cannot_be_placed(kind: str) -> None:
    keyed = stream_of([1]).key_by(lambda value: value)
    calls: dict[str, Callable[[DataStream], Any]] = {
        **PLACINGS,
        "forward": lambda stream: stream.forward(),
        "broadcast_state": lambda stream: stream.broadcast(MapStateDescriptor("m", Types.STRING(), Types.STRING())),
    }
    with pytest.raises(JobError, match=r"^Cannot override partitioning for KeyedStream\."):
        calls[kind](keyed)


@pytest.mark.parametrize("kind", PLACINGS)
def test_sinks_and_results_may_follow_directly(kind: str) -> None:
    found = Counter(results(PLACINGS[kind](stream_of([1, 2, 3]))))
    assert found == dict.fromkeys((1, 2, 3), 12 if kind == "broadcast" else 1)
    env = environment()
    PLACINGS[kind](from_topic(env)).print()
    assert shape(compiled(env)) == {"source-1": ["route"], "print-1": ["print"]}


def test_types_and_names_go_along() -> None:
    env = environment()
    stream = env.from_collection([1], Types.INT()).rebalance()
    assert stream.get_type() == Types.INT()
    stream.name("spread")
    stream.map(str).print()
    assert "route spread → app-map-1-repartition" in compiled(env).explain("text")


def test_two_followers_of_a_placing_have_a_topic_each() -> None:
    env = environment()
    spread = from_topic(env).rebalance()
    spread.map(str).sink_to(to_topic())
    spread.filter(bool).sink_to(to_topic("others"))
    assert shape(compiled(env)) == {
        "source-1": ["route", "route"],
        "map-1": [["map", "sink"]],
        "filter-1": [["filter", "sink"]],
    }


@pytest.mark.parametrize("kind", PLACINGS)
@pytest.mark.parametrize("seed", range(3))
def test_exactly_once_over_crashes(kind: str, seed: int) -> None:
    def draw(env: StreamExecutionEnvironment) -> DataStream:
        return PLACINGS[kind](env.from_collection(list(range(80)))).map(Where())

    found = results_under_crashes(draw, seed)
    copies = 3 if kind == "broadcast" else 1
    assert Counter(value for _, value in found) == dict.fromkeys(range(80), copies)
    by_task: dict[int, list[int]] = {}
    for task, value in found:
        by_task.setdefault(task, []).append(value)
    assert all(values == sorted(values) for values in by_task.values())
