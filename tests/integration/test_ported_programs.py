"""The ports of PyFlink's programs in `examples/`, each as a process of its own on Kafka: their results equal what plain Python
computes."""

from __future__ import annotations

import ast
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import MakeWorker, Unique
from tests.integration.topic import Follower, by_key, create, fill
from tests.integration.worker import wait_until
from tests.unit.jobs.test_ported_programs import sessions, visits

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
PARTITIONS = 4

RunJob = Callable[..., str]
"""`run_job(name, *arguments)` runs an example to its end, and gives what it said."""


@pytest.fixture
def run_job(kafka_bootstrap: str, make_worker: MakeWorker) -> RunJob:
    def run(name: str, *arguments: str) -> str:
        options = ("--bootstrap-servers", kafka_bootstrap, "--log-level", "error")
        worker = make_worker(ROOT / "examples" / f"{name}.py", *arguments, options=options)
        worker.start()
        assert worker.wait(90) == 0, worker.log()[-3000:]
        return str(worker.log())

    return run


@pytest.fixture
def topics(kafka_bootstrap: str, unique: Unique) -> Iterator[tuple[str, str, Follower]]:
    """An input, an output, and a reader of what is committed to it."""
    source, target = unique("in"), unique("out")
    create(kafka_bootstrap, source, target, partitions=PARTITIONS)
    follower = Follower(kafka_bootstrap, target)
    yield source, target, follower
    follower.close()


# Words


def counts_in(directory: Path) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for part in directory.glob("counts-*.txt"):
        for line in part.read_text().splitlines():
            word, count = ast.literal_eval(line)
            found[word].append(count)
    return found


def counts_of(text: str) -> dict[str, list[int]]:
    """Each word's counts go up one by one."""
    return {word: list(range(1, count + 1)) for word, count in Counter(text.split()).items()}


def test_words_of_a_file(run_job: RunJob, tmp_path: Path) -> None:
    text = ROOT / "LICENSE"
    run_job("word_count", "--input", str(text), "--output", str(tmp_path / "counts"))
    assert counts_in(tmp_path / "counts") == counts_of(text.read_text())


@pytest.mark.slow
def test_words_of_a_file_over_a_kill(real_bootstrap: str, make_worker: MakeWorker, tmp_path: Path) -> None:
    chance = random.Random(5)
    text = "\n".join(" ".join(f"w{chance.randrange(500)}" for _ in range(20)) for _ in range(10_000))
    source, target = tmp_path / "text", tmp_path / "counts"
    source.write_text(text)
    worker = make_worker(
        ROOT / "examples" / "word_count.py", "--input", str(source), "--output", str(target),
        options=("--bootstrap-servers", real_bootstrap),
    )  # fmt: skip
    worker.start()
    wait_until(
        lambda: sum(part.stat().st_size for part in target.glob("counts-*.txt")) > 1_000_000, 60, "a third", 0.02
    )
    assert worker.running(), "there is more to come"
    worker.kill()
    worker.start()
    assert worker.wait(150) == 0, worker.log()[-3000:]
    assert counts_in(target) == counts_of(text)


# Timers


def payments() -> dict[str, list[tuple[int, float]]]:
    """Per account in the order of writing. An account pays within two seconds, and the next one begins three seconds later:
    no timer fires before its account has paid everything."""
    chance = random.Random(11)
    return {
        f"account {number}": [
            (number * 5000 + chance.randrange(20) * 100, chance.randrange(1, 1000) / 8) for _ in range(8)
        ]
        for number in range(200)
    }


def test_sums_at_timers(kafka_bootstrap: str, run_job: RunJob, topics: tuple[str, str, Follower]) -> None:
    source, target, follower = topics
    given = payments()
    records = [
        (account, {"time": at, "account": account, "amount": amount}, -1)
        for account, paid in given.items()
        for at, amount in paid
    ]
    fill(kafka_bootstrap, source, records)
    run_job("event_time_timer", "--input", source, "--output", target)
    expected = {
        account.encode(): [{"account": account, "paid": sum(amount for _, amount in paid)}]
        * len({at for at, _ in paid})
        for account, paid in given.items()
    }
    assert by_key(follower.read_until(sum(map(len, expected.values())), 30)) == expected


# Sessions


def test_sessions(kafka_bootstrap: str, run_job: RunJob, topics: tuple[str, str, Follower]) -> None:
    """A page's visits come from all partitions."""
    source, target, follower = topics
    given = visits(13, 5000)
    records: list[tuple[None, Any, int]] = [
        (None, {"page": page, "time": at}, number % PARTITIONS) for number, (page, at) in enumerate(given)
    ]
    fill(kafka_bootstrap, source, records)
    run_job("session_with_gap_window", "--input", source, "--output", target)
    expected = Counter(sessions(given))
    rows = [json.loads(message.value() or b"") for message in follower.read_until(expected.total(), 30)]
    assert Counter((row["page"], row["begin"], row["end"], row["visits"]) for row in rows) == expected
    assert expected.total() > 1000


# As they are: with their own data, printed


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("event_time_timer", ["Row(account='ada', paid=14.75)"] * 2 + ["Row(account='bob', paid=10.5)"] * 2),
        (
            "session_with_gap_window",
            [
                "Row(page='home', begin=1, end=11, visits=3)",
                "Row(page='home', begin=20, end=25, visits=1)",
                "Row(page='shop', begin=14, end=19, visits=1)",
                "Row(page='shop', begin=3, end=12, visits=2)",
            ],
        ),
    ],
)
def test_with_its_own_data(run_job: RunJob, name: str, printed: list[str]) -> None:
    lines = [line for line in run_job(name).splitlines() if "Row(" in line]
    assert sorted(line.partition("> ")[2] for line in lines) == printed
