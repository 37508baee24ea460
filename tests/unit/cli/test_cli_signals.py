"""The command as a process: SIGTERM, Ctrl-C twice, several workers, and the development broker."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstreampy.broker.embedded import free_port, installed
from kstreampy.errors import ShutdownTimeout

JobFileMaker = Callable[..., Path]
Start = Callable[..., subprocess.Popen[str]]

WAITS = """
def work(settings, stop, health):
    health.started()
    print(f"working {settings.state_dir.name} {settings.http_port}\\n", end="", flush=True)
    stop.wait()
    print(f"committed {stop.reason}\\n", end="", flush=True)
execute()
print("after\\n", end="", flush=True)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command; whatever is left of it is killed afterwards."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kstreampy_cli.app", *(str(argument) for argument in arguments)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_job_commits_and_ends_with_0(start: Start, job_file: JobFileMaker, number: signal.Signals) -> None:
    process = start("run", job_file(WAITS))
    assert line_of(process) == "working job None"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, f"committed {number.name}\nafter\n"), err


def test_a_job_that_does_not_stop_is_ended(start: Start, job_file: JobFileMaker) -> None:
    text = "def work(*_):\n    print('working', flush=True)\n    time.sleep(60)\nexecute()\n"
    process = start("run", job_file(text), "--shutdown-timeout", "500ms")
    assert line_of(process) == "working"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == ShutdownTimeout.exit_code
    assert "in work" in err


def test_a_signal_while_no_job_runs_ends_at_once(start: Start, job_file: JobFileMaker) -> None:
    process = start("run", job_file("print('drawing', flush=True)\ntime.sleep(60)\nexecute()\n"))
    assert line_of(process) == "drawing"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    assert "no job was running" in err


def test_probes_answer_while_the_job_runs(start: Start, job_file: JobFileMaker) -> None:
    port = free_port()
    process = start("run", job_file(WAITS), "--http-port", port)
    assert line_of(process) == f"working job {port}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/ready")
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_several_workers_have_places_of_their_own_and_stop_together(start: Start, job_file: JobFileMaker) -> None:
    process = start("run", job_file(WAITS), "--workers", "2", "--http-port", "0", "--bootstrap-servers", "none:1")
    assert {line_of(process), line_of(process)} == {"working worker-0 None", "working worker-1 None"}
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert sorted(out.splitlines()) == ["after"] * 2 + ["committed SIGTERM"] * 2


def test_one_failing_worker_ends_the_command_with_its_code(start: Start, job_file: JobFileMaker) -> None:
    text = """
from kstreampy.errors import BrokerRefused
def work(settings, stop, health):
    if settings.state_dir.name == "worker-1":
        raise BrokerRefused("no right to write")
    stop.wait()
    print("committed", flush=True)
execute()
"""
    process = start("run", job_file(text), "--workers", "2", "--bootstrap-servers", "none:1")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 4
    assert err.count("kstreampy: error: no right to write") == 1
    assert "worker 1 ended with code 4: stopping the others" in err
    assert out in ("committed\n", "")  # the other one may not have begun


def test_without_a_broker_there_is_one_worker(start: Start, job_file: JobFileMaker) -> None:
    process = start("run", job_file("execute()\n"), "--workers", "3")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, "worked job\n")
    assert "without a broker there is one worker, not 3" in err


@pytest.mark.skipif(not installed(), reason="needs the package of the embedded broker")
def test_the_development_broker(start: Start, tmp_path: Path) -> None:
    port = free_port()
    process = start("broker", "--port", port, "--data-dir", tmp_path / "data")
    assert line_of(process) == f"bootstrap servers: 127.0.0.1:{port}"
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    second = start("broker", "--port", port, "--data-dir", tmp_path / "other")
    _, err = second.communicate(timeout=20)
    assert second.returncode == 2
    assert str(port) in err
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert closes(port)


@pytest.mark.parametrize("command", ["config", "plan"])
def test_output_that_nobody_reads_ends_a_command_without_a_word(job_file: JobFileMaker, command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        arguments = [sys.executable, "-m", "kstreampy_cli.app", command, str(job_file("execute()\n"))]
        ended = subprocess.run(arguments, stdout=closed, stderr=subprocess.PIPE, timeout=20)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_broken_pipe_of_the_job_is_told(job_file: JobFileMaker) -> None:
    arguments = [sys.executable, "-m", "kstreampy_cli.app", "plan", str(job_file("raise BrokenPipeError('mine')\n"))]
    ended = subprocess.run(arguments, capture_output=True, timeout=20)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (1, b"BrokenPipeError: mine")


def closes(port: int) -> bool:
    """True as soon as nobody answers there."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) != 0:
                return True
        time.sleep(0.1)
    return False
