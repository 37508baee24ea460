"""A small broker that speaks Kafka's protocol, for trying things out: started and stopped as a child
process.

In here: `EmbeddedBroker`, around the optional package noida-db (`pip install "kstreampy[broker]"`). It
serves topics, transactions and classic consumer groups from one process without a JVM; it is for
development and tests, not for production. Not in here: any Kafka client."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from kstreampy.errors import BrokerUnavailable, JobError

DEFAULT_DATA_DIR: Final = Path(".kstreampy-broker")
_HOST: Final = "127.0.0.1"
_PACKAGE: Final = "noida_db"

_CHILD: Final = f"""
import os, signal, sys, threading
from {_PACKAGE}.cli import main
signal.signal(signal.SIGTERM, lambda *_: None)  # the server in the same process group gets it too: wait for it
def end_with_parent():
    sys.stdin.read()
    os.killpg(0, signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.exit(main())
"""


def free_port() -> int:
    """A TCP port of this host that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def installed() -> bool:
    """Whether the optional package is there."""
    return importlib.util.find_spec(_PACKAGE) is not None


class EmbeddedBroker:
    """Owns one child process. A context manager: started on entry, stopped on exit; what was written stays
    in `data_dir` for the next start.

    `port` 0 takes a free one. The child's output goes to `broker.log` in the data directory.
    """

    def __init__(self, data_dir: Path | str = DEFAULT_DATA_DIR, port: int = 0) -> None:
        self.data_dir = Path(data_dir)
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{_HOST}:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "broker.log"

    def start(self, timeout_s: float = 20.0) -> str:
        """Starts it and waits until it answers. Returns the bootstrap servers. JobError when the package is
        missing, the port is taken or it ends at once (with the end of its log); BrokerUnavailable when it
        stays silent."""
        if self._process is not None and self._process.poll() is None:
            return self.bootstrap_servers
        if not installed():
            raise JobError(
                "The embedded broker needs the package noida-db, which is not installed: "
                'pip install "kstreampy[broker]"'
            )
        if self.port == 0:
            self.port = free_port()
        elif self._answers():
            raise JobError(
                f"Cannot start the embedded broker: something listens on {self.bootstrap_servers} already. "
                "Stop it, or choose another port."
            )
        self._spawn()
        self._wait_until_it_answers(timeout_s)
        return self.bootstrap_servers

    def _spawn(self) -> None:
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            output = self.log_file.open("ab")
        except OSError as failure:
            raise JobError(
                f"Cannot write to the embedded broker's data directory {self.data_dir}: {failure}."
            ) from failure
        options = [
            "--only",
            "kafka",
            "--kafka-port",
            str(self.port),
            "--data-dir",
            str(self.data_dir.resolve()),
        ]
        with output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD, "start", *options],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the workers first; the broker is stopped after them
            )

    def _wait_until_it_answers(self, timeout_s: float) -> None:
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            status = self._process.poll()
            if status is not None:
                self._process = None
                raise JobError(f"The embedded broker ended at once (status {status}). {self._log_end()}")
            if time.monotonic() > deadline:
                self.stop()
                raise BrokerUnavailable(
                    f"The embedded broker did not answer at {self.bootstrap_servers} within {timeout_s:g} s. "
                    f"{self._log_end()}"
                )
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((_HOST, self.port), timeout=1.0):
                return True
        except OSError:
            return False

    def _log_end(self) -> str:
        try:
            lines = self.log_file.read_text(errors="replace").splitlines()[-10:]
        except OSError:
            lines = []
        return f"The end of its log {self.log_file}:\n" + "\n".join(f"  {line}" for line in lines or ["(empty)"])

    def wait(self) -> int:
        """Waits until the process ends by itself or by a signal; its exit status."""
        if self._process is None:
            raise JobError("The embedded broker is not running.")
        return self._process.wait()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Asks it to end, and ends it when it does not within the timeout. Safe to call twice."""
        process, self._process = self._process, None
        if process is None:
            return
        self._signal(process, signal.SIGTERM)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._signal(process, signal.SIGKILL)
            process.wait()
        self._close_input(process)

    def kill(self) -> None:
        """Ends it as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            self._signal(process, signal.SIGKILL)
            process.wait()
            self._close_input(process)

    @staticmethod
    def _close_input(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            process.stdin.close()

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        """To the whole process group: the package's command may start the server as a child of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
