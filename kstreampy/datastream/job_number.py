"""Which of a program's jobs one is: the n-th that a process runs on Kafka under one application id is the application
`<application id>-job-<n>`, from the second on. Every start of the program, and every worker, counts the same.

In here: counting, and the settings of a number. Not in here: the job (`launch.py`).
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from heapq import heappop, heappush

from kstreampy.runtime.settings import Settings


def settings_of_job(settings: Settings, number: int) -> Settings:
    """With an application id and a state directory of its own."""
    if number == 1:
        return settings
    own = {
        "application_id": f"{settings.application_id}-job-{number}",
        "state_dir": settings.state_dir / f"job-{number}",
    }
    return settings.model_copy(update=own)


class Place:
    """A job's number among those of its application. One that failed, or was stopped from outside, leaves its number to a
    job of the same plan: that is the same job, tried again, and goes on where the first try was."""

    def __init__(self, application_id: str, plan: str, number: int) -> None:
        self.number = number
        self._key = (application_id, plan)
        self._completed = False

    def complete(self) -> None:
        """The job has come to its end: its number is taken for good."""
        self._completed = True

    def leave(self) -> None:
        """The job runs no more."""
        if not self._completed:
            with _lock:
                heappush(_left[self._key], self.number)


_lock = threading.Lock()
_counts: Counter[str] = Counter()
_left: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
"""The numbers of jobs that ended before their time, in a heap."""


def place_of(application_id: str, plan: str) -> Place:
    """Called when a job begins. `plan` is the job's as text, under the application id that all share."""
    with _lock:
        left = _left[application_id, plan]
        if left:
            return Place(application_id, plan, heappop(left))
        _counts[application_id] += 1
        return Place(application_id, plan, _counts[application_id])
