"""The pages of the worker's server, asked for over a real socket."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.errors import JobError
from kstreampy.observe.health import Health
from kstreampy.observe.http import HttpServer
from kstreampy.observe.metrics import Metrics


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def server(health: Health) -> Iterator[HttpServer]:
    metrics = Metrics()
    metrics.records_in("count", 5)
    with HttpServer("127.0.0.1", 0, metrics, health) as server:
        yield server


def ask(server: HttpServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Type"], body


def ask_json(server: HttpServer, path: str) -> tuple[int, Any]:
    status, content_type, body = ask(server, path)
    assert content_type == "application/json"
    return status, json.loads(body)


def test_metrics_in_both_formats(server: HttpServer) -> None:
    status, content_type, text = ask(server, "/metrics")
    assert (status, content_type.partition(";")[0]) == (200, "text/plain")
    assert 'kstreampy_records_in_total{stage="count"} 5.0' in text
    _, content_type, text = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_probes_answer_503_with_reasons_and_200_without(server: HttpServer, health: Health) -> None:
    assert ask_json(server, "/ready") == (503, {"ready": False, "reasons": [{"reason": "starting"}]})
    health.started()
    assert ask_json(server, "/ready") == (200, {"ready": True, "reasons": []})
    assert ask_json(server, "/live?verbose=1") == (200, {"live": True, "reasons": []})


def test_a_stuck_loop_is_told_by_the_live_probe() -> None:
    health = Health(stall_s=0)
    with HttpServer("127.0.0.1", 0, Metrics(), health) as server:
        status, answer = ask_json(server, "/live")
    assert status == 503
    assert answer["reasons"][0]["reason"] == "the loop stands still"


def test_index_tasks_and_what_is_not_there(server: HttpServer, health: Health) -> None:
    health.moved("count", 0, 7, 1)
    assert ask_json(server, "/tasks")[1]["tasks"][0]["position"] == 7
    index = ask(server, "/")[2]
    assert all(page in index for page in ("/metrics", "/live", "/ready", "/tasks"))
    status, answer = ask_json(server, "/nothing")
    assert (status, answer["pages"]) == (404, ["/metrics", "/live", "/ready", "/tasks", "/state"])
    assert ask(server, "/metrics", "HEAD")[2] == ""
    assert ask(server, "/metrics", "POST")[0] == 501


def test_a_port_in_use_is_refused_with_what_to_do() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(JobError, match=rf"127\.0\.0\.1:{port} \(.*in use.*\): choose another --http-port"):
            HttpServer("127.0.0.1", port, Metrics(), Health())


def test_a_host_that_is_not_here_is_refused() -> None:
    with pytest.raises(JobError, match=r"cannot serve metrics on host\.invalid:8080"):
        HttpServer("host.invalid", 8080, Metrics(), Health())


def test_a_silent_client_does_not_keep_others_waiting(server: HttpServer) -> None:
    with socket.create_connection((server.host, server.port)):
        assert ask(server, "/")[0] == 200


def test_after_close_the_port_is_free_again(server: HttpServer) -> None:
    ask(server, "/metrics")
    server.close()
    server.close()
    HttpServer("127.0.0.1", server.port, Metrics(), Health()).close()
