"""What every side of the benchmark reports: records, wall time, CPU seconds and page faults of its process."""

from __future__ import annotations

import argparse
import json
import resource
import time

JOBS = (
    "filter", "sum", "recount", "tumbling", "sliding", "sessions", "uc2", "uc3", "join", "coprocess", "broadcast", "async",
    "q3", "q8", "q20",
)  # fmt: skip
GUARANTEES = ("alo", "eo")
COMMIT_INTERVAL_S = {"alo": 1.0, "eo": 0.5}


class Meter:
    """From the first record (`start`, called more often than once) to the last commit (`report`)."""

    def __init__(self) -> None:
        self._began = 0.0
        self._usage: resource.struct_rusage | None = None

    def start(self) -> None:
        if self._usage is None:
            self._usage = resource.getrusage(resource.RUSAGE_SELF)
            self._began = time.perf_counter()

    @property
    def started(self) -> bool:
        return self._usage is not None

    def report(self, records: int) -> str:
        """One JSON line. `RuntimeError` when there was no first record."""
        seconds = time.perf_counter() - self._began
        before, after = self._usage, resource.getrusage(resource.RUSAGE_SELF)
        if before is None:
            raise RuntimeError("nothing was measured: no record came")
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
        return json.dumps(
            {
                "records": records,
                "seconds": round(seconds, 3),
                "cpu_s": round(cpu_s, 3),
                "page_faults": faults,
                "records_per_s": round(records / seconds),
            }
        )


def arguments(description: str) -> argparse.Namespace:
    """The command line that all sides share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("guarantee", choices=GUARANTEES)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--input", required=True, help="a filled topic, or several with commas between them")
    parser.add_argument("--output", required=True, help="a topic to write to; made when it is missing")
    parser.add_argument("--count", type=int, default=1_000_000, help="stop after so many input records")
    parser.add_argument(
        "--tuned", action="store_true", help="hand loops: msgspec's JSON instead of the standard library's"
    )
    return parser.parse_args()
