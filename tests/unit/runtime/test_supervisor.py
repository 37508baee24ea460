"""The parent of several workers, with small scripts for children: exit codes, signals, and nobody left
behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreampy.errors import JobError, ShutdownTimeout
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.supervisor import Membership, Supervisor, parse_membership, settings_of_worker

CHILD = """
import os, signal, sys, time
place = os.environ["KSTREAMPY_WORKER"].split("/")
index, count, folder = int(place[0]), int(place[1]), os.environ["FOLDER"]
def note(name, text=""):
    with open(f"{folder}/{name}-{index}", "a") as file:
        file.write(f"{text}\\n")
def term(*_):
    note("term"); sys.exit(0)
signal.signal(signal.SIGTERM, term)
note("started", f"{os.getpid()} {count}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def supervisor(folder: Path, script: str, count: int, stop: StopSignal, restart: bool = False) -> Supervisor:
    return Supervisor(
        [sys.executable, "-c", CHILD + textwrap.dedent(script)],
        count,
        stop,
        restart=restart,
        environment={**os.environ, "FOLDER": str(folder)},
        pause_s=0.05,
    )


def notes(folder: Path, name: str) -> list[str]:
    return sorted(file.name for file in folder.glob(f"{name}-*"))


def wait_until(condition: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Running, and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_when_all_children_end_well_so_does_the_parent(folder: Path) -> None:
    assert supervisor(folder, "sys.exit(0)", 3, StopSignal(10)).run() == 0
    assert notes(folder, "started") == ["started-0", "started-1", "started-2"]
    assert all(file.read_text().split()[1] == "3" for file in folder.glob("started-*"))


def test_a_child_that_fails_ends_all_with_its_code(folder: Path) -> None:
    script = """
        if index == 1:
            while sum(name.startswith("started") for name in os.listdir(folder)) < 3: time.sleep(0.02)
            sys.exit(5)
        time.sleep(60)
    """
    stop = StopSignal(10)
    assert supervisor(folder, script, 3, stop).run() == 5
    assert stop.reason == "worker 1 ended with code 5"
    assert notes(folder, "term") == ["term-0", "term-2"]


def test_a_child_that_is_killed_counts_as_failed(folder: Path) -> None:
    script = "os.kill(os.getpid(), signal.SIGKILL)"
    assert supervisor(folder, script, 1, StopSignal(10)).run() == 128 + signal.SIGKILL


def test_a_stop_reaches_every_child_once(folder: Path) -> None:
    stop = StopSignal(10)

    def ask() -> None:
        wait_until(lambda: len(notes(folder, "started")) == 2)
        stop.request("SIGTERM")

    threading.Thread(target=ask).start()
    assert supervisor(folder, "time.sleep(60)", 2, stop).run() == 0
    assert [(folder / f"term-{index}").read_text() for index in (0, 1)] == ["\n", "\n"]


def test_a_child_told_before_it_listens_is_no_failure(folder: Path) -> None:
    stop = StopSignal(10)

    def ask() -> None:
        wait_until(lambda: len(notes(folder, "started")) == 1)
        stop.request("SIGTERM")

    threading.Thread(target=ask).start()
    script = "signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(60)"
    assert supervisor(folder, script, 1, stop).run() == 0


def test_a_child_that_does_not_stop_is_killed_at_the_deadline(folder: Path) -> None:
    stop = StopSignal(1.5)

    def ask() -> None:
        wait_until(lambda: len(notes(folder, "started")) == 1)
        stop.request("SIGTERM")

    threading.Thread(target=ask).start()
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN); note('deaf'); time.sleep(60)"
    assert supervisor(folder, script, 1, stop).run() == ShutdownTimeout.exit_code
    assert not alive(int((folder / "started-0").read_text().split()[0]))


def test_with_restart_a_crashed_child_comes_back(folder: Path) -> None:
    script = "sys.exit(7 if len(open(f'{folder}/started-{index}').readlines()) < 3 else 0)"
    assert supervisor(folder, script, 1, StopSignal(10), restart=True).run() == 0
    assert len((folder / "started-0").read_text().splitlines()) == 3


def test_a_wrong_job_is_not_started_again(folder: Path) -> None:
    assert supervisor(folder, "sys.exit(2)", 1, StopSignal(10), restart=True).run() == JobError.exit_code
    assert len((folder / "started-0").read_text().splitlines()) == 1


PARENT = """
import sys
from kstreampy.runtime.stop import StopSignal, stopping_by_signal
from kstreampy.runtime.supervisor import Supervisor
stop = StopSignal(10)
with stopping_by_signal(stop):
    code = Supervisor([sys.executable, "-c", sys.argv[1]], 2, stop).run()
sys.exit(code)
"""

WATCHING_CHILD = """
from kstreampy.runtime.supervisor import membership
assert membership().count == 2
assert "KSTREAMPY_WORKER" not in os.environ
note("watching")
while True: time.sleep(60)
"""


@pytest.fixture
def parent(folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD + WATCHING_CHILD], env={**os.environ, "FOLDER": str(folder)}
    )
    wait_until(lambda: len(notes(folder, "watching")) == 2)
    return process


def pids(folder: Path) -> list[int]:
    return [int(file.read_text().split()[0]) for file in folder.glob("started-*")]


def test_children_of_a_killed_parent_stop(folder: Path, parent: subprocess.Popen[bytes]) -> None:
    parent.kill()
    parent.wait()
    try:
        wait_until(lambda: not any(alive(pid) for pid in pids(folder)), 10)
    finally:
        for pid in pids(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert notes(folder, "term") == ["term-0", "term-1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_to_the_parent_stop_the_children(
    folder: Path, parent: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    parent.send_signal(number)
    assert parent.wait(15) == 0
    assert notes(folder, "term") == ["term-0", "term-1"]
    assert not any(alive(pid) for pid in pids(folder))


def test_what_each_of_several_workers_has_for_its_own(tmp_path: Path) -> None:
    settings = Settings(application_id="x", state_dir=tmp_path, http_port=8080, workers=4, worker_id="pod")
    own = settings_of_worker(settings, 2, 4)
    assert (own.workers, own.state_dir, own.http_port) == (1, tmp_path / "worker-2", 8082)
    assert own.worker_id == "pod-2"
    assert own.memory.cache_bytes <= settings.memory.cache_bytes
    plain = settings_of_worker(Settings(application_id="x", state_memory_bytes="1gb"), 1, 4)
    assert (plain.http_port, plain.worker_id, plain.state_memory_bytes) == (None, None, 1 << 30)
    with pytest.raises(JobError, match="port 65536"):
        settings_of_worker(Settings(application_id="x", http_port=65535), 1, 2)


def test_a_place_among_workers_is_read_or_refused() -> None:
    assert parse_membership("1/3/7") == Membership(1, 3, 7)
    assert parse_membership(None) is None
    with pytest.raises(JobError, match="KSTREAMPY_WORKER is set by kstreampy"):
        parse_membership("2")
