"""Questions about state, from threads that may not touch it to the one that may.

In here: `QueryDesk`, where a question waits until the driver is between two turns, and what the answer of one worker is made
of. Not in here: which worker to ask (`query_route.py`), and how state is read (`state/query.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field
from http import HTTPStatus
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Final

from kstreampy.errors import KStreamError
from kstreampy.runtime.query_window import asked_name, windows_query
from kstreampy.serde.batch import Token
from kstreampy.state.key_range import ALL_KEYS, KeyRange
from kstreampy.state.keyed import KeyedState
from kstreampy.state.query import Query, Row, StateQuery

if TYPE_CHECKING:
    from kstreampy.runtime.assignment import Assignment
    from kstreampy.runtime.task import Task

MOST_ROWS: Final = 1_000
"""That one listing gives."""
PATIENCE_S: Final = 5.0
"""How long a question waits for the driver."""
_MOST_WAITING: Final = 100
_SHARE_S: Final = 0.02
"""Of a turn: what is not answered by then waits for the next one."""


class QueryError(Exception):
    """A question without an answer; `status` as HTTP has it."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Question:
    """What is asked of tasks of one stage: one key (`token`), or the keys of a range."""

    stage: str
    state: str
    """As the task names it, `<uid>/<name>`, or `<uid>/windows`."""
    tasks: tuple[int, ...]
    token: Token | None = None
    keys: KeyRange = ALL_KEYS
    limit: int = MOST_ROWS
    live: bool = False


@dataclass(frozen=True)
class TaskAnswer:
    """Of one task, as of its checkpoint number `checkpoint`."""

    task: int
    rows: list[Row]
    more: bool
    checkpoint: int


@dataclass
class WorkerAnswer:
    """Of the tasks of this worker. `absent`: those that it does not have, or cannot answer for now, and why."""

    answers: list[TaskAnswer] = field(default_factory=list)
    elsewhere: list[int] = field(default_factory=list)
    absent: dict[int, str] = field(default_factory=dict)


class QueryDesk:
    """One per worker. `ask` from any thread; `serve` from the driver's only."""

    def __init__(self) -> None:
        self._waiting: Queue[tuple[Question, Future[WorkerAnswer]]] = Queue(_MOST_WAITING)

    def ask(self, question: Question, patience_s: float = PATIENCE_S) -> WorkerAnswer:
        """QueryError when the driver does not come to it in time, or the state is not known."""
        answer: Future[WorkerAnswer] = Future()
        try:
            self._waiting.put_nowait((question, answer))
        except Full:
            raise QueryError(HTTPStatus.SERVICE_UNAVAILABLE, "too many questions wait already: ask again") from None
        try:
            return answer.result(patience_s)
        except NotInTime:
            answer.cancel()
            message = f"the worker has not come to the question within {patience_s:g} s: ask again"
            raise QueryError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None

    def serve(self, assignments: Iterable[Assignment]) -> None:
        """Between two turns: answers what waits, at least one question, for some milliseconds at most."""
        if self._waiting.empty():
            return
        by_stage = {assignment.uid: assignment.tasks for assignment in assignments}
        until = time.perf_counter() + _SHARE_S
        while True:
            try:
                question, answer = self._waiting.get_nowait()
            except Empty:
                return
            if answer.set_running_or_notify_cancel():
                _answer(question, answer, by_stage.get(question.stage, {}))
                if time.perf_counter() > until:
                    return


def _answer(question: Question, answer: Future[WorkerAnswer], tasks: Mapping[int, Task]) -> None:
    """Nothing that goes wrong with a question may reach the driver."""
    try:
        answer.set_result(_answered(question, tasks))
    except QueryError as error:
        answer.set_exception(error)
    except Exception as error:
        message = f"{question.state} cannot be read: {type(error).__name__}: {error}"
        answer.set_exception(QueryError(HTTPStatus.INTERNAL_SERVER_ERROR, message))


def _answered(question: Question, tasks: Mapping[int, Task]) -> WorkerAnswer:
    found = WorkerAnswer()
    for number in question.tasks:
        task = tasks.get(number)
        if task is None:
            found.elsewhere.append(number)
        elif not task.has_begun():
            found.absent[number] = f"task {task.name} is {task.status.value}: ask again"
        else:
            found.answers.append(_of_task(question, task))
    return found


def _of_task(question: Question, task: Task) -> TaskAnswer:
    state = task.state
    try:
        query = None if state is None else _query(state, question)
    except KStreamError as error:
        raise QueryError(HTTPStatus.NOT_FOUND, f"{question.state} cannot be asked for: {error}") from error
    if query is None:
        names = set() if state is None else set(map(asked_name, state.caches))
        known = ", ".join(map(repr, sorted(names))) or "none"
        raise QueryError(
            HTTPStatus.NOT_FOUND, f"no state {question.state!r} in stage {question.stage!r}: it has {known}"
        )
    checkpoint = task.progress.checkpoint_id
    if question.token is None:
        return TaskAnswer(task.number, *query.rows(question.keys, question.limit), checkpoint)
    row = query.row(question.token)
    return TaskAnswer(task.number, [] if row is None else [row], False, checkpoint)


def _query(state: KeyedState, question: Question) -> Query | None:
    """None when the task has no such state."""
    query = windows_query(state, question.state, live=question.live)
    cache = state.caches.get(question.state)
    if query is None and cache is not None:
        query = StateQuery(state, cache, live=question.live)
    return query
