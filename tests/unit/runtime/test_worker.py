"""What a worker does about errors: goes on with a new driver, waits, sets a store aside, or ends; and how it stops."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.broker.memory import MemoryBroker, MemoryCluster, MemoryProducer
from kstreampy.errors import BrokerUnavailable, JobError, KStreamError, RecordError, StateCorrupted
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.metrics import Metrics
from kstreampy.runtime import worker as worker_module
from kstreampy.runtime.layout import Layout
from kstreampy.runtime.process import run_process
from kstreampy.runtime.resources import Stores
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from kstreampy.runtime.worker import Patience, run_worker
from kstreampy.state.budget import CacheBudget
from kstreampy.state.directory import StateDirectory
from kstreampy.state.rocks import RocksBudget, RocksStore
from tests.unit.runtime.jobs import totals, user_and_amount
from tests.unit.runtime.scene import Scene


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(totals(bounded=True), tmp_path) as scene:
        scene.cluster.blocking = True
        yield scene


def feed(scene: Scene, *records: str) -> None:
    scene.feed((None, record, 0) for record in records)


class Run:
    """Arguments of one `run_worker`."""

    def __init__(self, scene: Scene, plan: Plan | None = None, **settings: Any) -> None:
        self.scene = scene
        self.plan = plan or scene.plan
        self.health = Health()
        self.stop = StopSignal()
        self.settings = Settings(
            application_id="app", state_dir=scene.root / "state", **{"broker_timeout_s": 20.0, **settings}
        )

    def __call__(self, broker: MemoryBroker | None = None) -> None:
        self.connected = broker or MemoryBroker(self.scene.cluster)
        run_worker(
            self.plan,
            self.settings,
            connect=lambda: self.connected,
            stop=self.stop,
            metrics=Metrics(),
            health=self.health,
            clock=self.scene.clock,
        )


class Unsteady(MemoryBroker):
    """Has no answer to the first `times` attempts to make a producer."""

    def __init__(self, cluster: MemoryCluster, times: int, seen: Callable[[], object] = lambda: None) -> None:
        super().__init__(cluster)
        self.times = times
        self.seen = seen

    def producer(self, transactional_id: str | None = None) -> MemoryProducer:
        if self.times > 0:
            self.times -= 1
            self.seen()
            raise BrokerUnavailable("no answer")
        return super().producer(transactional_id)


class TestReactions:
    def test_fenced_in_the_middle(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        def parse(text: str) -> tuple[str, int]:
            if text == "u:2" and "rejoining" not in caplog.text:
                scene.cluster.expire_transaction("app-worker/memory")
            return user_and_amount(text)

        feed(scene, "u:1", "u:2", "u:3")
        Run(scene, totals(bounded=True, parse=parse))()
        assert scene.by_key() == {"u": ["1", "3", "6"]}
        assert caplog.text.count("rejoining: ") == 1

    def test_a_commit_in_doubt(self, scene: Scene) -> None:
        feed(scene, "u:1", "u:2")
        scene.cluster.fail_next_commit(applied=True)
        Run(scene)()
        assert scene.by_key() == {"u": ["1", "3"]}

    def test_the_broker_is_away_for_a_while(self, scene: Scene) -> None:
        feed(scene, "u:1")
        ready: list[object] = []
        run = Run(scene)
        run(Unsteady(scene.cluster, 3, lambda: ready.append(run.health.ready())))
        assert scene.by_key() == {"u": ["1"]}
        assert all(any(reason["reason"] == "the broker is unavailable" for reason in told) for told in ready[1:])  # type: ignore[attr-defined]

    def test_the_broker_is_away_for_good(self, scene: Scene) -> None:
        """P52: not ready at once, and the process ends after the bound."""
        run = Run(scene, broker_timeout_s=0.3)
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="no answer"):
            run(Unsteady(scene.cluster, 10**6))
        assert 0.3 <= time.monotonic() - began < 5
        assert run.health.ready() != []
        assert run.health.live() == []

    def test_no_first_contact(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        def away(*_: object) -> None:
            raise BrokerUnavailable("wrong address")

        monkeypatch.setattr(worker_module, "lay_out", away)
        with pytest.raises(BrokerUnavailable, match="wrong address"):
            Run(scene, broker_timeout_s=0.2)()

    def test_stopped_before_the_first_contact(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        run = Run(scene)

        def away(*_: object) -> None:
            run.stop.request("SIGTERM")
            raise BrokerUnavailable("wrong address")

        monkeypatch.setattr(worker_module, "lay_out", away)
        run()
        assert scene.cluster.groups == {}

    def test_an_exception_of_the_job(self, scene: Scene) -> None:
        """P54, P55: raised, with its place, and nothing committed."""

        def parse(text: str) -> tuple[str, int]:
            raise KeyError(text)

        feed(scene, "u:1")
        with pytest.raises(RecordError, match="KeyError: 'u:1'") as caught:
            Run(scene, totals(bounded=True, parse=parse))()
        assert caught.value.__notes__[0] == "at topic 'in', partition 0, offset 0"
        assert scene.by_key() == {}
        assert scene.offsets("numbers").get(TopicPartition("in", 0), 0) == 0
        assert scene.cluster.log(TopicPartition("out", 0)).stable_end == scene.end("out")

    def test_a_function_that_calls_exit(self, scene: Scene) -> None:
        """P55: ended before its time, whatever code it chose."""

        def parse(text: str) -> tuple[str, int]:
            raise SystemExit(0)

        feed(scene, "u:1")
        settings = Settings(application_id="app", state_dir=scene.root / "state")
        with pytest.raises(KStreamError, match=r"called sys.exit\(\)"):
            run_process(totals(bounded=True, parse=parse), settings, lambda: MemoryBroker(scene.cluster), StopSignal())
        assert scene.by_key() == {}

    def test_an_ended_job(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        feed(scene, "u:1")
        Run(scene)()
        assert "had already ended" not in caplog.text
        began = time.monotonic()
        Run(scene)()
        assert time.monotonic() - began < 1
        assert caplog.text.count("the job of application app had already ended") == 1


class TestStages:
    def test_unknown(self, scene: Scene) -> None:
        with pytest.raises(JobError, match=r"no stage 'totla' in this job: its stages are numbers, total"):
            Run(scene, stages=("totla",))()

    def test_each_as_a_workload_of_its_own(self, scene: Scene) -> None:
        """The first waits for the second's end before it leaves."""
        feed(scene, "u:1")
        join = _in_thread(Run(scene, stages=("numbers",)))
        topic = "app-total-repartition"
        _wait(lambda: topic in scene.cluster.topics and scene.messages(topic) != [])
        assert set(scene.cluster.groups) == {"app-numbers"}
        Run(scene, stages=("total",))()
        join()
        assert scene.by_key() == {"u": ["1"]}


