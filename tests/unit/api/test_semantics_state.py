"""What Flink says of keyed state and its time to live, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Duration, Types
from kstreampy.datastream import KeyedProcessFunction, MapFunction
from kstreampy.datastream.functions import AggregateFunction
from kstreampy.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from kstreampy.errors import JobError, RecordError
from tests.unit.api.job import Job, first
from tests.unit.datastream.running import results, stream_of


class Counted(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return f"={accumulator}"

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


TTL = StateTtlConfig.new_builder(Duration.of_millis(10)).build()


class Asked(KeyedProcessFunction):
    """An element is (key, question): `question(state)` gives the result."""

    def __init__(self, descriptor, ttl=None):
        self.descriptor = descriptor
        self.ttl = ttl

    def open(self, runtime_context):
        descriptor = self.descriptor()
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        kind = type(descriptor).__name__.removesuffix("Descriptor")
        self.state = getattr(runtime_context, {
            "ValueState": "get_state",
            "ListState": "get_list_state",
            "MapState": "get_map_state",
            "ReducingState": "get_reducing_state",
            "AggregatingState": "get_aggregating_state",
        }[kind])(descriptor)  # fmt: skip

    def process_element(self, value, ctx):
        yield QUESTIONS[value[1]](self.state)


def value_state():
    return ValueStateDescriptor("state", Types.LONG())


def list_state():
    return ListStateDescriptor("state", Types.LONG())


def map_state():
    return MapStateDescriptor("state", Types.STRING(), Types.LONG())


def reducing_state():
    return ReducingStateDescriptor("state", lambda a, b: a + b, Types.LONG())


def aggregating_state():
    return AggregatingStateDescriptor("state", Counted(), Types.LONG())


QUESTIONS: dict[str, Any] = {
    "value": lambda state: state.value(),
    "update 1": lambda state: state.update(1),
    "update None": lambda state: state.update(None),
    "list": lambda state: list(state.get()),
    "list is iterable": lambda state: state.get() is not None,
    "update []": lambda state: state.update([]),
    "add_all []": lambda state: state.add_all([]),
    "add_all [1, 2]": lambda state: state.add_all([1, 2]),
    "add 1": lambda state: state.add(1),
    "add None": lambda state: state.add(None),
    "get": lambda state: state.get(),
    "get x": lambda state: state.get("x"),
    "put x None": lambda state: state.put("x", None),
    "put x": lambda state: state.put("x", 1),
    "contains x": lambda state: state.contains("x"),
    "is_empty": lambda state: state.is_empty(),
    "clear": lambda state: state.clear(),
}


def asked(descriptor: Any, *questions: str, ttl: Any = None) -> list[Any]:
    with Job(lambda s: s.key_by(first).process(Asked(descriptor, ttl))) as job:
        return [answer for question in questions for answer in job.send(("k", question), 0)]


def test_update_of_a_value_state_with_none_clears_it() -> None:
    assert asked(value_state, "update 1", "value", "update None", "value") == [None, 1, None, None]


def test_a_list_state_is_an_empty_iterable_update_with_nothing_clears_and_adding_nothing_does_nothing() -> None:
    assert asked(list_state, "list is iterable", "list") == [True, []]
    assert asked(list_state, "add_all [1, 2]", "add_all []", "list", "update []", "list") == [
        None, None, [1, 2], None, [],
    ]  # fmt: skip


def test_a_list_state_refuses_none() -> None:
    with pytest.raises(RecordError, match="ValueError"):
        asked(list_state, "add None")


def test_a_map_state_gives_none_for_a_missing_key_and_may_hold_none() -> None:
    assert asked(map_state, "get x", "contains x", "put x None", "get x", "contains x", "is_empty") == [
        None, False, None, None, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("descriptor", "found"), [(reducing_state, 2), (aggregating_state, "=2")])
def test_adding_none_leaves_the_state_as_it_is_and_an_empty_one_gives_none(descriptor: Any, found: Any) -> None:
    assert asked(descriptor, "add None", "get", "add 1", "add None", "add 1", "get", "clear", "get") == [
        None, None, None, None, None, found, None, None,
    ]  # fmt: skip


def test_the_same_name_with_another_type_is_an_error() -> None:
    class Twice(KeyedProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_state(value_state())
            runtime_context.get_state(ValueStateDescriptor("state", Types.STRING()))

        def process_element(self, value, ctx):
            yield value

    with Job(lambda s: s.key_by(first).process(Twice())) as job, pytest.raises(JobError, match="state"):
        job.send(("k",), 0)


def test_outside_of_an_element_or_a_timer_there_is_no_key() -> None:
    class Early(KeyedProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_state(value_state()).value()

        def process_element(self, value, ctx):
            yield value

    with Job(lambda s: s.key_by(first).process(Early())) as job, pytest.raises(JobError, match="key"):
        job.send(("k",), 0)


def test_keyed_state_on_a_stream_without_keys_is_refused() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(value_state())

        def map(self, value):
            return value

    with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
        results(stream_of([1]).map(Stateful()))


# Time to live


@pytest.mark.parametrize(("later", "found"), [(9, [1]), (10, [None])])
def test_a_value_is_expired_when_its_last_access_and_the_ttl_have_passed(later: int, found: list[Any]) -> None:
    with Job(lambda s: s.key_by(first).process(Asked(value_state, TTL))) as job:
        job.send(("k", "update 1"), 0)
        job.advance_time(later)
        assert job.send(("k", "value"), 0) == found


def test_a_ttl_is_above_0() -> None:
    with pytest.raises(ValueError, match="0"):
        StateTtlConfig.new_builder(Duration.of_millis(0))


def ttl_job(descriptor: Any, *, on_read: bool = False, once_more: bool = False) -> Job:
    builder = StateTtlConfig.new_builder(Duration.of_millis(10))
    if on_read:
        builder.update_ttl_on_read_and_write()
    if once_more:
        builder.return_expired_if_not_cleaned_up().disable_cleanup_in_background()
    ttl = builder.build()
    return Job(lambda s: s.key_by(first).process(Asked(descriptor, ttl)))


@pytest.mark.parametrize(("on_read", "found"), [(False, [None]), (True, [1])])
def test_only_with_on_read_and_write_a_read_refreshes(on_read: bool, found: list[Any]) -> None:
    with ttl_job(value_state, on_read=on_read) as job:
        job.send(("k", "update 1"), 0)
        job.advance_time(6)
        assert job.send(("k", "value"), 0) == [1]
        job.advance_time(6)
        assert job.send(("k", "value"), 0) == found


def test_an_expired_value_may_be_returned_once_where_the_visibility_says_so() -> None:
    with ttl_job(value_state, once_more=True) as job:
        job.send(("k", "update 1"), 0)
        job.advance_time(10)
        assert job.send(("k", "value"), 0) == [1]
        assert job.send(("k", "value"), 0) == [None]


def test_the_ttl_is_per_element_of_a_list_and_per_entry_of_a_map() -> None:
    with ttl_job(list_state) as job:
        job.send(("k", "add 1"), 0)
        job.advance_time(6)
        job.send(("k", "add_all [1, 2]"), 0)
        job.advance_time(4)
        assert job.send(("k", "list"), 0) == [[1, 2]]


def test_contains_refreshes_like_a_read() -> None:
    with ttl_job(map_state, on_read=True) as job:
        job.send(("k", "put x"), 0)
        job.advance_time(6)
        assert job.send(("k", "contains x"), 0) == [True]
        job.advance_time(6)
        assert job.send(("k", "get x"), 0) == [1]


def test_a_map_of_expired_entries_is_empty() -> None:
    """Flink's may say that it is not."""
    with ttl_job(map_state) as job:
        job.send(("k", "put x"), 0)
        job.advance_time(10)
        assert job.send(("k", "is_empty"), 0) == [True]


@pytest.mark.parametrize(("descriptor", "found"), [(reducing_state, [1]), (aggregating_state, ["=1"])])
def test_an_expired_accumulator_starts_from_scratch(descriptor: Any, found: list[Any]) -> None:
    with ttl_job(descriptor) as job:
        job.send(("k", "add 1"), 0)
        job.advance_time(10)
        job.send(("k", "add 1"), 0)
        assert job.send(("k", "get"), 0) == found


def test_the_access_time_is_stored_so_a_restore_neither_resets_nor_loses_it() -> None:
    with ttl_job(value_state) as job:
        job.send(("k", "update 1"), 0)
        job.advance_time(6)
        job.harness.lose_disk()
        assert job.send(("k", "value"), 0) == [1]
        job.advance_time(4)
        assert job.send(("k", "value"), 0) == [None]
