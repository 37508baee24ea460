"""Timers in running tasks: who fires them, what a checkpoint writes of them, and how they come back."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.datastream import KeyedProcessFunction
from kstreampy.errors import JobError, RecordError
from kstreampy.graph.explain import as_data, explain
from kstreampy.runtime import restore as restoring
from kstreampy.runtime.layout import lay_out
from kstreampy.runtime.task import Status
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import TaskMeta
from kstreampy.state.task_timer import timers_log_key
from kstreampy.state.timer import TIMER_PREFIX
from tests.unit.runtime.in_place import again, feed, settled
from tests.unit.runtime.jobs import totals
from tests.unit.runtime.scene import KeptStores, Scene, Worker, state_of
from tests.unit.runtime.timer_jobs import EPOCH, FAR, alarms, ends

TASK = "alarm/0"
CHANGELOG = "app-alarm-changelog"
TIMERS = "app-alarm-timers"


class Pending(KeyedProcessFunction):
    """`e…:n` sets an event-time timer at FAR + n, `p…:n` a processing-time timer n seconds after the scene's beginning;
    `d…:n` deletes the event-time timer of its own key at FAR + n."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        user, number = value
        service = ctx.timer_service()
        if user == "end":
            return
        if user[0] == "p":
            service.register_processing_time_timer(EPOCH + number * 1_000)
        elif number < 0:
            service.delete_event_time_timer(FAR - number)
        else:
            service.register_event_time_timer(FAR + number)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if ctx.get_current_key() == "e-bad":
            raise ValueError("bad")
        yield ctx.get_current_key(), timestamp


def pending(root: Path, *, bounded: bool = False, **keywords: Any) -> Scene:
    """One stage with timers over one partition."""
    return Scene(alarms(in_place=True, bounded=bounded, function=Pending()), root, partitions=1, **keywords)


def fired(scene: Scene, *workers: Worker) -> dict[str, list[int]]:
    """All that event-time timers tell, once the watermark is behind them."""
    scene.feed(ends()[:1])
    scene.turns(6, *workers)
    return {user: [int(text) - FAR for text in told] for user, told in scene.by_key().items() if user[0] == "e"}


