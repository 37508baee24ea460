"""`make bench`: every job on kstreampy beside its hand-written loop and the same job on Quix Streams, one after the other in
one run on one real Kafka, so that the ratios mean something on a noisy machine. There are two hand loops: `hand` uses the
standard library's JSON, as most do; `tuned` the JSON library that kstreampy uses, so that only the framework is compared.

    python -m tests.bench [--count 1000000] [--rounds 3] [--jobs filter,sum,recount] [--guarantees alo,eo] [--no-quix]
        [--no-million]

The broker is the first that tests find (`KSTREAMPY_TEST_BOOTSTRAP`, Docker, Apache Kafka from its jars). Prints records/s,
CPU seconds and page faults of every run's median round, the ratios, and what is aimed at. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.bench import data, nexmark, pair_data, quix_jobs, window_data
from tests.bench.meter import GUARANTEES, JOBS
from tests.brokers.find import real_kafka

SIDES = ("hand", "tuned", "kstreampy", "quix")
NAMES = {
    "filter": "JSON filter + map",
    "sum": "keyed sum, 10,000 keys",
    "recount": "re-key + count, two stages",
    "tumbling": "tumbling 1 s sum, 10,000 keys",
    "sliding": "sliding 60 s/1 s sum, 10,000 keys",
    "sessions": "sessions, gap 500 ms, 10,000 keys",
    "uc2": "Theodolite UC2, 1 minute, 10,000 sensors",
    "uc3": "Theodolite UC3, 30 days by 1 day, two stages",
    "join": "interval join, 1 minute, 10,000 keys",
    "coprocess": "keyed co-process, 10,000 keys",
    "broadcast": "broadcast enrichment, 20 rules",
    "async": "async look-up, 5 ms, capacity 100",
    "q3": "Nexmark q3, persons and auctions",
    "q8": "Nexmark q8, window join of 10 s",
    "q20": "Nexmark q20, bids and auctions",
}
AIMS = {
    "filter": "≥ 0.9 of the hand loop",
    "sum": "≥ 0.9 of the hand loop, which recovers nothing; ≥ 10 × Quix",
    "recount": "≥ 0.55 of the hand loop of filter + map (100,000 where that does 180,000); ≥ 10 × Quix",
    "tumbling": "≥ 0.7 of the hand loop; ≥ 15 × Quix",
    "sliding": "at most twice the cost of tumbling per record",
    "sessions": "no figure",
    "uc2": "no figure",
    "uc3": "no figure",
    "join": "≥ 8 × Quix",
    "coprocess": "≥ 0.6 of the hand loop, which recovers nothing",
    "broadcast": "no figure",
    "async": "≥ 18,000 a second: 90 % of capacity / latency",
    "q3": "no figure",
    "q8": "no figure",
    "q20": "no figure",
}


UNCHECKED = ("sessions", "uc3")
"""Where Quix Streams gives other results than event time with watermarks: it closes sessions at other moments, and behind a
re-keying it drops as late what the slower source partitions bring."""
COUNTS = {"async": 100_000, "q3": 400_000, "q8": 400_000, "q20": 500_000}
"""Records where it is not a million."""


@dataclass(frozen=True)
class Result:
    """The median round of one side of one job under one guarantee."""

    records_per_s: float
    cpu_us: float
    page_faults_per_1000: float


def main() -> None:
    options = parsed()
    with (
        tempfile.TemporaryDirectory(prefix="kstreampy-bench-kafka-") as directory,
        real_kafka(Path(directory)) as broker,
    ):
        run(broker, options)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--count", type=int, help="records for kstreampy and the hand loops; by default what fits the job"
    )
    parser.add_argument("--quix-count", type=int, default=100_000, help="records for Quix Streams")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--guarantees", default=",".join(GUARANTEES))
    parser.add_argument("--no-quix", action="store_true")
    parser.add_argument("--no-million", action="store_true")
    return parser.parse_args()


def run(bootstrap: str, options: argparse.Namespace) -> None:
    guarantees = options.guarantees.split(",")
    results: dict[tuple[str, str, str], Result] = {}
    for job in options.jobs.split(","):
        sides = [side for side in SIDES if side != "quix" or (job in quix_jobs.BUILDERS and not options.no_quix)]
        for guarantee in guarantees:
            rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
            for number in range(options.rounds):
                for side in sides:
                    count = quix_count(job, options) if side == "quix" else full_count(job, options)
                    topic = filled(bootstrap, job, count)
                    line = one(side, job, guarantee, bootstrap, topic, count)
                    rounds[side].append(line)
                    cpu_us = line["cpu_s"] / line["records"] * 1e6
                    rate = f"{line['records_per_s']:,} records/s, {cpu_us:.1f} µs of CPU each"
                    say(f"{job} {guarantee} {side}, round {number + 1}: {rate}")
            for side in sides:
                results[job, guarantee, side] = median(rounds[side])
    print(table(results))
    if not options.no_million:
        say("a million distinct keys")
        count = full_count("sum", options)
        print(million(bootstrap, filled(bootstrap, "sum", count), count))


def full_count(job: str, options: argparse.Namespace) -> int:
    return COUNTS.get(job, 1_000_000) if options.count is None else int(options.count)


def quix_count(job: str, options: argparse.Namespace) -> int:
    """Fewer records where Quix Streams would take too long for as many."""
    most: int = min(options.quix_count, full_count(job, options))
    return min(most, window_data.WINDOWS[job].quix_count) if job in window_data.WINDOWS else most


@cache
def filled(bootstrap: str, job: str, count: int) -> str:
    """The input topics of a job, with commas between them, made unless they are there."""
    if job in pair_data.PAIRED:
        return pair_data.fill(bootstrap, job, count)
    if job in nexmark.QUERIES:
        return nexmark.fill(bootstrap, job, count)
    if job in window_data.WINDOWS:
        return window_data.fill(bootstrap, job, count)
    topic = f"bench-{count}"
    data.fill(bootstrap, topic, count)
    return topic


def one(side: str, job: str, guarantee: str, bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """One run in a process of its own; its output is checked."""
    module = {"hand": "hand_loops", "tuned": "hand_loops", "kstreampy": "kstreampy_jobs", "quix": "quix_jobs"}[side]
    target = f"out-{job}-{guarantee}-{side}-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-m", f"tests.bench.{module}", job, guarantee, "--bootstrap", bootstrap]
    command += ["--input", topic, "--output", target, "--count", str(count)]
    command += ["--tuned"] if side == "tuned" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if job in window_data.WINDOWS:
        if side != "quix" or job not in UNCHECKED:
            window_data.check(bootstrap, target, job, count)
    elif job in pair_data.PAIRED:
        pair_data.check(bootstrap, target, job, count)
    elif job in nexmark.QUERIES:
        nexmark.check(bootstrap, target, job, count)
    else:
        data.check(bootstrap, target, job, count)
    line: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return line


def median(lines: list[dict[str, Any]]) -> Result:
    middle = sorted(lines, key=lambda line: line["records_per_s"])[len(lines) // 2]
    records = middle["records"]
    return Result(
        statistics.median(line["records_per_s"] for line in lines),
        middle["cpu_s"] / records * 1e6,
        middle["page_faults"] / records * 1000,
    )


def table(results: dict[tuple[str, str, str], Result]) -> str:
    lines = [
        "",
        "| job | guarantee | side | records/s | CPU µs/record | page faults/1000 records | to hand | to tuned |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    names = {"alo": "at-least-once", "eo": "exactly-once"}
    for (job, guarantee, side), result in results.items():
        ratios = [result.records_per_s / results[job, guarantee, loop].records_per_s for loop in ("hand", "tuned")]
        lines.append(
            f"| {NAMES[job]} | {names[guarantee]} | {side} | {result.records_per_s:,.0f} | {result.cpu_us:.2f} | "
            f"{result.page_faults_per_1000:.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )
    lines.append("")
    for job in dict.fromkeys(job for job, _, _ in results):
        lines.append(f"{NAMES[job]}: aimed at {AIMS[job]}; exactly-once ≥ 0.7 of at-least-once")
        mine = {
            guarantee: result.records_per_s
            for (one, guarantee, side), result in results.items()
            if (one, side) == (job, "kstreampy")
        }
        if len(mine) == 2:
            lines.append(f"  exactly-once / at-least-once: {mine['eo'] / mine['alo']:.2f}")
        for guarantee, rate in mine.items():
            if (job, guarantee, "quix") in results:
                ratio = rate / results[job, guarantee, "quix"].records_per_s
                lines.append(f"  {names[guarantee]}: {ratio:.1f} × Quix Streams")
            if job == "recount" and ("filter", guarantee, "hand") in results:
                ratio = rate / results["filter", guarantee, "hand"].records_per_s
                lines.append(f"  {names[guarantee]}: {ratio:.2f} of the hand loop of filter + map")
    return "\n".join(lines)


def million(bootstrap: str, topic: str, count: int) -> str:
    command = [sys.executable, "-m", "tests.bench.million", "--bootstrap", bootstrap, "--input", topic]
    done = subprocess.run(
        [*command, "--count", str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    line = json.loads(done.stdout.strip().splitlines()[-1])
    return (
        f"{line['keys']:,} distinct keys: peak resident memory {line['peak_rss_mb']} MB (aimed at < 600); after a clean stop "
        f"ready in {line['restart_ready_s']} s (aimed at < 2) with {line['restored_records']:.0f} records replayed"
    )


def say(text: str) -> None:
    """Progress, for the person who waits."""
    print(f"… {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
