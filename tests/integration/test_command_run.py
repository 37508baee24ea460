"""Jobs that run: as they see themselves, in one process or several, and what can be seen of them from outside."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kstreampy.broker.embedded import free_port
from tests.integration.command import amounts, assert_running_totals, command
from tests.integration.conftest import MakeJob, MakeWorker, Unique
from tests.integration.topic import Follower, create, fill
from tests.integration.worker import JOBS, wait_until

pytestmark = pytest.mark.kafka


SHOWS_ITSELF = """
import sys
from pathlib import Path
import beside
from kstreampy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
found = [__name__, sys.argv[0], *sys.argv[1:], __file__, beside.NAME, sys.modules["__main__"].__file__]
env.from_collection(found).print()
env.execute()
"""


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_probes_and_metrics_while_it_runs(embedded_bootstrap: str, unique: Unique, make_worker: MakeWorker) -> None:
    source, target, port = unique("in"), unique("out"), free_port()
    create(embedded_bootstrap, source, target)
    fill(embedded_bootstrap, source, amounts(range(1000)))
    one = make_worker(JOBS / "rekey_sum.py", embedded_bootstrap, source, target, options=("--http-port", str(port)))
    one.start()
    wait_until(lambda: get(port, "/ready")[0] == 200, 30, "the worker to be ready")
    assert get(port, "/live")[0] == 200
    wait_until(
        lambda: 'kstreampy_records_in_total{stage="total"} 1000.0' in get(port, "/metrics")[1], 30, "all records"
    )
    metrics = get(port, "/metrics")[1]
    for text in (
        "kstreampy_checkpoint_duration_seconds_count",
        'kstreampy_tasks{stage="total"} 12.0',
        "kstreampy_broker_up 1.0",
    ):
        assert text in metrics
    tasks = json.loads(get(port, "/tasks")[1])["tasks"]
    assert {task["stage"] for task in tasks} == {"source-1", "total"}
    assert get(port, "/nowhere")[0] == 404
    assert one.terminate() == 0, one.log()
    assert get(port, "/live")[0] == 0


def test_stages_in_processes_of_their_own(kafka_bootstrap: str, unique: Unique, make_worker: MakeWorker) -> None:
    source, target, application = unique("in"), unique("out"), unique("cli")
    create(kafka_bootstrap, source, target)
    fill(kafka_bootstrap, source, amounts(range(2000)))
    follower = Follower(kafka_bootstrap, target)
    workers = [
        make_worker(
            JOBS / "rekey_sum.py", kafka_bootstrap, source, target, options=("--stage", stage), application=application
        )
        for stage in ("source-1", "total")
    ]
    for one in workers:
        one.start()
    follower.read_until(2000, 60)
    assert_running_totals(follower, 2000)
    for one, other in (workers, workers[::-1]):
        own, others = one.options[-1], other.options[-1]
        assert f"stage {own}: took" in one.log()
        assert f"stage {others}: took" not in one.log()
    assert [one.terminate() for one in workers] == [0, 0]
    follower.close()


def test_two_workers_end_a_bounded_job_by_themselves(
    real_bootstrap: str, unique: Unique, make_worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(real_bootstrap, source, target)
    fill(real_bootstrap, source, amounts(range(5000)))
    one = make_worker(JOBS / "rekey_sum.py", real_bootstrap, source, target, "bounded", options=("--workers", "2"))
    one.start()
    assert one.wait(90) == 0, one.log()[-3000:]
    follower = Follower(real_bootstrap, target)
    follower.read_until(5000, 30)
    assert_running_totals(follower, 5000)
    follower.close()
    assert {entry.name for entry in one.directory.iterdir() if entry.is_dir()} == {"worker-0", "worker-1"}


def test_the_job_sees_itself_as_a_script_would(job_file: MakeJob, tmp_path: Path) -> None:
    job_file("NAME = 'beside'\n", "beside.py")
    file = job_file(SHOWS_ITSELF)
    done = command("run", "job.py", "--", "first", "--second", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["__main__", "job.py", "first", "--second", str(file), "beside", str(file)]


def test_the_job_runs_without_the_command_too(job_file: MakeJob, tmp_path: Path) -> None:
    job_file("NAME = 'beside'\n", "beside.py")
    file = job_file(SHOWS_ITSELF)
    line = [sys.executable, str(file), "first"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["__main__", str(file), "first", str(file), "beside", str(file)]


def test_plan_and_config_need_no_broker(embedded_bootstrap: str, unique: Unique, tmp_path: Path) -> None:
    arguments = ["--", f"127.0.0.1:{free_port()}", "in", "out"]
    planned = command("plan", JOBS / "rekey_sum.py", "--application-id", "shop", *arguments)
    assert planned.returncode == 0, planned.stderr
    for text in ("shop-total-repartition", "shop-total-changelog", "cleanup.policy=compact", "ACLs:"):
        assert text in planned.stdout
    shown = command(
        "config", JOBS / "rekey_sum.py", "--workers", "3", *arguments, KSTREAMPY_KAFKA_SASL_PASSWORD="s3cret"
    )
    assert shown.returncode == 0, shown.stderr
    assert "s3cret" not in shown.stdout + shown.stderr
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert lines["workers"].split() == ["workers", "3", "command", "line"]
    assert "environment KSTREAMPY_KAFKA_SASL_PASSWORD" in lines["kafka.sasl.password"]
    assert lines["bootstrap_servers"].endswith("code")
