"""The commands in this process: what they print, what they say when something is wrong, and their exit
codes."""

from __future__ import annotations

import json
import logging
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kstreampy.observe.secret import MASK
from kstreampy_cli.app import app

JobFileMaker = Callable[..., Path]


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    # The job files put a worker of their own in this place: what is there now comes back afterwards.
    name = "kstreampy.runtime.worker"
    monkeypatch.setitem(sys.modules, name, sys.modules.get(name, types.ModuleType(name)))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    loggers = [logging.getLogger(), logging.getLogger("kstreampy")]
    before = [(list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    sys.modules.pop("kstreampy.runtime.process", None)  # has the made-up worker's name
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def kstreampy_command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def error_of(result: Result, exit_code: int) -> str:
    """The message, after checking that it is one, with the code, and without a trace."""
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.stderr
    assert result.stderr.count("kstreampy: error: ") == 1
    return str(result.stderr)


def test_run_runs_the_job_and_what_follows_it(job_file: JobFileMaker) -> None:
    job = job_file("execute()\nprint('after')\n", "word count.py")
    result = kstreampy_command("run", job)
    assert (result.exit_code, result.stdout) == (0, "worked word-count\nafter\n")


def test_options_win_over_the_jobs_own_settings(tmp_path: Path, job_file: JobFileMaker) -> None:
    job = job_file("Job.code_settings = {'application_id': 'code'}\nexecute()\n")
    assert kstreampy_command("run", job).stdout == "worked code\n"
    (tmp_path / "kstreampy.toml").write_text('application-id = "file"\n')
    assert kstreampy_command("run", job).stdout == "worked file\n"
    assert kstreampy_command("run", job, "--application-id", "cli").stdout == "worked cli\n"


def test_the_job_sees_itself_as_main(tmp_path: Path, job_file: JobFileMaker) -> None:
    (tmp_path / "neighbour.py").write_text("VALUE = 5\n")
    text = """
import inspect, pickle, neighbour
class Order: ...
print(__name__, sys.argv, __file__, sys.path[0], neighbour.VALUE)
assert pickle.loads(pickle.dumps(Order)) is Order
assert sys.modules["__main__"].Order is Order
assert "class Order" in inspect.getsource(Order)
execute()
"""
    job = job_file(text)
    main, argv, path = sys.modules["__main__"], sys.argv, list(sys.path)
    result = kstreampy_command("run", job, "--", "--input", "orders", "-x")
    assert result.exit_code == 0, result.output
    shown = result.stdout.splitlines()[0]
    assert shown == f"__main__ {[str(job), '--input', 'orders', '-x']} {job} {tmp_path} 5"
    assert (sys.modules["__main__"], sys.argv, sys.path) == (main, argv, path)


@pytest.mark.parametrize("command", ["run", "plan", "config"])
def test_a_job_file_that_is_not_there(tmp_path: Path, command: str) -> None:
    assert "there is no job file" in error_of(kstreampy_command(command, tmp_path / "no.py"), 2)


@pytest.mark.parametrize("command", ["run", "plan", "config"])
def test_a_job_file_that_never_executes(job_file: JobFileMaker, command: str) -> None:
    message = error_of(kstreampy_command(command, job_file("")), 2)
    assert "job.py ended without running a job: call env.execute()" in message


def test_a_syntax_error_in_the_job(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("a = 1\nif a\n    pass\n")
    message = error_of(kstreampy_command("run", job), 2)
    assert f"{job}, line 2: expected ':'\n    if a\n        ^" in message


def test_a_syntax_error_in_a_module_of_the_job(tmp_path: Path, job_file: JobFileMaker) -> None:
    (tmp_path / "broken_module.py").write_text("x = = 1\n")
    message = error_of(kstreampy_command("run", job_file("import broken_module\n")), 2)
    assert "broken_module.py, line 1: invalid syntax" in message


def test_source_that_is_no_text(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_bytes(b"x = 1\0")
    assert "null bytes" in error_of(kstreampy_command("run", job), 2)
    assert "is a directory" in error_of(kstreampy_command("run", tmp_path), 2)


def test_an_exception_of_the_job_shows_its_own_lines_only(job_file: JobFileMaker) -> None:
    text = "def broken():\n    raise KeyError('colour')\nwork = lambda *_: broken()\nexecute()\n"
    result = kstreampy_command("run", job_file(text))
    assert result.exit_code == 1
    assert "raise KeyError('colour')" in result.stderr
    assert result.stderr.rstrip().endswith("KeyError: 'colour'")
    assert "kstreampy_cli" not in result.stderr
    assert "typer" not in result.stderr
    whole = kstreampy_command("run", job_file(text), "--verbose").stderr
    assert "kstreampy_cli" in whole


def test_a_crash_that_the_job_file_swallows_still_fails(job_file: JobFileMaker) -> None:
    text = """
from kstreampy.errors import BrokerRefused
def work(*_): raise BrokerRefused("no right to write")
try:
    execute()
except Exception:
    print("swallowed")
"""
    result = kstreampy_command("run", job_file(text))
    assert "no right to write" in error_of(result, 4)
    assert result.stdout == "swallowed\n"


def test_a_second_try_that_works_is_no_failure(job_file: JobFileMaker) -> None:
    text = """
def work(*_): raise ValueError("once")
try:
    execute()
except ValueError:
    work = lambda *_: None
    execute()
"""
    assert kstreampy_command("run", job_file(text)).exit_code == 0


def test_a_record_error_shows_the_users_trace_the_message_and_its_notes(job_file: JobFileMaker) -> None:
    text = """
from kstreampy.errors import RecordError
def price(record): return record["price"]
def work(*_):
    try:
        price({})
    except KeyError as cause:
        error = RecordError("map failed", step="map", index=0)
        error.add_note("topic orders, partition 3, offset 42")
        raise error from cause
execute()
"""
    result = kstreampy_command("run", job_file(text))
    assert result.exit_code == 5
    assert 'return record["price"]' in result.stderr
    assert "kstreampy: error: map failed\n  topic orders, partition 3, offset 42\n" in result.stderr


def test_a_record_error_shows_no_trace_without_the_users_code(job_file: JobFileMaker) -> None:
    text = """
from kstreampy.common import Types
from kstreampy.errors import RecordError
def work(*_):
    try:
        Types.LONG().coerce("x")
    except TypeError as error:
        cause = error.with_traceback(error.__traceback__.tb_next)
    raise RecordError("map failed", step="map", index=0) from cause
execute()
"""
    result = kstreampy_command("run", job_file(text))
    assert (result.exit_code, result.stderr) == (5, "kstreampy: error: map failed\n  --verbose shows the trace\n")
    whole = kstreampy_command("run", job_file(text), "--verbose").stderr
    assert "cannot be made Long" in whole
    assert "--verbose" not in whole


def test_a_job_error_says_which_line_called_what_raised_it(job_file: JobFileMaker) -> None:
    text = """
from kstreampy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
def draw():
    env.add_source(object())
draw()
"""
    file = job_file(text)
    line = file.read_text().splitlines().index("    env.add_source(object())") + 1
    assert kstreampy_command("run", file).stderr.endswith(f"\n  called in draw ({file}:{line})\n")


def test_connectors_are_not_the_users_code(tmp_path: Path, job_file: JobFileMaker) -> None:
    (tmp_path / "a.csv").write_text("id,at\n1,2\n3\n")
    text = f"""
from kstreampy.errors import RecordError
from kstreampy_connectors.files import FileSource
def time_of(record): return int(record["at"])
def work(*_):
    source = FileSource.csv({str(tmp_path / "a.csv")!r}, timestamp=time_of)
    try:
        reader = source.open_split(source.splits()[0], None)
        reader.read(5)
        reader.read(5)
    except ValueError as error:
        cause = error.with_traceback(error.__traceback__.tb_next)
    raise RecordError("read failed", step="read", index=0) from cause
execute()
"""
    result = kstreampy_command("run", job_file(text))
    assert (result.exit_code, result.stderr) == (5, "kstreampy: error: read failed\n  --verbose shows the trace\n")
    (tmp_path / "a.csv").write_text("id,at\n1,now\n")
    users = kstreampy_command("run", job_file(text)).stderr
    assert 'return int(record["at"])' in users
    assert "--verbose" not in users


def test_a_wrong_setting_of_a_connector_names_the_users_line(job_file: JobFileMaker) -> None:
    call = "FileSink.csv('out', roll_bytes=0)"
    file = job_file(f"from kstreampy_connectors.files import FileSink\n{call}\n")
    line = file.read_text().splitlines().index(call) + 1
    assert kstreampy_command("run", file).stderr.endswith(f"\n  called in <module> ({file}:{line})\n")


def test_that_line_is_left_out_where_it_only_runs_the_job(job_file: JobFileMaker) -> None:
    text = """
from kstreampy.datastream import StreamExecutionEnvironment
StreamExecutionEnvironment.get_execution_environment().execute()
"""
    result = kstreampy_command("run", job_file(text))
    assert "no sink" in error_of(result, 2)
    assert "called in" not in result.stderr


@pytest.mark.parametrize(("call", "code"), [("sys.exit(0)", 1), ("sys.exit()", 1), ("sys.exit(9)", 9)])
def test_sys_exit_inside_a_function_never_ends_with_0(job_file: JobFileMaker, call: str, code: int) -> None:
    result = kstreampy_command("run", job_file(f"def work(*_): {call}\nexecute()\n"))
    assert result.exit_code == code


def test_sys_exit_of_the_job_file_is_its_own(job_file: JobFileMaker) -> None:
    assert kstreampy_command("run", job_file("sys.exit(3)")).exit_code == 3


def test_jobs_left_running_are_waited_for(job_file: JobFileMaker) -> None:
    text = """
import threading, contextvars
def work(*_): time.sleep(0.3); print("worked to the end")
threading.Thread(target=contextvars.copy_context().run, args=(execute,), daemon=True).start()
time.sleep(0.1)
print("the file ended")
"""
    result = kstreampy_command("run", job_file(text))
    assert (result.exit_code, result.stdout) == (0, "the file ended\nworked to the end\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "many"], "workers = 'many' (command line)"),
        (["--guarantee", "twice"], "'exactly_once' or 'at_least_once'"),
        (["--checkpoint-interval", "soon"], "checkpoint_interval_ms = 'soon' (command line)"),
        (["--set", "wrkers=1"], "unknown setting 'wrkers' (command line): did you mean 'workers'?"),
        (["--set", "workers"], "NAME=VALUE"),
        (["--kafka", "group.id=x"], "'group.id' (from command line) cannot be set"),
        (["--kafka", "client.id"], "key=value"),
        (["--config", "no.toml"], "there is no settings file no.toml"),
        (["--application-id", "a b"], "application_id = 'a b'"),
    ],
)
def test_wrong_settings(job_file: JobFileMaker, options: list[str], said: str) -> None:
    for command in ("run", "config"):
        assert said in error_of(kstreampy_command(command, job_file("execute()\n"), *options), 2)


@pytest.mark.parametrize("arguments", [["run"], ["run", "job.py", "--no-such-option"], ["no-such-command"]])
def test_wrong_usage(arguments: list[str]) -> None:
    result = kstreampy_command(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_a_port_in_use(job_file: JobFileMaker) -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = kstreampy_command("run", job_file("execute()\n"), "--http-port", port)
    assert f"cannot serve metrics on 127.0.0.1:{port}" in error_of(result, 2)


@pytest.mark.parametrize("format", ["text", "json", "mermaid", "dot"])
def test_plan_prints_the_plan_and_nothing_else(job_file: JobFileMaker, format: str) -> None:
    text = "print('noise')\ntry:\n    execute()\nexcept Exception:\n    print('swallowed')\nprint('after')\n"
    result = kstreampy_command("plan", job_file(text), "--format", format)
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"the plan as {format}\n", "noise\n")


def test_plan_of_a_file_that_lets_nothing_through(job_file: JobFileMaker) -> None:
    text = "try:\n    execute()\nexcept BaseException:\n    raise ValueError('mine')\n"
    result = kstreampy_command("plan", job_file(text))
    assert (result.exit_code, result.stdout) == (0, "the plan as text\n")


def test_config_prints_values_and_origins_and_no_secret(
    tmp_path: Path, job_file: JobFileMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTREAMPY_KAFKA_SASL_PASSWORD", "hunter22")
    monkeypatch.setenv("KSTREAMPY_LOG_LEVEL", "debug")
    (tmp_path / "kstreampy.toml").write_text("http-port = 8080\n")
    job = job_file("execute()\n")
    lines = kstreampy_command("config", job, "--guarantee", "at-least-once").stdout.splitlines()
    shown = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines}
    assert shown["application_id"] == ["job", "default"]
    assert shown["workers"] == ["1", "code"]
    assert shown["http_port"] == ["8080", f"file {tmp_path / 'kstreampy.toml'}"]
    assert shown["log_level"] == ["debug", "environment KSTREAMPY_LOG_LEVEL"]
    assert shown["guarantee"] == ["at_least_once", "command line"]
    assert shown["checkpoint_interval_ms"] == ["1000", "default"]
    assert shown["kafka.sasl.password"] == [MASK, "environment KSTREAMPY_KAFKA_SASL_PASSWORD"]
    as_json = kstreampy_command("config", job, "--format", "json").stdout
    assert json.loads(as_json)["http_port"]["value"] == 8080
    assert "hunter22" not in as_json


def test_config_explains_what_cannot_be_known(job_file: JobFileMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTREAMPY_APLICATION_ID", "x")
    message = error_of(kstreampy_command("config", job_file("execute()\n")), 2)
    assert "KSTREAMPY_APLICATION_ID" in message
    assert "did you mean KSTREAMPY_APPLICATION_ID?" in message


def test_help_names_commands_and_settings() -> None:
    assert all(name in kstreampy_command("--help").output for name in ("run", "plan", "config", "broker"))
    help_of_run = kstreampy_command("run", "--help").output
    for option in (
        "--application-id",
        "--bootstrap-servers",
        "--workers",
        "--stage",
        "--state-dir",
        "--kafka",
    ):
        assert option in help_of_run
