"""Workers as real processes for crash tests: `kstreampy run job.py` under names of their own, killed and started at will."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent / "jobs"


@dataclass
class Worker:
    """One worker of a job. Its state directory outlives its processes."""

    name: str
    job: str
    arguments: Sequence[str]
    options: Sequence[str]
    directory: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        self.directory.mkdir(parents=True, exist_ok=True)
        log = open(self.log_path, "ab")  # noqa: SIM115  # the child's, closed here once it has it
        command = [
            sys.executable,
            "-m",
            "kstreampy_cli",
            "run",
            str(JOBS / self.job),
            "--state-dir",
            str(self.directory),
        ]
        command += [*self.options, "--", *self.arguments]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        log.close()

    @property
    def log_path(self) -> Path:
        return self.directory.parent / f"{self.name}.log"

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """As an out-of-memory kill or a lost machine would: no goodbye."""
        assert self.process is not None, "started before it is killed"
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self, timeout_s: float = 40) -> int:
        """As a rolling deploy would. The exit code."""
        assert self.process is not None, "started before it is stopped"
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def wait(self, timeout_s: float) -> int:
        assert self.process is not None, "started before it is waited for"
        return self.process.wait(timeout_s)


@dataclass
class Fleet:
    """The workers of one application."""

    job: str
    application_id: str
    arguments: Sequence[str]
    root: Path
    options: Sequence[str] = ()
    workers: dict[str, Worker] = field(default_factory=dict)

    def start(self, name: str) -> Worker:
        if name not in self.workers:
            options = ["--application-id", self.application_id, *self.options]
            self.workers[name] = Worker(name, self.job, self.arguments, options, self.root / name)
        self.workers[name].start()
        return self.workers[name]

    def kill_one(self, chance: random.Random, *, lose_disk: bool = False) -> None:
        """Kills a worker, whichever, and starts it again at once."""
        victim = chance.choice(list(self.workers.values()))
        assert victim.running(), victim.log()[-3000:]
        victim.kill()
        if lose_disk:
            shutil.rmtree(victim.directory)
        victim.start()

    def grow_under_kills(self, grow: Callable[[int], None], parts: int, pause_s: tuple[float, float]) -> list[Worker]:
        """Two workers, and a job whose input grows: after each part, which `grow(part)` writes, and a random pause one of them
        is killed, once with its disk, and in the middle a third one comes. All that were started; needs four parts."""
        workers = [self.start("w0"), self.start("w1")]
        wait_joined(workers)
        chance = random.Random(17)
        for part in range(parts):
            grow(part)
            time.sleep(chance.uniform(*pause_s))
            self.kill_one(chance, lose_disk=part == 2)
            if part == 3:
                workers.append(self.start("w2"))
        return workers

    def assert_same(self, found: Counter[Any], clean: Counter[Any]) -> None:
        """Every result of a clean run once, and no other."""
        missing, many = clean - found, found - clean
        assert not missing, f"{missing.total()} of {clean.total()} are missing, e.g. {min(missing)}\n{self.logs()}"
        assert not many, f"{many.total()} too many, e.g. {min(many)}\n{self.logs()}"

    def stop(self) -> None:
        for worker in self.workers.values():
            if worker.running():
                worker.kill()

    def logs(self) -> str:
        """The end of each worker's log, for a failing test's message."""
        return "\n".join(f"--- {name}\n{worker.log()[-4000:]}" for name, worker in self.workers.items())


def wait_joined(workers: Sequence[Worker]) -> None:
    """Until each of the workers has tasks."""

    def joined() -> bool:
        for worker in workers:
            assert worker.running(), worker.log()[-3000:]
        return all("took" in worker.log() for worker in workers)

    wait_until(joined, 60, "all workers to join")


def wait_until(condition, timeout_s: float, what: str, interval_s: float = 0.2) -> None:  # type: ignore[no-untyped-def]
    """Polls until the condition holds; fails the test, naming what was waited for."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s for {what}")
        time.sleep(interval_s)
