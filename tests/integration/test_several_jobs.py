"""A program that executes several jobs, on brokers: each gives all of its results, though all have the same steps, and also
when the program is started again once all have ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.command import command
from tests.integration.conftest import MakeJob

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(280)]

JOBS = """
from kstreampy.datastream import StreamExecutionEnvironment

def totals(env, numbers):
    return env.from_collection(list(numbers)).key_by(lambda n: n % 3).reduce(lambda one, other: one + other)

first = StreamExecutionEnvironment.get_execution_environment()
with totals(first, range(10)).execute_and_collect() as found:
    print("first", sorted(found), flush=True)
with totals(first, range(10)).execute_and_collect() as found:
    print("second", sorted(found), flush=True)
third = StreamExecutionEnvironment.get_execution_environment()
with totals(third, range(100, 110)).execute_and_collect() as found:
    print("third", sorted(found), flush=True)
"""


def running_totals(numbers: range) -> list[int]:
    """Of each residue, every sum so far."""
    return sorted(sum(number for number in numbers if number % 3 == last % 3 and number <= last) for last in numbers)


EXPECTED = [
    f"first {running_totals(range(10))}",
    f"second {running_totals(range(10))}",
    f"third {running_totals(range(100, 110))}",
]


@pytest.fixture
def settings(unique: Callable[[str], str], tmp_path: Path) -> dict[str, str]:
    return {"KSTREAMPY_APPLICATION_ID": unique("several"), "KSTREAMPY_STATE_DIR": str(tmp_path / "state")}


def test_every_job_gives_all_results_at_every_start(
    kafka_bootstrap: str, settings: dict[str, str], job_file: MakeJob
) -> None:
    file, application = job_file(JOBS), settings["KSTREAMPY_APPLICATION_ID"]
    for _ in range(2):
        done = command("run", file, timeout_s=120, KSTREAMPY_BOOTSTRAP_SERVERS=kafka_bootstrap, **settings)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines() == EXPECTED, done.stderr[-3000:]
        for number in (2, 3):
            assert f"job {number} of this program runs as the application {application}-job-{number}" in done.stderr
    environment = {**os.environ, **settings, "KSTREAMPY_BOOTSTRAP_SERVERS": kafka_bootstrap}
    plain = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert plain.stdout.splitlines() == EXPECTED, plain.stderr[-3000:]


def test_several_workers_take_job_after_job(real_bootstrap: str, settings: dict[str, str], job_file: MakeJob) -> None:
    """Each worker runs the whole program, and is told all results."""
    file = job_file(JOBS)
    for _ in range(2):
        done = command(
            "run", file, "--workers", 2, timeout_s=130, KSTREAMPY_BOOTSTRAP_SERVERS=real_bootstrap, **settings
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert sorted(done.stdout.splitlines()) == sorted(EXPECTED * 2), done.stderr[-3000:]


ASYNC = (
    JOBS.split("first =")[0]
    + """
running = []
for name, numbers in (("first", range(10)), ("second", range(10)), ("third", range(100, 110))):
    env = StreamExecutionEnvironment.get_execution_environment()
    running.append((name, totals(env, numbers).execute_and_collect()))
for name, found in running:
    print(name, sorted(found), flush=True)
"""
)


def test_jobs_side_by_side(kafka_bootstrap: str, settings: dict[str, str], job_file: MakeJob) -> None:
    for _ in range(2):
        done = command("run", job_file(ASYNC), timeout_s=120, KSTREAMPY_BOOTSTRAP_SERVERS=kafka_bootstrap, **settings)
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines() == EXPECTED, done.stderr[-3000:]
