"""The README says what is so: its programs and commands are run, its tables compared with the code.

Each fenced block has a language and mostly a second word: `python NAME` is a file of that name, `sh` is run, in order, in one
directory with these files, and the `text` block behind it is what it must print. `sh make`, `sh install` and `sh kafka` need
more than that: they are run by `tests/integration/test_demo.py` and continuous integration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kstreampy.datastream
import kstreampy.datastream.state
from kstreampy import errors
from kstreampy.broker.embedded import free_port, installed
from kstreampy.common import JobClient
from kstreampy.errors import KStreamError
from kstreampy.observe.function_metric import LABELS
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_source import resolve

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    language: str
    name: str
    text: str


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [Block(*one) for one in found]


def rows(heading: str) -> list[list[str]]:
    """The body of the last table below a heading."""
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", README, re.MULTILINE | re.DOTALL)
    assert section is not None, f"the README has no section {heading!r}"
    table = re.findall(r"(?:^\|.*\|\n)+", section[1], re.MULTILINE)[-1]
    lines = [line[1:-1].split(" |") for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line] for line in lines]


def shown(row: list[str]) -> str:
    return f"| {' | '.join(row)} |"


def assert_table(heading: str, wanted: list[list[str]]) -> None:
    """The README's table must be the one that is made of the code here."""
    assert "\n".join(map(shown, rows(heading))) == "\n".join(map(shown, wanted))


# Programs and commands


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Block, str, str]]:
    """Every `sh` block with what it printed and what it should have printed ("" where the README does not say)."""
    if not installed():
        pytest.skip("needs the package of the embedded broker")
    directory = tmp_path_factory.mktemp("readme")
    port, http_port = str(free_port()), str(free_port())

    def here(text: str) -> str:
        return text.replace("9092", port).replace("8080", http_port)

    script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT"]
    wanted: list[tuple[Block, str]] = []
    in_order = blocks()
    for block, following in zip(in_order, [*in_order[1:], Block("", "", "")], strict=True):
        if block.language in ("python", "toml"):
            (directory / block.name).write_text(here(block.text))
        elif block.language == "sh" and not block.name:
            says = following.text if following.language == "text" else ""
            script += [f"cd {directory}", here(block.text), f"echo; echo {_MARK}"]
            if "kstreampy broker" in block.text:
                script.append(f"until (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null; do sleep 0.1; done")
            wanted.append((block, says))
    (directory / "kstreampy.toml").rename(directory / "settings.toml")  # for a test of its own
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KSTREAMPY_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["XDG_STATE_HOME"] = str(directory / "home")
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    printed = done.stdout.split(f"\n{_MARK}\n")
    return [(block, out, says) for (block, says), out in zip(wanted, printed, strict=False)]


_MARK = "--end-of-block--"


@pytest.mark.kafka
def test_commands_run_and_print_what_is_written(outputs: list[tuple[Block, str, str]]) -> None:
    commands = [block for block in blocks() if block.language == "sh" and not block.name]
    assert [block for block, _, _ in outputs] == commands
    for block, out, says in outputs:
        if says:
            assert sorted(out.splitlines()) == sorted(says.splitlines()), block.text


@pytest.mark.kafka
def test_the_same_job_prints_the_same_on_kafka(outputs: list[tuple[Block, str, str]]) -> None:
    in_memory, on_kafka = (set(out.splitlines()) for block, out, _ in outputs if "run words.py" in block.text)
    assert len(in_memory) == 10
    assert {line for line in on_kafka if not line.startswith("bootstrap servers:")} == in_memory


