"""The jobs on Quix Streams, in a virtual environment of its own, in a process of its own.

    python -m tests.bench.quix_jobs sum eo --bootstrap 127.0.0.1:9092 --input bench-100k --output out --count 100000

Prints one JSON line (`meter.py`), measured until Quix's `run` returned: its last commit and its closing, some tenths of a
second, are in it. The clients are tuned like those of the hand loops, and commit as often. `environment` makes
the virtual environment once, in `.bench/quix-venv` (needs a package index).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import quix_joins, quix_windows
from tests.bench.data import ensure_topic, item_of
from tests.bench.meter import COMMIT_INTERVAL_S, Meter, arguments

VERSION = "3.28.0"
_ROOT = Path(__file__).parents[2]
_VENV = _ROOT / ".bench" / "quix-venv"
_PYTHON = _VENV / "bin" / "python"
_CONSUMER = {"fetch.queue.backoff.ms": 10, "fetch.wait.max.ms": 100, "queued.max.messages.kbytes": 64 * 1024}
_PRODUCER = {
    "linger.ms": 10,
    "batch.size": 1_000_000,
    "compression.type": "lz4",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 500_000,
    "retry.backoff.ms": 10,
}


def environment() -> Path:
    """The Python that has Quix Streams; installs it the first time."""
    done = _VENV / f"installed-{VERSION}"
    if not done.exists():
        venv.create(_VENV, with_pip=True, clear=True)
        subprocess.run([_PYTHON, "-m", "pip", "install", "-q", f"quixstreams=={VERSION}"], check=True)
        done.touch()
    return _PYTHON


class Progress:
    """Counts records where a job is done with them; stops the application at the last one."""

    def __init__(self, app: Any, meter: Meter, count: int) -> None:
        self.app = app
        self.meter = meter
        self.left = count

    def begin(self, value: Any) -> Any:
        self.meter.start()
        return value

    def done(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.app.stop()


def filter_map(app: Any, progress: Progress, source: str, target: str) -> None:
    def wanted(value: dict[str, Any]) -> bool:
        progress.begin(value)
        progress.done()
        return bool(value["kind"] == "view")

    def mapped(value: dict[str, Any]) -> dict[str, Any]:
        return {"id": value["id"], "user": value["user"], "cents": int(value["amount"] * 100)}

    stream = app.dataframe(app.topic(source, value_deserializer="json"))
    stream.filter(wanted).apply(mapped).to_topic(app.topic(target, value_serializer="json"))


def keyed_sum(app: Any, progress: Progress, source: str, target: str) -> None:
    def summed(value: dict[str, Any], state: Any) -> dict[str, Any]:
        progress.begin(value)
        total = state.get("sum", 0.0) + value["amount"]
        state.set("sum", total)
        progress.done()
        return {**value, "amount": total}

    stream = app.dataframe(app.topic(source, value_deserializer="json"))
    stream.apply(summed, stateful=True).to_topic(app.topic(target, value_serializer="json"))


def rekey_count(app: Any, progress: Progress, source: str, target: str) -> None:
    def item(value: dict[str, Any]) -> str:
        progress.begin(value)
        return item_of(value["kind"], value["id"])

    def counted(value: dict[str, Any], key: str, timestamp: int, headers: Any, state: Any) -> dict[str, Any]:
        count = state.get("count", 0) + 1
        state.set("count", count)
        progress.done()
        return {"item": key, "count": count}

    stream = app.dataframe(app.topic(source, value_deserializer="json"))
    grouped = stream.group_by(item, name="item", key_deserializer="str", key_serializer="str")
    output = app.topic(target, value_serializer="json", key_serializer="str")
    grouped.apply(counted, stateful=True, metadata=True).to_topic(output)


BUILDERS: dict[str, Callable[[Any, Progress, str, str], None]] = {
    "filter": filter_map,
    "sum": keyed_sum,
    "recount": rekey_count,
    **quix_windows.BUILDERS,
    **quix_joins.BUILDERS,
}


def _run_here() -> None:
    """In the virtual environment's Python."""
    from quixstreams import Application  # type: ignore[import-not-found,unused-ignore]  # in its own environment

    options = arguments(__doc__ or "")
    ensure_topic(options.bootstrap, options.output)
    with tempfile.TemporaryDirectory() as state_dir:
        app = Application(
            broker_address=options.bootstrap,
            consumer_group=f"bench-quix-{uuid.uuid4().hex[:8]}",
            auto_offset_reset="earliest",
            commit_interval=COMMIT_INTERVAL_S[options.guarantee],
            processing_guarantee="exactly-once" if options.guarantee == "eo" else "at-least-once",
            consumer_extra_config=_CONSUMER,
            producer_extra_config=_PRODUCER,
            state_dir=state_dir,
            loglevel="WARNING",
        )
        meter = Meter()
        BUILDERS[options.job](app, Progress(app, meter, options.count), options.input, options.output)
        app.run()
        print(meter.report(options.count), flush=True)


def main() -> None:
    if Path(sys.prefix).resolve() == _VENV.resolve():
        _run_here()
        return
    arguments(__doc__ or "")  # refuses a wrong command line before anything is installed
    command = [str(environment()), "-m", "tests.bench.quix_jobs", *sys.argv[1:]]
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(subprocess.run(command, cwd=_ROOT, env=_clean_environment(), check=False).returncode)


def _clean_environment() -> dict[str, str]:
    """Without what would bring this environment's packages along."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


if __name__ == "__main__":
    main()