def _in_thread(run: Run) -> Callable[[], None]:
    """Starts it; the function returned waits for it and raises what it raised."""
    import threading

    raised: list[BaseException] = []

    def body() -> None:
        try:
            run()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def join() -> None:
        thread.join(20)
        assert not thread.is_alive()
        for error in raised:
            raise error

    return join


class TestStop:
    def test_everything_is_committed(self, scene: Scene) -> None:
        """Stopped from inside a record: that batch is worked off and committed, what comes after is not begun."""
        run = Run(scene, plan := totals(in_place=True, parse=lambda text: stopping(text)))
        assert not plan.bounded

        def stopping(text: str) -> tuple[str, int]:
            run.stop.request("SIGTERM")
            return user_and_amount(text)

        feed(scene, "u:1", "u:2")
        run()
        assert scene.by_key() == {"u": ["1", "3"]}
        assert scene.offsets("total")[TopicPartition("in", 0)] == 2

    def test_before_anything_was_joined(self, scene: Scene) -> None:
        run = Run(scene, totals())
        run.stop.request("SIGTERM")
        run()
        assert scene.by_key() == {}

    def test_while_restoring(self, scene: Scene) -> None:
        """P56: a replay that waits for somebody else's transaction does not hold up the stop."""
        feed(scene, "u:1")
        run = Run(scene, totals(in_place=True))
        join = _in_thread(run)
        _wait(lambda: scene.by_key() == {"u": ["1"]})
        run.stop.request("SIGTERM")
        join()
        hanging = scene.broker.producer("hanging")
        hanging.begin()
        hanging.produce(scene.changelog(), b"9", b"total\0q", 0, None, None, 0)
        hanging.flush()
        run = Run(scene, totals(in_place=True))
        join = _in_thread(run)
        _wait(lambda: any(reason["reason"] == "restoring" for reason in run.health.ready()))
        began = time.monotonic()
        run.stop.request("SIGTERM")
        join()
        assert time.monotonic() - began < 3

    def test_in_an_error(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        """Fenced while stopping: not begun anew, and said."""
        run = Run(scene)

        def parse(text: str) -> tuple[str, int]:
            scene.cluster.expire_transaction("app-worker/memory")
            run.stop.request("SIGTERM")
            return user_and_amount(text)

        run.plan = totals(in_place=True, parse=parse)
        feed(scene, "u:1")
        run()
        assert "stopping without a last checkpoint" in caplog.text
        assert scene.by_key() == {}

    def test_what_fails_while_leaving_is_only_told(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """Everything is committed by then: no rejoining, no error."""

        def away(*_: object, **__: object) -> dict[TopicPartition, int]:
            raise BrokerUnavailable("gone")

        feed(scene, "u:1")
        run = Run(scene)
        broker = MemoryBroker(scene.cluster)
        monkeypatch.setattr(worker_module.Driver, "leave", _leaving(broker, away, worker_module.Driver.leave))
        run(broker)
        assert scene.by_key() == {"u": ["1"]}


def _leaving(broker: MemoryBroker, away: Any, leave: Any) -> Any:
    def leaving(driver: Any) -> None:
        broker.end_offsets = away  # type: ignore[method-assign]
        leave(driver)

    return leaving


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class TestDamage:
    """With a state directory, as over a real cluster."""

    @pytest.fixture(autouse=True)
    def _on_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(worker_module, "MemoryBroker", type("None of them", (), {}))

    def stopped_after(self, scene: Scene, *records: str) -> None:
        feed(scene, *records)
        run = Run(scene, totals(in_place=True), checkpoint_interval_ms=20)
        join = _in_thread(run)
        want = len(scene.by_key().get("u", [])) + len(records)
        _wait(lambda: len(scene.by_key().get("u", [])) == want)
        run.stop.request("enough")
        join()

    def test_found_at_the_start(self, scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
        """P18: set aside once, rebuilt, one log line."""
        self.stopped_after(scene, "u:1", "u:2")
        store = scene.root / "state" / "total" / "0"
        for manifest in store.glob("MANIFEST*"):
            manifest.unlink()
        self.stopped_after(scene, "u:3")
        assert scene.by_key() == {"u": ["1", "3", "6"]}
        assert caplog.text.count("local state of total/0 is damaged") == 1
        assert (scene.root / "state" / "total" / "0.corrupt-1").is_dir()
        self.stopped_after(scene, "u:4")
        assert not (scene.root / "state" / "total" / "0.corrupt-2").exists()
        assert scene.by_key()["u"][-1] == "10"

    def test_found_in_use(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.stopped_after(scene, "u:1", "u:2")
        faults = [1]
        get_many = RocksStore.get_many

        def damaged(store: RocksStore, keys: Any) -> Any:
            if faults and any(b"u" in key for key in keys):
                faults.pop()
                raise StateCorrupted(f"the store at {store.path} cannot be read: block checksum mismatch")
            return get_many(store, keys)

        monkeypatch.setattr(RocksStore, "get_many", damaged)
        self.stopped_after(scene, "u:3")
        assert scene.by_key() == {"u": ["1", "3", "6"]}
        assert caplog.text.count("is damaged") == 1
        assert (scene.root / "state" / "total" / "0.corrupt-1").is_dir()

    def test_damaged_again_and_again(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rebuilt once, and damaged again: the disk is at fault, and going on would be a crash loop inside."""

        self.stopped_after(scene, "u:1")
        get_many = RocksStore.get_many

        def damaged(store: RocksStore, keys: Any) -> Any:
            if any(b"u" in key for key in keys):
                raise StateCorrupted(f"the store at {store.path} cannot be read: bad disk")
            return get_many(store, keys)

        monkeypatch.setattr(RocksStore, "get_many", damaged)
        feed(scene, "u:1")
        with pytest.raises(StateCorrupted, match="bad disk"):
            Run(scene, totals(in_place=True))()
        assert (scene.root / "state" / "total" / "0.corrupt-1").is_dir()
        assert not (scene.root / "state" / "total" / "0.corrupt-2").exists()

    def test_only_the_one_that_is_named(self, tmp_path: Path) -> None:
        """Of stores 1 and 10 the first is damaged."""
        directory = StateDirectory(tmp_path / "state")
        stores = Stores(directory, CacheBudget(1000), RocksBudget(1 << 20))
        for number in (1, 10):
            stores.open("total", number).close()
        path = directory.store_path("total", 10)
        assert stores.set_aside_damaged(StateCorrupted(f"the store at {path} cannot be read"))
        assert directory.stores() == [("total", 1)]
        assert stores.set_aside_damaged(StateCorrupted(f"bad block in {directory.store_path('total', 1)}/000012.sst"))
        assert directory.stores() == []
        assert not stores.set_aside_damaged(StateCorrupted("a record of the changelog"))
        directory.close()


class TestPatience:
    def patience(self, bound_s: float) -> Patience:
        return Patience(bound_s, StopSignal(), Metrics(), Health())

    @pytest.mark.parametrize(("takes_s", "again"), [(0.4, False), (0.0, True)])
    def test_the_first_contact_is_tried_again_if_there_is_time(self, takes_s: float, again: bool) -> None:
        asked = 0

        def ask() -> Layout:
            nonlocal asked
            asked += 1
            time.sleep(takes_s)
            raise BrokerUnavailable("no answer")

        with pytest.raises(BrokerUnavailable):
            self.patience(90).until_answered(ask, 0.6)
        assert (asked > 1) is again

    def test_a_worker_that_is_told_to_stop_meanwhile_has_not_failed(self) -> None:
        stop = StopSignal()

        def ask() -> Layout:
            stop.request("enough")
            raise BrokerUnavailable("no answer")

        assert Patience(90, stop, Metrics(), Health()).until_answered(ask, 0.0) is None

    def test_gives_up_after_the_bound(self) -> None:
        patience = self.patience(0.05)
        patience.away(BrokerUnavailable("one"))
        time.sleep(0.06)
        with pytest.raises(BrokerUnavailable, match="two"):
            patience.away(BrokerUnavailable("two"))

    def test_a_driver_that_ran_well_begins_the_bound_anew(self) -> None:
        patience = self.patience(0.05)
        patience.away(BrokerUnavailable("one"))
        time.sleep(0.06)
        patience.well_since(time.monotonic() - 60)
        patience.away(BrokerUnavailable("two"))

    def test_one_that_did_not_does_not(self) -> None:
        patience = self.patience(0.05)
        patience.away(BrokerUnavailable("one"))
        time.sleep(0.06)
        patience.well_since(time.monotonic() - 1)
        with pytest.raises(BrokerUnavailable):
            patience.away(BrokerUnavailable("two"))

    def test_says_how_long_it_will_go_on(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            self.patience(90).away(BrokerUnavailable("no answer"))
        assert "the broker is unavailable (no answer): trying for another 90 s" in caplog.text
