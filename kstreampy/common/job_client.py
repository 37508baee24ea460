"""`JobClient`: the handle of a running job that `env.execute_async()` returns.

In here: Flink's calls. What they do to the job is `JobControl`, which the runtime implements.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Protocol

from kstreampy.common.completable_future import CompletableFuture
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.job_id import JobID
from kstreampy.common.job_status import JobStatus

__all__ = ["JobClient", "JobControl"]


class JobControl(Protocol):
    """A running job, seen from outside. Every call returns at once; called from any thread."""

    @property
    def job_id(self) -> JobID: ...
    def status(self) -> JobStatus: ...
    def cancel(self) -> Future[None]:
        """Done once the job has stopped."""
        ...

    def accumulators(self) -> Future[dict[str, Any]]: ...
    def result(self) -> Future[JobExecutionResult]:
        """Done when the job has ended; its error when it failed."""
        ...


class JobClient:
    def __init__(self, control: JobControl) -> None:
        self._control = control

    def get_job_id(self) -> JobID:
        return self._control.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self._control.status())

    def cancel(self) -> CompletableFuture[None]:
        """Stops the job, with everything it has done so far committed; done once it has stopped, with the job's error
        when it failed on the way."""
        return CompletableFuture(self._control.cancel())

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        return CompletableFuture(self._control.accumulators())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Done when the job has ended; raises the job's error when it failed."""
        return CompletableFuture(self._control.result())
