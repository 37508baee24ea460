"""A million timers: how fast they are registered, restored on a new disk, and fired.

    python -m tests.bench.timers --bootstrap 127.0.0.1:9092 --count 1000000

Runs `kstreampy run` as a real process and looks at it from outside. Prints one JSON line. Registering and firing are counted
with all that belongs to them: reading and decoding the records, checkpoints, the timers topic and RocksDB.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from tests.bench.data import PARTITIONS, ensure_topic, fill
from tests.bench.million import Run, metric

JOB = Path(__file__).with_name("timers_job.py")


def until(run: Run, reached: Callable[[str], bool], patience_s: float = 300) -> float:
    """Waits until the metrics say so; the time then."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if reached(run.metrics()):
            return time.monotonic()
        if run.process.poll() is not None:
            raise RuntimeError(f"the worker ended with {run.process.returncode}")
        time.sleep(0.2)
    raise RuntimeError(f"not reached within {patience_s} s")


def fire(bootstrap: str, topic: str) -> None:
    """One record per partition whose time is behind all timers."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS):
        producer.produce(topic, json.dumps({"id": -1, "user": "last", "at": 10**14}), "last", partition)
    producer.flush(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--count", type=int, default=1_000_000)
    options = parser.parse_args()
    name, count = f"timers-{uuid.uuid4().hex[:8]}", options.count
    ensure_topic(options.bootstrap, f"{name}-out")
    fill(options.bootstrap, name, count)

    def worker(state: str) -> Run:
        return Run(options.bootstrap, name, f"{name}-out", state, name, job=JOB)

    with tempfile.TemporaryDirectory(prefix="kstreampy-timers-") as state:
        run = worker(state)
        began = until(run, lambda text: metric(text, "kstreampy_records_in_total") > 0)
        registered_s = until(run, lambda text: metric(text, "kstreampy_records_in_total") >= count) - began
        time.sleep(2)
        rss = metric(run.metrics(), "process_resident_memory_bytes")
        run.stop()
    with tempfile.TemporaryDirectory(prefix="kstreampy-timers-") as state:
        run = worker(state)
        began = until(run, lambda text: metric(text, "kstreampy_restore_records_done") > 0)
        run.until_ready(PARTITIONS)
        restored_s = time.monotonic() - began
        fire(options.bootstrap, name)
        began = until(run, lambda text: metric(text, "kstreampy_function_counter") > 0)
        before = metric(run.metrics(), "kstreampy_function_counter")
        fired_s = until(run, lambda text: metric(text, "kstreampy_function_counter") >= count) - began
        run.stop()
    line = {
        "timers": count,
        "registered_per_s": round(count / registered_s),
        "rss_mb": round(rss / 1e6),
        "restored_per_s": round(count / restored_s),
        "fired_per_s": round((count - before) / fired_s) if fired_s > 0 else None,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
