"""Running a job file the way `python job.py arguments` would: as `__main__`, with its own `sys.argv` and
`sys.path[0]`.

In here: compiling, running, drawing (running as far as the first `env.execute()`), and the messages for a file that is
missing, does not parse or never executes. Not in here: what `env.execute()` inside the file does, which depends on the
launcher in force (`launch.py`).
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kstreampy.datastream.launch import Job, JobExecutionResult, Launcher, use
from kstreampy.errors import JobError


def run_job_file(file: Path, arguments: Sequence[str], launcher: Launcher) -> None:
    """Runs the file to its end; each `env.execute()` in it comes to the launcher. JobError when there is no such file or it
    (or a module that it imports) has a syntax error; whatever else the file raises comes out as it is."""
    code = _compile(file)
    module = _module_of(file)
    with use(launcher), _called_with(file, arguments), as_main(module):
        _run(code, module)


class DrawnFile(NamedTuple):
    """A job that a file executes, those before it, and the module that its functions and classes live in (see
    `as_main`)."""

    job: Job
    before: Sequence[Job]
    module: types.ModuleType


def draw_job_file(file: Path, arguments: Sequence[str], number: int = 1) -> DrawnFile:
    """Runs the file as far as the `env.execute()` of this number. Neither it nor those before it run anything. What the file
    prints goes to standard error. JobError as `run_job_file`, when the file never executes, or not so often, and when it
    needs results of a job before."""
    code = _compile(file)
    module = _module_of(file)
    pen = _Pen(number)
    with contextlib.redirect_stdout(sys.stderr), _called_with(file, arguments), as_main(module):
        try:
            pen.draw(lambda: _run(code, module))
        except Exception as error:
            if not pen.jobs:
                raise
            raise JobError(
                f"job {number} of {file} cannot be drawn while those before it do not run: {error}"
            ) from error
    if not pen.jobs:
        raise never_executed(file)
    if len(pen.jobs) < number:
        raise JobError(f"{file} has no job {number}: it executes {len(pen.jobs)}")
    return DrawnFile(pen.jobs[-1], pen.jobs[:-1], module)


def drawn_by(function: Callable[[], object]) -> Job | None:
    """Calls the function as far as its first `env.execute()`, which runs nothing; None when it comes to its end without
    one."""
    pen = _Pen(1)
    pen.draw(function)
    return pen.jobs[0] if pen.jobs else None


def never_executed(file: Path) -> JobError:
    return JobError(
        f"{file} ended without running a job: call env.execute() at its end "
        "(on a StreamExecutionEnvironment with at least one sink)"
    )


@contextlib.contextmanager
def as_main(module: types.ModuleType) -> Iterator[None]:
    """While inside, the module is really `sys.modules["__main__"]`, so that classes of the job are found again by their
    names."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        yield
    finally:
        sys.modules["__main__"] = before


class _Drawn(BaseException):
    """Ends the job file once the job is known. Not an Exception, so that the file's own handlers let it pass."""


class _Pen:
    """Keeps the first jobs that are executed, as many as are asked for."""

    def __init__(self, number: int) -> None:
        self.jobs: list[Job] = []
        self._number = number

    def draw(self, function: Callable[[], object]) -> None:
        """Calls the function. What it raises once all jobs are there does not count."""
        try:
            with use(self):
                function()
        except _Drawn:
            pass
        except Exception:
            if len(self.jobs) < self._number:
                raise

    def launch(self, job: Job) -> JobExecutionResult:
        if len(self.jobs) < self._number:
            self.jobs.append(job)
            if len(self.jobs) < self._number:
                return JobExecutionResult(job.job_id, 0)
        raise _Drawn


def _run(code: types.CodeType, module: types.ModuleType) -> None:
    try:
        exec(code, module.__dict__)
    except SyntaxError as error:
        if error.filename is None or not Path(error.filename).is_file():
            raise  # from the job's own eval or compile
        raise JobError(_syntax_message(error)) from None


def _compile(file: Path) -> types.CodeType:
    try:
        source = file.read_bytes()
    except FileNotFoundError:
        raise JobError(f"there is no job file {file} (looked in {Path.cwd()})") from None
    except IsADirectoryError:
        raise JobError(f"{file} is a directory: name the job's Python file") from None
    except OSError as error:
        raise JobError(f"job file {file} cannot be read: {error.strerror}") from None
    try:
        return compile(source, str(file.absolute()), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise JobError(_syntax_message(error)) from None
    except ValueError as error:  # null bytes
        raise JobError(f"job file {file} is not Python source: {error}") from None


def _syntax_message(error: SyntaxError) -> str:
    lines = [f"{error.filename}, line {error.lineno}: {error.msg}"]
    if error.text:
        text = error.text.rstrip("\n")
        shown = text.lstrip()
        lines.append(f"    {shown}")
        if error.offset:
            lines.append("    " + " " * max(error.offset - 1 - (len(text) - len(shown)), 0) + "^")
    return "\n".join(lines)


def _module_of(file: Path) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__file__ = str(file.absolute())
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", module.__file__)
    module.__dict__["__builtins__"] = __builtins__
    return module


@contextlib.contextmanager
def _called_with(file: Path, arguments: Sequence[str]) -> Iterator[None]:
    before_argv, before_path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
    try:
        yield
    finally:
        sys.argv = before_argv
        sys.path[:] = before_path
