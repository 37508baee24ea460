"""Stopping a process: first signal, second signal, and the watchdog, each in a process that really gets the
signal."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from kstreampy.errors import ShutdownTimeout
from kstreampy.runtime.stop import StopSignal, stopping_by_signal

PROLOGUE = """
import signal, sys, threading, time
from kstreampy.runtime.stop import StopSignal, stopping_by_signal
"""

GRACEFUL = """
stop = StopSignal(10)
with stopping_by_signal(stop):
    print("ready", flush=True)
    stop.wait()
    print(stop.reason, stop.remaining_s() > 5, flush=True)
"""

DEAF = """
stop = StopSignal({budget})
with stopping_by_signal(stop):
    print("ready", flush=True)
    time.sleep(60)
"""

# A mutex locked twice: blocked in C for good, with the GIL released, as in a client call that hangs. No
# handler of Python's runs there.
BLOCKED_IN_C = """
import ctypes
stop = StopSignal(0.3)
libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
libc.pthread_mutex_lock(mutex)
with stopping_by_signal(stop):
    print("ready", flush=True)
    libc.pthread_mutex_lock(mutex)
"""

LINGERS = """
stop = StopSignal(0.5)
with stopping_by_signal(stop, until_exit=True):
    print("ready", flush=True)
    stop.wait()
threading.Thread(target=time.sleep, args=(60,)).start()
"""


def started(script: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_process_ends_by_itself(number: signal.Signals) -> None:
    process = started(GRACEFUL)
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, f"{number.name} True\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_at_once(number: signal.Signals) -> None:
    process = started(DEAF.format(budget=60))
    process.send_signal(number)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + number
    assert f"{number.name} again" in err


def test_a_process_that_does_not_stop_is_ended_when_the_budget_is_spent() -> None:
    process = started(DEAF.format(budget=0.5))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == ShutdownTimeout.exit_code
    assert 0.4 < time.monotonic() - began < 5
    assert "not stopped within 0.5 s of SIGTERM" in err
    assert "Thread" in err


def test_a_main_thread_that_hangs_in_c_code_is_ended_too() -> None:
    process = started(BLOCKED_IN_C)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == ShutdownTimeout.exit_code


def test_threads_that_linger_after_a_stop_do_not_keep_the_process() -> None:
    process = started(LINGERS)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == ShutdownTimeout.exit_code


def test_only_the_first_request_counts() -> None:
    now = [100.0]
    stop = StopSignal(25, clock=lambda: now[0])
    heard: list[str] = []
    stop.on_request(lambda: heard.append("early"))
    assert (stop.requested(), stop.reason, stop.remaining_s()) == (False, None, float("inf"))
    stop.request("first")
    now[0] += 10
    stop.request("second")
    stop.on_request(lambda: heard.append("late"))
    assert (stop.requested(), stop.reason, stop.remaining_s()) == (True, "first", 15)
    assert heard == ["early", "late"]
    now[0] += 100
    assert stop.remaining_s() == 0
    assert stop.wait(0)


def test_waiting_ends_with_the_request() -> None:
    stop = StopSignal(25)
    assert not stop.wait(0.01)
    threading.Timer(0.05, stop.request, ["x"]).start()
    began = time.monotonic()
    assert stop.wait(10)
    assert time.monotonic() - began < 5


def test_afterwards_signals_are_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    threads = threading.active_count()
    with stopping_by_signal(StopSignal(25)):
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert threading.active_count() == threads


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def inside() -> None:
        with stopping_by_signal(StopSignal(25)):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]
