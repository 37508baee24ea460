"""What a request for state asks for, and how answers are written: the form of `/state…`, as the README documents it.

In here: paths, parameters and JSON. Not in here: who is asked (`query_route.py`), and state itself (`state/query.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from kstreampy.graph.plan import Plan, Stage
from kstreampy.runtime.query import MOST_ROWS, QueryError, Question, TaskAnswer, WorkerAnswer
from kstreampy.serde.batch import Token
from kstreampy.serde.key import from_typed_bytes, key_of, partition_of, token
from kstreampy.state.key_range import ALL_KEYS, KeyRange, place_of
from kstreampy.state.query import Row

_PARAMETERS: Final = frozenset({"key", "key_type", "prefix", "from", "to", "after", "limit", "live"})
_OF_LISTINGS: Final = frozenset({"prefix", "from", "to", "after", "limit"})
_KEY_TYPES: Final = ("str", "int", "json", "id")
_LIMIT: Final = 100


@dataclass(frozen=True)
class Target:
    """A request, understood."""

    name: str
    """As it was asked for: `<uid>/<state>`, or a public name."""
    stage: str
    state: str
    anywhere: bool
    """The keys of the stage are placed by something we cannot ask: any task may have one."""
    parameters: Mapping[str, str]
    token: Token | None = None
    keys: KeyRange = ALL_KEYS
    limit: int = _LIMIT
    live: bool = False
    tasks: tuple[int, ...] | None = None
    """Those that another worker asks for."""

    def forwarded(self, tasks: Iterable[int]) -> str:
        """The request that asks another worker for these tasks."""
        parameters = {**self.parameters, "tasks": ",".join(map(str, tasks))}
        return f"/state/{quote(self.state, safe='')}?{urlencode(parameters)}"


def names(plan: Plan) -> dict[str, Any]:
    """What can be asked for, as far as the plan knows."""
    steps = [step for stage in plan.stages for step in stage.steps() if step.stateful]
    public = {step.queryable[0]: f"{step.uid}/{step.queryable[1]}" for step in steps if step.queryable is not None}
    return {"names": public, "operators": sorted({step.uid for step in steps})}


def read_request(plan: Plan, path: str, query: str, *, forwarded: bool) -> Target:
    """QueryError when it cannot be understood, or the job has no such operator."""
    pairs = parse_qsl(query, keep_blank_values=True)
    parameters = dict(pairs)
    _check_parameters(parameters, len(pairs), forwarded=forwarded)
    name, state, rest = _named(plan, [unquote(part) for part in path.strip("/").split("/")])
    if len(rest) > 1:
        raise _bad("a key in the path is one part of it: write a slash in it as %2F, or give the key as ?key=")
    if rest:
        if "key" in parameters:
            raise _bad("the key is given twice, in the path and as ?key=")
        parameters["key"] = rest[0]
    idle = sorted(_OF_LISTINGS & set(parameters))
    if "key" in parameters and idle:
        raise _bad(f"one key is asked for, so these mean nothing: {', '.join(idle)}")
    stage = _stage_of(plan, state)
    anywhere = any(step.kind == "reinterpret" for step in stage.steps())
    target = Target(name, stage.uid, state, anywhere, parameters, live=_flag(parameters.get("live", "false")))
    if forwarded:
        target = replace(target, tasks=_numbers(parameters.pop("tasks", "")))
    kind = parameters.get("key_type", "str")
    if "key" in parameters:
        return replace(target, token=_token(parameters["key"], kind))
    return replace(target, keys=_range(parameters, kind), limit=_limit(parameters.get("limit")))


def question_of(target: Target, tasks: int) -> Question:
    """What the tasks are asked; `tasks` is how many the stage has."""
    asked = tuple(range(tasks)) if target.tasks is None else tuple(task for task in target.tasks if task < tasks)
    if target.token is not None and not target.anywhere and target.tasks is None:
        asked = (partition_of(target.token, tasks),)
    return Question(target.stage, target.state, asked, target.token, target.keys, target.limit, target.live)


# Names


def _named(plan: Plan, parts: list[str]) -> tuple[str, str, list[str]]:
    """(name as asked, `<uid>/<state>`, what follows)."""
    public: Mapping[str, str] = names(plan)["names"]
    first = parts[0]
    if first in public:
        return first, public[first], parts[1:]
    if "/" in first:
        return first, first, parts[1:]
    if len(parts) < 2:
        listed = ", ".join(map(repr, public)) or "none"
        raise QueryError(
            HTTPStatus.NOT_FOUND,
            f"no state {first!r}: its public names are {listed}; every other state is <uid>/<state name>",
        )
    name = f"{first}/{parts[1]}"
    return name, name, parts[2:]


def _stage_of(plan: Plan, state: str) -> Stage:
    uid = state.partition("/")[0]
    for stage in plan.stages:
        if any(step.uid == uid and step.stateful for step in stage.steps()):
            return stage
    known = ", ".join(map(repr, names(plan)["operators"])) or "none"
    raise QueryError(HTTPStatus.NOT_FOUND, f"no operator {uid!r} with state in this job: it has {known}")


# Parameters


def _bad(message: str) -> QueryError:
    return QueryError(HTTPStatus.BAD_REQUEST, message)


def _check_parameters(parameters: Mapping[str, str], count: int, *, forwarded: bool) -> None:
    if count != len(parameters):
        raise _bad("a parameter is given twice")
    known = _PARAMETERS | {"tasks"} if forwarded else _PARAMETERS
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise _bad(f"no parameter {', '.join(map(repr, unknown))}: there are {', '.join(sorted(_PARAMETERS))}")


def _flag(text: str) -> bool:
    if text.lower() not in ("", "true", "1", "false", "0"):
        raise _bad(f"live is true or false, not {text!r}")
    return text.lower() in ("", "true", "1")


def _numbers(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() for part in text.split(",")):
        raise _bad(f"tasks are numbers, not {text!r}")
    return tuple(map(int, text.split(",")))


def _limit(text: str | None) -> int:
    if text is None:
        return _LIMIT
    if not text.isdecimal() or not 1 <= int(text) <= MOST_ROWS:
        raise _bad(f"limit is a number from 1 to {MOST_ROWS}, not {text!r}")
    return int(text)


def _token(text: str, kind: str) -> Token:
    try:
        if kind == "str":
            return text
        if kind == "int":
            return int(text)
        if kind == "json":
            return token(_key_of_json(msgspec.json.decode(text)))
        if kind == "id":
            found = from_typed_bytes(bytes.fromhex(text))
            key_of(found)
            return found
    except (ValueError, TypeError) as error:
        raise _bad(f"{text!r} is no key of key_type={kind}: {error}") from error
    raise _bad(f"key_type is one of {', '.join(_KEY_TYPES)}, not {kind!r}")


def _key_of_json(value: Any) -> Any:
    """Lists stand for tuples."""
    return tuple(map(_key_of_json, value)) if isinstance(value, list) else value


def _range(parameters: Mapping[str, str], kind: str) -> KeyRange:
    prefix = parameters.get("prefix")
    least, most = (_bound(parameters.get(name), kind) for name in ("from", "to"))
    if prefix is not None and kind != "str":
        raise _bad("prefix is of str keys: leave key_type out")
    after = parameters.get("after")
    try:
        typed = None if after is None else bytes.fromhex(after)
        if typed is not None:
            place_of(typed)
    except ValueError as error:
        raise _bad(f"after is the id of a key, not {after!r}: {error}") from error
    return KeyRange(prefix, least, most, typed)


def _bound(text: str | None, kind: str) -> str | int | None:
    if text is None:
        return None
    if kind not in ("str", "int"):
        raise _bad("from and to are of str or int keys: key_type=int, or none")
    found = _token(text, kind)
    assert isinstance(found, str | int), "a str or an int is its own token"
    if isinstance(found, int) and not -(2**63) <= found < 2**63:
        raise _bad(f"from and to are numbers of 64 bit, not {text}")
    return found


# Answers


def told(answer: WorkerAnswer) -> dict[str, Any]:
    """What one worker tells another."""
    return {
        "answers": [
            {"task": one.task, "checkpoint": one.checkpoint, "more": one.more, "rows": [_full(row) for row in one.rows]}
            for one in answer.answers
        ],
        "elsewhere": answer.elsewhere,
        "absent": [[task, why] for task, why in answer.absent.items()],
    }


def answer_of(said: Any) -> WorkerAnswer:
    """The inverse of `told`. QueryError when it is something else: a worker of another version."""
    try:
        answers = [
            TaskAnswer(one["task"], [_row(row) for row in one["rows"]], one["more"], one["checkpoint"])
            for one in said["answers"]
        ]
        return WorkerAnswer(answers, list(said["elsewhere"]), dict(said["absent"]))
    except (KeyError, TypeError, ValueError) as error:
        raise QueryError(
            HTTPStatus.SERVICE_UNAVAILABLE, f"another worker answers in a form that this one does not know: {error!r}"
        ) from error


def _full(row: Row) -> dict[str, Any]:
    shown = {"key": row.key, "id": row.typed_key.hex(), "value": row.value}
    return {**shown, "cut": True} if row.is_cut else shown


def _row(said: Mapping[str, Any]) -> Row:
    return Row(said["key"], bytes.fromhex(said["id"]), said["value"], is_cut="cut" in said)


def one_key(target: Target, answers: Iterable[TaskAnswer]) -> dict[str, Any]:
    """QueryError when nothing is kept for the key."""
    for answer in answers:
        for row in answer.rows:
            where = {"task": answer.task, "checkpoint": answer.checkpoint, "live": target.live}
            return {"name": target.name, **_full(row), **where}
    text, kind = target.parameters["key"], target.parameters.get("key_type", "str")
    hint = " (for other keys than str say key_type=int or key_type=json)" if kind == "str" else ""
    raise QueryError(HTTPStatus.NOT_FOUND, f"{target.name} has nothing for the {kind} key {text!r}{hint}")


def listing(target: Target, answers: Iterable[TaskAnswer]) -> dict[str, Any]:
    """The first rows of all tasks in the order of their keys; `next`, if there may be more: the `after` to go on with."""
    given = list(answers)
    rows = sorted(
        ((place_of(row.typed_key), row, answer.task) for answer in given for row in answer.rows), key=lambda one: one[0]
    )
    ends = [place_of(answer.rows[-1].typed_key) for answer in given if answer.more and answer.rows]
    known = [one for one in rows if not ends or one[0] <= min(ends)]
    shown = known[: target.limit]
    found: dict[str, Any] = {
        "name": target.name,
        "rows": [{**_full(row), "task": task} for _, row, task in shown],
        "live": target.live,
    }
    if shown and (ends or len(known) > len(shown)):
        found["next"] = shown[-1][1].typed_key.hex()
    return found
