"""A million distinct keys: how much memory the worker takes, and how soon it is ready after a clean stop.

    python -m tests.bench.million --bootstrap 127.0.0.1:9092 --input bench-1m --count 1000000

Runs `kstreampy run` as a real process and looks at it from outside, through its metrics and probes. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from kstreampy.broker.embedded import free_port
from tests.bench.data import ensure_topic

JOB = Path(__file__).with_name("million_job.py")


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body; status 0 while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metric(text: str, name: str, labels: str = "") -> float:
    """The sum over all series of a metric whose labels contain `labels`."""
    found = re.findall(rf"^{name}(?:\{{([^}}]*)\}})? (\S+)$", text, re.MULTILINE)
    return sum(float(value) for shown, value in found if labels in shown)


class Run:
    def __init__(
        self, bootstrap: str, topic: str, target: str, state: str, application: str, *, job: Path = JOB
    ) -> None:
        self.port = free_port()
        self.began = time.monotonic()
        command = [sys.executable, "-m", "kstreampy_cli", "run", str(job), "--application-id", application]
        command += ["--state-dir", state, "--worker-id", "bench", "--http-port", str(self.port), "--"]
        command += [bootstrap, topic, target]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        self.process = subprocess.Popen(command, env=environment)

    def metrics(self) -> str:
        return get(self.port, "/metrics")[1]

    def until_ready(self, tasks: int) -> float:
        """Seconds from the start until the worker is ready with all its tasks."""
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the worker ended with {self.process.returncode}")
            status, _ = get(self.port, "/ready")
            if status == 200 and metric(self.metrics(), "kstreampy_tasks") >= tasks:
                return time.monotonic() - self.began
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            raise RuntimeError(f"the worker stopped with {self.process.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--input", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    name = f"million-{uuid.uuid4().hex[:8]}"
    ensure_topic(options.bootstrap, name)
    with tempfile.TemporaryDirectory(prefix="kstreampy-million-") as state:
        run = Run(options.bootstrap, options.input, name, state, name)
        rss = 0.0
        while True:
            text = run.metrics()
            rss = max(rss, metric(text, "process_resident_memory_bytes"))
            if metric(text, "kstreampy_records_in_total", 'stage="total"') >= options.count:
                break
            if run.process.poll() is not None:
                raise RuntimeError(f"the worker ended with {run.process.returncode}")
            time.sleep(0.2)
        seconds = time.monotonic() - run.began
        time.sleep(2)
        rss = max(rss, metric(run.metrics(), "process_resident_memory_bytes"))
        began = time.monotonic()
        run.stop()
        stopped_s = time.monotonic() - began
        run = Run(options.bootstrap, options.input, name, state, name)
        ready_s = run.until_ready(4 + 12)
        text = run.metrics()
        line = {
            "keys": options.count,
            "seconds": round(seconds, 1),
            "peak_rss_mb": round(rss / 1e6),
            "stop_s": round(stopped_s, 2),
            "restart_ready_s": round(ready_s, 2),
            "restored_records": metric(text, "kstreampy_restore_records_total"),
            "state_mb": round(metric(text, "kstreampy_state_bytes") / 1e6),
        }
        run.stop()
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
