"""Several jobs in one program: under which application ids they run on Kafka, by every way to run or to look at them. No broker
is reached: what stands in for the worker tells what it would run."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import kstreampy_cli.run
from kstreampy.runtime.supervisor import Membership
from kstreampy_cli.app import app

PRELUDE = """
from kstreampy.common import Configuration
from kstreampy.datastream import StreamExecutionEnvironment

def environment(**settings):
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(f"kstreampy.{name}", value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)

def draw(env, numbers=(1, 2)):
    env.from_collection(list(numbers)).key_by(lambda n: n % 2).reduce(max).print()
    return env
"""
THREE = """
env = draw(environment())
env.execute("one")
draw(environment()).execute("two")
draw(env).execute("three")
"""


class Worker:
    """Stands in for the worker: `ran` are the application ids, and `behave` is what becomes of a job."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.directories: list[Path] = []
        self.behave: Callable[[str, Any], None] = lambda application, stop: None

    def __call__(self, plan: Any, settings: Any, connect: Any, stop: Any) -> None:
        assert plan.application_id == settings.application_id
        self.ran.append(plan.application_id)
        self.directories.append(settings.state_dir)
        self.behave(plan.application_id, stop)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()
    monkeypatch.setattr(import_module("kstreampy.runtime.process"), "run_process", made)  # other tests put it out
    return made


@pytest.fixture
def name(tmp_path: Path) -> str:
    """An application id that no other test counts."""
    return f"{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def write(tmp_path: Path, name: str) -> Callable[[str], Path]:
    def made(text: str) -> Path:
        file = tmp_path / f"{name}.py"
        file.write_text(PRELUDE + text)
        return file

    return made


@pytest.fixture(autouse=True)
def _on_kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KSTREAMPY_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("KSTREAMPY_STATE_DIR", str(tmp_path / "state"))


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def by_command(file: Path) -> None:
    result = command("run", file)
    assert result.exit_code == 0, result.output


def by_python(file: Path) -> None:
    before = sys.argv
    sys.argv = [str(file)]
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv = before


both = pytest.mark.parametrize("run", [by_command, by_python])


@both
def test_jobs_of_one_program_are_applications_of_their_own(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str, tmp_path: Path
) -> None:
    run(write(THREE))
    assert worker.ran == [name, f"{name}-job-2", f"{name}-job-3"]
    assert worker.directories == [tmp_path / "state", tmp_path / "state/job-2", tmp_path / "state/job-3"]


