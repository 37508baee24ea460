"""Rows of an API's reference as text, and the check of one against the code.

A line without indentation is a class, with what it must be a subclass of behind two spaces in brackets, or a function of the
module; indented lines are the class's members: `static` and `class` methods are called on the class, a member without
brackets is a constant. Parameters bear their name and their default:

    TimeWindow  (Window)
        __init__(start, end)
        static merge_windows(windows, callback)
    mod_inverse(x)

What the code may have beyond a row: more parameters behind those of the row, and defaults where the row has none.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any

_OWNER = re.compile(r"(?P<name>[\w.]+)(?:  \((?P<bases>.*)\))?")
_MEMBER = re.compile(r"(?:(?P<on_class>static|class) )?(?P<name>\w+)(?:\((?P<parameters>.*)\))?")


@dataclass(frozen=True)
class Row:
    """`owner` is "" for functions of the module, `member` "" for the row of a class."""

    module: str
    owner: str = ""
    bases: tuple[str, ...] = ()
    member: str = ""
    on_class: bool = False
    parameters: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.module, self.owner, self.member) if part)


def rows(module: str, text: str) -> list[Row]:
    """The rows of one module of `kstreampy`."""
    found: list[Row] = []
    owner = ""
    for line in text.strip().splitlines():
        if line.startswith(" "):
            found.append(_member(module, owner, line.strip()))
        elif re.fullmatch(r"\w+\(.*\)", line):
            found.append(_member(module, "", line))
        else:
            match = _OWNER.fullmatch(line)
            assert match, line
            owner = match["name"]
            bases = tuple(match["bases"].split(", ")) if match["bases"] else ()
            found.append(Row(module, owner, bases))
    return found


def _member(module: str, owner: str, line: str) -> Row:
    match = _MEMBER.fullmatch(line)
    assert match, line
    return Row(module, owner, (), match["name"], match["on_class"] is not None, match["parameters"])


def is_offered(row: Row) -> bool:
    """Whether there is anything under the row's name."""
    try:
        _named(row)
    except (ImportError, AttributeError):
        return False
    return True


def check(row: Row) -> None:
    """AssertionError, ModuleNotFoundError or AttributeError unless the code has what the row says."""
    found = _named(row)
    if not row.member:
        assert set(row.bases) <= {base.__name__ for base in inspect.getmro(found)}
    elif row.parameters is not None:
        _check_parameters(_signature(row, found), row.parameters, import_module(f"kstreampy.{row.module}"))


def _named(row: Row) -> Any:
    path = [part for part in (*row.owner.split("."), row.member) if part]
    start: Any = import_module(f"kstreampy.{row.module}")
    return reduce(getattr, path, start)


def _signature(row: Row, found: Any) -> list[inspect.Parameter]:
    """The parameters that a caller gives: without the instance."""
    assert callable(found)
    owner = _named(Row(row.module, row.owner)) if row.owner else None
    if row.member == "__init__":
        return list(inspect.signature(owner).parameters.values())
    parameters = list(inspect.signature(found).parameters.values())
    if owner is None or row.on_class:
        return parameters
    assert inspect.isfunction(inspect.getattr_static(owner, row.member)), "it is not called on an instance"
    return parameters[1:]


def _check_parameters(found: list[inspect.Parameter], text: str, module: ModuleType) -> None:
    parsed = ast.parse(f"def row({text}): ...").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    names = [argument.arg for argument in parsed.args.args]
    assert [parameter.name for parameter in found[: len(names)]] == names
    for argument, default in zip(reversed(parsed.args.args), reversed(parsed.args.defaults), strict=False):
        of_code = next(parameter.default for parameter in found if parameter.name == argument.arg)
        assert of_code == eval(ast.unparse(default), vars(module)), argument.arg
    rest = found[len(names) :]
    for variable, kind in (
        (parsed.args.vararg, inspect.Parameter.VAR_POSITIONAL),
        (parsed.args.kwarg, inspect.Parameter.VAR_KEYWORD),
    ):
        if variable is not None:
            assert (rest[0].name, rest[0].kind) == (variable.arg, kind)
            rest = rest[1:]
    for parameter in rest:
        assert parameter.default is not inspect.Parameter.empty, f"{parameter.name} must be given"
