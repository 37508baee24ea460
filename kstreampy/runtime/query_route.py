"""State over HTTP: what a request asks for, which worker has it, and one answer made of all workers' answers.

In here: `StateService`, behind the pages `/state…` of a worker, and `ask`, which asks another worker. Not in here: the server and
who may ask (`observe/http.py`), the form of requests (`query_form.py`), what waits for the driver (`query.py`).

Any worker answers for all keys: which worker has a task is known from the stage's consumer group, whose members call
themselves `<application id>@<host>:<port>`, as their HTTP servers are reached (`member_name`). A worker that was asked by
another one answers for its own tasks only, so that no question goes round in circles.
"""

from __future__ import annotations

import http.client
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

from kstreampy.broker.broker import Broker, GroupMember
from kstreampy.errors import KStreamError
from kstreampy.graph.plan import Plan
from kstreampy.observe.state_page import FORWARDED
from kstreampy.runtime.layout import Layout, StageLayout
from kstreampy.runtime.query import PATIENCE_S, QueryDesk, QueryError, Question, TaskAnswer, WorkerAnswer
from kstreampy.runtime.query_form import Target, answer_of, listing, names, one_key, question_of, read_request, told
from kstreampy.runtime.settings import Settings

_log = logging.getLogger(__name__)

_REMEMBERED_S: Final = 1.0
_ANY_HOST: Final = "*"
_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})


