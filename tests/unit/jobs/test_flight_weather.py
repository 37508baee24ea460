"""`examples/flights_weather.py`: a year of real flights, joined with the weather of their hour and given their airlines' names,
equals what plain Python computes."""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import zipfile
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kstreampy.common import Duration, Row
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.testing import JobHarness

EXAMPLES = Path(__file__).parents[3] / "examples"
Rows = list[dict[str, str]]
HOUR = "2013-01-01T10:00:00Z"
HOUR_MS = 1_357_034_400_000


@pytest.fixture(scope="module")
def job() -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location("flights_weather", EXAMPLES / "flights_weather.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(EXAMPLES))


def read(path: Path) -> Rows:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            return list(csv.DictReader(io.TextIOWrapper(file)))
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def flights(job: ModuleType) -> Rows:
    return read(job.flights_file())


@pytest.fixture(scope="module")
def weather(job: ModuleType) -> Rows:
    return read(job.data_file("weather.csv"))


@pytest.fixture(scope="module")
def expected(job: ModuleType, flights: Rows, weather: Rows) -> Counter[Any]:
    """Every flight with each observation of its airport and hour (there may be none, and in autumn two)."""
    airlines = {row["carrier"]: row["name"] for row in read(job.data_file("airlines.csv"))}
    observed: defaultdict[tuple[str, str], Rows] = defaultdict(list)
    for row in weather:
        observed[row["origin"], row["time_hour"]].append(row)
    found: Counter[Any] = Counter()
    for row in flights:
        for observation in observed[row["origin"], row["time_hour"]]:
            found[
                row["origin"],
                f"{row['carrier']} {row['flight']}",
                scheduled_ms(row),
                number(row["dep_delay"]),
                *(number(observation[name]) for name in ("temp", "wind_speed", "visib")),
                airlines[row["carrier"]],
            ] += 1
    return found


def number(text: str) -> float | None:
    return None if text == "NA" else float(text)


def scheduled_ms(row: dict[str, str]) -> int:
    hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
    return int(hour.timestamp() * 1000) + int(row["minute"]) * 60_000


def collected(job: ModuleType, flights: Path, weather: Path, late: Duration) -> Counter[Any]:
    env = StreamExecutionEnvironment.get_execution_environment()
    names = ("key", "flight", "scheduled", "delay", "temp", "wind", "visibility", "airline")
    with job.from_files(env, flights, weather, late).execute_and_collect() as results:
        return Counter(tuple(row[name] for name in names) for row in results)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_flight_meets_the_weather_of_its_hour(job: ModuleType, expected: Counter[Any]) -> None:
    found = collected(job, job.flights_file(), job.data_file("weather.csv"), Duration.of_days(366))
    assert found == expected
    assert sum(found.values()) > 330_000


def test_what_is_freed_on_the_way_has_met_everything(
    job: ModuleType, flights: Rows, weather: Rows, expected: Counter[Any], tmp_path: Path
) -> None:
    """In the order of time, with an hour's lateness, state is freed long before the files end."""
    paths = []
    for name, rows in (("flights", flights), ("weather", weather)):
        path = tmp_path / f"{name}.csv"
        some = [row for row in rows if row["time_hour"] < "2013-03"]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(sorted(some, key=lambda row: row["time_hour"]))
        paths.append(path)
    march = datetime(2013, 3, 1, tzinfo=UTC).timestamp() * 1000
    winter = Counter({row: count for row, count in expected.items() if row[2] < march})
    assert collected(job, paths[0], paths[1], Duration.of_hours(1)) == winter
    assert winter.total() > 40_000


def test_departures_wait_for_their_airline_also_over_a_crash(job: ModuleType) -> None:
    def flight(number: int, carrier: str) -> Row:
        return Row(origin="JFK", carrier=carrier, flight=number, dep_delay=3, minute=15, time_hour=HOUR)

    with JobHarness(workers=2, key_groups=3) as harness:
        types = {"flown": job.FLIGHT, "observed": job.WEATHER, "airlines": job.AIRLINE}
        sources = {name: harness.source(name, job.row_type(columns)) for name, columns in types.items()}
        flown, observed, airlines = (
            harness.env.from_source(source, source.watermarks(), name).uid(name) for name, source in sources.items()
        )
        results = harness.collect(job.departures(flown, observed, airlines))
        sources["observed"].send(Row(origin="JFK", temp=39.0, wind_speed=12.7, visib=10.0, time_hour=HOUR), HOUR_MS)
        sources["airlines"].send(Row(carrier="AA", name="American"))
        for number, carrier in enumerate(["AA", "UA", "DL", "UA"]):
            sources["flown"].send(flight(number, carrier), HOUR_MS + 15 * 60_000)
        harness.run()
        assert [(row["flight"], row["airline"]) for row in results.take_values()] == [("AA 0", "American")]
        harness.crash()
        sources["airlines"].send(Row(carrier="UA", name="United"))
        sources["flown"].send(flight(4, "UA"), HOUR_MS + 15 * 60_000)
        harness.run()
        assert sorted((row["flight"], row["airline"]) for row in results.take_values()) == [
            (f"UA {number}", "United") for number in (1, 3, 4)
        ]
        assert harness.state_keys("named", "waiting") == ["DL"]
