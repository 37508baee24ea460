"""Results on their way back: `execute_and_collect`, `collect_async`, and the client of a job that runs beside the caller.

In here: the thread that a job runs in when the caller does not wait for it, and the iterator over its results, which are
read from the job's own topic, so that they are exactly what was committed.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from kstreampy.broker.broker import Broker, TopicPartition
from kstreampy.common.job_client import JobClient
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.job_id import JobID
from kstreampy.common.job_status import JobStatus
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.launch import Job, launcher
from kstreampy.errors import JobError
from kstreampy.operators.decode import PackedDecoder

_LOOK_AGAIN_S = 0.01


class RunningJob:
    """A job that is run once: here, or in a thread of its own. Implements what `JobClient` needs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._result: Future[JobExecutionResult] = Future()
        self._result.set_running_or_notify_cancel()
        self._cancelled = False

    def begin(self) -> RunningJob:
        """Runs it in a thread of its own. Returns once its number is known, so that jobs are counted as they are called."""
        context = contextvars.copy_context()
        run = threading.Thread(target=context.run, args=(self._run_quietly,), name=f"job {self.job.name}", daemon=True)
        run.start()
        self.job.placed.wait()
        return self

    @property
    def job_id(self) -> JobID:
        return self.job.job_id

    def run(self) -> JobExecutionResult:
        """Runs it, and returns when it has ended. Raises what it failed with. The job is over before the result is told: who
        hears of it may try again at once."""
        try:
            try:
                result = launcher().launch(self.job)
                self.job.ended()
            finally:
                self.job.over(cancelled=self._cancelled)
        except BaseException as error:
            self._result.set_exception(error)
            raise
        self._result.set_result(result)
        return result

    def _run_quietly(self) -> None:
        with contextlib.suppress(BaseException):  # it is told to who asks for the result
            self.run()

    def ended(self) -> bool:
        return self._result.done()

    def status(self) -> JobStatus:
        if not self._result.done():
            return JobStatus.CANCELLING if self._cancelled else JobStatus.RUNNING
        if self._result.exception() is not None:
            return JobStatus.FAILED
        return JobStatus.CANCELED if self._cancelled else JobStatus.FINISHED

    def cancel(self) -> Future[None]:
        """Asks the job to stop, with everything committed."""
        self._cancelled = self._cancelled or not self._result.done()
        done: Future[None] = Future()

        def ended(result: Future[JobExecutionResult]) -> None:
            error = result.exception()
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.job.started.wait()
        if self.job.stop is not None:
            self.job.stop.request("cancelled by its client")
        self._result.add_done_callback(ended)
        return done

    def accumulators(self) -> Future[dict[str, Any]]:
        done: Future[dict[str, Any]] = Future()
        done.set_result({})
        return done

    def result(self) -> Future[JobExecutionResult]:
        return self._result

    def client(self) -> JobClient:
        return JobClient(self)


class CloseableIterator:
    """Results of a job, as they are committed. Iterate it once, and close it (or use it in a `with` block): closing stops the
    job. Raises the job's error when it fails, and `JobError` before the job was begun."""

    def __init__(self, uid: str, type_info: TypeInformation | None, running: RunningJob | None = None) -> None:
        self._running = running
        self._uid = uid
        self._type_info = type_info
        self._values: Iterator[Any] | None = None
        self._closed = False

    def _begun(self, running: RunningJob) -> None:
        self._running = running

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self) -> Any:
        """The next result; waits for it. StopIteration after the last one, or once closed."""
        if self._values is None:
            self._values = self._read(_begun(self._running))
        if self._closed:
            raise StopIteration
        return next(self._values)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the job and waits until it has stopped. Safe to call twice, and before the job was begun: it runs then
        without being read."""
        self._closed = True
        if isinstance(self._values, Generator):
            self._values.close()
        if self._running is not None and not self._running.ended():
            self._running.cancel().result()

    def _read(self, running: RunningJob) -> Generator[Any, None, None]:
        running.job.started.wait()
        plan, connect = running.job.compiled, running.job.connect
        if plan is None or connect is None:
            running.result().result()
            raise JobError("the job ended before it began to run, so it has no results")
        topic = next(result.topic for result in plan.collected if result.step == self._uid)
        broker = connect()
        try:
            yield from self._follow(running, broker, TopicPartition(topic, 0))
        finally:
            broker.close()

    def _follow(self, running: RunningJob, broker: Broker, source: TopicPartition) -> Iterator[Any]:
        decoder = PackedDecoder(self._uid, self._type_info)
        reader = broker.reader()
        try:
            while not broker.topics([source.topic]):
                if running.ended():
                    running.result().result()
                    return
                time.sleep(_LOOK_AGAIN_S)
            reader.assign({source: broker.begin_offsets([source])[source]})
            while True:
                ended = running.ended()
                chunks = reader.poll(500, 0.05)
                for chunk in chunks:
                    for message in chunk.messages:
                        yield from decoder.decode(message).batch.values
                if not chunks and ended:
                    running.result().result()
                    if reader.positions().get(source, 0) >= broker.end_offsets([source])[source]:
                        return
        finally:
            reader.close()


def _begun(running: RunningJob | None) -> RunningJob:
    if running is None:
        raise JobError("The job execution was not yet started. Call env.execute_async() first.")
    return running


class Collector:
    """Takes the results that `collect_async(collector)` will give."""

    def __init__(self) -> None:
        self._output: CloseableIterator | None = None

    def get_output(self) -> CloseableIterator:
        """The results, always the same iterator. `JobError` before `collect_async` was called with this collector; the
        iterator itself raises one before the job was begun."""
        if self._output is None:
            raise JobError(
                "The job execution was not yet started. Give this collector to collect_async(...), and call "
                "env.execute_async()"
            )
        return self._output