class Address(NamedTuple):
    """Where a worker serves HTTP."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def member_name(settings: Settings) -> str:
    """What a worker calls itself in its groups: with the address of its HTTP server, if it has one."""
    if settings.http_port is None:
        return settings.application_id
    host = _ANY_HOST if settings.http_host in _WILDCARDS else settings.http_host
    return f"{settings.application_id}@{host}:{settings.http_port}"


def address_of(member: GroupMember) -> Address | None:
    """Where a member of a group serves HTTP; None when it does not. One that listens on all of its addresses is reached at
    that which the broker sees."""
    _, _, text = member.client_id.rpartition("@")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        return None
    host = member.host if host == _ANY_HOST else host
    return Address(host, int(port)) if host else None


def addresses(plan: Plan, broker: Broker) -> list[Address]:
    """The HTTP servers of the workers that run the job now."""
    members = (member for stage in plan.stages for member in broker.members(plan.group(stage)))
    return list(dict.fromkeys(found for member in members if (found := address_of(member)) is not None))


def ask(address: Address, target: str, token: str | None, *, forwarded: bool = False) -> tuple[int, Any]:
    """`GET target` of another worker: status and what the JSON says. OSError when nobody answers there in time."""
    headers = {"Accept": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if forwarded:
        headers[FORWARDED] = "1"
    connection = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S + 1)
    try:
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        return answer.status, msgspec.json.decode(answer.read())
    except (http.client.HTTPException, msgspec.DecodeError) as error:
        raise OSError(f"what answers at {address} is no worker: {error}") from error
    finally:
        connection.close()


class StateService:
    """Made before the worker, lives as long as the process; any thread may ask."""

    def __init__(self, token: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.desk = QueryDesk()
        self._token = token
        self._clock = clock
        self._open: tuple[Layout, Broker] | None = None
        self._lock = threading.Lock()
        self._owners: dict[str, tuple[float, dict[int, Address]]] = {}
        """Stage → when it was asked, and who has which task."""

    def opened(self, layout: Layout, broker: Broker) -> None:
        """The worker knows its job and its cluster."""
        self._open = (layout, broker)

    def closed(self) -> None:
        self._open = None

    def get(self, path: str, query: str, *, forwarded: bool = False) -> tuple[HTTPStatus, Any]:
        """The answer to `GET /state<path>?<query>`, to be written as JSON. `forwarded`: another worker asks, for its own
        answer."""
        try:
            return HTTPStatus.OK, self._got(path, query, forwarded=forwarded)
        except QueryError as error:
            return error.status, {"error": str(error)}
        except KStreamError as error:  # the broker's
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}
        except Exception as error:
            _log.exception("a question for state failed")
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(error).__name__}: {error}"}

    def _got(self, path: str, query: str, *, forwarded: bool) -> Any:
        if self._open is None:
            raise QueryError(HTTPStatus.SERVICE_UNAVAILABLE, "the worker is starting or ending: ask again")
        layout, _ = self._open
        if not path.strip("/"):
            return names(layout.plan)
        target = read_request(layout.plan, path, query, forwarded=forwarded)
        question = question_of(target, layout.stage(target.stage).tasks)
        if forwarded:
            return told(self.desk.ask(question))
        answers = self._gather(layout.stage(target.stage), question, target)
        return one_key(target, answers) if target.token is not None else listing(target, answers)

    def _gather(self, layout: StageLayout, question: Question, target: Target) -> list[TaskAnswer]:
        """The answers of all tasks that are asked. QueryError unless all of them answer."""
        mine = self.desk.ask(question)
        answers, absent = list(mine.answers), dict(mine.absent)
        missing = set(mine.elsewhere)
        reasons: dict[int, str] = {}
        for is_first in (True, False):  # a task may have moved since its owner was looked up
            if missing and not absent:
                for address, tasks in self._by_owner(layout, missing, fresh=not is_first).items():
                    found = self._asked(address, target, tasks, reasons)
                    answers += found.answers
                    absent.update(found.absent)
                    missing.difference_update(answer.task for answer in found.answers)
        absent.update({task: reasons.get(task, _unowned(layout, task)) for task in missing})
        if absent:
            raise QueryError(HTTPStatus.SERVICE_UNAVAILABLE, "; ".join(sorted(set(absent.values()))))
        return answers

    def _asked(self, address: Address, target: Target, tasks: Iterable[int], reasons: dict[int, str]) -> WorkerAnswer:
        """Of another worker; nothing, and in `reasons` why, when it does not answer. QueryError when it says what all workers
        would say."""
        wanted = sorted(tasks)
        try:
            status, said = ask(address, target.forwarded(wanted), self._token, forwarded=True)
        except OSError as error:
            reasons.update(dict.fromkeys(wanted, f"the worker at {address} does not answer ({error}): ask again"))
            return WorkerAnswer()
        if status == HTTPStatus.OK:
            return answer_of(said)
        message = str(said.get("error", said)) if isinstance(said, Mapping) else str(said)
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR):
            raise QueryError(HTTPStatus(status), message)
        reasons.update(dict.fromkeys(wanted, f"the worker at {address} says {status}: {message}"))
        return WorkerAnswer()

    def _by_owner(self, layout: StageLayout, tasks: Iterable[int], *, fresh: bool) -> dict[Address, list[int]]:
        owners = self._owners_of(layout, fresh=fresh)
        found: dict[Address, list[int]] = {}
        for task in tasks:
            if task in owners:
                found.setdefault(owners[task], []).append(task)
        return found

    def _owners_of(self, layout: StageLayout, *, fresh: bool) -> dict[int, Address]:
        """Who has which task of a stage; remembered for a moment."""
        uid = layout.stage.uid
        with self._lock:
            asked_at, owners = self._owners.get(uid, (float("-inf"), {}))
        if not fresh and self._clock() - asked_at < _REMEMBERED_S:
            return owners
        if self._open is None:
            return {}
        owners = owners_among(layout, self._open[1].members(layout.group))
        with self._lock:
            self._owners[uid] = self._clock(), owners
        return owners


def owners_among(layout: StageLayout, members: Iterable[GroupMember]) -> dict[int, Address]:
    """Who has which task of a stage, as its group says; tasks that nobody with an address has are left out."""
    owners: dict[int, Address] = {}
    for member in members:
        address = address_of(member)
        if address is not None:
            for task, inputs in enumerate(layout.inputs):
                if member.partitions.issuperset(inputs):
                    owners[task] = address
    return owners


def _unowned(layout: StageLayout, task: int) -> str:
    return f"no worker that serves HTTP has task {layout.stage.uid}/{task} now: it is moving, or its worker has no http_port"
