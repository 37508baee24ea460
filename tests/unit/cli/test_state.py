"""`kstreampy state`: what is asked of which worker, and what is said of its answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kstreampy.broker.broker import GroupMember
from kstreampy.observe.health import Health
from kstreampy.observe.http import HttpServer
from kstreampy.observe.metrics import Metrics
from kstreampy.observe.secret import MASK
from kstreampy.observe.state_page import StatePages
from kstreampy_cli.app import app

TOKEN = "a-token-that-is-long-enough"
JOB = """
import sys
from kstreampy.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([("a", 1)]).key_by(lambda pair: pair[0]).sum(1).uid("totals").print()
print(sys.argv[1:], file=sys.stderr)
env.execute()
"""


class Worker:
    """Something that answers as a worker does."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: tuple[HTTPStatus, Any] = (HTTPStatus.OK, {"value": [1, "\u00e9"]})

    def get(self, path: str, query: str, *, forwarded: bool) -> tuple[HTTPStatus, Any]:
        assert not forwarded
        self.asked.append((path, query))
        return self.answer


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def server(worker: Worker) -> Iterator[HttpServer]:
    with HttpServer("127.0.0.1", 0, Metrics(), Health(), StatePages(worker.get, TOKEN)) as server:
        yield server


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KSTREAMPY_HTTP_TOKEN", TOKEN)
    file = tmp_path / "job.py"
    file.write_text(JOB)
    return file


def state(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["state", *map(str, arguments)])


def at(server: HttpServer) -> tuple[str, str]:
    return "--at", f"{server.host}:{server.port}"


def test_get_asks_for_one_key_and_prints_json(job: Path, worker: Worker, server: HttpServer) -> None:
    result = state("get", job, "totals/rolling", "a b/c", *at(server))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"value": [1, "\u00e9"]}
    assert "\u00e9" in result.stdout
    assert worker.asked == [("/totals%2Frolling", "key=a+b%2Fc&key_type=str")]


def test_list_asks_for_a_range(job: Path, worker: Worker, server: HttpServer) -> None:
    more = ("--from", "a", "--to", "b", "--prefix", "c", "--after", "73", "--limit", "7", "--live")
    assert state("list", job, "public name", *more, *at(server)).exit_code == 0
    query = "prefix=c&from=a&to=b&after=73&limit=7&key_type=str&live=true"
    assert worker.asked == [("/public%20name", query)]


def test_the_job_gets_its_arguments(job: Path, server: HttpServer) -> None:
    result = state("get", job, "totals/rolling", "a", *at(server), "--", "x", "--y")
    assert (result.exit_code, "['x', '--y']" in result.stderr) == (0, True)


@pytest.mark.parametrize(("status", "code"), [(HTTPStatus.NOT_FOUND, 2), (HTTPStatus.SERVICE_UNAVAILABLE, 3)])
def test_what_the_worker_refuses_is_said(
    job: Path, worker: Worker, server: HttpServer, status: HTTPStatus, code: int
) -> None:
    worker.answer = (status, {"error": "why not"})
    result = state("get", job, "totals/rolling", "a", *at(server))
    assert (result.exit_code, result.stderr.count("kstreampy: error: why not")) == (code, 1)


def test_what_to_say_instead_is_said_as_an_option(job: Path, worker: Worker, server: HttpServer) -> None:
    worker.answer = (HTTPStatus.NOT_FOUND, {"error": "no key '7' (for other keys than str say key_type=int)"})
    assert "say --key-type int" in state("get", job, "totals/rolling", "7", *at(server)).stderr


def test_a_wrong_token_is_refused_and_not_shown(job: Path, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTREAMPY_HTTP_TOKEN", "another-token-of-that-length")
    result = state("get", job, "totals/rolling", "a", *at(server))
    assert result.exit_code != 0
    assert "http_token" in result.stderr
    assert "another-token" not in result.output


def test_workers_are_found_in_the_groups(
    job: Path, worker: Worker, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is gone is passed over; one without HTTP is not asked."""
    members = [
        GroupMember("job", "127.0.0.1", None, frozenset()),
        GroupMember("job@127.0.0.1:1", "127.0.0.1", None, frozenset()),
        GroupMember(f"job@*:{server.port}", "127.0.0.1", None, frozenset()),
    ]

    class Groups:
        def __init__(self) -> None:
            self.asked: list[str] = []
            self.closed = False

        def members(self, group: str) -> list[GroupMember]:
            self.asked.append(group)
            return members

        def close(self) -> None:
            self.closed = True

    groups = Groups()
    monkeypatch.setattr("kstreampy_cli.state.broker_factory", lambda plan, settings: lambda: groups)
    result = state("get", job, "totals/rolling", "a", "--bootstrap-servers", "localhost:1")
    assert result.exit_code == 0, result.output
    assert "job-totals" in groups.asked
    assert groups.closed
    assert len(worker.asked) == 1
    members[2:] = []
    result = state("get", job, "totals/rolling", "a", "--bootstrap-servers", "localhost:1")
    assert (result.exit_code, "no worker answers (127.0.0.1:1" in result.stderr) == (3, True)
    members[1:] = []
    result = state("get", job, "totals/rolling", "a", "--bootstrap-servers", "localhost:1")
    assert (result.exit_code, "--http-port" in result.stderr) == (3, True)


def test_without_a_broker_or_an_address_there_is_nobody_to_ask(job: Path) -> None:
    result = state("get", job, "totals/rolling", "a")
    assert (result.exit_code, "--at" in result.stderr) == (2, True)
    result = state("get", job, "totals/rolling", "a", "--at", "nowhere")
    assert (result.exit_code, "HOST:PORT" in result.stderr) == (2, True)


def test_the_token_is_masked_in_config(job: Path) -> None:
    for form in ("text", "json"):
        result = CliRunner().invoke(app, ["config", str(job), "--format", form])
        assert result.exit_code == 0
        assert "http_token" in result.stdout
        assert MASK in result.stdout
        assert TOKEN not in result.output


@pytest.mark.parametrize("token", ["short", "with a space in it", "\u00e9" * 20])
def test_a_token_that_cannot_be_sent_is_refused_unseen(job: Path, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("KSTREAMPY_HTTP_TOKEN", token)
    result = CliRunner().invoke(app, ["config", str(job)])
    assert (result.exit_code, "16 or more" in result.stderr) == (2, True)
    assert token not in result.output
