"""Running a job file the way `python job.py arguments` would: as `__main__`, with its own `sys.argv` and
`sys.path[0]`.

In here: compiling, running, and the message for a file that is missing or does not parse. Not in here: what
`env.execute()` inside the file does, which depends on the launcher in force (`run.py`, `plan.py`,
`config.py`).
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path

from kstreampy.errors import JobError


def run_job_file(job: Path, arguments: Sequence[str]) -> None:
    """Runs the file to its end. JobError when there is no such file or it (or a module that it imports) has a
    syntax error; whatever else the file raises comes out as it is."""
    code = _compile(job)
    with _as_main(job, arguments) as module:
        try:
            exec(code, module.__dict__)
        except SyntaxError as error:
            if error.filename is None or not Path(error.filename).is_file():
                raise  # from the job's own eval or compile
            raise JobError(_syntax_message(error)) from None


def _compile(job: Path) -> types.CodeType:
    try:
        source = job.read_bytes()
    except FileNotFoundError:
        raise JobError(f"there is no job file {job} (looked in {Path.cwd()})") from None
    except IsADirectoryError:
        raise JobError(f"{job} is a directory: name the job's Python file") from None
    except OSError as error:
        raise JobError(f"job file {job} cannot be read: {error.strerror}") from None
    try:
        return compile(source, str(job.absolute()), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise JobError(_syntax_message(error)) from None
    except ValueError as error:  # null bytes
        raise JobError(f"job file {job} is not Python source: {error}") from None


def _syntax_message(error: SyntaxError) -> str:
    lines = [f"{error.filename}, line {error.lineno}: {error.msg}"]
    if error.text:
        text = error.text.rstrip("\n")
        shown = text.lstrip()
        lines.append(f"    {shown}")
        if error.offset:
            lines.append("    " + " " * max(error.offset - 1 - (len(text) - len(shown)), 0) + "^")
    return "\n".join(lines)


@contextlib.contextmanager
def _as_main(job: Path, arguments: Sequence[str]) -> Iterator[types.ModuleType]:
    """The module is really `sys.modules["__main__"]`, so that classes of the job are found again by their
    names."""
    file = str(job.absolute())
    module = types.ModuleType("__main__")
    module.__file__ = file
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    module.__dict__["__builtins__"] = __builtins__
    before_main, before_argv, before_path = sys.modules["__main__"], sys.argv, list(sys.path)
    sys.modules["__main__"] = module
    sys.argv = [str(job), *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(file)))
    try:
        yield module
    finally:
        sys.modules["__main__"], sys.argv = before_main, before_argv
        sys.path[:] = before_path
