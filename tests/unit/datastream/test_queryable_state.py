"""`as_queryable_state` in its three forms."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest

from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.datastream import KeyedStream, StreamExecutionEnvironment
from kstreampy.datastream.queryable_state import QueryableStateStream
from kstreampy.datastream.state import (
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
VALUE = ValueStateDescriptor("last", PAIR)
REDUCED = ReducingStateDescriptor("sum", lambda a, b: (a[0], a[1] + b[1]), PAIR)


def queryable(stream: KeyedStream, *arguments: Any) -> QueryableStateStream:
    with pytest.warns(DeprecationWarning, match="as_queryable_state"):
        return stream.as_queryable_state(*arguments)


def keyed(env: StreamExecutionEnvironment, values: list[Any]) -> KeyedStream:
    return env.from_collection(values).key_by(lambda value: value[0])


@pytest.mark.parametrize(
    ("arguments", "state", "kept"),
    [
        ((), "pairs", {"a": ("a", 5), "b": ("b", 2)}),
        ((VALUE,), "last", {"a": ("a", 5), "b": ("b", 2)}),
        ((REDUCED,), "sum", {"a": ("a", 6), "b": ("b", 2)}),
    ],
)
def test_what_is_kept_and_for_whom(arguments: tuple[Any, ...], state: str, kept: dict[str, Any]) -> None:
    def job(env: StreamExecutionEnvironment) -> None:
        queryable(keyed(env, [("a", 1), ("b", 2), ("a", 5)]), "pairs", *arguments)

    with JobHarness(job) as harness:
        harness.run()
        assert harness.ended
        for key, value in kept.items():
            assert harness.state("queryable-pairs", state, key) == value


def test_what_it_gives_tells_what_it_is() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = queryable(keyed(env, [("a", 1)]), "pairs", REDUCED)
    assert stream.get_queryable_state_name() == "pairs"
    assert stream.get_state_descriptor() is REDUCED
    serializer = stream.get_key_serializer()
    data = BytesIO()
    keys = ["a", 1, 1.5, True, (1, "x"), b""]
    for key in keys:
        serializer.serialize(key, data)
    data.seek(0)
    assert [serializer.deserialize(data) for _ in keys] == keys
    unnamed = queryable(keyed(env, [("a", 1)]), "others").get_state_descriptor()
    assert isinstance(unnamed, ValueStateDescriptor)
    assert unnamed.get_name() == "others", "found again after a restart"


def test_none_removes_a_value_and_is_left_out_of_a_reduction() -> None:
    with JobHarness(seed=3) as harness:
        source = harness.source("values")
        values = harness.env.from_source(source, source.watermarks(), "values")
        keyed_values = values.map(lambda pair: pair[1]).key_by(lambda value: "k")
        queryable(keyed_values, "latest", ValueStateDescriptor("it", Types.LONG()))
        queryable(keyed_values, "sum", ReducingStateDescriptor("it", lambda a, b: a + b, Types.LONG()))
        for value in (1, 2, None):
            source.send(("k", value))
        harness.run()
        assert harness.state("queryable-latest", "it", "k") is None
        assert harness.state("queryable-sum", "it", "k") == 3


def test_it_survives_a_crash_and_has_a_ttl() -> None:
    descriptor = ReducingStateDescriptor("it", lambda a, b: (a[0], a[1] + b[1]), PAIR)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    with JobHarness(seed=4) as harness:
        source = harness.source("values")
        values = harness.env.from_source(source, source.watermarks(), "values")
        queryable(values.key_by(lambda value: value[0]), "sum", descriptor)
        source.send(("a", 1))
        harness.run()
        source.send(("a", 2))
        harness.run()
        harness.crash()
        source.send(("a", 4))
        harness.run()
        assert harness.state("queryable-sum", descriptor, "a") == ("a", 7)
        harness.advance_time(11_000)
        assert harness.state("queryable-sum", descriptor, "a") is None


def test_the_value_is_kept_as_it_was_when_a_neighbour_changes_it() -> None:
    def change(value: dict[str, int]) -> dict[str, int]:
        value["n"] = -1
        return value

    with JobHarness(seed=5) as harness:
        source = harness.source("values")
        values = harness.env.from_source(source, source.watermarks(), "values")
        by_key = values.key_by(lambda value: value["k"])
        queryable(by_key, "last")
        harness.collect(by_key.map(change))
        source.send({"k": 1, "n": 2})
        harness.run()
        assert harness.state("queryable-last", "last", 1) == {"k": 1, "n": 2}


def test_a_failing_reduction_names_the_step_and_the_record() -> None:
    def job(env: StreamExecutionEnvironment) -> None:
        queryable(keyed(env, [("a", 1), ("a", "x")]), "sum", REDUCED)

    with JobHarness(job) as harness, pytest.raises(RecordError, match=r"queryable-sum.*'x'"):
        harness.run()


def test_two_of_one_name_are_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = keyed(env, [("a", 1)])
    queryable(stream, "pairs").uid("one")
    queryable(stream, "pairs").uid("two")
    with JobHarness(env) as harness, pytest.raises(JobError, match="2 queryable states are named 'pairs'"):
        harness.run()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("",), JobError, "non-empty"),
        ((7,), JobError, "non-empty"),
        (("a", ListStateDescriptor("it", Types.LONG())), TypeError, "ValueStateDescriptor or a ReducingState"),
        (("a", "it"), TypeError, "ValueStateDescriptor or a ReducingState"),
    ],
)
def test_what_cannot_be_queryable(arguments: Any, error: type[Exception], message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(error, match=message):
        queryable(keyed(env, [("a", 1)]), *arguments)
