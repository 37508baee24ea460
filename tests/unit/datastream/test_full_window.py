"""`full_window_partition`, by key and not: against plain Python, over crashes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common import Order, Row, Types
from kstreampy.datastream import (
    AggregateFunction,
    DataStream,
    KeySelector,
    MapPartitionFunction,
    PartitionWindowedStream,
    ReduceFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.errors import RecordError
from kstreampy.operators import full_window
from kstreampy.testing import JobHarness
from tests.unit.datastream.crashing import results_under_crashes
from tests.unit.datastream.running import environment, results, stream_of
from tests.unit.graph.drawing import compiled, from_topic, to_topic

PAIRS = [("a", 3), ("b", 1), ("a", 1), ("c", 2), ("b", 5), ("a", 2)]


def by_key(values: list[Any] = PAIRS) -> PartitionWindowedStream:
    return stream_of(values).key_by(lambda pair: pair[0]).full_window_partition()


def whole(values: list[Any]) -> PartitionWindowedStream:
    return stream_of(values).full_window_partition()


class Average(AggregateFunction):
    """Its accumulator is a tuple, which cannot be changed in place."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_map_partition_of_keys() -> None:
    found = results(by_key().map_partition(lambda pairs: [[value for _, value in pairs]]))
    assert sorted(found) == [[1, 5], [2], [3, 1, 2]]


def test_map_partition_of_the_task() -> None:
    def numbered(values: Iterable[str]) -> Iterator[tuple[int, str]]:
        yield from enumerate(values)

    assert results(whole(["x", "y"]).map_partition(numbered)) == [(0, "x"), (1, "y")]


def test_map_partition_may_give_nothing_and_read_little() -> None:
    assert results(whole([1, 2]).map_partition(lambda values: None)) == []
    assert results(whole([1, 2]).map_partition(lambda values: [next(iter(values))])) == [1]


class Opened(MapPartitionFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.name = runtime_context.get_task_name()

    def map_partition(self, values: Iterable[Any]) -> Iterable[Any]:
        return [(self.name, sum(values))]


def test_map_partition_with_a_function_object_and_a_type() -> None:
    assert results(whole([1, 2]).map_partition(Opened()).name("sums")) == [("sums", 3)]
    assert results(whole([2**31]).map_partition(list, Types.INT())) == [-(2**31)]


def test_results_that_change_in_place_are_what_they_were() -> None:
    def growing(values: Iterable[int]) -> Iterator[list[int]]:
        seen: list[int] = []
        for value in values:
            seen.append(value)
            yield seen

    assert results(whole([1, 2, 3]).map_partition(growing)) == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("field", "order", "expected"),
    [
        (0, Order.ASCENDING, [("a", 3), ("a", 1), ("a", 2), ("b", 1), ("b", 5), ("c", 2)]),
        (1, Order.DESCENDING, [("b", 5), ("a", 3), ("c", 2), ("a", 2), ("b", 1), ("a", 1)]),
        ("f1", Order.ASCENDING, [("b", 1), ("a", 1), ("c", 2), ("a", 2), ("a", 3), ("b", 5)]),
        (lambda pair: -pair[1], Order.ASCENDING, [("b", 5), ("a", 3), ("c", 2), ("a", 2), ("b", 1), ("a", 1)]),
    ],
)
def test_sort_partition_of_the_task(field: Any, order: Order, expected: list[Any]) -> None:
    assert results(whole(PAIRS).sort_partition(field, order)) == expected


