"""`DataStream.cache` on brokers: what the first job computed is kept in a topic, later jobs read it from there, and it goes
with `invalidate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStream, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from kstreampy.datastream.formats.json import JsonDeserializationSchema
from tests.integration.topic import create, fill
from tests.integration.worker import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

RECORDS = 2_000


class Seen:
    """Doubles, and notes what it has seen; shared by the copies of the function."""

    def __init__(self) -> None:
        self.values: Counter[int] = Counter()

    def __deepcopy__(self, memo: object) -> Seen:
        return self

    def __call__(self, value: dict[str, int]) -> int:
        self.values[value["n"]] += 1
        return value["n"] * 2


def numbers(env: StreamExecutionEnvironment, bootstrap: str, topic: str) -> DataStream:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


def results(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as found:
        return sorted(found)


def kept_topics(bootstrap: str, application: str) -> list[str]:
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    return [topic for topic in topics if topic.startswith(application) and "-kept-" in topic]


def test_later_jobs_read_what_the_first_kept(
    kafka_bootstrap: str, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, application = unique("numbers"), unique("cache")
    monkeypatch.setenv("KSTREAMPY_APPLICATION_ID", application)
    monkeypatch.setenv("KSTREAMPY_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KSTREAMPY_BOOTSTRAP_SERVERS", kafka_bootstrap)
    create(kafka_bootstrap, topic, partitions=3)
    fill(kafka_bootstrap, topic, ((None, {"n": number}, number % 3) for number in range(RECORDS)))
    env, seen = StreamExecutionEnvironment.get_execution_environment(), Seen()
    cached = numbers(env, kafka_bootstrap, topic).map(seen).cache()
    expected = [2 * number for number in range(RECORDS)]
    assert results(cached) == expected
    assert set(seen.values.values()) == {1}
    assert len(kept_topics(kafka_bootstrap, application)) == 1

    fill(kafka_bootstrap, topic, [(None, {"n": -1}, 0)])  # not for jobs that read what is kept
    assert results(cached) == expected
    assert results(cached.map(lambda value: -value)) == [-value for value in reversed(expected)]
    last = results(cached.key_by(lambda value: value % 10).reduce(max).uid("largest"))
    assert max(last) == expected[-1]
    assert len(last) == RECORDS
    assert set(seen.values.values()) == {1}

    cached.invalidate()
    wait_until(lambda: not kept_topics(kafka_bootstrap, application), 30, "what was kept to be deleted")
    assert results(cached) == [-2, *expected]
    assert seen.values == Counter({-1: 1, **dict.fromkeys(range(RECORDS), 2)})
