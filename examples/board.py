"""What the demo shows and checks: the newest result of every airport and airline, and what plain Python makes of the file.

Not in here: where results come from (`demo.py`).
"""

import csv
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec

TITLES = {"flights-by-origin": "airport", "flights-by-carrier": "airline"}
CLEAR_LINE, LINES_UP = "\x1b[2K", "\x1b[{}A"


class Result(msgspec.Struct, frozen=True):
    """How the flights of one airport or airline (`key`) have fared; delays are means in minutes."""

    key: str
    flights: int
    cancelled: int
    departure_delay: float | None
    arrival_delay: float | None


@dataclass
class Board:
    """The newest result of each key, by topic. On a terminal it is drawn anew in place, elsewhere as one line each time."""

    out: TextIO
    newest: dict[str, dict[str, Result]] = field(default_factory=lambda: {topic: {} for topic in TITLES})
    out_of_step: list[str] = field(default_factory=list)
    results: int = 0
    lines: int = 0

    @property
    def redraws(self) -> bool:
        return self.out.isatty()

    def take(self, topic: str, result: Result) -> None:
        """One result. Every flight counts one further, so a count that is not the next one was lost, doubled or swapped."""
        key = result.key
        before = self.newest[topic].get(key)
        if result.flights != (before.flights if before else 0) + 1:
            self.out_of_step.append(f"{topic} {key}: {result.flights} after {before.flights if before else 'nothing'}")
        self.newest[topic][key] = result
        self.results += 1

    def show(self, seconds: float) -> None:
        if self.redraws:
            self._redraw(seconds)
        else:
            origins = sorted(self.newest["flights-by-origin"].items())
            parts = [f"{key} {result.flights:,} ({_minutes(result.departure_delay)} min)" for key, result in origins]
            print(f"{seconds:5.1f} s  {self.results:>9,} results  {'  '.join(parts)}", file=self.out, flush=True)

    def _redraw(self, seconds: float) -> None:
        rows = [f"{seconds:5.1f} s  {self.results:,} results"]
        for topic, results in self.newest.items():
            heading = f"{TITLES[topic]:<8}{'flights':>10}{'cancelled':>11}{'departure':>12}{'arrival':>10}"
            rows += ["", f"{heading}   (mean delays, minutes)"]
            for key, result in sorted(results.items(), key=lambda item: -item[1].flights):
                delays = f"{_minutes(result.departure_delay):>12}{_minutes(result.arrival_delay):>10}"
                rows.append(f"{key:<8}{result.flights:>10,}{result.cancelled:>11,}{delays}")
        up = LINES_UP.format(self.lines) if self.lines else ""
        self.out.write(up + "".join(f"{CLEAR_LINE}{row}\n" for row in rows))
        self.out.flush()
        self.lines = len(rows)


def _minutes(delay: float | None) -> str:
    return "-" if delay is None else f"{delay:+.1f}"


def expected(file: Path, branches: Mapping[str, str]) -> dict[str, dict[str, Result]]:
    """What the job must end at, by topic and key: the same file, a loop and three dictionaries."""
    delays: dict[str, dict[str, list[tuple[str, str]]]] = {topic: {} for topic in branches.values()}
    with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as data:
        for row in csv.DictReader(io.TextIOWrapper(data, "utf-8")):
            for column, topic in branches.items():
                delays[topic].setdefault(row[column], []).append((row["dep_delay"], row["arr_delay"]))
    return {topic: {key: _result(key, rows) for key, rows in keys.items()} for topic, keys in delays.items()}


def _result(key: str, rows: list[tuple[str, str]]) -> Result:
    departures = [int(departure) for departure, _ in rows if departure != "NA"]
    arrivals = [int(arrival) for _, arrival in rows if arrival != "NA"]
    return Result(key, len(rows), len(rows) - len(departures), _mean(departures), _mean(arrivals))


def _mean(numbers: list[int]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def differences(board: Board, wanted: Mapping[str, Mapping[str, Result]]) -> list[str]:
    """What is not as it must be, a line each; empty when all is right."""
    found = list(board.out_of_step[:10])
    for topic, results in wanted.items():
        shown = board.newest[topic]
        keys = sorted(results.keys() | shown.keys())
        found += [
            f"{topic} {key}: the job says {shown.get(key)}, plain Python {results.get(key)}"
            for key in keys
            if shown.get(key) != results.get(key)
        ]
    return found