def told_by_clock(scene: Scene) -> list[int]:
    """Seconds of the processing-time timers that fired, in the order of firing."""
    return [(int(m.value() or b"") - EPOCH) // 1_000 for m in scene.messages("out") if (m.key() or b"")[:1] == b"p"]


def last_values(scene: Scene) -> dict[bytes, bytes | None]:
    """What compaction would leave of the timers topic, without meta records."""
    found = {message.key() or b"": message.value() for message in scene.messages(TIMERS)}
    return {key: value for key, value in found.items() if not key.startswith(META_KEY)}


def live(scene: Scene) -> int:
    return sum(value is not None for value in last_values(scene).values())


class TestTopic:
    def test_a_stage_whose_step_may_set_timers_has_one(self, tmp_path: Path) -> None:
        with Scene(alarms(), tmp_path) as scene:
            layout = lay_out(scene.plan, scene.broker).stage("alarm")
            assert layout.timers is not None
            assert layout.changelog is not None
            assert (layout.timers.name, layout.timers.partitions) == (TIMERS, 3)
            config = scene.broker.topic_configs([TIMERS, CHANGELOG])
            assert config[TIMERS]["cleanup.policy"] == "compact"
            assert config[TIMERS] == config[CHANGELOG]
            assert lay_out(scene.plan, scene.broker).stage("numbers").timers is None

    def test_in_place_it_has_the_inputs_partitions(self, tmp_path: Path) -> None:
        with Scene(alarms(in_place=True), tmp_path, partitions=2) as scene:
            layout = lay_out(scene.plan, scene.broker).stage("alarm")
            assert layout.timers is not None
            assert layout.timers.partitions == 2

    def test_others_have_none(self) -> None:
        assert [kind for _, kind, _ in totals().internal_topics] == ["packed", "changelog"]

    def test_the_plan_shows_it(self) -> None:
        plan = alarms()
        stages = {stage["name"]: stage["timers"] for stage in as_data(plan)["stages"]}
        assert stages == {"numbers": None, "alarm": TIMERS}
        topic = next(topic for topic in as_data(plan)["topics"] if topic["name"] == TIMERS)
        assert (topic["purpose"], topic["partitions"], topic["config"]["cleanup.policy"]) == ("timers", 3, "compact")
        assert f"timers in {TIMERS}" in explain(plan, "text")

    def test_a_wrong_cleanup_policy_is_refused(self, tmp_path: Path) -> None:
        with Scene(alarms(), tmp_path) as scene:
            scene.create(TIMERS, 3, cleanup_policy="delete")
            with pytest.raises(
                JobError, match=r"app-alarm-timers.*cleanup\.policy=delete.*lose timers: set it to compact"
            ):
                lay_out(scene.plan, scene.broker)


class TestFiring:
    def test_processing_time_comes_from_the_tasks_clock(self, tmp_path: Path) -> None:
        """Also while nothing comes in."""
        with pending(tmp_path) as scene:
            worker = settled(scene, "p:10", "p:20", "p:15")
            scene.turns(5)
            assert told_by_clock(scene) == []
            for seconds, expected in [(9, []), (10, [10]), (16, [10, 15]), (100, [10, 15, 20])]:
                scene.now_ms = EPOCH + seconds * 1_000
                scene.turns(2)
                assert told_by_clock(scene) == expected
            assert worker.tasks[TASK].context.wake_at_ms == 2**63 - 1

    def test_what_fires_alone_is_a_change_to_commit(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            settled(scene, "p:10")
            assert live(scene) == 1
            scene.now_ms += 10_000
            scene.turns(2)
            assert live(scene) == 0
            ends = [scene.end(topic) for topic in scene.cluster.topics]
            scene.turns(5)
            assert [scene.end(topic) for topic in scene.cluster.topics] == ends

    def test_one_comparison_per_turn_where_nothing_is_due(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "p:10")
            calls: list[int] = []
            worker.tasks[TASK].wake = calls.append  # type: ignore[method-assign, assignment]
            scene.turns(5)
            assert calls == []

    def test_event_time(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:2", "e:1", "e2:1")
            assert fired(scene, worker) == {"e": [1, 2], "e2": [1]}
            assert all(m.timestamp()[1] == int(m.value() or b"") for m in scene.messages("out"))

    def test_the_end_of_bounded_input_fires_event_time_and_drops_processing_time(self, tmp_path: Path) -> None:
        with pending(tmp_path, bounded=True) as scene:
            feed(scene, "e:1", "p:5", "e:2")
            worker = scene.start()
            scene.until(lambda: worker.ended)
            assert {user: [int(text) - FAR for text in told] for user, told in scene.by_key().items()} == {"e": [1, 2]}
            scene.now_ms += 60_000
            scene.turns(3)
            assert told_by_clock(scene) == []
            worker.stop()
            worker = scene.start()
            scene.turns(3)
            assert told_by_clock(scene) == []

    def test_an_error_names_the_task_and_the_time(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            settled(scene, "e-bad:1")
            with pytest.raises(
                RecordError, match=f"alarm: ValueError: bad in Pending.*on_timer at {FAR + 1}"
            ) as caught:
                fired(scene)
            assert any("in task alarm/0, when its watermark came to" in note for note in caught.value.__notes__)

    def test_overdue_after_a_restart_fire_once_in_order(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "p:30", "p1:10", "p2:20", "p3:90")
            worker.crash()
            scene.now_ms += 60_000
            worker = again(scene, TASK)
            scene.turns(3)
            assert told_by_clock(scene) == [10, 20, 30]
            worker.crash()
            again(scene, TASK)
            scene.turns(3)
            assert told_by_clock(scene) == [10, 20, 30]


class TestCheckpoint:
    def test_only_what_changed(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "e:2")
            before = scene.end(TIMERS)
            feed(scene, "e:-1")
            scene.turns(2, worker)
            tail = [m for m in scene.messages(TIMERS) if m.offset() >= before]
            assert [m.value() is None for m in tail] == [True, False]  # a tombstone and the meta record
            feed(scene, "e:2", "e:2")  # is set
            scene.turns(2, worker)
            assert scene.end(TIMERS) == before + 3  # and a marker

    def test_registered_and_deleted_in_between_is_written_nowhere(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene)
            feed(scene, "e:1", "e:-1")
            scene.turns(3, worker)
            assert scene.end(TIMERS) == 0
            assert scene.end(CHANGELOG) > 0

    def test_meta_records_count_the_checkpoints_that_wrote_timers(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "p:1", "e:-9", "e:4", "e:-4")
            metas = [m for m in scene.messages(TIMERS) if (m.key() or b"").startswith(META_KEY)]
            told = [TaskMeta.decode(m.value() or b"") for m in metas]
            assert [meta.timers_written for meta in told] == [1, 2, 3, 4]
            assert [m.key() for m in metas] == [timers_log_key(number) for number in (1, 2, 3, 4)]
            assert worker.tasks[TASK].progress.timers_written == 4
            state = worker.tasks[TASK].state
            assert state is not None
            assert state.local_meta is not None
            task = state.local_meta.task()
            assert task is not None
            assert task.timers_written == 4
            assert told[-1].application_id == "app"

    def test_more_than_the_queue_holds(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene)
            feed(scene, *[f"e{number}:{number}" for number in range(300)])
            scene.turns(6, worker)
            assert live(scene) == 300


class TestRestore:
    def test_a_new_disk(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "e:2", "e:-1", "p:50", "e3:3")
            worker.crash()
            worker.wipe()
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 0), (TASK, 5)]
            assert worker.tasks[TASK].context.wake_at_ms == EPOCH + 50_000
            assert fired(scene, worker) == {"e": [2], "e3": [3]}
            assert live(scene) == 1

    def test_a_new_disk_and_a_compacted_topic(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, *[f"e:{number}" for number in range(5)], "e:-3", "e:-1")
            worker.crash()
            worker.wipe()
            scene.cluster.compact(TIMERS, drop_tombstones=True)
            scene.cluster.compact(CHANGELOG)
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 0), (TASK, 3)]
            assert fired(scene, worker) == {"e": [0, 2, 4]}

    def test_a_clean_stop_leaves_nothing_to_replay(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            settled(scene, "e:1", "e:2", "e:-1").stop()
            worker = again(scene, TASK)
            assert worker.restored == []
            assert fired(scene, worker) == {"e": [2]}

    def test_only_the_tail(self, tmp_path: Path) -> None:
        """Two checkpoints that the store did not get."""
        with pending(tmp_path) as scene:
            worker = settled(scene, *[f"e:{number}" for number in range(8)])
            assert isinstance(worker.stores, KeptStores)
            store = worker.stores.kept["alarm", 0]
            before = dict(store._entries), store._meta
            feed(scene, "e:8")
            scene.turns(2, worker)
            feed(scene, "e:-3", "p:50")
            scene.turns(2, worker)
            worker.crash()
            store._entries, store._meta, store._ordered = before[0], before[1], None
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 0), (TASK, 3)]
            assert fired(scene, worker) == {"e": [0, 1, 2, 4, 5, 6, 7, 8]}

    @pytest.mark.parametrize("wiped", [False, True])
    def test_a_crash_between_the_changelogs_replay_and_the_timers(self, tmp_path: Path, wiped: bool) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "e:2")
            worker.crash()
            worker.wipe()
            worker = scene.start()
            scene.until(lambda: bool(worker.restored), worker)
            state = worker.tasks[TASK].state
            assert state is not None
            assert state.local_meta is not None
            assert state.local_meta.complete
            assert state.task_timers.local_meta is None
            worker.crash()
            if wiped:
                worker.wipe()
            worker.restored.clear()
            worker = again(scene, TASK)
            assert worker.restored[-1] == (TASK, 2)
            assert fired(scene, worker) == {"e": [1, 2]}

    @pytest.mark.parametrize("left", range(1, 30))
    def test_a_crash_at_any_point_of_a_restore(
        self, tmp_path: Path, left: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(restoring, "_BATCH", 2)
        with pending(tmp_path) as scene:
            worker = settled(scene, *[f"e{number}:{number}" for number in range(5)], "p:70")
            worker.crash()
            worker.wipe()
            worker = scene.start()
            worker.fuse.left = left
            scene.turns(8, worker)
            if worker.driver is not None:
                worker.fuse.left = None
                worker.crash()
            worker = again(scene, TASK)
            assert fired(scene, worker) == {f"e{number}": [number] for number in range(5)}
            scene.now_ms += 100_000
            scene.turns(3, worker)
            assert told_by_clock(scene) == [70]

    def test_looks_back_beyond_the_first_window(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(restoring, "_LOOK_BACK", 4)
        with pending(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "e:1")
            worker.crash()
            worker.wipe()
            stray(scene, *range(40))
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 0), (TASK, 1)]
            assert fired(scene, worker) == {"e": [1]}
            assert list(last_values(scene).values()) == [None] * 40

    def test_a_task_that_never_set_any_makes_strays_void(self, tmp_path: Path) -> None:
        with pending(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "end:1")
            worker.crash()
            stray(scene, 1, 2)
            worker = again(scene, TASK)
            scene.turns(3, worker)
            assert list(last_values(scene).values()) == [None, None]
            assert fired(scene, worker) == {}


