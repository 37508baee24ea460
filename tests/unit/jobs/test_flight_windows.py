"""`examples/airport_hours.py`: hourly and daily windows over a year of real flights equal what plain Python computes."""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import zipfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from kstreampy.common import Duration
from kstreampy.datastream import StreamExecutionEnvironment

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def job() -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        spec = importlib.util.spec_from_file_location("airport_hours", EXAMPLES / "airport_hours.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def rows(job: ModuleType) -> list[dict[str, str]]:
    with zipfile.ZipFile(job.flights_file()) as archive, archive.open(archive.namelist()[0]) as file:
        return list(csv.DictReader(io.TextIOWrapper(file)))


def left_at(row: dict[str, str]) -> datetime:
    hour = datetime.fromisoformat(row["time_hour"].replace("Z", "+00:00"))
    return hour.replace(minute=int(row["minute"]))


def totals(rows: list[dict[str, str]], place: Any) -> dict[tuple[str, str], tuple[int, int, float | None]]:
    """(key, beginning) → flights, cancelled, mean delay, by plain Python."""
    delays: defaultdict[tuple[str, str], list[int | None]] = defaultdict(list)
    for row in rows:
        delays[place(row)].append(None if row["dep_delay"] == "NA" else int(row["dep_delay"]))
    found = {}
    for at, group in delays.items():
        known = [delay for delay in group if delay is not None]
        mean = sum(known) / len(known) if known else None
        found[at] = (len(group), len(group) - len(known), mean)
    return found


def hour_of(row: dict[str, str]) -> tuple[str, str]:
    return row["origin"], left_at(row).replace(minute=0).astimezone(UTC).isoformat()


def day_of(row: dict[str, str]) -> tuple[str, str]:
    return "NYC", left_at(row).astimezone(ZoneInfo("America/New_York")).date().isoformat()


def as_totals(results: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[int, int, float | None]]:
    found = {(row["key"], row["began"]): (row["flights"], row["cancelled"], row["delay"]) for row in results}
    assert len(found) == len(results), "a window came twice"
    return found


def collected(job: ModuleType, path: Path, late: Duration, which: str) -> list[dict[str, Any]]:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = getattr(job, which)(job.flights(env, path, late))
    with stream.execute_and_collect() as results:
        return list(results)


def test_hours_of_the_airports(job: ModuleType, rows: list[dict[str, str]]) -> None:
    results = collected(job, job.flights_file(), Duration.of_days(366), "by_hour")
    assert as_totals(results) == totals(rows, hour_of)


def test_days_of_the_city_with_both_clock_changes(job: ModuleType, rows: list[dict[str, str]]) -> None:
    results = collected(job, job.flights_file(), Duration.of_days(366), "by_day")
    found = as_totals(results)
    assert found == totals(rows, day_of)
    assert len(found) == 365
    assert {("NYC", "2013-03-10"), ("NYC", "2013-11-03")} <= set(found)


def test_windows_that_close_on_the_way(job: ModuleType, rows: list[dict[str, str]], tmp_path: Path) -> None:
    """In the order of the schedule, with an hour's lateness, windows close long before the file ends."""
    path = tmp_path / "sorted.csv"
    ordered = sorted(rows, key=left_at)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ordered[0]))
        writer.writeheader()
        writer.writerows(ordered)
    assert as_totals(collected(job, path, Duration.of_hours(1), "by_hour")) == totals(rows, hour_of)