def test_every_program_is_used() -> None:
    """A Python block that no command runs would not be tested; one that tests itself is run here."""
    commands = "\n".join(block.text for block in blocks() if block.language == "sh")
    for block in blocks():
        if block.language == "python" and block.name not in commands:
            assert block.name.startswith("test_"), f"no command of the README runs {block.name}"
            done = subprocess.run(
                [sys.executable, "-c", block.text], capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr


def test_blocks_are_of_known_kinds() -> None:
    kinds = {(block.language, block.name if block.language == "sh" else "") for block in blocks()}
    assert kinds == {
        ("python", ""),
        ("sh", ""),
        ("sh", "make"),
        ("sh", "install"),
        ("sh", "kafka"),
        ("text", ""),
        ("toml", ""),
    }
    assert README.count("\n```") == 2 * len(blocks())


def test_the_settings_file_is_valid(tmp_path: Path) -> None:
    (text,) = [block.text for block in blocks() if block.language == "toml"]
    file = tmp_path / "kstreampy.toml"
    file.write_text(text)
    settings = resolve({}, file, {}, {}, job_name="job").settings
    assert settings.application_id == tomllib.loads(text)["application_id"]
    assert settings.checkpoint_interval_ms == 1000
    assert settings.kafka == {"fetch.min.bytes": "1000"}


def test_make_targets_are_there() -> None:
    (text,) = [block.text for block in blocks() if block.name == "make"]
    for line in text.splitlines():
        done = subprocess.run([*line.split(), "-n"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (ROOT / target).exists(), target


# Tables


def default_of(name: str) -> str:
    """As a user would write it; words where it depends on something."""
    words = {
        "application_id": "the job file's name",
        "state_dir": "`~/.local/state/kstreampy/<application_id>`",
        "checkpoint_interval_ms": "500 or 1000",
        "transaction_timeout_ms": "30000",
    }
    field = Settings.model_fields[name]
    if name in words:
        return words[name]
    if field.default is None or field.default in ((), {}):
        return "–"
    return f"`{json.dumps(field.default)}`".replace('"', "")


def test_every_setting_is_in_the_table() -> None:
    fields = Settings.model_fields.items()
    assert_table("Settings", [[f"`{name}`", default_of(name), str(field.description)] for name, field in fields])


def test_defaults_in_words_are_so() -> None:
    exactly = Settings(application_id="a")
    at_least = Settings(application_id="a", guarantee="at_least_once")
    assert (exactly.checkpoint_interval_ms, at_least.checkpoint_interval_ms) == (500, 1000)
    assert exactly.transaction_timeout_ms == 30_000
    assert resolve({}, None, {"HOME": "/x"}, {}, job_name="job").settings.state_dir.parts[-3:] == (
        "state",
        "kstreampy",
        "job",
    )


def test_every_exit_code_is_in_the_table() -> None:
    table = {row[1].strip("`"): row[0] for row in rows("Exit codes")}
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, KStreamError)]
    for cls in classes:
        if cls is not KStreamError:
            assert table.get(cls.__name__) == str(cls.exit_code), (
                f"{cls.__name__} must be in the table with {cls.exit_code}"
            )
    assert {row[0] for row in rows("Exit codes")} >= {"0", "1", "128 + n"}
    assert set(table) - {""} == {cls.__name__ for cls in classes} - {"KStreamError"}


def own_metrics() -> list[Any]:
    collected: dict[Any, list[str]] = Metrics().registry._collector_to_names
    return [metric for metric, names in collected.items() if names[0].startswith("kstreampy_")]


def test_every_metric_is_in_the_table() -> None:
    wanted = []
    for metric in own_metrics():
        labels = ", ".join(f"`{label}`" for label in getattr(metric, "_labelnames", LABELS)) or "–"
        for family in metric.describe():
            name = family.name + ("_total" if family.type == "counter" else "")
            wanted.append([f"`{name}`", labels, family.documentation])
    assert_table("Metrics and probes", wanted)


def names_in(heading: str) -> list[str]:
    return [name for row in rows(heading) for cell in row for name in re.findall(r"`([\w.]+)`", cell)]


def test_what_is_not_there_yet_is_not_there() -> None:
    """The day something of it comes, it moves to the other table."""
    homes: dict[str, Any] = {
        **vars(kstreampy.datastream),
        **vars(kstreampy.datastream.state),
        "JobClient": JobClient,
    }
    found = [
        name for name in names_in("What is not there yet") if hasattr(homes[name.split(".")[0]], name.split(".")[1])
    ]
    assert found == []


def test_what_there_is_is_there() -> None:
    from kstreampy.datastream import DataStream, DataStreamUtils, KeyedStream, StreamExecutionEnvironment
    from kstreampy.datastream.connectors import base, kafka, number_seq
    from kstreampy.datastream.windowed_stream import WindowedStream
    from kstreampy_connectors import files

    homes = (StreamExecutionEnvironment, DataStream, KeyedStream, DataStreamUtils, kstreampy.datastream)
    homes = (*homes, WindowedStream, kstreampy.datastream.state, base, kafka, number_seq, files, kstreampy.common)
    missing = [
        name
        for name in names_in("What there is")
        if not name.startswith("ctx") and not any(hasattr(home, name) for home in homes)
    ]
    assert missing == []
