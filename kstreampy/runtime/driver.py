"""The loop of a worker: one turn polls, processes all of it, and checkpoints when it is time.

Read this first, then `task.py`, `operators/operator.py`, `checkpoint.py`. One thread, no locks: a turn is over before the
next begins, so between turns everything that was polled is processed.

In here: `Driver`, one membership in all groups of the worker, from joining to leaving. What happens when it is fenced or
the broker goes away is `worker.py`'s: it makes a new driver.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from kstreampy.broker.broker import Chunk, Producer, TopicPartition
from kstreampy.errors import BrokerUnavailable, RecordError, TaskMigrated
from kstreampy.runtime.alignment import Alignment
from kstreampy.runtime.assignment import Assignment
from kstreampy.runtime.checkpoint import Checkpoint
from kstreampy.runtime.layout import StageLayout
from kstreampy.runtime.pace import Pace
from kstreampy.runtime.progress import is_finished
from kstreampy.runtime.resources import Resources
from kstreampy.runtime.restore import Restorer
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.tally import tell_counts
from kstreampy.runtime.task import Status
from kstreampy.serde.batch import MAX_WATERMARK

_log = logging.getLogger(__name__)

_IDLE_WAIT_S = 0.02
_LOOK_S = 1.0
_AWAY_S = 15.0
_TICK_MS = 200
"""Where periodic watermarks are switched off, the other things that are done at their interval are still done."""


class Driver:
    """Owned by the worker; made for one membership. Not thread-safe."""

    def __init__(
        self, resources: Resources, stages: tuple[StageLayout, ...], stop: StopSignal, *, in_memory: bool = False
    ) -> None:
        self.resources = resources
        self.stop = stop
        self.in_memory = in_memory
        settings = resources.settings
        transactional_id = None
        if resources.exactly_once:
            # A slash is in no name, so that no two pairs of application and worker have one id.
            transactional_id = f"{settings.application_id}-worker/{resources.worker_id}"
        self.producer: Producer = resources.broker.producer(transactional_id)
        self.restorer = Restorer(resources.broker, threaded=not in_memory)
        interval_s = 0.0 if in_memory else settings.checkpoint_interval_ms / 1000
        self.checkpoint = Checkpoint(resources, self.producer, interval_s, settings.memory.dirty_bytes)
        self.assignments = [
            Assignment(resources, layout, self.producer, self.restorer, self._commit_in_poll) for layout in stages
        ]
        self.tick_s = (settings.watermark_interval_ms or _TICK_MS) / 1000
        self.alignment = Alignment(self.assignments, resources.clock)
        self.last_tick = self.last_look = self.last_end_check = resources.monotonic()
        self.idle_at = 0
        self.last_turn = resources.monotonic()
        self.longest_turn_s = 0.0
        self.shares = {"poll": 0.0, "process": 0.0, "checkpoint": 0.0, "idle": 0.0}

    def run(self) -> None:
        """Until the job has ended or the worker is told to stop; everything is committed then. Raises whatever made it
        impossible to go on; nothing uncommitted is left behind then."""
        try:
            if self.had_ended():
                _log.warning(
                    "the job of application %s had already ended, so there is nothing to do: use another --application-id "
                    "to run it again",
                    self.resources.settings.application_id,
                )
            else:
                self.join()
                while not self.stop.requested() and not self.job_has_ended():
                    self.turn()
                self._commit()
        except BaseException:
            self.abandon()
            raise
        self.leave()

    def had_ended(self) -> bool:
        """True for a bounded job that an earlier run, or another worker, has brought to its end: asked before joining."""
        plan = self.resources.layout.plan
        return plan.bounded and all(self._stage_has_ended(layout) for layout in self.resources.layout.stages)

    def join(self) -> None:
        """Asks to become a member of all groups; tasks come with the first turns."""
        for assignment in self.assignments:
            assignment.join(self._instance_id(assignment))
        self.resources.health.started()

    def _instance_id(self, assignment: Assignment) -> str | None:
        """Static membership: the same worker finds its tasks again after a restart."""
        return f"{self.resources.worker_id}-{assignment.uid}"

    def turn(self) -> None:
        """One turn. Everything polled is processed before it ends."""
        self.resources.health.progress()
        began = self.resources.monotonic()
        self.longest_turn_s = max(self.longest_turn_s, began - self.last_turn)
        self.last_turn = began
        busy = False
        for assignment in self.assignments:
            busy = self._read(assignment, 0.0) or busy
        if not busy:
            busy = self._wait()
        now = self.resources.monotonic()
        for assignment in self.assignments:
            assignment.start_waiting()
        if self.restorer.running():
            self._take_restored()
        self._wake_tasks()
        self.alignment.look_at_pairs()
        if now - self.last_tick >= self.tick_s or (self.in_memory and not busy):
            self._tick(now)
        ended = self._finish_tasks(look=not busy)
        if ended or self.checkpoint.due(self.assignments):
            self._commit()
        self.producer.serve()
        self.resources.queries.serve(self.assignments)
        if now - self.last_look >= _LOOK_S:
            self._look(now)

    def _read(self, assignment: Assignment, timeout_s: float) -> bool:
        """Polls one stage and processes what came."""
        try:
            return self._take(assignment, timeout_s)
        except RecordError as error:
            self.resources.metrics.records_failed(assignment.uid, error.step, "fail")
            raise

    def _take(self, assignment: Assignment, timeout_s: float) -> bool:
        began = time.perf_counter()
        if not assignment.is_polled:
            assignment.consumer.poll(1, 0.0)
            middle = time.perf_counter()
            handled = sum([task.read() for task in assignment.running()])
        else:
            pace = self.resources.paces.setdefault(assignment.uid, Pace())
            chunks = assignment.consumer.poll(pace.messages, timeout_s)
            middle = time.perf_counter()
            handled = 0
            for chunk in chunks:
                records = assignment.process(chunk)
                self.resources.metrics.records_in(assignment.uid, records)
                handled += 1
            if chunks:
                self._note_pace(assignment, pace, chunks[0], time.perf_counter() - middle)
        ended = time.perf_counter()
        self.shares["idle" if timeout_s > 0 else "poll"] += middle - began
        self.shares["process"] += ended - middle
        return handled > 0

    def _note_pace(self, assignment: Assignment, pace: Pace, chunk: Chunk, seconds: float) -> None:
        """Keeps turns short; says so when a function is so slow that the transaction's deadline comes near."""
        pace.took(seconds)
        if seconds > self.resources.settings.transaction_timeout_ms / 2000:
            _log.warning(
                "stage %s took %.0f s for one poll (from %s-%d, offset %d): more than half of transaction_timeout_ms. "
                "Fewer messages are taken per turn now; if single records take so long, raise transaction_timeout_ms",
                assignment.uid, seconds, chunk.topic, chunk.partition, chunk.messages[0].offset(),
            )  # fmt: skip

    def _wait(self) -> bool:
        """Nothing was there: waits a moment on one of the stages, in turn, at most until a task wants to be woken."""
        wait_s = 0.0 if self.in_memory else self._until_wake_s()
        polled = [assignment for assignment in self.assignments if assignment.is_polled]
        if not polled:
            time.sleep(wait_s)
            return False
        self.idle_at = (self.idle_at + 1) % len(polled)
        return self._read(polled[self.idle_at], wait_s)

    def _until_wake_s(self) -> float:
        tasks = [task for a in self.assignments for task in a.tasks.values() if task.status is Status.RUNNING]
        times = [task.context.wake_at_ms for task in tasks]
        left_ms = min(times, default=MAX_WATERMARK) - self.resources.clock()
        return min(_IDLE_WAIT_S, max(left_ms, 0) / 1000)

    def _take_restored(self) -> None:
        for restore in self.restorer.finished():
            for assignment in self.assignments:
                if assignment.restored(restore):
                    break

    def _wake_tasks(self) -> None:
        """Fires the processing-time timers that are due."""
        now_ms = self.resources.clock()
        for assignment in self.assignments:
            for task in assignment.tasks.values():
                if task.context.wake_at_ms <= now_ms:
                    task.wake(now_ms)

    def _tick(self, now: float) -> None:
        """The watermark interval: sources' watermarks move (those that came with batches have done so at once), held-back
        batches go out."""
        self.last_tick = now
        for assignment in self.assignments:
            for task in assignment.running():
                task.probe()
                task.tick()
        self.alignment.look()

    def _finish_tasks(self, *, look: bool) -> bool:
        """Ends the tasks whose bounded input has ended; True if there were any: their end is committed at once. `look`: asks
        the client for positions first, which are past the last record where a partition ends with a marker."""
        ended = False
        for assignment in self.assignments:
            if assignment.layout.stage.bounded:
                if look:
                    assignment.refresh_positions()
                for task in assignment.running():
                    ended = task.finish_if_done() or ended
        return ended

    def _commit(self) -> None:
        began = time.perf_counter()
        self._checkpoint(between_polls=True)
        self.shares["checkpoint"] += time.perf_counter() - began

    def _commit_in_poll(self) -> None:
        """A revocation, inside a poll: what was processed up to here is committed before it is given away."""
        self._checkpoint(between_polls=False)

    def _checkpoint(self, *, between_polls: bool) -> None:
        try:
            self.checkpoint.commit(self.assignments, between_polls=between_polls)
        except Exception:
            self.resources.metrics.checkpoint_failed()
            raise

    def _look(self, now: float) -> None:
        """Once a second: tell the metrics and the probes how things stand."""
        self.last_look = now
        self._look_at_broker(now)
        self.checkpoint.note_age(self.assignments)
        metrics, health = self.resources.metrics, self.resources.health
        metrics.poll_gap(self.longest_turn_s)
        self.longest_turn_s = 0.0
        for share, seconds in self.shares.items():
            metrics.loop_time(share, seconds)
            self.shares[share] = 0.0
        metrics.functions.sample()
        for restore in self.restorer.running():
            stage, _, number = restore.task.rpartition("/")
            metrics.restore_progress(stage, int(number), restore.done(), restore.total())
            health.restoring(stage, int(number), restore.done(), restore.total())
        states = [task.state for a in self.assignments for task in a.running() if task.state is not None]
        metrics.cache_bytes(sum(state.cache_bytes() for state in states))
        for assignment in self.assignments:
            self._look_at(assignment)

    def _look_at_broker(self, now: float) -> None:
        """A cluster that is away makes the worker unready at once, and ends this driver after a while; how long it is then
        tried again is the worker's business."""
        since = self.resources.broker.unavailable_since()
        if since is None:
            self.resources.health.broker_found()
            self.resources.metrics.broker_up(True)
            return
        away_s = now - since
        self.resources.health.broker_lost(f"no broker has answered for {away_s:.0f} s")
        self.resources.metrics.broker_up(False)
        if away_s > min(_AWAY_S, self.resources.settings.broker_timeout_s):
            raise BrokerUnavailable(
                f"no broker of {self.resources.settings.bootstrap_servers} has answered for {away_s:.0f} s"
            )

    def _look_at(self, assignment: Assignment) -> None:
        assignment.look()
        metrics, health = self.resources.metrics, self.resources.health
        lags = assignment.consumer.lag(assignment.owner) if assignment.is_polled else {}
        for tp, records in lags.items():
            metrics.lag(assignment.uid, tp.topic, tp.partition, records)
        for task in assignment.running():
            lag = sum(lags[tp] for tp in task.partitions if tp in lags) if lags else None
            if task.status is Status.FINISHED:
                lag = 0
            health.moved(assignment.uid, task.number, sum(task.progress.positions.values()), lag)
            metrics.watermark(assignment.uid, task.number, task.context.watermark)
            metrics.idle(assignment.uid, task.number, task.idle)
            tell_counts(self.resources, task)
            if task.state is not None:
                metrics.state_bytes(assignment.uid, task.number, task.state.size_bytes())
                if assignment.layout.timers is not None:
                    metrics.timers(assignment.uid, task.number, task.state.task_timers.count())

    def job_has_ended(self) -> bool:
        """True once every task of every stage, on whichever worker, has committed its end."""
        if not self.resources.layout.plan.bounded:
            return False
        mine = [task for assignment in self.assignments for task in assignment.tasks.values()]
        if any(task.status is not Status.FINISHED or task.changed for task in mine):
            return False
        now = self.resources.monotonic()
        if not self.in_memory and now - self.last_end_check < 0.25:
            return False
        self.last_end_check = now
        return all(self._stage_has_ended(layout) for layout in self.resources.layout.stages)

    def _stage_has_ended(self, layout: StageLayout) -> bool:
        partitions: list[TopicPartition] = [tp for inputs in layout.inputs for tp in inputs]
        committed = self.resources.broker.committed(layout.group, partitions)
        return all(tp in committed and is_finished(committed[tp]) for tp in partitions)

    def leave(self) -> None:
        """Everything is committed: notes how far the stores are, leaves the groups, closes the tasks. What goes wrong now
        is only told, since nothing can be lost any more."""
        _quietly("the stores", lambda: self.checkpoint.note_ends(self.assignments))
        for assignment in self.assignments:
            _quietly(f"the consumer of stage {assignment.uid}", assignment.leave)
            _quietly(f"tasks of stage {assignment.uid}", assignment.abandon)
        _quietly("the restore", self.restorer.close)
        _quietly("the producer", self.producer.close)

    def abandon(self) -> None:
        """After an error: nothing more is committed, everything is closed, the first error stays the one that is told."""
        for assignment in self.assignments:
            _quietly(f"tasks of stage {assignment.uid}", assignment.abandon)
        _quietly("the restore", self.restorer.close)
        if self.resources.exactly_once:
            _quietly("the transaction", self.producer.abort)
        for assignment in self.assignments:
            _quietly(f"the consumer of stage {assignment.uid}", assignment.leave)
        _quietly("the producer", self.producer.close)


def _quietly(what: str, close: Callable[[], object]) -> None:
    """Closes one thing among several; an error in it must not keep the others open."""
    try:
        close()
    except TaskMigrated:
        _log.debug("closing %s: it was already taken over", what)
    except Exception as error:
        _log.warning("closing %s: %s: %s", what, type(error).__name__, error)
