"""One Apache Kafka broker as a child process, from Java and Maven (`kafka.sh` beside this file)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from kstreampy.broker.embedded import free_port

SCRIPT = Path(__file__).with_name("kafka.sh")

FAST_CRASHES: Mapping[str, str] = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
"""Broker properties with which a member that was killed is noticed within seconds."""


def missing() -> str | None:
    """Why it cannot be started here; None when it can."""
    tools = [tool for tool in ("java", "mvn", "bash") if shutil.which(tool) is None]
    return f"Apache Kafka from its jars needs {', '.join(tools)} on the PATH" if tools else None


class KafkaProcess:
    """Its files are in `directory`; stopping and starting it again keeps data and port. It ends with the
    process that started it, also when that one is killed (the script ends the broker when its standard
    input closes)."""

    def __init__(self, directory: Path, properties: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self._controller_port = free_port()
        self._properties = dict(properties or {})
        self._script: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    def start(self, timeout_s: float = 120.0) -> str:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log_file.write_text("")
        lines = "\n".join(f"{name}={value}" for name, value in self._properties.items())
        with (self.directory / "script.log").open("ab") as output:
            self._script = subprocess.Popen(
                ["bash", str(SCRIPT), "run", str(self.port), str(self._controller_port), str(self.directory)],
                env={**os.environ, "KAFKA_PROPERTIES": lines},
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + timeout_s
        while "Kafka Server started" not in self.log_file.read_text(errors="replace"):
            if self._script.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Apache Kafka did not start:\n{self.log_file.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        return self.bootstrap_servers

    def stop(self) -> None:
        script, self._script = self._script, None
        if script is None:
            return
        assert script.stdin is not None
        script.stdin.close()
        script.wait(30)
        self._await_end()

    def kill(self) -> None:
        """kill -9, as a crash would."""
        os.kill(self._pid(), signal.SIGKILL)
        self.stop()

    def suspend(self) -> None:
        """Stops answering without closing a connection, as a cut network would."""
        os.kill(self._pid(), signal.SIGSTOP)

    def carry_on(self) -> None:
        os.kill(self._pid(), signal.SIGCONT)

    def _pid(self) -> int:
        return int((self.directory / "pid").read_text())

    def _await_end(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                os.kill(self._pid(), 0)
            except (ProcessLookupError, FileNotFoundError):
                return
            time.sleep(0.05)
        os.kill(self._pid(), signal.SIGKILL)