class Second(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[1]


def test_sort_partition_of_keys() -> None:
    found = results(by_key().sort_partition(Second(), Order.DESCENDING))
    assert [pair for pair in found if pair[0] == "a"] == [("a", 3), ("a", 2), ("a", 1)]
    assert sorted(found) == sorted(PAIRS)


def test_sort_partition_takes_field_0_of_values_without_fields() -> None:
    assert results(whole([3, 1, 2]).sort_partition(0)) == [1, 2, 3]


def test_reduce() -> None:
    found = results(by_key().reduce(lambda one, two: (one[0], one[1] + two[1])))
    assert sorted(found) == [("a", 6), ("b", 6), ("c", 2)]
    assert results(whole([1, 2, 3]).reduce(max)) == [3]
    assert results(whole([7]).reduce(lambda one, two: 1 / 0)) == [7]
    typed = stream_of([1, 2], Types.SHORT()).full_window_partition()
    assert results(typed.reduce(lambda one, two: one + two + 32_767)) == [-32_766]
    rows = stream_of([(n,) for n in (1, 2, 3)], Types.ROW_NAMED(["n"], [Types.INT()])).full_window_partition()
    assert results(rows.reduce(lambda one, two: (one.n + two.n,))) == [Row(n=6)]


def test_aggregate_keeps_what_add_returns() -> None:
    assert sorted(results(by_key().aggregate(Average()))) == [2.0, 2.0, 3.0]
    assert results(whole(PAIRS).aggregate(Average())) == [14 / 6]


CALLS: dict[str, Callable[[PartitionWindowedStream], DataStream]] = {
    "map_partition": lambda window: window.map_partition(lambda values: [list(values)]),
    "sort_partition": lambda window: window.sort_partition(0),
    "reduce": lambda window: window.reduce(lambda one, two: one),
    "aggregate": lambda window: window.aggregate(Average()),
}


@pytest.mark.parametrize("call", CALLS)
def test_tasks_without_elements_give_nothing(call: str) -> None:
    assert results(CALLS[call](stream_of(PAIRS[:1]).global_().full_window_partition())) in (
        [PAIRS[:1]],
        PAIRS[:1],
        [3.0],
    )
    assert results(CALLS[call](stream_of(PAIRS).filter(lambda value: False).full_window_partition())) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("keyed", [True, False])
def test_nothing_comes_before_the_end_and_all_before_the_watermark(call: str, keyed: bool) -> None:
    with JobHarness() as harness:
        source = harness.source("pairs")
        stream = harness.env.from_source(source, source.watermarks(), "pairs")
        window = (stream.key_by(lambda pair: pair[0]) if keyed else stream).full_window_partition()
        found = harness.collect(CALLS[call](window).uid("full"))
        for number, pair in enumerate(PAIRS):
            source.send(pair, timestamp=number)
            source.watermark(number)
        harness.run()
        assert found.values() == []
        assert harness.watermark("full") == 5
        source.end()
        harness.run()
        assert harness.ended
        assert len(found.values()) >= (3 if keyed else 1)


@pytest.mark.parametrize("keyed", [True, False])
def test_the_elements_are_state_and_freed_at_the_end(keyed: bool) -> None:
    with JobHarness(key_groups=1) as harness:
        source = harness.source("pairs")
        stream = harness.env.from_source(source, source.watermarks(), "pairs")
        window = (stream.key_by(lambda pair: pair[0]) if keyed else stream).full_window_partition()
        harness.collect(window.sort_partition(1).uid("full"))
        source.send_all(PAIRS)
        harness.run()
        keys = ["a", "b", "c"] if keyed else [0]
        assert sorted(harness.state_keys("full", "partition")) == keys
        kept = [pair for key in keys for pair in harness.state("full", "partition", key)]
        assert sorted(kept) == sorted(PAIRS)


def test_many_elements_are_read_and_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_window, "_MOST_HELD", 7)
    values = list(range(25_000))
    assert results(whole(values).map_partition(lambda found: found)) == values


def test_elements_may_be_none() -> None:
    assert results(whole([None, 1, None]).map_partition(list)) == [None, 1, None]


def test_by_default_the_order_is_ascending() -> None:
    assert results(whole([2, 1]).sort_partition("*")) == [1, 2]


