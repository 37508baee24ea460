"""Fixtures for all tests: brokers, started when the first test asks and stopped with the session, and
unique names."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from tests.brokers.find import embedded, real_kafka

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique("orders")` is a name for a topic, group or id that nobody else uses, also on a shared
    broker."""

    def name(purpose: str) -> str:
        return f"{purpose}-{uuid.uuid4().hex[:12]}"

    return name


@pytest.fixture(scope="session")
def started_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Starts each kind of broker at most once per session; gives its bootstrap servers."""
    running: dict[str, str] = {}

    def start(kind: str) -> str:
        if kind not in running:
            directory: Path = tmp_path_factory.mktemp(kind)
            broker = real_kafka(directory) if kind == "kafka" else embedded(directory)
            running[kind] = stack.enter_context(broker)
        return running[kind]

    with ExitStack() as stack:
        yield start


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("embedded", marks=pytest.mark.kafka),
    ],
)
def kafka_bootstrap(request: pytest.FixtureRequest, started_brokers: Callable[[str], str]) -> str:
    """Bootstrap servers of a real Kafka, then of the embedded broker."""
    return started_brokers(request.param)


@pytest.fixture(scope="session")
def real_bootstrap(started_brokers: Callable[[str], str]) -> str:
    """Bootstrap servers of a real Kafka, for what the embedded broker does not have. Mark the test
    `kafka`."""
    return started_brokers("kafka")
