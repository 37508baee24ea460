"""The ports of PyFlink's programs in `examples/`, in memory: their results equal what plain Python computes."""

from __future__ import annotations

import ast
import importlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kstreampy.common import WatermarkStrategy
from kstreampy.testing import JobHarness

ROOT = Path(__file__).parents[3]


@pytest.fixture
def job(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module(request.param)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("job", [name], indirect=True)


def by_key(results: list[Any]) -> dict[str, list[Any]]:
    """What follows the first field, in order: there is none between keys."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for key, *rest in results:
        found[key].append(tuple(rest))
    return dict(found)


# With their own data, printed


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Without the task in front, sorted."""
    return sorted(re.sub(r"^\d+> ", "", line) for line in capsys.readouterr().out.splitlines())


@of("word_count")
def test_words_of_its_own(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    job.word_count(None, None)
    counts = Counter(" ".join(job.LINES).split())
    assert printed(capsys) == sorted(str((word, n + 1)) for word, count in counts.items() for n in range(count))
    assert counts["Of"] == 2


@of("event_time_timer")
def test_payments_of_its_own(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    job.main(None, None)
    sums = {"ada": 14.75, "bob": 10.5}
    assert printed(capsys) == [f"Row(account='{name}', paid={paid})" for name, paid in sums.items() for _ in range(2)]


@of("session_with_gap_window")
def test_visits_of_its_own(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    job.main(None, None)
    assert printed(capsys) == sorted(
        f"Row(page={page!r}, begin={begin}, end={end}, visits={count})"
        for page, begin, end, count in sessions(job.VISITS)
    )


# Words


@of("word_count")
@pytest.mark.parametrize("seed", range(3))
def test_words_of_a_file_are_counted(job: ModuleType, seed: int, tmp_path: Path) -> None:
    """Every word's counts go up one by one, to what a Counter says; over crashes none is lost or doubled."""
    text = ROOT / "LICENSE"
    with JobHarness(lambda: job.word_count(str(text), str(tmp_path)), workers=2, seed=seed) as harness:
        harness.crash_at("commit", 2)
        harness.crash_at("commit", 3, side="after", worker=1)
        harness.run()
        assert harness.ended
        assert harness.crashes >= 1
    found: defaultdict[str, list[int]] = defaultdict(list)
    for part in tmp_path.glob("counts-*.txt"):
        for line in part.read_text().splitlines():
            word, count = ast.literal_eval(line)
            found[word].append(count)
    counts = Counter(text.read_text().split())
    assert found == {word: list(range(1, count + 1)) for word, count in counts.items()}
    assert counts.total() > 1000


# Timers


def payments(seed: int) -> list[tuple[int, str, float]]:
    """At most two seconds late, so none is late for its own timer."""
    chance = random.Random(seed)
    return [
        (number * 400 - chance.randrange(2001) // 100 * 100, chance.choice("abc"), chance.randrange(1, 100) / 4)
        for number in range(5, 80)
    ]


def told(payments: list[tuple[int, str, float]]) -> Iterator[tuple[str, float]]:
    """By plain Python, with time moving on behind every payment."""
    paid: defaultdict[str, float] = defaultdict(float)
    timers: set[tuple[int, str]] = set()
    newest = 0
    for time, account, amount in payments:
        paid[account] += amount
        timers.add((time + 2000, account))
        newest = max(newest, time)
        due = sorted(timer for timer in timers if timer[0] <= newest - 2000 - 1)
        yield from ((account, paid[account]) for _, account in due)
        timers.difference_update(due)
    yield from ((account, paid[account]) for _, account in sorted(timers))


@of("event_time_timer")
@pytest.mark.parametrize("seed", range(5))
def test_sums_at_timers_while_time_moves_on(job: ModuleType, seed: int) -> None:
    with JobHarness(workers=2, seed=seed) as harness:
        source = harness.source("payments", job.PAYMENT)
        results = harness.collect(
            job.paid(harness.env.from_source(source, WatermarkStrategy.no_watermarks(), "payments"))
        )
        for number, payment in enumerate(payments(seed)):
            source.send(payment)
            harness.run()
            if number % 20 == 10:
                harness.crash()
        source.end()
        harness.run()
        found = by_key(results.values())
    expected = by_key(list(told(payments(seed))))
    assert found == expected
    assert all(len(set(sums)) > 5 for sums in expected.values()), "timers fire on the way, at different sums"


@of("event_time_timer")
def test_timers_from_topic_to_topic(job: ModuleType) -> None:
    with JobHarness(lambda: job.main("payments", "paid"), partitions=3) as harness:
        topic = harness.topic("payments")
        for number in range(30):
            topic.send({"time": 1000 + number * 10, "account": f"a{number % 10}", "amount": number / 4})
        harness.run()
        assert harness.ended
        found = harness.output("paid").by_key()
    assert found == {
        f"a{number}": [{"account": f"a{number}", "paid": (number + number + 10 + number + 20) / 4}] * 3
        for number in range(10)
    }


# Sessions


def visits(seed: int, number: int = 300) -> list[tuple[str, int]]:
    """In the order of time, and never just a gap apart: two such visits are one session only if the first has not closed."""
    chance, time = random.Random(seed), 0
    found = []
    for _ in range(number):
        time += chance.choice((0, 0, 2, 2, 4, 6))
        found.append((chance.choice("abcd"), time))
    return found


def sessions(visits: list[tuple[str, int]]) -> list[tuple[str, int, int, int]]:
    """By plain Python: a visit no later than the gap after the one before is of the same session."""
    found = []
    times: defaultdict[str, list[int]] = defaultdict(list)
    for page, time in visits:
        times[page].append(time)
    for page, all_of_page in times.items():
        begin, last, count = all_of_page[0], all_of_page[0], 0
        for time in all_of_page:
            if time > last + 5:
                found.append((page, begin, last + 5, count))
                begin, count = time, 0
            last, count = time, count + 1
        found.append((page, begin, last + 5, count))
    return found


@of("session_with_gap_window")
@pytest.mark.parametrize("seed", range(5))
def test_sessions_that_close_on_the_way(job: ModuleType, seed: int) -> None:
    given = visits(seed)
    with JobHarness(workers=2, seed=seed) as harness:
        source = harness.source("visits", job.VISIT)
        results = harness.collect(
            job.sessions(harness.env.from_source(source, WatermarkStrategy.no_watermarks(), "visits"))
        )
        for number, visit in enumerate(given):
            source.send(visit)
            if number % 10 == 0:
                harness.run()
            if number % 70 == 30:
                harness.crash()
        harness.run()
        closed = by_key(results.values())
        source.end()
        harness.run()
        found = by_key(results.values())
    expected = by_key(sessions(given))
    assert found == expected
    assert sum(map(len, expected.values())) > 30
    newest = given[-1][1]
    assert closed == by_key([row for row in sessions(given) if row[2] - 1 < newest])


@of("session_with_gap_window")
def test_sessions_from_topic_to_topic(job: ModuleType) -> None:
    given = visits(17)
    with JobHarness(lambda: job.main("visits", "sessions"), partitions=3) as harness:
        topic = harness.topic("visits")
        for number, (page, time) in enumerate(given):
            topic.send({"page": page, "time": time}, partition=number % 3)
        harness.run()
        assert harness.ended
        results = [record.value for record in harness.output("sessions").records()]
    found = [(row["page"], row["begin"], row["end"], row["visits"]) for row in results]
    assert sorted(found) == sorted(sessions(given))
