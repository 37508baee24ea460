"""The jobs as a user writes them, run by one kstreampy worker in this process.

    python -m tests.bench.kstreampy_jobs sum eo --bootstrap 127.0.0.1:9092 --input bench-1m --output out --count 1000000

Prints one JSON line (`meter.py`). `--count` must be what the input holds: it is read to its end as it is at the start, or the
job is stopped when every record is through.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from operator import itemgetter

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStream, DataStreamUtils, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaSourceBuilder,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.datastream.launch import Job, JobExecutionResult, use
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime import allocator
from kstreampy.runtime.settings_source import resolve
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.worker import run_worker
from tests.bench import kstreampy_joins, kstreampy_nexmark, kstreampy_windows, nexmark, pair_data
from tests.bench.data import ensure_topic, item_of
from tests.bench.meter import Meter, arguments

GUARANTEES = {"alo": "at_least_once", "eo": "exactly_once"}


def source(env: StreamExecutionEnvironment, bootstrap: str, topic: str) -> DataStream:
    """Read to its end."""
    built = reading(bootstrap, topic).set_bounded(KafkaOffsetsInitializer.latest()).build()
    return env.from_source(built, WatermarkStrategy.no_watermarks(), "events")


def reading(bootstrap: str, topic: str) -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonDeserializationSchema())
    )


def sink(bootstrap: str, topic: str, key: str | None = None) -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(JsonSerializationSchema())
    )
    if key is not None:
        serializer.set_key_selector(itemgetter(key))
    return KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer.build()).build()


def filter_map(env: StreamExecutionEnvironment, bootstrap: str, topic: str, target: str) -> None:
    (
        source(env, bootstrap, topic)
        .filter(lambda record: record["kind"] == "view")
        .map(lambda record: {"id": record["id"], "user": record["user"], "cents": int(record["amount"] * 100)})
        .sink_to(sink(bootstrap, target))
    )


def keyed_sum(env: StreamExecutionEnvironment, bootstrap: str, topic: str, target: str) -> None:
    records = source(env, bootstrap, topic)
    (
        DataStreamUtils.reinterpret_as_keyed_stream(records, lambda record: record["user"])
        .sum("amount")
        .uid("sum")
        .sink_to(sink(bootstrap, target, "user"))
    )


def rekey_count(env: StreamExecutionEnvironment, bootstrap: str, topic: str, target: str) -> None:
    (
        source(env, bootstrap, topic)
        .map(lambda record: (item_of(record["kind"], record["id"]), 1))
        .key_by(lambda pair: pair[0])
        .sum(1)
        .uid("count")
        .map(lambda pair: {"item": pair[0], "count": pair[1]})
        .sink_to(sink(bootstrap, target, "item"))
    )


def windowed(job: str) -> Callable[[StreamExecutionEnvironment, str, str, str], None]:
    """Read without an end, so that open windows stay open when the last record is through."""

    def draw(env: StreamExecutionEnvironment, bootstrap: str, topic: str, target: str) -> None:
        records = env.from_source(reading(bootstrap, topic).build(), kstreampy_windows.strategy(), "events")
        results = kstreampy_windows.BUILDERS[job](records).uid(job)
        results.sink_to(sink(bootstrap, target, kstreampy_windows.KEYS[job]))

    return draw


BUILDERS = {**kstreampy_joins.BUILDERS, **kstreampy_nexmark.BUILDERS}
KEYS = {**kstreampy_joins.KEYS, **kstreampy_nexmark.KEYS}
TIMED = kstreampy_joins.TIMED + kstreampy_nexmark.TIMED


def paired(job: str) -> Callable[[StreamExecutionEnvironment, str, str, str], None]:
    """Reads each of the topics, in their order, without an end."""

    def draw(env: StreamExecutionEnvironment, bootstrap: str, topics: str, target: str) -> None:
        strategy = kstreampy_windows.strategy() if job in TIMED else WatermarkStrategy.no_watermarks()
        streams = [
            env.from_source(reading(bootstrap, topic).build(), strategy, f"input-{number}").uid(f"input-{number}")
            for number, topic in enumerate(topics.split(","))
        ]
        BUILDERS[job](*streams).uid(job).sink_to(sink(bootstrap, target, KEYS[job]))

    return draw


JOBS = {
    "filter": filter_map,
    "sum": keyed_sum,
    "recount": rekey_count,
    **{job: windowed(job) for job in kstreampy_windows.BUILDERS},
    **{job: paired(job) for job in BUILDERS},
}


class MeteredMetrics(Metrics):
    """The worker's own metrics, and the meter beside them: from the first record to the last checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter()
        self.line = ""
        self.count = 0
        self.left = 0
        self.stop: StopSignal | None = None
        """Requested when all stages together have had so many records as were `left` in the beginning."""

    def records_in(self, stage: str, count: int) -> None:
        self.meter.start()
        super().records_in(stage, count)
        if self.stop is not None:
            self.left -= count
            if self.left == 0:
                self.stop.request("all records are through")

    def checkpoint_done(self, seconds: float, records: int) -> None:
        super().checkpoint_done(seconds, records)
        if self.meter.started:
            self.line = self.meter.report(self.count)


class MeteredLauncher:
    """Runs the job in this process, in a state directory of its own."""

    def __init__(self, job: str, guarantee: str, count: int) -> None:
        self.job = job
        self.guarantee = guarantee
        self.metrics = MeteredMetrics()
        self.metrics.count = count

    def launch(self, job: Job) -> JobExecutionResult:
        allocator.tune()
        logging.basicConfig(level=os.environ.get("BENCH_LOG", "WARNING"))
        state = tempfile.mkdtemp(prefix="kstreampy-bench-")
        overrides = {
            "application_id": f"bench-{uuid.uuid4().hex[:8]}",
            "guarantee": self.guarantee,
            "state_dir": state,
            "max_parallelism": 4,
        }
        settings = resolve(job.code_settings, None, {}, overrides).settings
        plan = job.plan(settings)
        stop = StopSignal(settings.shutdown_timeout_s)
        self.metrics.left = passes(self.job, self.metrics.count, len(plan.stages))
        self.metrics.stop = None if plan.bounded else stop
        try:
            run_worker(plan, settings, connect=job.attach(plan, settings, stop), stop=stop, metrics=self.metrics)
        finally:
            shutil.rmtree(state, ignore_errors=True)
        return JobExecutionResult(job.job_id, 0)


def passes(job: str, count: int, stages: int) -> int:
    """Records that all stages take together."""
    if job in pair_data.PAIRED:
        return pair_data.passes(job, count)
    return nexmark.passes(job, count) if job in nexmark.QUERIES else stages * count


def main() -> None:
    options = arguments(__doc__ or "")
    ensure_topic(options.bootstrap, options.output)
    env = StreamExecutionEnvironment.get_execution_environment()
    JOBS[options.job](env, options.bootstrap, options.input, options.output)
    launcher = MeteredLauncher(options.job, GUARANTEES[options.guarantee], options.count)
    with use(launcher):
        env.execute()
    print(launcher.metrics.line, flush=True)


if __name__ == "__main__":
    main()
