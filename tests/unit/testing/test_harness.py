"""Feeding a job, letting it run, and reading what comes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import SimpleStringSchema, Types, WatermarkStrategy
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaSource
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness, OutputRecord
from tests.unit.testing.jobs import order, spending, spent


def feed(harness: JobHarness, first: int, last: int) -> None:
    orders = harness.topic("orders")
    for number in range(first, last):
        orders.send(order(number), timestamp=1000 + number)


def echo(env: StreamExecutionEnvironment) -> None:
    """Strings from topic in to topic out."""
    from tests.unit.runtime.jobs import sink, source

    stream = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "in")
    stream.map(lambda text: (text, text)).sink_to(sink())


class TestTopics:
    def test_from_topic_to_topic(self) -> None:
        with JobHarness(spending) as harness:
            feed(harness, 0, 20)
            assert len(harness.output("spending")) == 0
            harness.run()
            assert harness.output("spending").by_key() == spent(20)
            feed(harness, 20, 30)
            harness.run()
            assert harness.output("spending").by_key() == spent(30)
            assert not harness.ended

    def test_a_record_with_everything(self) -> None:
        with JobHarness(echo) as harness:
            harness.topic("in", value="str").send("a", key="k", timestamp=77, headers=[("trace", b"1"), ("none", None)])
            harness.run()
            (record,) = harness.output("out", value="str").records()
            assert record == OutputRecord("a", "a", 77, [("trace", b"1"), ("none", None)], 0, 0)

    def test_the_present_is_the_timestamp_by_default(self) -> None:
        with JobHarness(echo, start_time_ms=5000) as harness:
            harness.topic("in", value="str").send("a")
            harness.advance_time(10)
            harness.topic("in", value="str").send("b")
            harness.run()
            assert [record.timestamp for record in harness.output("out", value="str")] == [5000, 5010]

    @pytest.mark.parametrize(
        ("form", "value", "written"),
        [
            ("json", {"a": [1]}, b'{"a":[1]}'),
            ("json", "text", b'"text"'),
            ("str", "text", b"text"),
            ("str", 5, b"5"),
            ("bytes", bytearray(b"x"), b"x"),
            ("long", 5, b"\0\0\0\0\0\0\0\5"),
            ("kafka", 5, b"\0\0\0\0\0\0\0\5"),
            ("json", b"raw", b"raw"),
            ("json", None, None),
            (SimpleStringSchema(), "é", "é".encode()),
            (lambda value: value[::-1].encode(), "abc", b"cba"),
        ],
    )
    def test_forms_of_values_and_keys(self, form: Any, value: Any, written: bytes | None) -> None:
        with JobHarness() as harness:
            harness.create_topic("any", 1)
            harness.env.from_collection([1]).print()
            harness.topic("any", value=form, key=form).send(value, key=value)
            (record,) = harness.output("any", value="bytes", key="bytes").records()
            assert (record.value, record.key) == (written, written)
            if form not in ("kafka",) and not callable(form) and value is not None and not isinstance(value, bytes):
                (record,) = harness.output("any", value=form, key=form).records()
                assert record.value == (str(value) if form == "str" else value)

    def test_what_cannot_be_written_or_read(self) -> None:
        with JobHarness(echo) as harness:
            with pytest.raises(JobError, match=r"topic 'in': .* cannot be written as json"):
                harness.topic("in").send(object())
            with pytest.raises(JobError, match=r"no form 'xml': use 'json'"):
                harness.topic("in", value="xml")  # type: ignore[arg-type]
            with pytest.raises(JobError, match=r"no form: use"):
                harness.output("in", value=7)  # type: ignore[arg-type]
            harness.topic("in", value="str").send("no json")
            harness.run()
            with pytest.raises(JobError, match=r"b'no json' cannot be read as json .* value=\"str\""):
                harness.output("out").values()

    def test_partitions(self) -> None:
        with JobHarness(spending, partitions=3) as harness:
            harness.create_topic("spending", 1)
            orders = harness.topic("orders")
            orders.send(order(1), partition=2)
            for number in range(6):
                orders.send(order(number))
            orders.send_all([order(7), order(8)], key=lambda value: value["customer"])
            places = [record.partition for record in harness.output("orders")]
            assert sorted(places[:6]) != [0] * 6
            assert {record.key: record.partition for record in harness.output("orders") if record.key}
            harness.run()
            assert len(harness.output("spending")) == 9
            assert {record.partition for record in harness.output("spending")} == {0}
            with pytest.raises(JobError, match="partitions 0 to 2"):
                orders.send(order(1), partition=3)

    @pytest.mark.parametrize("wrong", [-1, 1.5, True])
    def test_a_timestamp_that_is_none(self, wrong: Any) -> None:
        with JobHarness(echo) as harness, pytest.raises(JobError, match="at least 0"):
            harness.topic("in").send("a", timestamp=wrong)

    def test_a_topic_that_the_job_does_not_name(self) -> None:
        with JobHarness(spending) as harness:
            for ask in (harness.topic, harness.output):
                with pytest.raises(JobError, match=r"no topic 'oders': it reads orders and writes spending"):
                    ask("oders")

    def test_topics_by_pattern(self) -> None:
        def by_pattern(env: StreamExecutionEnvironment) -> None:
            source = KafkaSource.builder().set_topic_pattern("in-.*").set_value_only_deserializer(SimpleStringSchema())
            env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "in").print()

        with JobHarness(by_pattern) as harness:
            with pytest.raises(JobError, match=r"match 'in-\.\*', and there is none: call create_topic"):
                harness.run()
            harness.create_topic("in-1", 1)
            harness.topic("in-1", value="str").send("x")
            harness.run()

    def test_nothing_of_the_environment_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSTREAMPY_MAX_PARALLELISM", "9")
        monkeypatch.setenv("KSTREAMPY_BOOTSTRAP_SERVERS", "nowhere:1")
        with JobHarness(spending) as harness:
            harness.run()
            assert len(harness._simulation.cluster.topic("job-spending-repartition").logs) == 4

    def test_settings(self) -> None:
        with JobHarness(spending, key_groups=2, settings={"application_id": "mine"}) as harness:
            harness.run()
            assert len(harness._simulation.cluster.topic("mine-spending-repartition").logs) == 2
        with (
            JobHarness(spending, settings={"max_paralelism": 2}) as harness,
            pytest.raises(JobError, match="did you mean"),
        ):
            harness.run()


class TestOutputs:
    def test_take(self) -> None:
        with JobHarness(echo, partitions=2) as harness:
            for number in range(4):
                harness.topic("in", value="str").send(str(number), partition=0)
            harness.run()
            assert sorted(harness.output("out", value="str").take_values()) == list("0123")
            assert harness.output("out", value="str").take() == []
            harness.topic("in", value="str").send("4")
            harness.run()
            assert harness.output("out", value="str").take_values() == ["4"]
            assert len(harness.output("out", value="str")) == 5

    def test_uncommitted(self) -> None:
        with JobHarness(echo) as harness:
            harness.topic("in", value="str").send("a")
            harness.run(commit=False)
            out = harness.output("out", value="str")
            assert (out.values(), out.values(uncommitted=True), out.take()) == ([], ["a"], [])
            harness.run()
            assert (out.values(), out.values(uncommitted=True), out.take_values()) == (["a"], ["a"], ["a"])
            assert repr(out) == "<out: ['a']>"

    def test_collect(self) -> None:
        with JobHarness() as harness:
            stream = harness.env.from_collection([3, 1, 2])
            doubled = harness.collect(stream.map(lambda number: 2 * number))
            keyed = harness.collect(stream.key_by(lambda number: number % 2).reduce(max), "largest")
            assert (doubled.values(), keyed.values()) == ([], [])
            harness.run()
            assert doubled.take_values() == [6, 2, 4]
            assert keyed.by_key() == {1: [3, 3], 0: [2]}
            assert doubled.records()[0].timestamp is None
            assert harness.ended

    def test_collect_what_cannot_be(self) -> None:
        with JobHarness() as harness:
            stream = harness.env.from_collection([1])
            harness.collect(stream, "one")
            with pytest.raises(JobError, match="named 'one' already"):
                harness.collect(stream, "one")
            with pytest.raises(JobError, match="drawn on the harness's environment"):
                harness.collect(StreamExecutionEnvironment().from_collection([1]))
            with pytest.raises(JobError, match="drawn on the harness's environment"):
                harness.collect([1])  # type: ignore[arg-type]
            harness.run()
            with pytest.raises(JobError, match="collect: the job is complete"):
                harness.collect(stream, "two")

    def test_types_come_back(self) -> None:
        with JobHarness() as harness:
            rows = harness.env.from_collection([(1, "a")], Types.ROW_NAMED(["n", "t"], [Types.INT(), Types.STRING()]))
            result = harness.collect(rows)
            harness.run()
            assert result.values()[0].n == 1


class TestRun:
    def test_nothing_is_lost_of_a_stop_without_a_checkpoint(self) -> None:
        with JobHarness(spending) as harness:
            feed(harness, 0, 10)
            harness.run(commit=False)
            assert harness.output("spending").values() == []
            harness.run()
            assert harness.output("spending").by_key() == spent(10)

    def test_a_bounded_job_ends(self) -> None:
        with JobHarness(lambda env: spending(env, bounded=True)) as harness:
            feed(harness, 0, 5)
            harness.run()
            assert harness.ended
            feed(harness, 5, 9)
            harness.run()
            assert harness.output("spending").by_key() == spent(5)
            assert harness.state("spending", "so far", "c0") == (1, 0)

    def test_an_error_of_the_job_comes_out(self) -> None:
        with JobHarness(spending) as harness:
            feed(harness, 0, 3)
            harness.topic("orders").send({"customer": "x"}, key="k", timestamp=9)
            for _ in range(2):
                with pytest.raises(RecordError, match="KeyError: 'amount'") as caught:
                    harness.run()
                assert any("in task spending/" in note for note in caught.value.__notes__)
            assert any("failed: " in event for event in harness.events)

    def test_an_error_of_its_functions_open(self) -> None:
        class Broken(KeyedProcessFunction):
            def open(self, runtime_context: Any) -> None:
                raise OSError("no such model")

            def process_element(self, value: Any, ctx: Any) -> None: ...

        with JobHarness() as harness:
            harness.env.from_collection([1]).key_by(lambda n: n).process(Broken()).print()
            with pytest.raises(OSError, match="no such model"):
                harness.run()

    def test_one_thread_no_sleep(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def asleep(seconds: float) -> None:
            assert seconds == 0

        monkeypatch.setattr(time, "sleep", asleep)
        before = threading.active_count()
        with JobHarness(spending, workers=2) as harness:
            feed(harness, 0, 10)
            harness.run()
            harness.lose_disk()
            harness.run()
            assert threading.active_count() == before

    def test_closed(self) -> None:
        harness = JobHarness(spending)
        harness.run()
        harness.close()
        harness.close()
        calls: list[Callable[[], object]] = [
            harness.run,
            lambda: harness.topic("orders"),
            lambda: harness.advance_time(1),
        ]
        for call in calls:
            with pytest.raises(JobError, match="closed"):
                call()
        with pytest.raises(JobError, match="none, since the harness is closed"):
            harness.crash()

    def test_functions_are_closed(self) -> None:
        closed: list[str] = []

        class Closing(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> None: ...

            def close(self) -> None:
                closed.append("closed")

        with JobHarness(key_groups=1) as harness:
            source = harness.source("numbers")
            stream = harness.env.from_source(source, source.watermarks(), "numbers")
            stream.key_by(lambda n: n).process(Closing()).print()
            harness.run()
            assert closed == []
        assert closed == ["closed"]

    @pytest.mark.parametrize(
        "wrong", [{"workers": 0}, {"partitions": 0}, {"state_store": "paper"}, {"guarantee": "none"}, {"key_groups": 0}]
    )
    def test_wrong_arguments(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(JobError), JobHarness(spending, **wrong) as harness:
            harness.run()

    def test_no_files_are_left(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        with JobHarness(spending, state_store="rocks") as harness:
            feed(harness, 0, 10)
            harness.run()
            assert list(tmp_path.iterdir()) != []
            harness.crash()
            harness.run()
            assert harness.output("spending").by_key() == spent(10)
        assert list(tmp_path.iterdir()) == []

    def test_a_job_that_never_rests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It writes to the topic that it reads."""
        monkeypatch.setattr("kstreampy.testing.simulation._MOST_ROUNDS", 300)

        def circle(env: StreamExecutionEnvironment) -> None:
            from tests.unit.runtime.jobs import sink, source

            stream = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "in")
            stream.map(lambda text: (text, text)).sink_to(sink("in"))

        with JobHarness(circle) as harness:
            harness.topic("in", value="str").send("a")
            with pytest.raises(JobError, match="does not come to rest at 0 ms"):
                harness.run()
