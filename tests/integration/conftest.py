"""Fixtures for tests with real workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.integration.topic import Follower, create
from tests.integration.worker import Fleet, Worker

Unique = Callable[[str], str]
MakeJob = Callable[..., Path]
MakeWorker = Callable[..., Worker]
MakeFleet = Callable[..., tuple[Fleet, Follower, list[str]]]


@pytest.fixture
def make_fleet(real_bootstrap: str, unique: Unique, tmp_path: Path) -> Iterator[MakeFleet]:
    """`make_fleet("job.py", "orders", "payments", partitions=4)` makes topics under names of their own, for these inputs and
    one output, which are the job's arguments behind the bootstrap servers, before those in `more`. It gives a fleet of
    workers with the options, none of them started yet, a follower of the output, and the names of the inputs."""
    made: list[tuple[Fleet, Follower]] = []

    def make(
        job: str, *inputs: str, partitions: int, options: Sequence[str] = (), more: Sequence[str] = ()
    ) -> tuple[Fleet, Follower, list[str]]:
        sources, target, application = [unique(name) for name in inputs], unique("out"), unique(job.removesuffix(".py"))
        create(real_bootstrap, *sources, target, partitions=partitions)
        arguments = [real_bootstrap, *sources, target, *more]
        fleet = Fleet(job, application, arguments, tmp_path / application, options)
        made.append((fleet, Follower(real_bootstrap, target)))
        return *made[-1], sources

    yield make
    for fleet, follower in made:
        fleet.stop()
        follower.close()


@pytest.fixture
def embedded_bootstrap(started_brokers: Callable[[str], str]) -> str:
    return started_brokers("embedded")


@pytest.fixture
def job_file(tmp_path: Path) -> MakeJob:
    """`job_file(text)` is a job file with that text."""

    def write(text: str, name: str = "job.py") -> Path:
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


@pytest.fixture
def make_worker(tmp_path: Path, unique: Unique) -> Iterator[MakeWorker]:
    """Makes a worker of a job file, with a state directory and an application of its own unless they are given."""
    made: list[Worker] = []

    def make(
        job: Path, *arguments: str, options: tuple[str, ...] = (), name: str = "w", application: str = ""
    ) -> Worker:
        options = ("--application-id", application or unique("cli"), *options)
        made.append(Worker(f"{name}{len(made)}", str(job), arguments, options, tmp_path / f"{name}{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        if one.running():
            one.kill()