@both
def test_in_memory_they_are_not(
    run: Callable[[Path], None],
    worker: Worker,
    write: Callable[[str], Path],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KSTREAMPY_BOOTSTRAP_SERVERS")
    run(write(THREE))
    assert worker.ran == [name] * 3


@both
def test_each_application_id_is_counted_by_itself(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str
) -> None:
    ids = [f"{name}-a", f"{name}-b", f"{name}-a", f"{name}-b", f"{name}-b"]
    run(write("".join(f"draw(environment(application_id={one!r})).execute()\n" for one in ids)))
    assert worker.ran == [f"{name}-a", f"{name}-b", f"{name}-a-job-2", f"{name}-b-job-2", f"{name}-b-job-3"]


@both
def test_jobs_side_by_side_are_counted_as_they_are_called(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str
) -> None:
    """Each job waits for those behind it."""
    running, numbers = threading.Barrier(5, timeout=20), range(3, 8)

    def together(application: str, stop: Any) -> None:
        running.wait()

    worker.behave = together
    calls = f"clients = [draw(environment(), range(n)).execute_async(str(n)) for n in {list(numbers)}]\n"
    run(write(calls + "print([client.get_job_execution_result().result(20) for client in clients])"))
    assert sorted(worker.ran) == [name, *(f"{name}-job-{number}" for number in range(2, 6))]


def test_the_order_of_calls_counts_and_not_who_is_quicker(
    worker: Worker, write: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kstreampy.datastream.launch import Job

    own = Job.own
    slow = iter((0.3, 0.0))

    def hesitant(job: Job, settings: Any) -> Any:
        threading.Event().wait(next(slow))
        found = own(job, settings)
        names[job.name] = found.application_id
        return found

    names: dict[str, str] = {}
    monkeypatch.setattr(Job, "own", hesitant)
    by_command(write("draw(environment()).execute_async('one')\ndraw(environment()).execute_async('two')\n"))
    assert names == {"one": name, "two": f"{name}-job-2"}


@both
def test_a_job_that_failed_and_is_tried_again_goes_on(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str
) -> None:
    """The same steps are the same job; other steps are not."""
    troubles = iter((True, True, False, True, False))

    def fail(application: str, stop: Any) -> None:
        if next(troubles):
            raise OSError("away")

    worker.behave = fail
    tries = "for n in range(3):\n    try:\n        draw(environment()).execute()\n    except OSError:\n        pass\n"
    other = """
env = environment()
env.from_collection([1]).print()
try:
    env.execute()
except OSError:
    pass
draw(environment()).execute()
"""
    run(write(tries + other))
    assert worker.ran == [name, name, name, f"{name}-job-2", f"{name}-job-3"]


@both
def test_jobs_of_the_same_plan_that_failed_side_by_side_all_go_on(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str
) -> None:
    meeting = threading.Barrier(2, timeout=20)

    def fail(application: str, stop: Any) -> None:
        meeting.wait()
        if len(worker.ran) == 2:
            raise OSError("away")

    worker.behave = fail
    tries = """
for n in range(2):
    clients = [draw(environment()).execute_async() for _ in range(2)]
    print([client.get_job_execution_result().exception(20) for client in clients])
"""
    run(write(tries))
    assert [sorted(worker.ran[:2]), sorted(worker.ran[2:])] == [[name, f"{name}-job-2"]] * 2


@both
def test_a_job_is_tried_again_as_soon_as_its_failure_is_told(
    run: Callable[[Path], None],
    worker: Worker,
    write: Callable[[str], Path],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kstreampy.datastream.launch import Job

    over = Job.over

    def hesitant(job: Job, *, cancelled: bool) -> None:
        threading.Event().wait(0.2)
        over(job, cancelled=cancelled)

    def fail(application: str, stop: Any) -> None:
        if len(worker.ran) == 1:
            raise OSError("away")

    monkeypatch.setattr(Job, "over", hesitant)
    worker.behave = fail
    run(write("for n in range(2):\n    draw(environment()).execute_async().get_job_execution_result().exception(20)\n"))
    assert worker.ran == [name, name]


@both
def test_a_job_that_the_program_cancelled_is_not_gone_on_with(
    run: Callable[[Path], None], worker: Worker, write: Callable[[str], Path], name: str
) -> None:
    """As `execute_and_collect(limit=…)` does once it has enough."""
    worker.behave = lambda application, stop: stop.wait(20)
    run(write("for n in range(2):\n    draw(environment()).execute_async().cancel().result(20)\n"))
    assert worker.ran == [name, f"{name}-job-2"]


def test_workers_are_started_once_and_count_the_same(
    worker: Worker, write: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, int]] = []

    def supervise(settings: Any, stop: Any) -> int:
        started.append((settings.application_id, settings.workers))
        threading.Event().wait(0.2)
        return 3

    monkeypatch.setattr(kstreampy_cli.run, "supervise", supervise)
    text = "draw(environment()).execute_async()\ndraw(environment()).execute()\nraise AssertionError('not reached')\n"
    assert command("run", write(text), "--workers", 2).exit_code == 3
    assert (started, worker.ran) == ([(name, 2)], [])

    place = Membership(1, 2, 0)
    monkeypatch.setattr(kstreampy_cli.run, "membership", lambda: place)
    by_command(write(THREE.replace("environment()", f"environment(application_id='{name}-w')")))
    assert worker.ran == [f"{name}-w", f"{name}-w-job-2", f"{name}-w-job-3"]
    assert [directory.name for directory in worker.directories] == ["worker-1"] * 3
    assert len({directory.parent for directory in worker.directories}) == 3


# Looking at them


def test_plan_shows_the_job_that_is_asked_for(write: Callable[[str], Path], name: str) -> None:
    text = THREE + "draw(environment(application_id='other')).execute()\ndraw(environment()).execute()\n"
    file = write(text)
    for number, application in enumerate((name, f"{name}-job-2", f"{name}-job-3", "other", f"{name}-job-4"), 1):
        shown = command("plan", file, "--job-number", number)
        assert shown.exit_code == 0, shown.output
        assert f"{application}-reduce-1-repartition" in shown.stdout
    assert command("plan", file).stdout == command("plan", file, "--job-number", 1).stdout
    refused = command("plan", file, "--job-number", 6)
    assert (refused.exit_code, "has no job 6: it executes 5" in refused.stderr) == (2, True)


def test_a_job_that_needs_results_of_an_earlier_one_cannot_be_shown(write: Callable[[str], Path]) -> None:
    file = write("first = draw(environment()).from_collection([1]).execute_and_collect(limit=1)\n" + THREE)
    assert command("plan", file).exit_code == 0
    refused = command("plan", file, "--job-number", 2)
    assert refused.exit_code == 2
    assert "cannot be drawn while those before it do not run" in refused.stderr


def test_state_is_asked_of_the_job_that_is_meant(
    write: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def workers(drawn: Any, settings: Any) -> list[Any]:
        asked.append(drawn.plan(settings).application_id)
        return []

    monkeypatch.setattr("kstreampy_cli.state._workers", workers)
    for arguments in (("get", write(THREE), "x/rolling", "a"), ("list", write(THREE), "x/rolling")):
        for number in (1, 2):
            command("state", *arguments, "--job-number", number)
    assert asked == [name, f"{name}-job-2"] * 2
