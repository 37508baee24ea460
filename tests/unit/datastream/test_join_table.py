"""Global tables as jobs draw them: what a row's key may be, loading first, changes, tombstones, crashes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kstreampy.common import SimpleStringSchema, Types, WatermarkStrategy
from kstreampy.common.serialization import DeserializationSchema
from kstreampy.datastream import DataStream, JoinFunction, KeySelector, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from kstreampy.datastream.global_table import GlobalTable
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, results


def topic(name: str, deserializer: Any = None, *, bounded: bool = False) -> KafkaSource:
    builder = KafkaSource.builder().set_topics(name)
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    if deserializer is None:
        return builder.set_value_only_deserializer(JsonDeserializationSchema()).build()
    return builder.set_deserializer(deserializer).build()


def flights(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(topic("flights"), WatermarkStrategy.no_watermarks(), "flights").uid("flights")


def named(flight: Any, airline: Any) -> Any:
    return flight["id"], None if airline is None else airline["name"]


def by_carrier(env: StreamExecutionEnvironment, *, left: bool = True) -> DataStream:
    table = env.global_table("airlines").uid("airlines")
    call = flights(env).left_join_table if left else flights(env).join_table
    return call(table, lambda flight: flight["carrier"], named).uid("named")


def test_the_table_is_read_before_the_stream() -> None:
    """However much of both is there when the job starts."""
    with JobHarness(by_carrier, seed=3, partitions=2, key_groups=3) as harness:
        found = harness.collect(harness.drawn)
        airlines, stream = harness.topic("airlines"), harness.topic("flights")
        stream.send_all([{"id": number, "carrier": f"c{number % 50}"} for number in range(300)])
        for number in range(50):
            airlines.send({"name": "old"}, key=f"c{number}")
        for number in range(40):
            airlines.send({"name": f"n{number}"}, key=f"c{number}")
        harness.run()
        expected = [(number, f"n{number % 50}" if number % 50 < 40 else "old") for number in range(300)]
        assert sorted(found.values()) == expected


def test_an_empty_table_holds_nobody() -> None:
    with JobHarness(by_carrier) as harness:
        found = harness.collect(harness.drawn)
        harness.topic("flights").send({"id": 1, "carrier": "UA"})
        harness.run()
        assert found.values() == [(1, None)]


def test_it_follows_changes_and_tombstones() -> None:
    with JobHarness(by_carrier, partitions=2) as harness:
        found = harness.collect(harness.drawn)
        airlines, stream = harness.topic("airlines"), harness.topic("flights")
        for number, (key, row) in enumerate(
            [("UA", {"name": "United"}), ("UA", {"name": "UAL"}), ("AA", {"name": "American"}), ("UA", None)]
        ):
            airlines.send(row, key=key)
            harness.run()
            stream.send({"id": number, "carrier": "UA"})
            harness.run()
        assert found.values() == [(0, "United"), (1, "UAL"), (2, "UAL"), (3, None)]


def test_an_inner_join_gives_nothing_where_there_is_no_row() -> None:
    with JobHarness(lambda env: by_carrier(env, left=False)) as harness:
        found = harness.collect(harness.drawn)
        harness.topic("airlines").send({"name": "United"}, key="UA")
        harness.topic("flights").send_all(
            [{"id": number, "carrier": key} for number, key in enumerate(["UA", "XX", None])]
        )
        harness.run()
        assert found.values() == [(0, "United")]


def test_records_keep_their_timestamps_and_mutable_rows_stay_as_they_are() -> None:
    def changes(flight: Any, airline: Any) -> Any:
        airline["seen"] = airline.get("seen", 0) + 1
        return airline

    def job(env: StreamExecutionEnvironment) -> DataStream:
        return flights(env).join_table(env.global_table("airlines"), lambda flight: flight["carrier"], changes)

    with JobHarness(job) as harness:
        found = harness.collect(harness.drawn)
        harness.topic("airlines").send({"name": "United"}, key="UA")
        for time in (5, 6):
            harness.topic("flights").send({"id": 1, "carrier": "UA"}, timestamp=time)
        harness.run()
        assert [(record.timestamp, record.value) for record in found.records()] == [
            (5, {"name": "United", "seen": 1}),
            (6, {"name": "United", "seen": 1}),
        ]


def test_a_table_for_several_streams_and_on_streams_by_key() -> None:
    def job(env: StreamExecutionEnvironment) -> tuple[DataStream, DataStream]:
        table = env.global_table("airlines", name="airlines")
        stream = flights(env)
        keyed = stream.key_by(lambda flight: flight["id"]).join_table(table, lambda flight: flight["carrier"], named)
        other = stream.left_join_table(table, lambda flight: flight["id"], named)
        return keyed, other

    with JobHarness(job) as harness:
        keyed, other = map(harness.collect, harness.drawn)
        harness.topic("airlines").send({"name": "United"}, key="UA")
        harness.topic("flights").send({"id": "x", "carrier": "UA"})
        harness.run()
        assert (keyed.values(), other.values()) == ([("x", "United")], [("x", None)])


# What a row's key is


def looked_up(table_of: Any, sent: list[tuple[Any, Any]], key: Any) -> list[Any]:
    def job(env: StreamExecutionEnvironment) -> DataStream:
        return flights(env).left_join_table(table_of(env), lambda flight: flight["key"], lambda flight, row: row)

    with JobHarness(job) as harness:
        found = harness.collect(harness.drawn)
        for record_key, row in sent:
            harness.topic("table").send(row, key=record_key)
        harness.topic("flights").send({"key": key})
        harness.run()
        return found.values()


class Hex(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message, 16)


class ById(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value["id"]


def test_the_records_key_as_text() -> None:
    assert looked_up(lambda env: env.global_table(topic("table")), [("ä", {"n": 1})], "ä") == [{"n": 1}]


def test_the_records_key_by_a_schema() -> None:
    assert looked_up(lambda env: env.global_table(topic("table"), Hex()), [("ff", {"n": 1})], 255) == [{"n": 1}]


def test_the_source_says_what_is_the_key() -> None:
    pairs = KafkaRecordDeserializationSchema.key_value(Hex(), SimpleStringSchema())
    assert looked_up(lambda env: env.global_table(topic("table", pairs)), [("a", "text")], 10) == ['"text"']


@pytest.mark.parametrize("key", [lambda row: row["id"], ById()], ids=["function", "selector"])
def test_a_key_out_of_the_row(key: Any) -> None:
    sent = [("whatever", {"id": 7, "n": 1}), ("other", {"id": 7, "n": 2})]
    assert looked_up(lambda env: env.global_table(topic("table"), key), sent, 7) == [{"id": 7, "n": 2}]


def test_null_values_need_the_records_key() -> None:
    with pytest.raises(RecordError, match=r"a null value, of which ById .* leave key= out"):
        looked_up(lambda env: env.global_table(topic("table"), ById()), [("x", None)], 7)


def test_records_without_a_key() -> None:
    with pytest.raises(RecordError, match="the key is None"):
        looked_up(lambda env: env.global_table("table"), [(None, {"n": 1})], 7)


def test_a_bounded_job_with_tables_that_are_no_topic() -> None:
    """A connector's source is a table once it has ended."""
    env = environment()
    numbers = env.from_collection([(number, "x") for number in range(5)], Types.TUPLE([Types.LONG(), Types.STRING()]))
    names = _collection([(0, "none"), (1, "one"), (1, "uno"), (3, "three")])
    table = env.global_table(names, key=lambda row: row[0])
    joined = numbers.join_table(table, lambda value: value[0], Both(), Types.STRING())
    assert sorted(results(joined)) == ["0 none", "1 uno", "3 three"]


