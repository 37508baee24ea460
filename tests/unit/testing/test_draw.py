"""Every way to hand a job to the harness."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.errors import JobError
from kstreampy.testing import HarnessSource, JobHarness
from tests.unit.testing.jobs import order, spending, spent

FILE = """
    import sys
    from dataclasses import dataclass

    from kstreampy.common import WatermarkStrategy
    from kstreampy.datastream import StreamExecutionEnvironment
    from kstreampy.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
    from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema

    @dataclass(frozen=True)
    class Customer:
        name: str

    @dataclass
    class Total:
        customer: Customer
        amount: int

    print("drawing", sys.argv[1:], __name__)

    def total(one, other):
        return Total(one.customer, one.amount + other.amount)

    if __name__ == "__main__":
        env = StreamExecutionEnvironment.get_execution_environment()
        source = KafkaSource.builder().set_topics("orders").set_bootstrap_servers("kafka:9092")
        source = source.set_value_only_deserializer(JsonDeserializationSchema()).build()
        serializer = KafkaRecordSerializationSchema.builder().set_topic("totals")
        serializer = serializer.set_value_serialization_schema(JsonSerializationSchema()).build()
        orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        totals = orders.map(lambda order: Total(Customer(order["customer"]), order["amount"]))
        reduced = totals.key_by(lambda total: total.customer).reduce(total).uid("totals")
        reduced.sink_to(KafkaSink.builder().set_record_serializer(serializer).build())
        env.execute()
        raise AssertionError("nothing behind execute() runs")
"""


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "totals.py"
    path.write_text(textwrap.dedent(FILE))
    return path


def test_a_file(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its classes live in its own __main__, and are found there when state and records are read."""
    before = sys.modules["__main__"], list(sys.path), sys.argv
    for definition in (job_file, str(job_file)):
        with JobHarness(definition) as harness:
            harness.topic("orders").send_all(map(order, range(10)))
            harness.run()
            harness.lose_disk()
            harness.run()
            totals = harness.output("totals").values()
            assert max(total["amount"] for total in totals if total["customer"] == {"name": "c0"}) == 5
            (first, *_) = harness.state_keys("totals", "rolling")
            assert type(first).__name__ == "Customer"
            assert harness.state("totals", "rolling", first).customer == first
            assert harness.env.graph.nodes == []
    assert (sys.modules["__main__"], sys.path, sys.argv) == before
    assert capsys.readouterr().err == "drawing [] __main__\n" * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "ended without running a job"),
        ("x = (", "line 1"),
        ("raise KeyError('mine')", "mine"),
    ],
)
def test_a_file_that_draws_nothing(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.py"
    path.write_text(text)
    with pytest.raises((JobError, KeyError), match=message):
        JobHarness(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(JobError, match=r"no job file nowhere\.py"):
        JobHarness("nowhere.py")


def test_a_function_that_draws() -> None:
    with JobHarness(spending) as harness:
        check(harness)
        assert harness.drawn.get_name() == "process"


def test_a_main() -> None:
    def main() -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        spending(env)
        env.execute("spending")
        raise AssertionError("nothing behind execute() runs")

    with JobHarness(main) as harness:
        check(harness)


def test_a_main_with_defaults() -> None:
    def main(bounded: bool = False, *, key: str = "") -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        spending(env, bounded)
        env.execute()

    with JobHarness(main) as harness:
        check(harness)


def test_an_environment() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    spending(env)
    with JobHarness(env) as harness:
        assert harness.env is env
        check(harness)


def test_a_function_that_draws_and_executes() -> None:
    def draw(env: StreamExecutionEnvironment) -> None:
        spending(env)
        env.execute()

    with JobHarness(draw) as harness:
        check(harness)


def check(harness: JobHarness) -> None:
    harness.topic("orders").send_all(map(order, range(10)))
    harness.run()
    assert harness.output("spending").by_key() == spent(10)


def test_a_source_made_beforehand() -> None:
    numbers = HarnessSource("numbers")

    def draw(env: StreamExecutionEnvironment) -> Any:
        return env.from_source(numbers, numbers.watermarks(), "numbers").map(lambda number: number + 1)

    with JobHarness(draw) as harness:
        seen = harness.collect(harness.drawn)
        numbers.send(1)
        numbers.watermark(5)
        numbers.send(2)
        harness.run()
        assert seen.values() == [2, 3]


def test_the_jobs_own_settings_count() -> None:
    def draw(env: StreamExecutionEnvironment) -> None:
        env.set_max_parallelism(2)
        spending(env)

    with JobHarness(draw) as harness:
        harness.run()
        assert len(harness._simulation.cluster.topic("job-spending-repartition").logs) == 2
    with JobHarness(draw, key_groups=3) as harness:
        harness.run()
        assert len(harness._simulation.cluster.topic("job-spending-repartition").logs) == 3


def test_what_is_no_job() -> None:
    with pytest.raises(JobError, match="not int"):
        JobHarness(7)  # type: ignore[arg-type]
    with pytest.raises(JobError, match="ended without running a job"):
        JobHarness(lambda: None)


def test_nothing_is_drawn() -> None:
    with JobHarness() as harness, pytest.raises(JobError, match="no sink"):
        harness.run()


def test_an_error_while_drawing_comes_out() -> None:
    def draw(env: StreamExecutionEnvironment) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        JobHarness(draw)
