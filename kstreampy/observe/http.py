"""The worker's HTTP server: `/metrics`, `/live`, `/ready`, `/tasks`, `/state` and an index, on a thread of its own.

In here: routes and answers. Not in here: what is live or ready (`health.py`), what is counted (`metrics.py`), and who may ask for
state (`state_page.py`). The server keeps answering while the worker's loop is busy or stuck: that is what it is for.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar

import msgspec
from prometheus_client.exposition import choose_encoder

from kstreampy.errors import JobError
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.observe.state_page import FORWARDED, StatePages

_log = logging.getLogger(__name__)

_INDEX = """kstreampy worker

/metrics  metrics for Prometheus
/live     200 while the worker makes progress, else 503 with the reasons
/ready    200 when joined and restored, else 503 with the reasons
/tasks    the tasks of this worker
/state    what is kept by key: /state/<uid>/<state name>/<key>, or without a key a list
"""


_NO_HEADERS: Mapping[str, str] = {}


class HttpServer:
    """Serves from construction until `close`. Owned by the process. JobError when the port cannot be had."""

    def __init__(
        self, host: str, port: int, metrics: Metrics, health: Health, states: StatePages | None = None
    ) -> None:
        """Without `states` there are no pages of state."""

        class Handler(_Handler):
            """This server's own."""

        Handler.metrics, Handler.health, Handler.states = metrics, health, states
        try:
            self._server = _Server((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise JobError(
                f"cannot serve metrics on {host}:{port} ({reason}): "
                "choose another --http-port or http_host, or --http-port 0 for none"
            ) from None
        self.host, self.port = str(self._server.server_address[0]), int(self._server.server_address[1])
        Handler.host = self.host
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="kstreampy-http",
            daemon=True,
        )
        self._thread.start()
        _log.info("metrics and probes on http://%s:%d", self.host, self.port)

    def close(self) -> None:
        """Stops answering. Safe to call twice."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # A worker that restarts gets its port back at once; a port that is in use is still refused.
    allow_reuse_address = True


class _Handler(BaseHTTPRequestHandler):
    """One request. Slow or silent clients are cut off, so that they cannot pile up threads."""

    metrics: ClassVar[Metrics]
    health: ClassVar[Health]
    states: ClassVar[StatePages | None]
    host: ClassVar[str]
    """The address that the server listens on."""
    timeout = 10
    server_version = "kstreampy"
    sys_version = ""

    def do_GET(self) -> None:
        whole, _, query = self.path.partition("?")
        path = whole.rstrip("/") or "/"
        if path == "/metrics":
            self._send_metrics()
        elif path == "/live":
            self._send_probe("live", self.health.live())
        elif path == "/ready":
            self._send_probe("ready", self.health.ready())
        elif path == "/tasks":
            self._send_json(HTTPStatus.OK, {"tasks": self.health.tasks()})
        elif self.states is not None and (path + "/").startswith("/state/"):
            self._send_state(self.states, path.removeprefix("/state"), query)
        elif path == "/":
            self._send(HTTPStatus.OK, "text/plain; charset=utf-8", _INDEX.encode())
        else:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": "no such page", "pages": _pages()})

    do_HEAD = do_GET  # noqa: N815 (the name is http.server's)

    def _send_metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("Accept", ""))
        self._send(HTTPStatus.OK, content_type, encode(self.metrics.registry))

    def _send_probe(self, name: str, reasons: list[dict[str, Any]]) -> None:
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        self._send_json(status, {name: not reasons, "reasons": reasons})

    def _send_state(self, states: StatePages, path: str, query: str) -> None:
        refusal = states.refusal(self.host, self.headers)
        if refusal is not None:
            status, reason = refusal
            challenge = {"WWW-Authenticate": "Bearer"} if status is HTTPStatus.UNAUTHORIZED else {}
            self._send(status, "application/json", json.dumps({"error": reason}).encode() + b"\n", challenge)
            return
        status, answer = states.answer(path, query, forwarded=FORWARDED in self.headers)
        self._send(status, "application/json", msgspec.json.encode(answer) + b"\n", {"Cache-Control": "no-store"})

    def _send_json(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(answer).encode() + b"\n")

    def _send(self, status: HTTPStatus, content_type: str, body: bytes, more: Mapping[str, str] = _NO_HEADERS) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug("http: " + format, *args)


def _pages() -> list[str]:
    return [line.split()[0] for line in _INDEX.splitlines() if line.startswith("/")]