def test_what_is_refused() -> None:
    window = whole([1])
    with pytest.raises(ValueError, match=r"^The field mustn't be less than zero\.$"):
        window.sort_partition(-1, Order.ASCENDING)
    for order in (Order.NONE, Order.ANY):
        with pytest.raises(ValueError, match="has no direction"):
            window.sort_partition(0, order)
    with pytest.raises(TypeError, match=r"the order is Order\.ASCENDING or Order\.DESCENDING, not None"):
        window.sort_partition(0, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        window.sort_partition(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        window.map_partition(Opened)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        window.reduce("sum")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="aggregate takes an AggregateFunction"):
        window.aggregate(max)  # type: ignore[arg-type]


class Failing(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        raise ZeroDivisionError("no")


def test_errors_name_the_step_the_function_and_the_record_or_key() -> None:
    with pytest.raises(RecordError, match=r"reduce_partition-1: ZeroDivisionError: no in Failing .*value \('a', 1\)"):
        results(by_key().reduce(Failing()))
    with pytest.raises(RecordError, match=r"sort_partition-1: TypeError: .* in field 1, at the end .* of the key 'a'"):
        results(by_key([("a", 1), ("a", "x")]).sort_partition(1))
    with pytest.raises(
        RecordError, match=r"map_partition-1: ZeroDivisionError: .*<lambda> .*, at the end of the input"
    ):
        results(whole([1]).map_partition(lambda values: 1 // 0))  # type: ignore[arg-type]


def test_an_unbounded_input_is_warned_of() -> None:
    env = environment()
    from_topic(env).full_window_partition().reduce(max).uid("most").sink_to(to_topic())
    (warning,) = compiled(env).warnings()
    assert "reduce_partition 'most' gives its results when its input ends, and this input never does" in warning
    env = environment()
    from_topic(env, bounded=True).full_window_partition().reduce(max).uid("most").sink_to(to_topic())
    assert compiled(env).warnings() == []


def test_the_plan_shows_it() -> None:
    env = environment()
    from_topic(env, bounded=True).key_by(len).full_window_partition().sort_partition(0).uid("sorted").sink_to(
        to_topic()
    )
    text = compiled(env).explain("text")
    assert "sort_partition sorted [state]  field 0" in text
    assert "state in app-sorted-changelog" in text


def test_types() -> None:
    stream = stream_of([1], Types.INT())
    assert stream.full_window_partition().reduce(max).get_type() == Types.INT()
    assert stream.full_window_partition().sort_partition(0).get_type() == Types.INT()
    assert stream.full_window_partition().map_partition(list, Types.STRING()).get_type() == Types.STRING()
    kept = Types.TUPLE([Types.LONG(), Types.LONG()])
    assert results(whole(PAIRS[:1]).aggregate(Average(), kept, Types.DOUBLE())) == [3.0]


pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-5, 5)), max_size=30)


@settings(max_examples=25, deadline=None)
@given(pairs, st.sampled_from(["map_partition", "sort_partition", "reduce", "aggregate"]), st.booleans())
def test_as_plain_python(values: list[tuple[str, int]], call: str, keyed: bool) -> None:
    groups: dict[str, list[tuple[str, int]]] = {}
    for pair in values:
        groups.setdefault(pair[0] if keyed else "all", []).append(pair)

    def total(group: list[tuple[str, int]]) -> tuple[str, int]:
        return group[0][0], sum(value for _, value in group)

    expected = {
        "map_partition": [[*group] for group in groups.values()],
        "sort_partition": [pair for group in groups.values() for pair in sorted(group, key=lambda pair: pair[1])],
        "reduce": [total(group) for group in groups.values()],
        "aggregate": [total(group)[1] / len(group) for group in groups.values()],
    }[call]
    calls: dict[str, Callable[[PartitionWindowedStream], DataStream]] = {
        **CALLS,
        "sort_partition": lambda window: window.sort_partition(1),
        "reduce": lambda window: window.reduce(lambda one, two: (one[0], one[1] + two[1])),
    }
    found = results(calls[call](by_key(values) if keyed else whole(values)))
    if call == "sort_partition" and keyed:
        of_keys: dict[str, list[Any]] = {}
        for pair in found:
            of_keys.setdefault(pair[0], []).append(pair)
        assert {key: sorted(group, key=lambda pair: pair[1]) for key, group in groups.items()} == of_keys
    else:
        assert sorted(found) == sorted(expected)  # type: ignore[type-var]


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("seed", range(4))
def test_exactly_once_over_crashes(call: str, keyed: bool, seed: int) -> None:
    values = [("abcdefg"[number % 7], number) for number in range(120)]

    def draw(env: StreamExecutionEnvironment) -> DataStream:
        stream = env.from_collection(values)
        return CALLS[call]((stream.key_by(lambda pair: pair[0]) if keyed else stream).full_window_partition()).uid("f")

    found = results_under_crashes(draw, seed)
    groups = [[pair for pair in values if pair[0] == key] for key in "abcdefg"] if keyed else [values]
    expected: dict[str, list[Any]] = {
        "map_partition": groups,
        "sort_partition": values,
        "reduce": [group[0] for group in groups],
        "aggregate": [sum(value for _, value in group) / len(group) for group in groups],
    }
    assert sorted(found) == sorted(expected[call])
