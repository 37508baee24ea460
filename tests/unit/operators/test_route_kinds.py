"""Where each placing sends its records: golden places, order, columns, errors."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.errors import JobError, RecordError
from kstreampy.operators.function import Partitioner, RuntimeContext
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.partition_route import (
    CustomRouteOperator,
    GlobalRouteOperator,
    RebalanceRouteOperator,
    RescaleRouteOperator,
    ShuffleRouteOperator,
)
from kstreampy.operators.route import RouteOperator
from kstreampy.serde.batch import MAX_WATERMARK, Batch
from tests.unit.operators.standin import FakeOutlet, batch, context
from tests.unit.operators.test_routing import received


def opened(make: Any, *, to: int = 4, **task: Any) -> tuple[RouteOperator, TaskContext]:
    operator = make("place", "to", None)
    made = context(outlet=FakeOutlet(), partition_counts={"to": to}, **task)
    operator.open(made)
    return operator, made


def places(task: TaskContext) -> dict[int, list[Any]]:
    """Partition → values, in order."""
    return {
        partition: [value for message in messages for value in message.batch.values]
        for partition, messages in received(task).items()
        if any(message.batch.values for message in messages)
    }


def custom(partition: Any, select: Any = lambda value: value) -> Any:
    return lambda step, topic, type_info: CustomRouteOperator(step, topic, type_info, partition, select)


def test_rebalance_goes_round_record_by_record_beginning_with_the_tasks_own() -> None:
    operator, task = opened(RebalanceRouteOperator, partition=6, partitions=8)
    operator.process(batch(*range(6)))
    operator.process(batch(6))
    operator.process(batch())
    operator.process(batch(7, 8))
    operator.flush()
    assert places(task) == {2: [0, 4, 8], 3: [1, 5], 0: [2, 6], 1: [3, 7]}


@pytest.mark.parametrize(
    ("number", "tasks", "expected"),
    [
        (0, 2, {0: [0, 2], 1: [1, 3]}),
        (1, 2, {3: [0, 2], 2: [1, 3]}),
        (5, 8, {2: [0, 1, 2, 3]}),
        (7, 8, {3: [0, 1, 2, 3]}),
    ],
)
def test_rescale_keeps_to_the_tasks_share(number: int, tasks: int, expected: dict[int, list[int]]) -> None:
    operator, task = opened(RescaleRouteOperator, partition=number, partitions=tasks)
    operator.process(batch(0, 1, 2, 3))
    operator.flush()
    assert places(task) == expected


@pytest.mark.parametrize(("tasks", "partitions"), [(1, 1), (1, 5), (5, 1), (3, 7), (7, 3), (4, 4), (12, 5)])
def test_rescale_leaves_no_partition_out(tasks: int, partitions: int) -> None:
    found = set()
    for number in range(tasks):
        operator, task = opened(RescaleRouteOperator, to=partitions, partition=number, partitions=tasks)
        operator.process(batch(*range(partitions)))
        operator.flush()
        found |= set(places(task))
    assert found == set(range(partitions))


def test_shuffle_sends_about_as_much_everywhere() -> None:
    operator, task = opened(ShuffleRouteOperator)
    operator.process(batch(*range(4000)))
    operator.flush()
    counts = Counter({partition: len(values) for partition, values in places(task).items()})
    assert set(counts) == {0, 1, 2, 3}
    assert all(800 < count < 1200 for count in counts.values())


def test_shuffle_is_the_same_again_for_the_same_task_only() -> None:
    def found(number: int) -> dict[int, list[Any]]:
        operator, task = opened(ShuffleRouteOperator, partition=number)
        operator.process(batch(*range(40)))
        operator.flush()
        return places(task)

    assert found(0) == found(0)
    assert found(0) != found(1)


def test_global_sends_everything_to_the_first() -> None:
    operator, task = opened(GlobalRouteOperator, partition=3)
    operator.process(batch(1, 2))
    operator.process(batch(3))
    operator.flush()
    assert places(task) == {0: [1, 2, 3]}


def test_custom_asks_the_partitioner_with_key_and_number_of_partitions() -> None:
    asked = []

    def partition(key: str, count: int) -> int:
        asked.append((key, count))
        return len(key) % count

    operator, task = opened(custom(partition, lambda value: value[0]), to=3)
    operator.process(batch(("a", 1), ("bb", 2), ("", 3), ("cccc", 4)))
    operator.flush()
    assert places(task) == {1: [("a", 1), ("cccc", 4)], 2: [("bb", 2)], 0: [("", 3)]}
    assert asked == [("a", 3), ("bb", 3), ("", 3), ("cccc", 3)]


@pytest.mark.parametrize("answer", [-1, 4, None, "1", 1.0, True])
def test_custom_refuses_what_is_no_partition(answer: Any) -> None:
    operator, task = opened(custom(lambda key, count: answer if key == "bad" else 0))
    with pytest.raises(
        RecordError, match=r"place: .*the partitioner returned .* for the key 'bad': .* 0 to 3"
    ) as caught:
        operator.process(batch("good", "bad", "good"))
    assert caught.value.index == 1
    operator.flush()
    assert places(task) == {}


def test_custom_names_the_function_that_failed() -> None:
    operator, _ = opened(custom(lambda key, count: 1 // key))
    with pytest.raises(
        RecordError, match=r"place: ZeroDivisionError: .* in .*<lambda> \(.*test_route_kinds.py.*value 0"
    ):
        operator.process(batch(1, 0))


class Counting(Partitioner):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.append(f"open {runtime_context.get_task_name()}")

    def partition(self, key: Any, num_partitions: int) -> int:
        return 0

    def close(self) -> None:
        self.calls.append("close")


def test_a_partitioner_is_the_tasks_own_and_is_opened_and_closed() -> None:
    given_one = Counting()
    operator, _ = opened(custom(given_one))
    assert isinstance(operator, CustomRouteOperator)
    operator.process(batch(1))
    operator.close()
    operator.close()
    assert operator.owner.calls == ["open place", "close"]
    assert given_one.calls == []


def test_a_value_that_cannot_be_packed_is_shown() -> None:
    operator, _ = opened(GlobalRouteOperator)
    operator.process(batch(object()))
    with pytest.raises(JobError, match="place: a object cannot be sent to the next stage"):
        operator.flush()


KINDS = [
    RebalanceRouteOperator,
    RescaleRouteOperator,
    ShuffleRouteOperator,
    GlobalRouteOperator,
    custom(lambda key, count: key[0] % count),
]


@settings(max_examples=40)
@given(
    st.sampled_from(KINDS),
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=9), max_size=6),
    st.integers(1, 5),
    st.integers(0, 6),
)
def test_every_record_arrives_once_in_order_without_its_key(
    kind: Any, batches: list[list[tuple[int, bool]]], partitions: int, number: int
) -> None:
    operator, task = opened(kind, to=partitions, partition=number, partitions=7)
    count = 0
    for records in batches:
        rows = [(place, count + index) for index, (place, _) in enumerate(records)]
        headers = [
            [("n", str(row[1]).encode())] if flag else None for row, (_, flag) in zip(rows, records, strict=True)
        ]
        some = headers if any(headers) else None
        operator.process(Batch(list(rows), [row[1] for row in rows], ["key"] * len(rows), some))
        count += len(rows)
    operator.advance(MAX_WATERMARK)
    operator.finish()
    arrived = []
    for messages in received(task).values():
        assert messages[-1].marks[0].final
        in_order = []
        for message in messages:
            part = message.batch
            assert part.keys is None
            for value, stamp, pairs in zip(
                part.values, part.timestamps, part.headers or [None] * len(part), strict=True
            ):
                assert value[1] == stamp
                assert pairs in (None, [("n", str(stamp).encode())])
                in_order.append(stamp)
        assert in_order == sorted(in_order)
        arrived += in_order
    assert sorted(arrived) == list(range(count))
    assert len(received(task)) == partitions


def test_routes_of_partial_functions_are_named() -> None:
    operator, _ = opened(custom(partial(lambda base, key, count: base, 9)))
    with pytest.raises(RecordError, match="returned 9"):
        operator.process(batch(1))
