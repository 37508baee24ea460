"""The command line as tests call it, job files for it, and what the jobs read and must have written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.topic import Follower, by_key

IN_MEMORY = """
from kstreampy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda x: x * 10).print()
env.execute()
"""

COPIES = """
import json, sys
from kstreampy.common import DeserializationSchema, SimpleStringSchema, WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import *
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema

class Lenient(DeserializationSchema):
    def deserialize(self, message):
        try:
            return json.loads(message)
        except ValueError:
            return {"bad": message.decode()}

bootstrap, source, target, schema = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
records = (KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(source)
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(Lenient() if schema == "lenient" else JsonDeserializationSchema()).build())
serializer = (KafkaRecordSerializationSchema.builder().set_topic(target)
    .set_value_serialization_schema(JsonSerializationSchema()).build())
stream = env.from_source(records, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
if schema == "raises":
    stream = stream.map(lambda order: {"half": 10 / order["n"]}).name("halve")
stream.sink_to(KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer).build())
env.execute()
"""


def command(
    *arguments: object, cwd: Path | None = None, timeout_s: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "kstreampy_cli", *map(str, arguments)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **env}
    return subprocess.run(
        line, capture_output=True, text=True, timeout=timeout_s, cwd=cwd, env=environment, check=False
    )


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stderr
    for text in said:
        assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("kstreampy: error: ") == 1


def amounts(numbers: range) -> list[tuple[str, dict[str, object], int]]:
    return [(f"{number}", {"user": f"user-{number % 5}", "amount": number}, number % 4) for number in numbers]


def assert_running_totals(follower: Follower, records: int) -> None:
    """Each user's totals are those of its amounts, in some order of the four partitions: every total appears once, and the
    last is the sum."""
    assert len(follower.messages) == records
    for key, values in by_key(follower.messages).items():
        totals = [value["amount"] for value in values]
        assert key is not None
        user = int(key.removeprefix(b"user-"))
        assert totals[-1] == sum(number for number in range(records) if number % 5 == user)
        steps = sorted(after - before for before, after in zip([0, *totals], totals, strict=False))
        assert steps == [number for number in range(records) if number % 5 == user]
