"""Job files for the tests of the command line: real files with a job whose plan and worker are made up, so
that the command itself is what is tested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

JobFileMaker = Callable[..., Path]

PRELUDE = """\
import signal, sys, time, types
from kstreampy.datastream.launch import launcher


class Plan:
    def explain(self, format):
        return f"the plan as {format}"


class Job:
    name = "fake"
    job_id = "1"
    code_settings = {"workers": 1}

    def own(self, settings):
        return settings

    def plan(self, settings):
        return Plan()

    def attach(self, plan, settings, stop):
        return None


def run_worker(plan, settings, *, connect, stop, metrics, health, states):
    work(settings, stop, health)


def work(settings, stop, health):
    print("worked", settings.application_id)


def execute():
    return launcher().launch(Job())


sys.modules["kstreampy.runtime.worker"] = types.ModuleType("worker")
sys.modules["kstreampy.runtime.worker"].run_worker = run_worker
sys.modules.pop("kstreampy.runtime.process", None)  # imports the worker by name
"""


@pytest.fixture
def job_file(tmp_path: Path) -> JobFileMaker:
    """Makes a job file of the prelude and some text."""

    def make(text: str, name: str = "job.py") -> Path:
        file = tmp_path / name
        file.write_text(PRELUDE + text)
        return file

    return make
