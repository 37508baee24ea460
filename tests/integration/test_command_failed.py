"""Jobs that fail after they began: the exit code of the README's table, what is said, and that nothing is lost."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kstreampy.broker.embedded import free_port
from tests.integration.command import COPIES, IN_MEMORY, assert_refused, command
from tests.integration.conftest import MakeJob, MakeWorker, Unique
from tests.integration.topic import Follower, create, fill
from tests.integration.worker import JOBS, wait_until

pytestmark = pytest.mark.kafka


def test_no_broker(job_file: MakeJob, unique: Unique, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = ["--set", "broker_timeout=2s", "--state-dir", tmp_path / "state"]
    began = time.monotonic()
    done = command("run", JOBS / "rekey_sum.py", *options, "--", address, "in", "out")
    assert_refused(done, 3, address)
    assert time.monotonic() - began < 30


def test_exception_of_the_job_shows_its_own_lines(job_file: MakeJob) -> None:
    done = command("run", job_file(IN_MEMORY.replace("env.execute()", "raise KeyError('price list')")))
    assert done.returncode == 1
    assert "KeyError: 'price list'" in done.stderr
    assert "job.py" in done.stderr
    assert "kstreampy_cli" not in done.stderr


def test_verbose_shows_the_whole_trace(job_file: MakeJob) -> None:
    done = command("run", job_file("raise KeyError('price list')"), "--verbose")
    assert done.returncode == 1
    assert "kstreampy_cli" in done.stderr


def test_failing_function_names_record_step_and_line(
    embedded_bootstrap: str, unique: Unique, job_file: MakeJob, make_worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(embedded_bootstrap, source, target, partitions=1)
    fill(embedded_bootstrap, source, [(None, {"n": number}, 0) for number in (5, 2, 0, 1)])
    one = make_worker(job_file(COPIES), embedded_bootstrap, source, target, "raises")
    one.start()
    assert one.wait(60) == 5
    for text in ("halve", f"topic {source!r}, partition 0, offset 2", "ZeroDivisionError", "job.py"):
        assert text in one.log()


def test_undecodable_record_fails_the_job_and_nothing_is_lost(
    embedded_bootstrap: str, unique: Unique, job_file: MakeJob, make_worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(embedded_bootstrap, source, target, partitions=1)
    good = [(None, {"n": number}, 0) for number in range(700)]
    fill(embedded_bootstrap, source, [*good, (None, b'{"n": oops', 0), (None, {"n": 701}, 0)])
    one = make_worker(job_file(COPIES), embedded_bootstrap, source, target, "strict")
    for _ in range(2):  # it stays wrong, and is never skipped
        one.start()
        assert one.wait(60) == 5
    for text in ("orders (decode)", f"topic {source!r}, partition 0, offset 700"):
        assert text in one.log()
    assert one.log().count("kstreampy: error: ") == 2
    one.arguments = [embedded_bootstrap, source, target, "lenient"]
    one.start()
    assert one.wait(60) == 0, one.log()[-3000:]
    follower = Follower(embedded_bootstrap, target)
    values = [json.loads(message.value()) for message in follower.read_until(702, 30)]
    follower.close()
    assert values == [*({"n": number} for number in range(700)), {"bad": '{"n": oops'}, {"n": 701}]


def test_two_workers_on_one_state_directory(embedded_bootstrap: str, unique: Unique, make_worker: MakeWorker) -> None:
    source, target, application = unique("in"), unique("out"), unique("cli")
    create(embedded_bootstrap, source, target)
    first = make_worker(JOBS / "rekey_sum.py", embedded_bootstrap, source, target, application=application)
    first.start()
    wait_until(lambda: "took" in first.log(), 30, "the first worker to join")
    options = ["--application-id", application, "--state-dir", first.directory]
    assert first.process is not None
    done = command("run", JOBS / "rekey_sum.py", *options, "--", embedded_bootstrap, source, target)
    assert_refused(done, 2, str(first.directory), f"in use by process {first.process.pid}", "--state-dir")
    assert first.running()
    assert first.terminate() == 0
