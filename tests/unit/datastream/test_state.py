"""Every kind of state in a job, as a user writes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import state as path
from kstreampy.datastream.functions import (
    AggregateFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from kstreampy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.errors import JobError
from tests.unit.datastream.running import results, stream_of


@dataclass
class Seen:
    count: int = 0
    last: str = ""


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class AllOfThem(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Seen))
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))
        self.most = runtime_context.get_reducing_state(ReducingStateDescriptor("most", max, Types.LONG()))
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), pair))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        name, number = value
        seen = self.seen.value() or Seen()
        seen.count += 1
        seen.last = name
        self.seen.update(seen)
        self.values.add(number)
        self.counts[number] = (self.counts[number] or 0) + 1
        self.most.add(number)
        self.mean.add(number)
        yield name, seen.count, list(self.values), dict(self.counts.items()), self.most.get(), self.mean.get()


def test_a_process_function_with_every_kind() -> None:
    stream = stream_of([("a", 1), ("b", 5), ("a", 3), ("a", 1), ("b", 1)])
    found = results(stream.key_by(lambda value: value[0]).process(AllOfThem()))
    assert [row for row in found if row[0] == "a"] == [
        ("a", 1, [1], {1: 1}, 1, 1.0),
        ("a", 2, [1, 3], {1: 1, 3: 1}, 3, 2.0),
        ("a", 3, [1, 3, 1], {1: 2, 3: 1}, 3, 5 / 3),
    ]
    assert [row for row in found if row[0] == "b"][-1] == ("b", 2, [5, 1], {5: 1, 1: 1}, 5, 3.0)


class Distinct(FlatMapFunction):
    """State in a function that is no process function."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.known = runtime_context.get_map_state(MapStateDescriptor("known", Types.LONG(), Types.BOOLEAN()))

    def flat_map(self, value: tuple[str, int]) -> Iterable[Any]:
        if value[1] not in self.known:
            self.known.put(value[1], True)
            yield value


def test_a_flat_map_with_a_map() -> None:
    values = [("a", 1), ("a", 1), ("b", 1), ("a", 2), ("b", 1)]
    assert sorted(results(stream_of(values).key_by(lambda value: value[0]).flat_map(Distinct()))) == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]


def test_state_without_keys_is_refused() -> None:
    with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
        results(stream_of([("a", 1)]).flat_map(Distinct()))


class TooEarly(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_list_state(ListStateDescriptor("l", Types.LONG())).add(1)

    def map(self, value: Any) -> Any:
        return value


def test_state_before_the_first_record_is_refused() -> None:
    with pytest.raises(JobError, match="no key: state can be used only while a record or timer"):
        results(stream_of([1]).key_by(lambda value: value).map(TooEarly()))


def test_pyflinks_names_are_under_pyflinks_path() -> None:
    for kind in ("Value", "List", "Map", "Reducing", "Aggregating"):
        assert issubclass(getattr(path, f"{kind}State"), path.State)
        assert issubclass(getattr(path, f"{kind}StateDescriptor"), path.StateDescriptor)
    assert issubclass(path.MergingState, path.AppendingState)
    assert path.StateTtlConfig.new_builder


def test_descriptors_have_pyflinks_types() -> None:
    element, key = Types.LONG(), Types.STRING()
    assert ListStateDescriptor("l", element).type_info == Types.LIST(element)
    assert MapStateDescriptor("m", key, element).type_info == Types.MAP(key, element)
    assert ListStateDescriptor(name="l", elem_type_info=element).get_name() == "l"
    assert MapStateDescriptor(name="m", key_type_info=key, value_type_info=element).get_name() == "m"
    for descriptor in (
        lambda: ListStateDescriptor("l", int),
        lambda: MapStateDescriptor("m", str, element),
        lambda: MapStateDescriptor("m", key, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(JobError, match=r"state '[lm]': its type must be one of Types"):
            descriptor()
