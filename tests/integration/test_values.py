"""Values, keys, headers and timestamps of every awkward kind, through a whole job on real brokers: as they came, so they go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from tests.integration.topic import Follower, create, producer

pytestmark = pytest.mark.kafka

VALUES: list[Any] = [
    None,
    "",
    0,
    False,
    0.0,
    1,
    True,
    1.0,
    "1",
    "é 漢字 \U0001f600 \x00",
    [],
    [1, [2, None]],
    {},
    {"a": None, "ä": {"b": [1.5]}},
    2**60,
    -1,
    "x" * 1024 * 1024,
]
HEADERS: list[Any] = [None, [("trace", b"\x00\xff"), ("trace", None), ("é", b"")]]


def fill(bootstrap: str, topic: str) -> list[tuple[Any, int, Any]]:
    """Every value once with and once without headers, at a time of its own; what was written, in order."""
    out = producer(bootstrap)
    written = []
    for number, value in enumerate(value for value in VALUES for _ in HEADERS):
        headers, timestamp = HEADERS[number % 2], 1_600_000_000_000 + number
        data = None if value is None else json.dumps(value).encode()
        out.produce(topic, data, b"k", 0, timestamp=timestamp, headers=headers)
        written.append((value, timestamp, headers))
    assert out.flush(60) == 0
    return written


class PassOn(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        assert ctx.get_current_key() == key_of(value)
        yield value


def key_of(value: Any) -> Any:
    """Keys as awkward as the values: None stands inside of a tuple, since alone it is no key."""
    return (None,) if value is None else (value if isinstance(value, int | float | str) else (json.dumps(value), 0))


def run(bootstrap: str, source: str, target: str, *, keyed: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(source)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(JsonDeserializationSchema())
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(target)
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    stream = env.from_source(built, WatermarkStrategy.no_watermarks(), "values").map(lambda value: value)
    if keyed:
        stream = stream.key_by(key_of).process(PassOn()).uid("pass-on")
    stream.sink_to(KafkaSink.builder().set_record_serializer(serializer).build())
    env.execute()


def exact(value: Any) -> str:
    """A value with its types told apart."""
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize("keyed", [False, True], ids=["one stage", "re-keyed"])
def test_everything_comes_through(
    keyed: bool, kafka_bootstrap: str, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = unique("values"), unique("values-out")
    create(kafka_bootstrap, source, target, partitions=1, config={"max.message.bytes": "4000000"})
    written = fill(kafka_bootstrap, source)
    monkeypatch.setenv("KSTREAMPY_APPLICATION_ID", unique("values"))
    monkeypatch.setenv("KSTREAMPY_STATE_DIR", str(tmp_path))
    run(kafka_bootstrap, source, target, keyed=keyed)
    follower = Follower(kafka_bootstrap, target)
    try:
        messages = follower.read_until(len(written), 60)
    finally:
        follower.close()
    found = []
    for message in messages:
        data = message.value()
        found.append((None if data is None else json.loads(data), message.timestamp()[1], message.headers()))
    if keyed:  # the order holds per key only
        found.sort(key=lambda row: row[1])
    assert [(exact(value), stamp, headers) for value, stamp, headers in found] == [
        (exact(value), stamp, headers) for value, stamp, headers in written
    ]
