"""How a command ends when something is wrong: one clear message on standard error, and the documented exit
code.

In here: messages and traces. Not in here: what is wrong, which is said where it is found
(`kstreampy/errors.py` has the codes).
"""

from __future__ import annotations

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import kstreampy
import kstreampy_connectors
from kstreampy.errors import JobError, KStreamError, RecordError
from kstreampy.runtime.settings_source import DEBUG_VARIABLE

CRASHED: Final = 1
"""The exit code of any exception that is not kstreampy's own."""

_Verbose = Annotated[bool, typer.Option("--verbose", help="Show whole traces (also: KSTREAMPY_DEBUG=1).")]

_NOT_THE_USERS: Final = tuple(
    f"{Path(str(file)).resolve().parent}{os.sep}"
    for file in (kstreampy.__file__, kstreampy_connectors.__file__, __file__, typer.__file__)
)

_STANDARD_LIBRARY: Final = f"{Path(sysconfig.get_paths()['stdlib']).resolve()}{os.sep}"
_RUNNING: Final = ("execute", "execute_async", "execute_and_collect", "__next__", "next")


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
            if isinstance(error, BrokenPipeError) and _is_all_ours(error):
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
    """Writes what went wrong to standard error; returns the exit code. Of what a record met, the trace is shown where the
    user's code is in it."""
    cause = error.__cause__ if isinstance(error, RecordError) else None
    hidden = cause is not None and not verbose and _is_all_ours(cause)
    if verbose:
        _write("".join(traceback.format_exception(error)))
    elif not isinstance(error, KStreamError):
        _write(users_trace(error))
    elif cause is not None and not hidden:
        _write(users_trace(cause))
    if not isinstance(error, KStreamError):
        return CRASHED
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    line = users_line(error) if isinstance(error, JobError) else None
    at = "" if line is None else f"\n  called in {line}"
    more = "\n  --verbose shows the trace" if hidden else ""
    _write(f"kstreampy: error: {error or type(error).__name__}{notes}{at}{more}")
    return error.exit_code


def users_line(error: BaseException) -> str | None:
    """Where the user's code called what raised. None where that is the call that runs the job: what is wrong stands elsewhere
    then."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [number for number, frame in enumerate(frames) if not _is_ours(frame.filename, _STANDARD_LIBRARY)]
    if not users or any(frame.name in _RUNNING for frame in frames[users[-1] + 1 :][:1]):
        return None
    frame = frames[users[-1]]
    return f"{frame.name} ({frame.filename}:{frame.lineno})"


def users_trace(error: BaseException) -> str:
    """The trace without frames of kstreampy, its connectors and the command line; the whole of it where there are no
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


def _is_ours(file: str, *more: str) -> bool:
    """Code that was made at run time counts too: that of a dataclass's methods calls `__post_init__`."""
    return file.startswith(("<frozen ", "<string>")) or str(Path(file).resolve()).startswith((*_NOT_THE_USERS, *more))


def _is_all_ours(error: BaseException) -> bool:
    """Whether no code of the user's is in its trace, nor in those of its causes: what the user called with is wrong then, or
    kstreampy is."""
    ours = all(_is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
    return ours and (error.__cause__ is None or _is_all_ours(error.__cause__))


def _write(text: str) -> None:
    typer.echo(text.rstrip("\n"), err=True)
