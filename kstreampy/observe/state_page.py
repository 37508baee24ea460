"""Who may ask a worker for state.

In here: `StatePages`, the rule in front of the pages `/state…`. Not in here: the server (`http.py`) and the answers, which the
runtime gives.

With a token, whoever asks must send it (`Authorization: Bearer …`). Without one, only a server on the loopback address
answers, and only requests that name it so: a page in somebody's browser that has a name of its own resolve to 127.0.0.1
is turned away.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol

FORWARDED: Final = "X-Kstreampy-Forwarded"
"""The header of a question that one worker asks another."""


class Headers(Protocol):
    def get(self, name: str, default: str, /) -> str: ...


class Answer(Protocol):
    def __call__(self, path: str, query: str, /, *, forwarded: bool) -> tuple[HTTPStatus, Any]:
        """Status, and what is to be written as JSON; `path` is what follows `/state`, still quoted."""
        ...


@dataclass(frozen=True)
class StatePages:
    """`token` is what must be sent; None: loopback only."""

    answer: Answer
    token: str | None = None

    def refusal(self, bound_host: str, headers: Headers) -> tuple[HTTPStatus, str] | None:
        """Why a request is not answered; None when it is. `bound_host` is the address that the server listens on."""
        if self.token is not None:
            scheme, _, sent = headers.get("Authorization", "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self.token.encode()):
                return None
            return HTTPStatus.UNAUTHORIZED, "state is given to those who send the http_token: Authorization: Bearer …"
        if not _is_loopback(bound_host):
            return HTTPStatus.FORBIDDEN, (
                f"this worker listens on {bound_host}, so it gives state only to those who send a token: set http_token"
            )
        if not _is_loopback(_host_of(headers.get("Host", ""))):
            return HTTPStatus.FORBIDDEN, "without an http_token, state is asked for at 127.0.0.1 or localhost only"
        return None


def _host_of(header: str) -> str:
    """The Host header without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
