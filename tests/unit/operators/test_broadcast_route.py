"""The route of broadcast streams: packed once, sent to every partition."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.operators import route
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.route import BroadcastRouteOperator
from kstreampy.serde.packed import Mark, unpack
from kstreampy.serde.typed import codec_for
from tests.unit.operators.standin import NONE, FakeOutlet, batch, context


def routed(partitions: int = 3, type_info: Any = None, outlet: Any = None, **task: Any) -> tuple[Any, TaskContext]:
    operator = BroadcastRouteOperator("to all", "to", type_info)
    opened = context(outlet=outlet or FakeOutlet(), partition_counts={"to": partitions}, **task)
    operator.open(opened)
    return operator, opened


def produced(task: TaskContext) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for _, value, key, partition, *_ in task.outlet.produced:  # type: ignore[attr-defined]  # a FakeOutlet
        assert key is None
        found.setdefault(partition, []).append(value)
    return found


def read(data: bytes, type_info: Any = None) -> Any:
    return unpack(data, codec_for(type_info))


def test_every_partition_gets_everything_in_order() -> None:
    operator, task = routed()
    operator.process(batch(1, 2, stamps=[10, NONE], headers=[[("h", b"1")], None]))
    operator.process(batch(3, stamps=[5]))
    operator.flush()
    found = produced(task)
    assert sorted(found) == [0, 1, 2]
    assert found[0] == found[1] == found[2]
    (message,) = [read(data) for data in found[0]]
    assert message.batch.values == [1, 2, 3]
    assert message.batch.timestamps == [10, NONE, 5]
    assert message.batch.headers == [[("h", b"1")], None, None]


def test_each_value_is_encoded_once() -> None:
    operator, _ = routed(partitions=50)
    calls = []
    encode: Any = operator.codec.encode_many

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(type(operator.codec), name)

        def encode_many(self, values: list[Any]) -> Any:
            calls.append(list(values))
            return encode(values)

    operator.codec = Counting()
    operator.process(batch(1, 2))
    operator.flush()
    assert calls == [[1, 2]]


def test_a_full_batch_goes_at_once() -> None:
    operator, task = routed()
    for _ in range(route.MAX_RECORDS // 100):
        operator.process(batch(*range(100)))
    assert {partition: len(data) for partition, data in produced(task).items()} == {0: 1, 1: 1, 2: 1}


def test_the_watermark_idleness_and_the_end_reach_every_partition_once() -> None:
    operator, task = routed(stage="rules", partition=4)
    operator.advance(7)
    operator.flush()
    operator.set_idle(True)
    operator.flush()
    operator.flush()
    operator.finish()
    marks = [[message.marks for message in map(read, data)] for data in produced(task).values()]
    expected = [
        [Mark("rules", 4, 7, False, False)],
        [Mark("rules", 4, 7, False, True)],
        [Mark("rules", 4, 7, True, True)],
    ]
    assert marks == [expected] * 3


def test_a_full_queue_is_waited_for() -> None:
    operator, task = routed(partitions=5, outlet=FakeOutlet(room=2))
    operator.process(batch("x"))
    operator.flush()
    assert sorted(produced(task)) == [0, 1, 2, 3, 4]
    assert task.outlet.waits == 2  # type: ignore[attr-defined]


def test_records_are_counted_once() -> None:
    operator, task = routed(type_info=Types.LONG())
    operator.process(batch(1, 2, 3))
    operator.flush()
    assert task.records_out == 3


@pytest.mark.parametrize("partitions", [1, 12])
def test_any_number_of_partitions(partitions: int) -> None:
    operator, task = routed(partitions=partitions)
    operator.process(batch("x"))
    operator.flush()
    assert len(produced(task)) == partitions
