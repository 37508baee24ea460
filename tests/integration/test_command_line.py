"""The command line from outside: real processes on a real log. What they say, what they end with, what is committed then.

Every refusal is one clear message and the exit code of the README's table, never a Python trace of ours."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kstreampy.broker.embedded import free_port
from tests.integration.topic import Follower, by_key, create, fill
from tests.integration.worker import JOBS, Worker, wait_until

pytestmark = pytest.mark.kafka

Unique = Callable[[str], str]
MakeWorker = Callable[..., Worker]

IN_MEMORY = """
from kstreampy.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda x: x * 10).print()
env.execute()
"""

COPIES = """
import json, sys
from kstreampy.common import DeserializationSchema, SimpleStringSchema, WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import *
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema

class Lenient(DeserializationSchema):
    def deserialize(self, message):
        try:
            return json.loads(message)
        except ValueError:
            return {"bad": message.decode()}

bootstrap, source, target, schema = sys.argv[1:]
env = StreamExecutionEnvironment.get_execution_environment()
records = (KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(source)
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(Lenient() if schema == "lenient" else JsonDeserializationSchema()).build())
serializer = (KafkaRecordSerializationSchema.builder().set_topic(target)
    .set_value_serialization_schema(JsonSerializationSchema()).build())
stream = env.from_source(records, WatermarkStrategy.no_watermarks(), "orders").uid("orders")
if schema == "raises":
    stream = stream.map(lambda order: {"half": 10 / order["n"]}).name("halve")
