"""What hurts users of other tools at the login (P53): the client is refused, or gets no token, and the program waits on without a
word. Here, the first call tells."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kstreampy.broker.kafka import KafkaBroker
from kstreampy.errors import BrokerRefused, JobError

_SOON_S = 10.0


class TokenServer:
    """Gives no tokens: answers 401 to everyone."""

    def __init__(self) -> None:
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.send_response(401)
                self.end_headers()
                self.wfile.write(json.dumps({"error": "invalid_client"}).encode())

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def silent_broker() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.topics(["t"]),
        lambda broker: broker.topics_matching("t.*"),
        lambda broker: broker.members("g"),
    ],
    ids=["topics", "topics_matching", "members"],
)
def test_the_first_call_tells_that_no_token_is_to_be_had(
    tokens: TokenServer, silent_broker: str, call: Callable[[KafkaBroker], object]
) -> None:
    """P53: nobody polls the client for it. The message names the mechanism and what the token's server said."""
    settings = {
        **OAUTH,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "job",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
    }
    broker = KafkaBroker(silent_broker, settings, timeout_s=_SOON_S / 2)
    began = time.monotonic()
    with pytest.raises(BrokerRefused, match=r"could not log in: .*OAUTHBEARER.*invalid_client") as caught:
        call(broker)
    assert time.monotonic() - began < _SOON_S
    assert "secret" not in str(caught.value).replace("client.secret", "")
    assert tokens.asked > 0
    broker.close()


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize("method", [{}, {"sasl.oauthbearer.method": "default"}])
def test_a_mechanism_without_a_way_to_a_token_is_refused_before_anything_is_asked(
    key: str, method: dict[str, str]
) -> None:
    with pytest.raises(JobError, match=r"OAUTHBEARER, but nothing gets a token.*oidc"):
        KafkaBroker("127.0.0.1:1", {"security.protocol": "SASL_SSL", key: "OAUTHBEARER", **method})


def test_a_mechanism_that_is_none_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(JobError, match=r"kafka. settings.*NONSENSE"):
        KafkaBroker("127.0.0.1:1", {"security.protocol": "SASL_SSL", "sasl.mechanism": "NONSENSE"})
