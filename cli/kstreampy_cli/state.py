"""`kstreampy state get|list job.py NAME [KEY]`: asks a running job for what it keeps by key.

In here: the commands. Not in here: what workers answer (`kstreampy/runtime/query_route.py`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from kstreampy.datastream.launch import Job
from kstreampy.errors import BrokerUnavailable, JobError
from kstreampy.runtime.connect import broker_factory
from kstreampy.runtime.query_route import Address, addresses, ask
from kstreampy.runtime.settings import Settings

from .invocation import Invocation
from .options import Arguments, JobFile, JobNumber, Overrides

_PANEL: Final = "Which state"

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="<uid>/<state name>, <uid>/windows, or a public name.", show_default=False)
]
_KeyType = Annotated[
    str, typer.Option(metavar="TYPE", help="str, int, json, or id (as in answers).", rich_help_panel=_PANEL)
]
_Live = Annotated[
    bool, typer.Option("--live", help="As it is now, not as of the last checkpoint.", rich_help_panel=_PANEL)
]
_At = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A worker to ask, without looking for one.", rich_help_panel=_PANEL),
]
_Text = Annotated[str | None, typer.Option(rich_help_panel=_PANEL, show_default=False)]


def get(
    job: JobFile,
    name: _Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key.", show_default=False)],
    *,
    arguments: Arguments = None,
    key_type: _KeyType = "str",
    job_number: JobNumber = 1,
    live: _Live = False,
    at: _At = None,
    overrides: Overrides,
) -> None:
    """Show what a running job keeps for one key, as JSON."""
    invocation = Invocation(job, tuple(arguments or ()), overrides)
    _ask_for(invocation, job_number, at, name, {"key": key, "key_type": key_type, "live": live})


def list_keys(
    job: JobFile,
    name: _Name,
    *,
    arguments: Arguments = None,
    prefix: _Text = None,
    least: Annotated[str | None, typer.Option("--from", help="First key.", rich_help_panel=_PANEL)] = None,
    most: Annotated[str | None, typer.Option("--to", help="Last key.", rich_help_panel=_PANEL)] = None,
    after: Annotated[str | None, typer.Option(help="Go on behind this id.", rich_help_panel=_PANEL)] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.", rich_help_panel=_PANEL)] = 100,
    key_type: _KeyType = "str",
    job_number: JobNumber = 1,
    live: _Live = False,
    at: _At = None,
    overrides: Overrides,
) -> None:
    """List what a running job keeps, in the order of keys, as JSON."""
    asked = {"prefix": prefix, "from": least, "to": most, "after": after, "limit": limit}
    invocation = Invocation(job, tuple(arguments or ()), overrides)
    _ask_for(invocation, job_number, at, name, {**asked, "key_type": key_type, "live": live})


def _ask_for(invocation: Invocation, job_number: int, at: str | None, name: str, asked: dict[str, Any]) -> None:
    drawn, settings = invocation.draw(job_number)
    where = [_parsed(at)] if at is not None else _workers(drawn, settings)
    given = {key: str(value).lower() if value is True else value for key, value in asked.items()}
    query = urlencode({key: value for key, value in given.items() if value is not None and value is not False})
    status, said = _first_answer(where, f"/state/{quote(name, safe='')}?{query}", settings.http_token)
    if status != HTTPStatus.OK:
        reason = str(said.get("error", said) if isinstance(said, dict) else said).replace("key_type=", "--key-type ")
        raise (BrokerUnavailable if status == HTTPStatus.SERVICE_UNAVAILABLE else JobError)(reason)
    typer.echo(msgspec.json.format(msgspec.json.encode(said), indent=2).decode())


def _parsed(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise JobError(f"--at {text!r} must be HOST:PORT, such as 127.0.0.1:8080")
    return Address(host, int(port))


def _workers(drawn: Job, settings: Settings) -> list[Address]:
    if settings.bootstrap_servers is None:
        raise JobError(
            "a job without a broker can be asked only at its own address: give --at HOST:PORT, its http_host and http_port"
        )
    plan = drawn.plan(settings)
    broker = broker_factory(plan, settings)()
    try:
        found = addresses(plan, broker)
    finally:
        broker.close()
    if not found:
        raise BrokerUnavailable(
            f"no worker of {settings.application_id} that serves HTTP is running: start it with --http-port"
        )
    return found


def _first_answer(where: list[Address], target: str, token: str | None) -> tuple[int, Any]:
    """Of the first worker that answers at all."""
    reasons: list[str] = []
    for address in where:
        try:
            return ask(address, target, token)
        except OSError as error:
            reasons.append(f"{address}: {error}")
    raise BrokerUnavailable(f"no worker answers ({'; '.join(reasons)})")
