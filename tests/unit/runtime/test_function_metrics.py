"""Metrics of the user's functions in a running job: per task and step, looked at once a second, gone with the task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.operators.stateless import MapOperator
from tests.unit.operators.standin import FakeOutlet, batch, context, opened
from tests.unit.runtime.jobs import compiled, sink, source, user_and_amount
from tests.unit.runtime.scene import Scene, Worker


class Parsing(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        self.parsed = group.counter("parsed")
        self.amounts = group.add_group("of", "user").distribution("amount")

    def map(self, value: str) -> tuple[str, int]:
        pair = user_and_amount(value)
        self.parsed.inc()
        self.amounts.update(pair[1])
        return pair


class Counting(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.users: set[str] = set()
        group = runtime_context.get_metrics_group()
        group.gauge("users", lambda: len(self.users))
        self.meter = group.meter("seen")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.users.add(ctx.get_current_key())
        self.meter.mark_event()
        yield value


def job() -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    parsed = numbers.map(Parsing()).name("parse")
    parsed.key_by(lambda pair: pair[0]).process(Counting()).uid("count").name("count them").sink_to(sink())
    return compiled(env)


def of_functions(worker: Worker) -> dict[str, float]:
    prefix = "kstreampy_function_"
    return {
        name.removeprefix(prefix): value for name, value in worker.metrics.values().items() if name.startswith(prefix)
    }


def labels(stage: str, step: str, name: str, partition: int, **more: str) -> str:
    found = {"stage": stage, "step": step, "name": name, "partition": str(partition), **more}
    return "{" + ",".join(f'{key}="{value}"' for key, value in sorted(found.items())) + "}"


def test_they_are_shown_per_task_and_step_and_go_with_the_task(tmp_path: Path) -> None:
    with Scene(job(), tmp_path) as scene:
        worker = scene.start()
        scene.feed([("a", "a:5", 0), ("a", "a:7", 0), ("b", "b:1", 1)])
        scene.until(lambda: scene.end("out", 0) + scene.end("out", 1) >= 3)
        assert worker.driver is not None
        worker.driver.last_look = -1e9
        scene.turns(1)
        found = of_functions(worker)
        assert found["counter" + labels("numbers", "parse", "parsed", 0)] == 2
        assert found["counter" + labels("numbers", "parse", "parsed", 1)] == 1
        assert found["distribution_sum" + labels("numbers", "parse", "amount", 0, of="user")] == 12
        users = {name: value for name, value in found.items() if name.startswith("gauge{")}
        assert set(users) == {"gauge" + labels("count", "count them", "users", number) for number in range(3)}
        assert sum(users.values()) == 2
        assert sum(value for name, value in found.items() if name.startswith("meter_total{")) == 3
        worker.stop()
        assert of_functions(worker) == {}


def test_a_step_without_a_key_has_them_too_and_the_default_context_says_that_it_has_none() -> None:
    step = MapOperator("parse", Parsing())
    opened(step, context())
    step.process(batch("a:5", "a:6"))
    assert step.owner.parsed.get_count() == 2
    bare = TaskContext("app", "stage", 0, 1, FakeOutlet(), lambda: 0)
    with pytest.raises(JobError, match="parse asks for metrics, but its task was opened without any"):
        TaskRuntimeContext("parse", bare).get_metrics_group()
