"""Which brokers the tests run against.

"kafka", a real one, is the first of: `KSTREAMPY_TEST_BOOTSTRAP`; Docker, through testcontainers; Apache
Kafka's jars through Java and Maven. "embedded" is the broker that `kstreampy broker` starts. What cannot
run here is skipped with the reason, or fails when `KSTREAMPY_TEST_REQUIRE_BROKERS=1` (set in CI)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from kstreampy.broker.embedded import EmbeddedBroker, free_port, installed
from tests.brokers.kafka import FAST_CRASHES, KafkaProcess, missing


def unable(reason: str) -> NoReturn:
    """Skips the test, or fails it where all brokers are required."""
    if os.environ.get("KSTREAMPY_TEST_REQUIRE_BROKERS") == "1":
        pytest.fail(f"KSTREAMPY_TEST_REQUIRE_BROKERS=1, but: {reason}", pytrace=False)
    pytest.skip(reason)


def docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        return subprocess.run([docker, "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextmanager
def in_docker() -> Iterator[str]:
    """Apache's own image, which has KIP-848; the port is chosen here, as the broker must be told what to advertise."""
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.waiting_utils import wait_for_logs

    port = free_port()
    container = DockerContainer("apache/kafka:4.1.1").with_bind_ports(port, port)
    for name, value in {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": "1@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://localhost:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        **FAST_CRASHES,
    }.items():
        container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
    with container:
        wait_for_logs(container, "Kafka Server started", timeout=120)
        yield f"localhost:{port}"


@contextmanager
def real_kafka(directory: Path) -> Iterator[str]:
    given = os.environ.get("KSTREAMPY_TEST_BOOTSTRAP")
    if given:
        yield given
    elif docker_answers():
        with in_docker() as bootstrap:
            yield bootstrap
    else:
        with own_kafka(directory) as process:
            yield process.bootstrap_servers


@contextmanager
def own_kafka(directory: Path, properties: Mapping[str, str] | None = None) -> Iterator[KafkaProcess]:
    """A Kafka that the test may stop, kill and suspend; killed members are noticed within seconds."""
    reason = missing()
    if reason is not None:
        unable(reason)
    process = KafkaProcess(directory, {**FAST_CRASHES, **(properties or {})})
    try:
        process.start()
        yield process
    finally:
        process.stop()


@contextmanager
def embedded(directory: Path) -> Iterator[str]:
    if not installed():
        unable('the embedded broker is not installed: pip install "kstreampy[broker]"')
    with EmbeddedBroker(directory) as broker:
        yield broker.bootstrap_servers