stream.sink_to(KafkaSink.builder().set_bootstrap_servers(bootstrap).set_record_serializer(serializer).build())
env.execute()
"""


@pytest.fixture
def bootstrap(started_brokers: Callable[[str], str]) -> str:
    return started_brokers("embedded")


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Path]:
    """`job(text)` is a job file with that text."""

    def write(text: str, name: str = "job.py") -> Path:
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


@pytest.fixture
def worker(tmp_path: Path, unique: Unique) -> Iterator[MakeWorker]:
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


def command(
    *arguments: object, cwd: Path | None = None, timeout_s: float = 60, **env: str
) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "kstreampy_cli", *map(str, arguments)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **env}
    return subprocess.run(
        line, capture_output=True, text=True, timeout=timeout_s, cwd=cwd, env=environment, check=False
    )


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *said: str) -> None:
    assert done.returncode == code, done.stderr
    for text in said:
        assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("kstreampy: error: ") == 1


# Wrong from the beginning: one message, exit code 2


def test_syntax_error_names_file_and_line(job: Callable[..., Path]) -> None:
    file = job("import sys\nenv = (\nenv.execute(]\n")
    assert_refused(command("run", file), 2, f"{file}, line 3", "env.execute(]", "^")


def test_syntax_error_in_a_module_of_the_jobs_own(job: Callable[..., Path]) -> None:
    module = job("def broken(:\n    pass\n", "rules.py")
    assert_refused(command("run", job("import rules\n")), 2, f"{module}, line 1")


def test_job_without_execute(job: Callable[..., Path]) -> None:
    text = IN_MEMORY.replace("env.execute()", "")
    assert_refused(command("run", job(text)), 2, "job.py ended without running a job", "call env.execute()")


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
def test_wrong_setting(job: Callable[..., Path], options: tuple[str, ...], said: tuple[str, ...]) -> None:
    assert_refused(command("run", job(IN_MEMORY), *options), 2, *said)


def test_unknown_setting_in_the_file_beside_the_job(job: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "kstreampy.toml").write_text('worker = 2\n[kafka]\n"sasl.password" = "s3cret"\n')
    done = command("run", job(IN_MEMORY))
    assert_refused(done, 2, "unknown setting 'worker'", str(tmp_path / "kstreampy.toml"), "did you mean 'workers'?")
    assert "s3cret" not in done.stdout + done.stderr


def test_wrong_variable_of_the_environment(job: Callable[..., Path]) -> None:
    done = command("run", job(IN_MEMORY), KSTREAMPY_HTTP_PORT="many")
    assert_refused(done, 2, "http_port", "'many'", "environment KSTREAMPY_HTTP_PORT")


def test_port_that_is_taken(job: Callable[..., Path]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert_refused(command("run", job(IN_MEMORY), "--http-port", port), 2, f"127.0.0.1:{port}", "--http-port")


def test_missing_topic(bootstrap: str, unique: Unique, tmp_path: Path) -> None:
    source, target = unique("missing"), unique("target")
    options = ["--state-dir", tmp_path / "state", "--application-id", unique("cli")]
    arguments = [*options, "--", bootstrap, source, target]
    create(bootstrap, target)
    assert_refused(
        command("run", JOBS / "rekey_sum.py", *arguments), 2, f"topic {source!r}", "does not exist", "create it"
    )


def test_unknown_stage(bootstrap: str, unique: Unique, tmp_path: Path) -> None:
    source, target = unique("in"), unique("out")
    create(bootstrap, source, target)
    options = ["--stage", "totals", "--state-dir", tmp_path / "state", "--application-id", unique("cli")]
    done = command("run", JOBS / "rekey_sum.py", *options, "--", bootstrap, source, target)
    assert_refused(done, 2, "no stage 'totals'", "total")


# Wrong later


def test_no_broker(job: Callable[..., Path], unique: Unique, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    options = ["--set", "broker_timeout=2s", "--state-dir", tmp_path / "state"]
    began = time.monotonic()
    done = command("run", JOBS / "rekey_sum.py", *options, "--", address, "in", "out")
    assert_refused(done, 3, address)
    assert time.monotonic() - began < 30


def test_exception_of_the_job_shows_its_own_lines(job: Callable[..., Path]) -> None:
    done = command("run", job(IN_MEMORY.replace("env.execute()", "raise KeyError('price list')")))
    assert done.returncode == 1
    assert "KeyError: 'price list'" in done.stderr
    assert "job.py" in done.stderr
    assert "kstreampy_cli" not in done.stderr


def test_verbose_shows_the_whole_trace(job: Callable[..., Path]) -> None:
    done = command("run", job("raise KeyError('price list')"), "--verbose")
    assert done.returncode == 1
    assert "kstreampy_cli" in done.stderr


def test_failing_function_names_record_step_and_line(
    bootstrap: str, unique: Unique, job: Callable[..., Path], worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(bootstrap, source, target, partitions=1)
    fill(bootstrap, source, [(None, {"n": number}, 0) for number in (5, 2, 0, 1)])
    one = worker(job(COPIES), bootstrap, source, target, "raises")
    one.start()
    assert one.wait(60) == 5
    for text in ("halve", f"topic {source!r}, partition 0, offset 2", "ZeroDivisionError", "job.py"):
        assert text in one.log()


def test_undecodable_record_fails_the_job_and_nothing_is_lost(
    bootstrap: str, unique: Unique, job: Callable[..., Path], worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(bootstrap, source, target, partitions=1)
    good = [(None, {"n": number}, 0) for number in range(700)]
    fill(bootstrap, source, [*good, (None, b'{"n": oops', 0), (None, {"n": 701}, 0)])
    one = worker(job(COPIES), bootstrap, source, target, "strict")
    for _ in range(2):  # it stays wrong, and is never skipped
        one.start()
        assert one.wait(60) == 5
    for text in ("orders (decode)", f"topic {source!r}, partition 0, offset 700"):
        assert text in one.log()
    assert one.log().count("kstreampy: error: ") == 2
    one.arguments = [bootstrap, source, target, "lenient"]
    one.start()
    assert one.wait(60) == 0, one.log()[-3000:]
    follower = Follower(bootstrap, target)
    values = [json.loads(message.value()) for message in follower.read_until(702, 30)]
    follower.close()
    assert values == [*({"n": number} for number in range(700)), {"bad": '{"n": oops'}, {"n": 701}]


def test_two_workers_on_one_state_directory(bootstrap: str, unique: Unique, worker: MakeWorker) -> None:
    source, target, application = unique("in"), unique("out"), unique("cli")
    create(bootstrap, source, target)
    first = worker(JOBS / "rekey_sum.py", bootstrap, source, target, application=application)
    first.start()
    wait_until(lambda: "took" in first.log(), 30, "the first worker to join")
    options = ["--application-id", application, "--state-dir", first.directory]
    assert first.process is not None
    done = command("run", JOBS / "rekey_sum.py", *options, "--", bootstrap, source, target)
    assert_refused(done, 2, str(first.directory), f"in use by process {first.process.pid}", "--state-dir")
    assert first.running()
    assert first.terminate() == 0


# Stopping and going on


def amounts(numbers: range) -> list[tuple[str, dict[str, object], int]]:
    return [(f"{number}", {"user": f"user-{number % 5}", "amount": number}, number % 4) for number in numbers]


def assert_running_totals(follower: Follower, records: int) -> None:
    """Each user's totals are those of its amounts, in some order of the four partitions: every total appears once, and the
    last is the sum."""
    assert len(follower.messages) == records
    for key, values in by_key(follower.messages).items():
        totals = [value["amount"] for value in values]
        assert key is not None
        user = int(key.removeprefix(b"user-"))
        assert totals[-1] == sum(number for number in range(records) if number % 5 == user)
        steps = sorted(after - before for before, after in zip([0, *totals], totals, strict=False))
        assert steps == [number for number in range(records) if number % 5 == user]


def test_sigterm_commits_everything_and_the_next_start_goes_on(
    kafka_bootstrap: str, unique: Unique, worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(kafka_bootstrap, source, target)
    fill(kafka_bootstrap, source, amounts(range(3000)))
    follower = Follower(kafka_bootstrap, target)
    one = worker(JOBS / "rekey_sum.py", kafka_bootstrap, source, target)
    one.start()
    wait_until(lambda: follower.read(0.05) > 0, 60, "the first results")
    assert one.terminate() == 0, one.log()
    committed = follower.read(1.0)
    time.sleep(1.0)
    assert follower.read(0.2) == committed
    fill(kafka_bootstrap, source, amounts(range(3000, 4000)))
    one.start()
    follower.read_until(4000, 60)
    assert one.terminate() == 0, one.log()
    follower.read(0.5)
    assert_running_totals(follower, 4000)
    follower.close()


@pytest.mark.parametrize("after_s", [0.05, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0])
def test_sigterm_while_it_starts(after_s: float, bootstrap: str, unique: Unique, worker: MakeWorker) -> None:
    """Before Python listens it dies by the signal, before the job runs it ends with 128 + 15, afterwards with 0; it never
    hangs and never keeps its directory."""
    source, target = unique("in"), unique("out")
    create(bootstrap, source, target)
    fill(bootstrap, source, amounts(range(100)))
    one = worker(JOBS / "rekey_sum.py", bootstrap, source, target)
    one.start()
    time.sleep(after_s)
    assert one.terminate(15) in (-signal.SIGTERM, 128 + signal.SIGTERM, 0), one.log()
    assert "Traceback" not in one.log()
    follower = Follower(bootstrap, target)
    taken = one.log().count("stage total: took")
    one.start()
    wait_until(lambda: one.log().count("stage total: took") > taken, 60, "the second start to take its tasks")
    follower.read_until(100, 60)
    assert one.terminate() == 0, one.log()
    follower.read(0.5)
    assert_running_totals(follower, 100)
    follower.close()


def test_sigterm_while_no_broker_answers(worker: MakeWorker) -> None:
    one = worker(JOBS / "rekey_sum.py", f"127.0.0.1:{free_port()}", "in", "out")
    one.start()
    wait_until(lambda: "the broker is unavailable" in one.log(), 40, "the worker to notice")
    began = time.monotonic()
    assert one.terminate() == 0, one.log()
    assert time.monotonic() - began < 20


def test_second_ctrl_c_ends_at_once(
    bootstrap: str, unique: Unique, job: Callable[..., Path], worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(bootstrap, source, target)
    fill(bootstrap, source, [(None, {"n": 1}, 0)])
    text = COPIES.replace('lambda order: {"half": 10 / order["n"]}', "lambda order: __import__('time').sleep(60)")
    one = worker(job(text), bootstrap, source, target, "raises")
    one.start()
    wait_until(lambda: "took" in one.log(), 30, "the worker to join")
    time.sleep(2.0)
    assert one.process is not None
    one.process.send_signal(signal.SIGINT)
    wait_until(lambda: "SIGINT: stopping" in one.log(), 10, "the first signal to be taken")
    assert one.running()
    one.process.send_signal(signal.SIGINT)
    assert one.wait(5) == 128 + signal.SIGINT
    assert "ending at once" in one.log()


# Running


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_probes_and_metrics_while_it_runs(bootstrap: str, unique: Unique, worker: MakeWorker) -> None:
    source, target, port = unique("in"), unique("out"), free_port()
    create(bootstrap, source, target)
    fill(bootstrap, source, amounts(range(1000)))
    one = worker(JOBS / "rekey_sum.py", bootstrap, source, target, options=("--http-port", str(port)))
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


def test_stages_in_processes_of_their_own(kafka_bootstrap: str, unique: Unique, worker: MakeWorker) -> None:
    source, target, application = unique("in"), unique("out"), unique("cli")
    create(kafka_bootstrap, source, target)
    fill(kafka_bootstrap, source, amounts(range(2000)))
    follower = Follower(kafka_bootstrap, target)
    workers = [
        worker(
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


def test_two_workers_end_a_bounded_job_by_themselves(real_bootstrap: str, unique: Unique, worker: MakeWorker) -> None:
    source, target = unique("in"), unique("out")
    create(real_bootstrap, source, target)
    fill(real_bootstrap, source, amounts(range(5000)))
    one = worker(JOBS / "rekey_sum.py", real_bootstrap, source, target, "bounded", options=("--workers", "2"))
    one.start()
    assert one.wait(90) == 0, one.log()[-3000:]
    follower = Follower(real_bootstrap, target)
    follower.read_until(5000, 30)
    assert_running_totals(follower, 5000)
    follower.close()
    assert {entry.name for entry in one.directory.iterdir() if entry.is_dir()} == {"worker-0", "worker-1"}


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


def test_the_job_sees_itself_as_a_script_would(job: Callable[..., Path], tmp_path: Path) -> None:
    job("NAME = 'beside'\n", "beside.py")
    file = job(SHOWS_ITSELF)
    done = command("run", "job.py", "--", "first", "--second", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["__main__", "job.py", "first", "--second", str(file), "beside", str(file)]


def test_the_job_runs_without_the_command_too(job: Callable[..., Path], tmp_path: Path) -> None:
    job("NAME = 'beside'\n", "beside.py")
    file = job(SHOWS_ITSELF)
    line = [sys.executable, str(file), "first"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["__main__", str(file), "first", str(file), "beside", str(file)]


def test_plan_and_config_need_no_broker(bootstrap: str, unique: Unique, tmp_path: Path) -> None:
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
