"""Who may ask for state, over a real socket."""

from __future__ import annotations

import http.client
import json
from http import HTTPStatus
from typing import Any

import pytest

from kstreampy.observe.health import Health
from kstreampy.observe.http import HttpServer
from kstreampy.observe.metrics import Metrics
from kstreampy.observe.state_page import FORWARDED, StatePages

TOKEN = "a-token-that-is-long-enough"


def answer(path: str, query: str, *, forwarded: bool) -> tuple[HTTPStatus, Any]:
    return HTTPStatus.OK, {"path": path, "query": query, "forwarded": forwarded, "nan": float("nan")}


def ask(path: str, host: str = "127.0.0.1", token: str | None = None, **headers: str) -> tuple[int, Any, Any]:
    with HttpServer(host, 0, Metrics(), Health(), StatePages(answer, token)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET", path, headers=headers)
        got = connection.getresponse()
        body = json.loads(got.read())
        connection.close()
    return got.status, body, got.headers


def test_on_loopback_whoever_names_it_is_answered() -> None:
    for host in ("127.0.0.1", "localhost", "127.0.0.1:80", "[::1]:80"):
        assert ask("/state/a%2Fb/k?live=1", Host=host)[:2] == (
            200,
            {"path": "/a%2Fb/k", "query": "live=1", "forwarded": False, "nan": None},
        )


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "", "10.0.0.1"])
def test_on_loopback_a_page_under_another_name_is_not(host: str) -> None:
    status, body, _ = ask("/state/a", Host=host)
    assert status == 403
    assert "http_token" in body["error"]


def test_elsewhere_without_a_token_nobody_is_answered() -> None:
    status, body, _ = ask("/state/a", "0.0.0.0")
    assert status == 403
    assert "set http_token" in body["error"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (None, 401),
        ("", 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer \u00e9", 401),
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
    ],
)
def test_with_a_token_it_must_be_sent(host: str, sent: str | None, status: int) -> None:
    headers = {} if sent is None else {"Authorization": sent}
    found, body, answered = ask("/state/a", host, TOKEN, **headers)
    assert found == status
    assert TOKEN not in json.dumps(body)
    assert answered["WWW-Authenticate"] == ("Bearer" if status == 401 else None)


def test_other_pages_need_no_token() -> None:
    assert ask("/tasks", "0.0.0.0", TOKEN)[0] == 200


def test_the_question_of_another_worker_is_told_apart() -> None:
    assert ask("/state/a", **{FORWARDED: "1"})[1]["forwarded"] is True


def test_the_index_is_asked_for_with_and_without_a_slash() -> None:
    assert [ask(path)[1]["path"] for path in ("/state", "/state/", "/state/a/")] == ["", "", "/a"]


def test_without_states_there_is_no_page() -> None:
    with HttpServer("127.0.0.1", 0, Metrics(), Health()) as server:
        connection = http.client.HTTPConnection(server.host, server.port, timeout=5)
        connection.request("GET", "/state/a")
        assert connection.getresponse().status == 404
        connection.close()