def stray(scene: Scene, *numbers: int) -> None:
    """Records in the timers topic that no finished checkpoint wrote."""
    producer = scene.broker.producer()
    for number in numbers:
        key = TIMER_PREFIX + b"alarm\0e" + (2**63 + FAR + number).to_bytes(8, "big") + b"\x02se"
        producer.produce(TIMERS, b"\x01", key, 0, None, None, 0)
    producer.flush()


def lose(scene: Scene, topic: str, offset: int) -> None:
    """All records from the offset on are gone."""
    log = scene.cluster.topic(topic).logs[0]
    at = bisect_left(log._offsets, offset)
    del log._messages[at:], log._offsets[at:]


def cut_off(scene: Scene, worker: Worker) -> None:
    """At-least-once: the checkpoint ends before the changelog's meta record."""
    assert worker.driver is not None
    write_meta = worker.driver.checkpoint._write_meta

    def dies(part: Any) -> None:
        worker.fuse.left = 1
        write_meta(part)

    worker.driver.checkpoint._write_meta = dies  # type: ignore[method-assign]
    worker.turn()
    assert worker.driver is None


class TestUnfinishedCheckpoints:
    @pytest.mark.parametrize("times", [1, 2, 3])
    @pytest.mark.parametrize("wiped", [False, True])
    @pytest.mark.parametrize("compacted", [False, True])
    def test_are_void(self, tmp_path: Path, times: int, wiped: bool, compacted: bool) -> None:
        """Several in a row, each dying in the checkpoint that would have made the one before void. What they wrote was of
        input that is not there the next time (here: it is taken away), so that nothing covers it up. Compaction takes
        the earlier ones' meta records, but not that of the last finished checkpoint."""
        with pending(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "e:1", "e:2", "e:3")
            log = scene.cluster.topic("in").logs[0]
            read = scene.end("in")
            for number in range(times):
                feed(scene, f"e:{10 + number}", f"p:{100 + number}")
                scene.turns(4, worker, commit=False)
                cut_off(scene, worker)
                lose(scene, "in", read)
                log.end = read
                if wiped:
                    worker.wipe()
                if compacted:
                    scene.cluster.compact(TIMERS)
                worker.start()
            scene.turns(6, worker)
            assert live(scene) == 3
            assert fired(scene, worker) == {"e": [1, 2, 3]}

    def test_a_deletion_by_an_unfinished_checkpoint(self, tmp_path: Path) -> None:
        with pending(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "e:1", "e:2")
            producer = scene.broker.producer()
            gone = next(key for key in state_of(worker, TASK) if key.startswith(TIMER_PREFIX))
            worker.crash()
            producer.produce(TIMERS, None, gone, 0, None, None, 0)
            producer.flush()
            worker = again(scene, TASK)
            worker.crash()  # before the checkpoint that makes it void
            worker = again(scene, TASK)
            scene.turns(3, worker)
            assert live(scene) == 2
            worker.crash()
            worker.wipe()
            worker = again(scene, TASK)
            assert fired(scene, worker) == {"e": [1, 2]}


