"""How a command ends when something is wrong: one clear message on standard error, and the documented exit
code.

In here: messages and traces. Not in here: what is wrong, which is said where it is found
(`kstreampy/errors.py` has the codes).
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import kstreampy
from kstreampy.errors import KStreamError, RecordError
from kstreampy.runtime.settings_source import DEBUG_VARIABLE

CRASHED: Final = 1
"""The exit code of any exception that is not kstreampy's own."""

_Verbose = Annotated[bool, typer.Option("--verbose", help="Show whole traces (also: KSTREAMPY_DEBUG=1).")]

_NOT_THE_USERS: Final = tuple(
    f"{Path(str(file)).resolve().parent}{os.sep}" for file in (kstreampy.__file__, __file__, typer.__file__)
)


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Turns every exception of a command into its message and exit code. With `--verbose` or KSTREAMPY_DEBUG
    the whole trace is shown as well."""

    def with_report(verbose: bool = False, **values: Any) -> None:
        verbose = verbose or bool(os.environ.get(DEBUG_VARIABLE))
        try:
            command(**values)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _is_a_commands(error):
                raise  # what read the output has gone, as `head` does: typer ends without a word
            raise typer.Exit(report(error, verbose=verbose)) from None

    signature = inspect.signature(command, eval_str=True)
    verbosity = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Verbose)
    parameters = [*signature.parameters.values(), verbosity]
    with_report.__name__, with_report.__doc__ = command.__name__, command.__doc__
    with_report.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # typer reads the options from here.
    with_report.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return with_report


def report(error: Exception, *, verbose: bool = False) -> int:
    """Writes what went wrong to standard error; returns the exit code."""
    if verbose:
        _write("".join(traceback.format_exception(error)))
    elif not isinstance(error, KStreamError):
        _write(users_trace(error))
    elif isinstance(error, RecordError) and error.__cause__ is not None:
        _write(users_trace(error.__cause__))
    if not isinstance(error, KStreamError):
        return CRASHED
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    _write(f"kstreampy: error: {error or type(error).__name__}{notes}")
    return error.exit_code


def users_trace(error: BaseException) -> str:
    """The trace without frames of kstreampy and the command line; the whole of it where there are no
    others."""
    shown = traceback.TracebackException.from_exception(error)
    _trim(shown)
    return "".join(shown.format())


def _trim(shown: traceback.TracebackException | None) -> None:
    if shown is None:
        return
    users = [frame for frame in shown.stack if not _is_ours(frame.filename)]
    if users:
        shown.stack = traceback.StackSummary.from_list(users)
    _trim(shown.__cause__)
    _trim(shown.__context__)
    for one in shown.exceptions or ():
        _trim(one)


def _is_ours(file: str) -> bool:
    return file.startswith("<frozen ") or str(Path(file).resolve()).startswith(_NOT_THE_USERS)


def _is_a_commands(error: BaseException) -> bool:
    """Whether it was raised by a command's own output, and not in the user's code."""
    return all(_is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def _write(text: str) -> None:
    typer.echo(text.rstrip("\n"), err=True)
