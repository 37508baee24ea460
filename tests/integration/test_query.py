"""State of a job on Kafka, asked for over HTTP: any of its workers answers for all keys, in both group protocols, while the job
runs and after workers came and went."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from kstreampy.broker.embedded import free_port
from tests.integration.topic import create, fill
from tests.integration.worker import JOBS, Fleet, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

USERS = 60
ROUNDS = 50
TOKEN = "only-for-this-one-test"


def get(port: int, page: str, token: str | None = TOKEN) -> tuple[int, Any]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/state/{page}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


class Scene:
    def __init__(self, fleet: Fleet, bootstrap: str, topic: str) -> None:
        self.fleet = fleet
        self.bootstrap = bootstrap
        self.topic = topic
        self.ports: dict[str, int] = {}
        self.shared = tuple(fleet.options)

    def start(self, name: str, host: str = "127.0.0.1") -> int:
        self.ports[name] = free_port()
        self.fleet.options = (*self.shared, "--http-host", host, "--http-port", str(self.ports[name]))
        self.fleet.start(name)
        return self.ports[name]

    def add_round(self, rounds: int) -> None:
        fill(
            self.bootstrap,
            self.topic,
            ((f"u{user}", {"user": f"u{user}", "amount": 1}, user % 4) for _ in range(rounds) for user in range(USERS)),
        )

    def is_total(self, port: int, total: int) -> bool:
        status, said = get(port, "total/rolling?limit=1000")
        return status == 200 and [row["value"]["amount"] for row in said["rows"]] == [total] * USERS


@pytest.fixture(params=["consumer", "classic"])
def scene(
    request: pytest.FixtureRequest, real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Scene]:
    source, target, application = unique("asked"), unique("answers"), unique("query")
    create(real_bootstrap, source, target)
    settings = {
        "max_parallelism": "6",
        "group_protocol": request.param,
        "session_timeout": "6s",
        "http_token": TOKEN,
    }
    options = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
    fleet = Fleet("rekey_sum.py", application, [real_bootstrap, source, target], tmp_path / application, options)
    yield Scene(fleet, real_bootstrap, source)
    fleet.stop()


@pytest.mark.timeout(240)
def test_any_worker_answers_for_all_keys_also_when_workers_come_and_go(scene: Scene) -> None:
    first = scene.start("first")
    scene.add_round(ROUNDS)
    wait_until(lambda: scene.is_total(first, ROUNDS), 60, f"one worker to have all\n{scene.fleet.logs()}")

    second = scene.start("second", "0.0.0.0")
    wait_until(lambda: scene.is_total(second, ROUNDS), 60, f"the second to answer\n{scene.fleet.logs()}")
    wait_until(lambda: all("took" in worker.log() for worker in scene.fleet.workers.values()), 60, "both to have tasks")
    scene.add_round(ROUNDS)
    for port in (first, second):
        wait_until(lambda at=port: scene.is_total(at, 2 * ROUNDS), 60, f"all to be seen\n{scene.fleet.logs()}")
        tasks = set()
        for user in range(USERS):
            status, said = get(port, f"total/rolling/u{user}")
            assert (status, said["value"]) == (200, {"user": f"u{user}", "amount": 2 * ROUNDS})
            tasks.add(said["task"])
        assert len(tasks) == 6
        assert get(port, "total/rolling/nobody")[0] == 404
        assert get(port, "total/rolling/u1", None)[0] == 401
        assert get(port, "total/rolling/u1", "not-that-one-at-all")[0] == 401
        rows = get(port, "total/rolling?prefix=u1&limit=4&live=true")[1]["rows"]
        assert [row["key"] for row in rows] == ["u1", "u10", "u11", "u12"]

    from_command_line(scene)
    scene.fleet.workers["first"].kill()
    wait_until(lambda: scene.is_total(second, 2 * ROUNDS), 90, f"the tasks to have moved\n{scene.fleet.logs()}")
    scene.add_round(1)
    wait_until(lambda: scene.is_total(second, 2 * ROUNDS + 1), 60, f"it to go on\n{scene.fleet.logs()}")


def from_command_line(scene: Scene) -> None:
    fleet = scene.fleet
    shared = ["--application-id", fleet.application_id, "--bootstrap-servers", scene.bootstrap, *scene.shared]

    def asked(*arguments: str) -> Any:
        command = [sys.executable, "-m", "kstreampy_cli", "state", *arguments, *shared, "--", *fleet.arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    job = str(JOBS / fleet.job)
    assert asked("get", job, "total/rolling", "u7")["value"] == {"user": "u7", "amount": 2 * ROUNDS}
    assert [row["key"] for row in asked("list", job, "total/rolling", "--prefix", "u2", "--limit", "2")["rows"]] == [
        "u2",
        "u20",
    ]