class TestDoesNotFit:
    def test_the_topic_was_deleted(self, tmp_path: Path) -> None:
        """It is made anew, empty, at the start."""
        with pending(tmp_path) as scene:
            settled(scene, "e:1").crash()
            scene.broker.delete_topics([TIMERS])
            worker = scene.start()
            with pytest.raises(
                JobError, match=r"task alarm/0 has local state.*timers topic app-alarm-timers is empty.*--state-dir"
            ):
                scene.turns(3, worker)

    def test_the_topic_and_the_disk_are_gone(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1")
            worker.crash()
            worker.wipe()
            scene.broker.delete_topics([TIMERS])
            worker = scene.start()
            with pytest.raises(
                JobError, match=r"task alarm/0 has timers, but app-alarm-timers has not those of its last checkpoint"
            ):
                scene.turns(6, worker)

    def test_its_end_is_gone(self, tmp_path: Path) -> None:
        """Records from the middle to the end were lost: not the timers that the changelog speaks of."""
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "e:2", "e:3")
            worker.crash()
            worker.wipe()
            lose(scene, TIMERS, scene.end(TIMERS) - 3)
            worker = scene.start()
            with pytest.raises(JobError, match=r"alarm/0 has timers.*put the topic back, or start anew"):
                scene.turns(6, worker)

    def test_the_topic_is_another_with_the_same_content(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """As after a move to another cluster: state and timers are both built anew."""
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1", "e:2")
            worker.crash()
            scene.cluster.topic(TIMERS).topic_id = "another"
            worker = again(scene, TASK)
            assert caplog.text.count("its timers topic was deleted and made anew") == 1
            assert worker.restored == [(TASK, 0), (TASK, 2)]
            assert fired(scene, worker) == {"e": [1, 2]}

    @pytest.mark.parametrize("days", [0.85, 0.95])
    def test_too_old(self, tmp_path: Path, days: float, caplog: pytest.LogCaptureFixture) -> None:
        """Tombstones may be gone by then. Until then, the timers are as young as the changelog's last checkpoint, however
        long ago timers were written."""
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1")
            scene.now_ms += 3 * 86_400_000
            feed(scene, "end:1")
            scene.turns(2, worker)
            worker.crash()
            scene.now_ms += int(days * 86_400_000)
            with caplog.at_level(logging.WARNING):
                worker = again(scene, TASK)
            assert caplog.text.count("older than delete.retention.ms") == (days > 0.9)
            assert fired(scene, worker) == {"e": [1]}

    def test_a_broken_meta_record_is_not_the_one_looked_for(self, tmp_path: Path) -> None:
        with pending(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "e:1")
            worker.crash()
            worker.wipe()
            producer = scene.broker.producer()
            producer.produce(TIMERS, b"{broken", timers_log_key(2), 0, None, None, 0)
            producer.flush()
            assert fired(scene, again(scene, TASK)) == {"e": [1]}

    def test_a_predecessors_open_transaction_is_waited_for(self, tmp_path: Path) -> None:
        with pending(tmp_path) as scene:
            worker = settled(scene, "e:1")
            worker.crash()
            worker.wipe()
            hanging = scene.broker.producer("hanging")
            hanging.begin()
            hanging.produce(TIMERS, b"\x01", TIMER_PREFIX + b"x", 0, None, None, 0)
            hanging.flush()
            worker = scene.start()
            scene.turns(8, worker)
            assert worker.tasks[TASK].status is Status.RESTORING
            hanging.abort()
            scene.until(lambda: worker.tasks[TASK].status is Status.RUNNING, worker)
            assert fired(scene, worker) == {"e": [1]}


class TestJobsThatChange:
    def test_timers_that_nobody_fires_for_a_while_are_kept(self, tmp_path: Path) -> None:
        """`on_timer` was taken out of the job, and put back."""

        class Without(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None: ...

        with pending(tmp_path) as scene:
            plan = scene.plan
            settled(scene, "e:1").stop()
            scene.plan = alarms(in_place=True, function=Without())
            worker = again(scene, TASK)
            feed(scene, "e:2")
            scene.turns(3, worker)
            worker.stop()
            worker.wipe()
            scene.plan = plan
            worker = again(scene, TASK)
            assert fired(scene, worker) == {"e": [1]}

    def test_added_to_a_job_that_had_none(self, tmp_path: Path) -> None:
        class Without(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None: ...

        with pending(tmp_path) as scene:
            plan = scene.plan
            scene.plan = alarms(in_place=True, function=Without())
            settled(scene, "e:1").crash()
            scene.plan = plan
            worker = again(scene, TASK)
            feed(scene, "e:2")
            scene.turns(3, worker)
            assert fired(scene, worker) == {"e": [2]}


def test_several_tasks(tmp_path: Path) -> None:
    """Each task has its own partition of the timers topic, and its own timers."""
    with Scene(alarms(function=Pending()), tmp_path) as scene:
        worker = scene.start()
        users = [f"e{number}" for number in range(12)]
        scene.feed((user, f"{user}:{number}", number % 2) for number, user in enumerate(users))
        scene.turns(8, worker)
        assert all(scene.end(TIMERS, partition) > 0 for partition in range(3))
        worker.crash()
        worker.wipe()
        worker.start()
        scene.until(lambda: len([t for t in worker.tasks.values() if t.status is Status.RUNNING]) == 5, worker)
        scene.feed(ends())
        scene.turns(10, worker)
        assert {user: [int(text) - FAR for text in told] for user, told in scene.by_key().items()} == {
            user: [number] for number, user in enumerate(users)
        }
