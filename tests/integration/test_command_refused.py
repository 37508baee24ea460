"""What the command line refuses at once: one clear message and exit code 2, never a Python trace of ours."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.integration.command import IN_MEMORY, assert_refused, command
from tests.integration.conftest import MakeJob, Unique
from tests.integration.topic import create
from tests.integration.worker import JOBS

pytestmark = pytest.mark.kafka


def test_syntax_error_names_file_and_line(job_file: MakeJob) -> None:
    file = job_file("import sys\nenv = (\nenv.execute(]\n")
    assert_refused(command("run", file), 2, f"{file}, line 3", "env.execute(]", "^")


def test_syntax_error_in_a_module_of_the_jobs_own(job_file: MakeJob) -> None:
    module = job_file("def broken(:\n    pass\n", "rules.py")
    assert_refused(command("run", job_file("import rules\n")), 2, f"{module}, line 1")


def test_job_without_execute(job_file: MakeJob) -> None:
    text = IN_MEMORY.replace("env.execute()", "")
    assert_refused(command("run", job_file(text)), 2, "job.py ended without running a job", "call env.execute()")


def test_missing_job_file(tmp_path: Path) -> None:
    assert_refused(command("run", "nowhere.py", cwd=tmp_path), 2, "there is no job file nowhere.py", str(tmp_path))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--checkpoint-interval", "soon"), ("checkpoint_interval_ms", "'soon'", "command line")),
        (("--workers", "0"), ("workers", "'0'", "greater than or equal to 1")),
        (("--guarantee", "exactly_twice"), ("guarantee", "exactly_twice", "exactly_once")),
        (
            ("--set", "checkpoint_intervall=1s"),
            ("unknown setting 'checkpoint_intervall'", "did you mean", "checkpoint_interval"),
        ),
        (("--kafka", "enable.auto.commit=true"), ("enable.auto.commit", "cannot be set", "checkpoints only")),
        (("--config", "none.toml"), ("there is no settings file none.toml", "--config")),
    ],
)
def test_wrong_setting(job_file: MakeJob, options: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert_refused(command("run", job_file(IN_MEMORY), *options), 2, *said)


def test_unknown_setting_in_the_file_beside_the_job(job_file: MakeJob, tmp_path: Path) -> None:
    (tmp_path / "kstreampy.toml").write_text('worker = 2\n[kafka]\n"sasl.password" = "s3cret"\n')
    done = command("run", job_file(IN_MEMORY))
    assert_refused(done, 2, "unknown setting 'worker'", str(tmp_path / "kstreampy.toml"), "did you mean 'workers'?")
    assert "s3cret" not in done.stdout + done.stderr


def test_wrong_variable_of_the_environment(job_file: MakeJob) -> None:
    done = command("run", job_file(IN_MEMORY), KSTREAMPY_HTTP_PORT="many")
    assert_refused(done, 2, "http_port", "'many'", "environment KSTREAMPY_HTTP_PORT")


def test_port_that_is_taken(job_file: MakeJob) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert_refused(command("run", job_file(IN_MEMORY), "--http-port", port), 2, f"127.0.0.1:{port}", "--http-port")


def test_missing_topic(embedded_bootstrap: str, unique: Unique, tmp_path: Path) -> None:
    source, target = unique("missing"), unique("target")
    options = ["--state-dir", tmp_path / "state", "--application-id", unique("cli")]
    arguments = [*options, "--", embedded_bootstrap, source, target]
    create(embedded_bootstrap, target)
    assert_refused(
        command("run", JOBS / "rekey_sum.py", *arguments), 2, f"topic {source!r}", "does not exist", "create it"
    )


def test_unknown_stage(embedded_bootstrap: str, unique: Unique, tmp_path: Path) -> None:
    source, target = unique("in"), unique("out")
    create(embedded_bootstrap, source, target)
    options = ["--stage", "totals", "--state-dir", tmp_path / "state", "--application-id", unique("cli")]
    done = command("run", JOBS / "rekey_sum.py", *options, "--", embedded_bootstrap, source, target)
    assert_refused(done, 2, "no stage 'totals'", "total")
