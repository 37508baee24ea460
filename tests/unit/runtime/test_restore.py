"""State back from the changelog: how much is replayed, from where, and what happens when store and changelog do not fit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.errors import JobError, StateCorrupted
from kstreampy.runtime import restore as restoring
from kstreampy.runtime.restore import Restore, Restorer
from kstreampy.runtime.task import Status
from kstreampy.state.budget import CacheBudget
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from tests.unit.runtime.in_place import again, feed, settled
from tests.unit.runtime.jobs import totals
from tests.unit.runtime.scene import KeptStores, Scene, Worker, state_of

TASK = "total/0"


def in_place(root: Path, disk: str = "kept", **keywords: Any) -> Scene:
    """One stage with state over one partition."""
    return Scene(totals(in_place=True), root, disk=disk, partitions=1, **keywords)


def goes_on(scene: Scene, worker: Worker, user: str, amount: int) -> str:
    """The total after one more record: shows whether the state is right."""
    feed(scene, f"{user}:{amount}")
    scene.turns(3, worker)
    return scene.by_key()[user][-1]


class TestHowMuch:
    @pytest.mark.parametrize("records", [0, 1, 2])
    @pytest.mark.parametrize("disk", ["at the end", "one behind", "empty"])
    def test_changelog_and_store(self, tmp_path: Path, records: int, disk: str) -> None:
        """Changelogs of no, one and two records; a store that has all of it, all but the last checkpoint, or nothing."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, *["u:1", "v:2"][: max(records - 1, 0)])
            kept = dict(worker.stores.kept["total", 0]._entries), worker.stores.kept["total", 0]._meta  # type: ignore[attr-defined]
            if records:
                feed(scene, ["u:1", "v:2"][records - 1])
                scene.turns(2, worker)
            worker.crash()
            assert isinstance(worker.stores, KeptStores)
            store = worker.stores.kept["total", 0]
            if disk == "empty":
                worker.wipe()
            elif disk == "one behind":
                store._entries, store._meta, store._ordered = kept[0], kept[1], None
            worker = again(scene, TASK)
            replayed = sum(records for _, records in worker.restored)
            expected = {"at the end": 0, "one behind": 1 if records else 0, "empty": records}[disk]
            assert replayed == expected
            assert goes_on(scene, worker, "u", 10) == ("11" if records else "10")
            assert goes_on(scene, worker, "v", 10) == ("12" if records == 2 else "10")

    def test_a_clean_stop_leaves_nothing_to_restore(self, tmp_path: Path) -> None:
        """The last transaction's marker counts as read, so that no replay even begins."""
        with in_place(tmp_path) as scene:
            settled(scene, "u:1", "v:2").stop()
            worker = again(scene, TASK)
            assert worker.restored == []
            assert goes_on(scene, worker, "u", 10) == "11"

    def test_trailing_markers(self, tmp_path: Path) -> None:
        """The end of the changelog is an aborted transaction's marker, an offset that no record has."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            feed(scene, "u:5")
            worker.turn(commit=False)
            worker.fuse.left = 5  # in the checkpoint, after something was produced
            worker.turn()
            assert worker.crashes == 1
            worker = again(scene, TASK)
            assert goes_on(scene, worker, "u", 10) == "16"

    def test_only_the_tail_after_a_crash_between_commit_and_store(self, tmp_path: Path) -> None:
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1", "v:2")
            feed(scene, "u:5")
            worker.turn(commit=False)
            store = worker.stores.kept["total", 0]  # type: ignore[attr-defined]
            store.fuse.left = None
            write = store.write

            def dies(*arguments: Any) -> None:
                worker.fuse.left = 1
                write(*arguments)

            store.write = dies
            worker.turn()
            del store.write
            assert worker.crashes == 1
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 1)]
            assert goes_on(scene, worker, "u", 10) == "16"

    def test_a_compacted_changelog(self, tmp_path: Path) -> None:
        """Intermediate meta records are gone, offsets have gaps."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, *[f"u{number % 3}:1" for number in range(12)])
            worker.crash()
            worker.wipe()
            scene.cluster.compact(scene.changelog())
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 3)]
            assert goes_on(scene, worker, "u2", 10) == "14"

    def test_looks_back_beyond_the_first_window(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Behind the last meta record lies an unfinished checkpoint longer than the first look."""
        monkeypatch.setattr(restoring, "_LOOK_BACK", 4)
        with in_place(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            worker.wipe()
            producer = scene.broker.producer()
            for number in range(40):
                producer.produce(scene.changelog(), b"stray", f"total\0{number}".encode(), 0, None, None, 0)
            producer.flush()
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 1)]
            assert goes_on(scene, worker, "u", 10) == "11"
            strays = [value for key, value in last_values(scene).items() if key[6:].isdigit()]
            assert strays == [None] * 40


def last_values(scene: Scene) -> dict[bytes, bytes | None]:
    """What compaction would leave of the changelog."""
    return {message.key() or b"": message.value() for message in scene.messages(scene.changelog())}


def cut_off(scene: Scene, worker: Worker) -> None:
    """At-least-once: the checkpoint ends before its meta record."""
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
    def test_are_void(self, tmp_path: Path, times: int, wiped: bool) -> None:
        """Several in a row, each dying in the checkpoint that would have made the one before void."""
        with in_place(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "u:1")
            feed(scene, "u:5", "v:7")
            for _ in range(times):
                scene.turns(4, worker, commit=False)
                cut_off(scene, worker)
                if wiped:
                    worker.wipe()
                worker.start()
            scene.turns(5, worker)
            assert goes_on(scene, worker, "u", 10) == "16"
            worker.crash()
            worker.wipe()
            worker = again(scene, TASK)
            assert goes_on(scene, worker, "v", 10) == "17"

    def test_a_key_that_only_an_unfinished_checkpoint_knew(self, tmp_path: Path) -> None:
        """Its input is gone by the next run (here: the job stops before reading it), so the changelog must lose it."""
        with in_place(tmp_path, guarantee="at_least_once") as scene:
            worker = settled(scene, "u:1")
            producer = scene.broker.producer()
            stray = next(iter(state_of(worker, TASK))).replace(b"u", b"z")
            worker.crash()
            producer.produce(scene.changelog(), b"9", stray, 0, None, None, 0)
            producer.flush()
            worker = again(scene, TASK)
            assert stray not in state_of(worker, TASK)
            worker.crash()  # before the checkpoint that makes it void
            worker = again(scene, TASK)
            scene.turns(3, worker)
            assert last_values(scene)[stray] is None
            worker.crash()
            worker.wipe()
            worker = again(scene, TASK)
            assert stray not in state_of(worker, TASK)


class TestDoesNotFit:
    def test_changelog_made_anew_and_empty_asks(self, tmp_path: Path) -> None:
        with in_place(tmp_path) as scene:
            settled(scene, "u:1").crash()
            scene.broker.delete_topics([scene.changelog()])
            worker = scene.start()
            with pytest.raises(
                JobError, match=r"task total/0 has local state.*app-total-changelog is empty.*--state-dir"
            ):
                scene.turns(3, worker)

    def test_changelog_cut_to_nothing_asks(self, tmp_path: Path) -> None:
        """The same topic, but without its records."""
        with in_place(tmp_path) as scene:
            settled(scene, "u:1").crash()
            scene.cluster.topic(scene.changelog()).logs[0].delete_before(scene.end(scene.changelog()))
            worker = scene.start()
            with pytest.raises(JobError, match=r"is empty in partition 0.*begins only at 5"):
                scene.turns(3, worker)

    def test_changelog_made_anew_with_content_rebuilds(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """As after a move to another cluster: the topic's id is another, its records are there."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            scene.cluster.topic(scene.changelog()).topic_id = "another"
            worker = again(scene, TASK)
            assert worker.restored == [(TASK, 1)]
            assert caplog.text.count("its changelog topic was deleted and made anew") == 1
            assert goes_on(scene, worker, "u", 10) == "11"

    def test_no_state_at_all_although_the_job_has_run(self, tmp_path: Path) -> None:
        """Disk and changelog are gone, the group knows better: not a silent start from the beginning."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            worker.wipe()
            scene.broker.delete_topics([scene.changelog()])
            worker = scene.start()
            with pytest.raises(
                JobError, match=r"total/0 has run before.*app-total-changelog has nothing of it.*delete the"
            ):
                scene.turns(3, worker)

    def test_store_ahead_of_its_changelog(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            state = worker.tasks[TASK].state
            assert state is not None
            assert state.local_meta is not None
            worker.crash()
            store = worker.stores.kept["total", 0].open()  # type: ignore[attr-defined]
            local = state.local_meta
            store.write(
                [(b"total\0x", b"lie")],
                LocalMeta(local.topic_id, 999, local.synced_at_ms, True, local.task_meta).encode(),
            )
            worker = again(scene, TASK)
            assert "it is ahead of its changelog topic (999 >" in caplog.text
            assert b"total\0x" not in state_of(worker, TASK)
            assert goes_on(scene, worker, "u", 10) == "11"

    @pytest.mark.parametrize(("days", "rebuilt"), [(0.85, 0), (0.95, 1)])
    def test_store_too_old(self, tmp_path: Path, days: float, rebuilt: int, caplog: pytest.LogCaptureFixture) -> None:
        """Tombstones may be gone after delete.retention.ms (a day): a deleted key would come back."""
        with in_place(tmp_path) as scene:
            settled(scene, "u:1", "v:2").crash()
            stale = scene.workers["w0"].stores.kept["total", 0].open()  # type: ignore[attr-defined]
            gone = next(key for key in stale._entries if b"v" in key)
            producer = scene.broker.producer()
            producer.produce(scene.changelog(), None, gone, 0, None, None, 0)
            meta = next(m for m in reversed(scene.messages(scene.changelog())) if m.key() == META_KEY)
            producer.produce(scene.changelog(), meta.value(), META_KEY, 0, None, None, 0)
            producer.flush()
            scene.cluster.compact(scene.changelog(), drop_tombstones=rebuilt == 1)
            scene.now_ms += int(days * 86_400_000)
            worker = again(scene, TASK)
            assert gone not in state_of(worker, TASK)
            assert caplog.text.count("older than delete.retention.ms") == rebuilt

    def test_an_idle_task_does_not_grow_old(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Two days without a record, then killed: its store had all there was until the end."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            assert worker.driver is not None
            scene.now_ms += 2 * 86_400_000
            worker.driver.last_look = -1e9
            scene.turns(1)
            worker.crash()
            scene.now_ms += 3_600_000
            worker = again(scene, TASK)
            assert "older than delete.retention.ms" not in caplog.text
            assert worker.restored == [(TASK, 0)]

    def test_a_clean_stop_makes_young(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with in_place(tmp_path) as scene:
            for _ in range(3):
                worker = settled(scene, "u:1") if not scene.workers else again(scene, TASK)
                scene.now_ms += 80_000_000
                worker.stop()
            assert "older than delete.retention.ms" not in caplog.text
            again(scene, TASK)
            assert scene.workers["w0"].restored == []

    def test_corrupt_changelog_does_not_loop(self, tmp_path: Path) -> None:
        """Nothing local can be set aside for it: the error is told, with its place."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            worker.wipe()
            producer = scene.broker.producer()
            producer.produce(scene.changelog(), b"{broken", META_KEY, 0, None, None, 0)
            producer.flush()
            worker = scene.start()
            with pytest.raises(StateCorrupted, match=r"app-total-changelog.*partition 0.*offset"):
                scene.turns(9, worker)

    def test_changelog_of_another_application(self, tmp_path: Path) -> None:
        """`app` + `b-total` and `app-b` + `total` derive the same names (P32)."""
        with Scene(totals(in_place=True, uid="b-total"), tmp_path, partitions=1) as scene:
            settled_other = scene.start()
            feed(scene, "u:1")
            scene.turns(3, settled_other)
            settled_other.stop()
            scene.time_out_dead()
            scene.plan = totals(in_place=True, uid="total", application_id="app-b")
            worker = scene.start("other")
            with pytest.raises(JobError, match=r"written by application 'app', not by 'app-b'"):
                scene.turns(9, worker)


class TestInterrupted:
    def test_an_incomplete_restore_goes_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(restoring, "_BATCH", 2)
        with in_place(tmp_path) as scene:
            worker = settled(scene, *[f"u{number}:{number}" for number in range(9)])
            worker.crash()
            worker.wipe()
            worker = scene.start()
            while worker.driver is not None:
                store = worker.stores.kept.get(("total", 0))  # type: ignore[attr-defined]
                if store is not None and store._entries:
                    break
                worker.turn()
            assert worker.restored == []
            local = worker.tasks[TASK].state.local_meta  # type: ignore[union-attr]
            assert local is not None
            assert not local.complete
            worker.crash()
            worker = again(scene, TASK)
            assert 0 < worker.restored[-1][1] < 9
            assert len(state_of(worker, TASK)) == 9
            assert goes_on(scene, worker, "u8", 10) == "18"

    def test_a_torn_store_without_its_meta_record_is_emptied(self, tmp_path: Path) -> None:
        """The changelog lost its end while the restore was cut short: the entries belong to no checkpoint."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            local = worker.tasks[TASK].state.local_meta  # type: ignore[union-attr]
            assert local is not None
            worker.crash()
            store = worker.stores.kept["total", 0].open()  # type: ignore[attr-defined]
            store.write(
                [(b"total\0torn", b"1")],
                LocalMeta(local.topic_id, scene.end(scene.changelog()), scene.now_ms, False).encode(),
            )
            worker = again(scene, TASK)
            assert b"total\0torn" not in state_of(worker, TASK)
            assert goes_on(scene, worker, "u", 10) == "11"

    def test_revoked_while_restoring_and_given_again(self, tmp_path: Path) -> None:
        """P11: the same partition comes back while its first restore is under way; it must be read in the end."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1", "v:2")
            worker.crash()
            worker.wipe()
            worker = scene.start()
            assert worker.driver is not None
            (assignment,) = worker.driver.assignments
            tp = TopicPartition("in", 0)
            consumer = assignment.consumer
            consumer.poll(1, 0.0)
            first = worker.tasks[TASK]
            assert first.status is Status.RESTORING
            assignment.revoked([tp])
            assert first.status is Status.CLOSED
            assert worker.driver.restorer.running() == []
            assignment.assigned([tp])
            second = worker.tasks[TASK]
            assert second is not first
            scene.until(lambda: second.status is Status.RUNNING, worker)
            assert worker.restored == [(TASK, 2)]
            assert goes_on(scene, worker, "u", 10) == "11"

    def test_a_restore_that_ended_while_its_task_was_taken_away(self, tmp_path: Path) -> None:
        """Its result is nobody's any more; the task's successor restores for itself."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            worker.wipe()
            worker = scene.start()
            assert worker.driver is not None
            (assignment,) = worker.driver.assignments
            restorer = worker.driver.restorer
            assignment.consumer.poll(1, 0.0)
            while restorer.step(0.0):
                pass
            assignment.revoked([TopicPartition("in", 0)])
            assert restorer.finished() == []

    def test_stop_while_restoring(self, tmp_path: Path) -> None:
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            worker.crash()
            worker.wipe()
            worker = scene.start()
            worker.turn(commit=False)
            end = scene.end(scene.changelog())
            worker.stop()
            assert scene.end(scene.changelog()) == end
            worker = again(scene, TASK)
            assert goes_on(scene, worker, "u", 10) == "11"


class TestMeanwhile:
    def test_no_input_is_taken_and_other_tasks_go_on(self, tmp_path: Path) -> None:
        """Task 0 waits for a transaction that a dead worker left open; task 1 has nothing to wait for."""
        with Scene(totals(in_place=True), tmp_path) as scene:
            worker = scene.start()
            scene.turns(2)
            scene.feed([("u", "u:1", 0), ("v", "v:1", 1)])
            scene.turns(2)
            worker.crash()
            scene.time_out_dead()
            hanging = scene.broker.producer("hanging")
            hanging.begin()
            hanging.produce(scene.changelog(), b"9", b"total\0q", 0, None, None, 0)
            hanging.flush()
            worker = scene.start()
            scene.feed([("u", "u:10", 0), ("v", "v:10", 1)])
            scene.turns(6)
            assert worker.tasks["total/0"].status is Status.RESTORING
            assert worker.tasks["total/0"].records_in == 0
            assert scene.by_key() == {"u": ["1"], "v": ["1", "11"]}
            assert worker.health.ready() != []
            hanging.abort()
            scene.turns(6)
            assert scene.by_key() == {"u": ["1", "11"], "v": ["1", "11"]}
            assert worker.health.ready() == []

    def test_the_store_is_never_ahead_of_the_committed_changelog(self, tmp_path: Path) -> None:
        """P16: a commit that fails leaves the store as it was."""
        with in_place(tmp_path) as scene:
            worker = settled(scene, "u:1")
            store = worker.stores.kept["total", 0]  # type: ignore[attr-defined]
            before = dict(store._entries), store._meta
            feed(scene, "u:5")
            worker.turn(commit=False)
            scene.cluster.fail_next_commit(applied=False)
            worker.turn()
            assert worker.rejoins == 1
            assert (dict(store._entries), store._meta) == before
            scene.turns(4, worker)
            assert scene.by_key() == {"u": ["1", "6"]}


class TestThread:
    def test_restores_in_a_thread_of_its_own(self, tmp_path: Path) -> None:
        with in_place(tmp_path) as scene:
            scene.cluster.blocking = True
            worker = settled(scene, "u:1", "v:2")
            worker.crash()
            worker.wipe()
            restorer = Restorer(scene.broker)
            state = worker.stores.open("total", 0)
            tp = TopicPartition(scene.changelog(), 0)
            info = scene.broker.topics([tp.topic])[tp.topic]
            restore = Restore(TASK, state, tp, info.topic_id, 0, 0, scene.end(tp.topic), scene.clock)
            restorer.add(restore)
            found: list[Restore] = []
            for _ in range(500):
                found = restorer.finished()
                if found:
                    break
                restorer._thread.join(0.01)  # type: ignore[union-attr]
            assert found == [restore]
            assert restore.error is None
            assert restore.found == TaskMeta.decode(state.local_meta.task_meta)  # type: ignore[union-attr, arg-type]
            assert restore.done() == restore.total()
            restorer.close()
            restorer.close()

    def test_cancel_while_the_thread_waits(self, tmp_path: Path) -> None:
        """Cancelled within a moment, and the store is nobody's then."""
        with in_place(tmp_path) as scene:
            scene.cluster.blocking = True
            worker = settled(scene, "u:1")
            hanging = scene.broker.producer("hanging")
            hanging.begin()
            hanging.produce(scene.changelog(), b"9", b"total\0q", 0, None, None, 0)
            hanging.flush()
            worker.crash()
            worker.wipe()
            restorer = Restorer(scene.broker)
            state = worker.stores.open("total", 0)
            restorer.add(
                Restore(
                    TASK,
                    state,
                    TopicPartition(scene.changelog(), 0),
                    "t",
                    0,
                    0,
                    scene.end(scene.changelog()),
                    scene.clock,
                )
            )
            restorer.cancel(TASK)
            state.close()
            hanging.abort()
            assert restorer.running() == []
            assert restorer.finished() == []
            restorer.close()

    def test_a_stuck_restore_says_what_it_waits_for(self, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
        with in_place(tmp_path) as scene:
            state = KeptStores(None, CacheBudget(1000), None).open("s", 0)
            restore = Restore("s/0", state, TopicPartition("c", 0), "t", 0, 0, 5, scene.clock)
            restore._waiting_since -= 10
            with caplog.at_level(logging.WARNING):
                restore.reached(3)
                restore.reached(3)
            assert caplog.text.count("a predecessor's transaction is still open") == 1
            assert "offset 3 of c-0 (end 5)" in caplog.text
