"""One call of the command line on a job file: the file, its arguments, and the settings given beside it.

In here: resolving a job's settings, and drawing a job without running it. Not in here: running (`run.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kstreampy.datastream.job_file import draw_job_file, run_job_file
from kstreampy.datastream.job_number import settings_of_job
from kstreampy.datastream.launch import Job, Launcher
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_source import Resolved, find_file, resolve

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
        run_job_file(self.job_file, self.arguments, launcher)

    def draw(self, number: int = 1) -> tuple[Job, Settings]:
        """Runs the job file as far as the `env.execute()` of this number, none of which runs anything, and returns what it
        drew, with the settings that it would run with on Kafka. What it prints goes to standard error. JobError when there
        is no such call."""
        drawn = draw_job_file(self.job_file, self.arguments, number)
        settings = self.resolve(drawn.job).settings
        before = [self.resolve(job).settings.application_id for job in drawn.before]
        return drawn.job, settings_of_job(settings, before.count(settings.application_id) + 1)