class Both(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return f"{first[0]} {second[1]}"


def _collection(rows: list[Any]) -> Any:
    node = environment().from_collection(rows)._node
    return node.source  # type: ignore[attr-defined]  # a source node


# What is refused


def test_wrong_arguments() -> None:
    env = environment()
    stream = env.from_collection([1])
    table = env.global_table("table")
    assert isinstance(table, GlobalTable)
    assert table.get_name() == "table"
    with pytest.raises(TypeError, match="join_table takes a GlobalTable"):
        stream.join_table("table", lambda value: value, named)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="join: expected a function or a JoinFunction"):
        stream.join_table(table, lambda value: value, None)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="get_key: expected a function or a KeySelector"):
        stream.join_table(table, "key", named)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(JobError, match="different environments"):
        environment().from_collection([1]).join_table(table, lambda value: value, named)
    with pytest.raises(JobError, match="has no keys of its own: give key="):
        env.global_table(_collection([1]))
    with pytest.raises(JobError, match="does not say which is the row's key"):
        env.global_table(topic("table", _Whole()))


class _Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: Any) -> Any:
        return record


def test_a_failing_function_is_named_with_the_record() -> None:
    def fails(flight: Any, row: Any) -> Any:
        raise KeyError("nobody")

    def job(env: StreamExecutionEnvironment) -> DataStream:
        return flights(env).left_join_table(env.global_table("table"), lambda flight: flight["id"], fails)

    with JobHarness(job) as harness:
        harness.collect(harness.drawn)
        harness.topic("flights").send({"id": 1})
        with pytest.raises(RecordError, match=r"left_join_table-1: KeyError: 'nobody' in .*fails.*\{'id': 1\}"):
            harness.run()


# Crashes


@pytest.mark.parametrize("seed", range(8))
def test_crashes_change_nothing(seed: int) -> None:
    """Loaded first, whatever dies meanwhile; afterwards every record sees what was there before it."""
    draws = random.Random(seed)
    current: dict[str, Any] = {}
    expected: list[Any] = []
    with JobHarness(
        by_carrier, workers=1 + seed % 2, seed=seed, guarantee="exactly-once", partitions=2, key_groups=3
    ) as harness:
        found = harness.collect(harness.drawn)
        airlines, stream = harness.topic("airlines"), harness.topic("flights")
        for round_ in range(10):
            flight_numbers = range(round_ * 20, round_ * 20 + 20)
            for number in range(15):
                key = f"c{draws.randrange(20)}"
                row = None if draws.random() < 0.2 else {"name": f"{round_}/{number}"}
                airlines.send(row, key=key)
                current[key] = None if row is None else row["name"]
            if round_ > 0:
                trouble(harness, draws)
                harness.run()  # only at the very start nothing says that the table comes first
            for number in flight_numbers:
                key = f"c{draws.randrange(20)}"
                stream.send({"id": number, "carrier": key})
                expected.append((number, current.get(key)))
            trouble(harness, draws)
            harness.run()
        assert sorted(found.values()) == sorted(expected)


def trouble(harness: JobHarness, draws: random.Random) -> None:
    kind = draws.choice(["crash", "crash_at", "lose_disk", "rebalance", "restart", "nothing"])
    if kind == "crash_at":
        harness.crash_at(draws.choice(["poll", "commit", "store", "produce"]), side=draws.choice(["before", "after"]))
    elif kind != "nothing":
        getattr(harness, kind)()
