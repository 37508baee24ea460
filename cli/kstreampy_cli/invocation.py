"""One call of the command line on a job file: the file, its arguments, and the settings given beside it.

In here: resolving a job's settings, and drawing a job without running it. Not in here: running (`run.py`).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from kstreampy.datastream.launch import Job, Launcher, use
from kstreampy.errors import JobError
from kstreampy.runtime.settings_source import Resolved, find_file, resolve

from .jobfile import run_job_file
from .options import Overrides


@dataclass(frozen=True)
class Invocation:
    job_file: Path
    arguments: Sequence[str]
    overrides: Overrides

    def resolve(self, job: Job) -> Resolved:
        """The job's settings with all layers over them; JobError as `settings_source.resolve`."""
        file = find_file(self.job_file, self.overrides.config, os.environ)
        return resolve(job.code_settings, file, os.environ, self.overrides.settings, job_name=self.job_file.stem)

    def run_file(self, launcher: Launcher) -> None:
        """Runs the job file; each `env.execute()` in it comes to the launcher."""
        with use(launcher):
            run_job_file(self.job_file, self.arguments)

    def draw(self) -> Job:
        """Runs the job file as far as its first `env.execute()` and returns what it drew. What it prints goes
        to standard error. JobError when it never executes."""
        pen = _Pen()
        with contextlib.redirect_stdout(sys.stderr):
            try:
                self.run_file(pen)
            except _Drawn:
                pass
            except Exception:
                if pen.job is None:
                    raise
        if pen.job is None:
            raise never_executed(self.job_file)
        return pen.job


class _Drawn(BaseException):
    """Ends the job file once the job is known. Not an Exception, so that the file's own handlers let it
    pass."""


class _Pen:
    """Keeps the first job that is executed."""

    def __init__(self) -> None:
        self.job: Job | None = None

    def launch(self, job: Job) -> NoReturn:
        if self.job is None:
            self.job = job
        raise _Drawn


def never_executed(job_file: Path) -> JobError:
    return JobError(
        f"{job_file} ended without running a job: call env.execute() at its end "
        "(on a StreamExecutionEnvironment with at least one sink)"
    )
