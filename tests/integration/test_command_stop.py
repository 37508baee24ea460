"""Jobs that are stopped from outside: what they end with, and what is committed then."""

from __future__ import annotations

import signal
import time

import pytest

from kstreampy.broker.embedded import free_port
from tests.integration.command import COPIES, amounts, assert_running_totals
from tests.integration.conftest import MakeJob, MakeWorker, Unique
from tests.integration.topic import Follower, create, fill
from tests.integration.worker import JOBS, wait_until

pytestmark = pytest.mark.kafka


def test_sigterm_commits_everything_and_the_next_start_goes_on(
    kafka_bootstrap: str, unique: Unique, make_worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(kafka_bootstrap, source, target)
    fill(kafka_bootstrap, source, amounts(range(3000)))
    follower = Follower(kafka_bootstrap, target)
    one = make_worker(JOBS / "rekey_sum.py", kafka_bootstrap, source, target)
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
def test_sigterm_while_it_starts(
    after_s: float, embedded_bootstrap: str, unique: Unique, make_worker: MakeWorker
) -> None:
    """Before Python listens it dies by the signal, before the job runs it ends with 128 + 15, afterwards with 0; it never
    hangs and never keeps its directory."""
    source, target = unique("in"), unique("out")
    create(embedded_bootstrap, source, target)
    fill(embedded_bootstrap, source, amounts(range(100)))
    one = make_worker(JOBS / "rekey_sum.py", embedded_bootstrap, source, target)
    one.start()
    time.sleep(after_s)
    assert one.terminate(15) in (-signal.SIGTERM, 128 + signal.SIGTERM, 0), one.log()
    assert "Traceback" not in one.log()
    follower = Follower(embedded_bootstrap, target)
    taken = one.log().count("stage total: took")
    one.start()
    wait_until(lambda: one.log().count("stage total: took") > taken, 60, "the second start to take its tasks")
    follower.read_until(100, 60)
    assert one.terminate() == 0, one.log()
    follower.read(0.5)
    assert_running_totals(follower, 100)
    follower.close()


def test_sigterm_while_no_broker_answers(make_worker: MakeWorker) -> None:
    one = make_worker(JOBS / "rekey_sum.py", f"127.0.0.1:{free_port()}", "in", "out")
    one.start()
    wait_until(lambda: "No broker answers" in one.log(), 40, "the worker to notice")
    began = time.monotonic()
    assert one.terminate() == 0, one.log()
    assert time.monotonic() - began < 20


def test_second_ctrl_c_ends_at_once(
    embedded_bootstrap: str, unique: Unique, job_file: MakeJob, make_worker: MakeWorker
) -> None:
    source, target = unique("in"), unique("out")
    create(embedded_bootstrap, source, target)
    fill(embedded_bootstrap, source, [(None, {"n": 1}, 0)])
    text = COPIES.replace('lambda order: {"half": 10 / order["n"]}', "lambda order: __import__('time').sleep(60)")
    one = make_worker(job_file(text), embedded_bootstrap, source, target, "raises")
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
