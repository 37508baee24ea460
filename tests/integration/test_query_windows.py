"""Open windows of a job on Kafka, asked for over HTTP and from the command line: any worker answers for all keys, also after one
was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_query import TOKEN, Scene, get
from tests.integration.topic import create, fill
from tests.integration.worker import JOBS, Fleet, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USERS = [f"u{number}" for number in range(40)]
MINUTE_MS = 60_000
PARTITIONS = 4


@pytest.fixture
def scene(real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Scene]:
    source, target, application = unique("asked"), unique("answers"), unique("query-windows")
    create(real_bootstrap, source, target, partitions=PARTITIONS)
    settings = ("max_parallelism=6", "session_timeout=6s", f"http_token={TOKEN}")
    options = [text for one in settings for text in ("--set", one)]
    fleet = Fleet("asked_windows.py", application, [real_bootstrap, source, target], tmp_path / application, options)
    yield Scene(fleet, real_bootstrap, source)
    fleet.stop()


def add_minutes(scene: Scene, *minutes: int) -> None:
    """One amount per user and minute, each the number of the minute."""
    fill(
        scene.bootstrap,
        scene.topic,
        (
            (user, {"user": user, "amount": minute, "time": minute * MINUTE_MS + number}, number % PARTITIONS)
            for minute in minutes
            for number, user in enumerate(USERS)
        ),
    )


def windows(user: str, first: int, last: int, *, listed: bool) -> list[dict[str, Any]]:
    return [
        {
            "start": minute * MINUTE_MS,
            "end": (minute + 1) * MINUTE_MS,
            "value": [{"user": user, "amount": minute, "time": minute * MINUTE_MS + USERS.index(user)}]
            if listed
            else {"user": user, "amount": minute, "time": minute * MINUTE_MS + USERS.index(user)},
        }
        for minute in range(first, last + 1)
    ]


def are_open(scene: Scene, port: int, first: int, last: int) -> bool:
    for step in ("total", "listed"):
        status, said = get(port, f"{step}/windows?limit=1000")
        if status != 200 or [row["key"] for row in said["rows"]] != sorted(USERS):
            return False
        if any(row["value"] != windows(row["key"], first, last, listed=step == "listed") for row in said["rows"]):
            return False
    return True


@pytest.mark.timeout(240)
def test_open_windows_are_shown_by_any_worker_and_after_a_kill(scene: Scene) -> None:
    first = scene.start("first")
    add_minutes(scene, 10)
    wait_until(lambda: are_open(scene, first, 10, 10), 60, f"the first windows\n{scene.fleet.logs()}")
    second = scene.start("second")
    wait_until(lambda: are_open(scene, second, 10, 10), 60, f"the second to answer\n{scene.fleet.logs()}")
    wait_until(lambda: all("took" in one.log() for one in scene.fleet.workers.values()), 60, "both to have tasks")

    add_minutes(scene, 11, 12)
    tasks = set()
    for port in (first, second):
        wait_until(lambda at=port: are_open(scene, at, 12, 12), 60, f"the minute to end\n{scene.fleet.logs()}")
        for user in USERS:
            status, said = get(port, f"total/windows/{user}")
            assert (status, said["value"]) == (200, windows(user, 12, 12, listed=False))
            tasks.add(said["task"])
        assert get(port, "total/windows/nobody")[0] == 404
        status, said = get(port, "total/windows/u1?live=true")
        assert (status, said["value"], said["live"]) == (200, windows("u1", 12, 12, listed=False), True)
    assert tasks == set(range(6))
    from_command_line(scene)

    scene.fleet.workers["first"].kill()
    wait_until(lambda: are_open(scene, second, 12, 12), 90, f"the tasks to have moved\n{scene.fleet.logs()}")
    add_minutes(scene, 13)
    wait_until(lambda: are_open(scene, second, 13, 13), 60, f"it to go on\n{scene.fleet.logs()}")


def from_command_line(scene: Scene) -> None:
    fleet = scene.fleet
    shared = ["--application-id", fleet.application_id, "--bootstrap-servers", scene.bootstrap, *scene.shared]

    def asked(*arguments: str) -> Any:
        command = [sys.executable, "-m", "kstreampy_cli", "state", *arguments, *shared, "--", *fleet.arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    job = str(JOBS / fleet.job)
    assert asked("get", job, "listed/windows", "u7")["value"] == windows("u7", 12, 12, listed=True)
    rows = asked("list", job, "total/windows", "--prefix", "u2", "--limit", "2")["rows"]
    assert [(row["key"], row["value"]) for row in rows] == [
        (user, windows(user, 12, 12, listed=False)) for user in ("u2", "u20")
    ]
