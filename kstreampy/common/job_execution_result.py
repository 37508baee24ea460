"""`JobExecutionResult`: what `env.execute()` returns when the job ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreampy.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The job's id, how long it ran in ms, and its accumulators by name."""

    def __init__(self, job_id: JobID, net_runtime_ms: int, accumulators: Mapping[str, Any] | None = None) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        return self._job_id

    def is_job_execution_result(self) -> bool:
        """Always True: a job that was only submitted has a `JobClient` instead."""
        return True

    def get_net_runtime(self) -> int:
        """Milliseconds from start to end, restarts included."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The accumulator's value, None when there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return dict(self._accumulators)

    def __str__(self) -> str:
        lines = [f"Job {self._job_id} ran {self._net_runtime_ms} ms"]
        return "\n".join(lines + [f"- {name}: {value}" for name, value in self._accumulators.items()])
