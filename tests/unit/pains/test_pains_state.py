"""What hurts users of other tools in what is kept (P24, P25, P27, P28): state that nobody frees, disks that refuse, values that
outgrow their topic."""

from __future__ import annotations

import errno
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Duration, Types
from kstreampy.datastream import DataStream, KeyedProcessFunction
from kstreampy.datastream.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from kstreampy.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from kstreampy.datastream.window import (
    CountEvictor,
    EventTimeSessionWindows,
    EventTimeTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from kstreampy.errors import JobError
from kstreampy.state.rocks import RocksStore
from kstreampy.state.store import META_KEY
from kstreampy.testing import JobHarness
from tests.unit.api.job import Job, first
from tests.unit.runtime.jobs import totals
from tests.unit.runtime.scene import Scene

HOUR_MS = 3_600_000


def kept(harness: JobHarness) -> list[bytes]:
    """What compaction would leave of the job's changelogs and timers topics. Meta records aside, and the counters of lists'
    elements, of which each task has one per state."""
    cluster = harness._simulation.cluster
    live: dict[tuple[str, int, bytes], bytes | None] = {}
    for name, topic in cluster.topics.items():
        if name.endswith(("-changelog", "-timers")):
            for number, log in enumerate(topic.logs):
                for message in log.read(log.begin, 10**9)[0]:
                    live[name, number, message.key() or b""] = message.value()
    return [
        key
        for (_, _, key), value in live.items()
        if value is not None and not key.startswith(META_KEY) and key.split(b"\0", 1)[1] != b"\0"
    ]


# Time to live over a restart (P24)


class Remember(KeyedProcessFunction):
    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_hours(1)).build())

    def open(self, runtime_context: Any) -> None:
        if isinstance(self.descriptor, ListStateDescriptor):
            self.add = lambda key: runtime_context.get_list_state(self.descriptor).add(key)
        elif isinstance(self.descriptor, MapStateDescriptor):
            self.add = lambda key: runtime_context.get_map_state(self.descriptor).put(key, key)
        else:
            self.add = lambda key: runtime_context.get_state(self.descriptor).update(key)

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
        self.add(value)


@pytest.mark.parametrize(
    "descriptor",
    [
        lambda: ValueStateDescriptor("s", Types.STRING()),
        lambda: ListStateDescriptor("s", Types.STRING()),
        lambda: MapStateDescriptor("s", Types.STRING(), Types.STRING()),
    ],
    ids=["value", "list", "map"],
)
@pytest.mark.parametrize("is_disk_lost", [False, True])
@pytest.mark.parametrize("state_store", ["memory", "rocks"])
def test_what_was_kept_before_a_kill_expires_without_being_asked_for(
    descriptor: Any, is_disk_lost: bool, state_store: Any
) -> None:
    """P24: the index of what expires does not live in memory. Only other keys come after the restart."""
    with Job(
        lambda keys: keys.key_by(str).process(Remember(descriptor())).uid("remember"), state_store=state_store
    ) as job:
        for number in range(50):
            job.sources[0].send(f"gone-{number}")
        job.given()
        before = kept(job.harness)
        assert sum(b"gone-" in key for key in before) == 50
        if is_disk_lost:
            job.harness.lose_disk()
        else:
            job.harness.crash()
        job.send("other")
        assert sum(b"gone-" in key for key in kept(job.harness)) == 50
        job.advance_time(HOUR_MS - 1)
        job.send("other")
        assert sum(b"gone-" in key for key in kept(job.harness)) == 50
        for _ in range(3):
            job.advance_time(1)
            job.send("other")
        assert sum(b"gone-" in key for key in kept(job.harness)) == 0
        assert any(b"other" in key for key in kept(job.harness))


# Memory (P26)

MEASURED = """
import os, sys
from kstreampy.state.rocks import RocksBudget, RocksStore

def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

budget = RocksBudget(16 << 20)
stores = [RocksStore(f"{sys.argv[1]}/{number}", budget) for number in range(60)]
before = resident()
for part in range(25):
    for number, store in enumerate(stores):
        store.write([(b"%d-%d-%d" % (number, part, i), os.urandom(200)) for i in range(400)], b"m")
for store in stores:
    for _ in range(20):
        with store.scan(b"") as rows:
            next(rows)
print((resident() - before) >> 20, sum(store.open_scans for store in stores), sum(s.size_bytes() for s in stores) >> 20)
"""


def test_memory_of_many_stores_is_bounded(tmp_path: Path) -> None:
    """P26: 2 states by 30 partitions, 130 MB of data in a process of its own. One budget for all, no scan left open."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", MEASURED, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout.split()
    grown_mib, open_scans, stored_mib = map(int, told)
    assert stored_mib > 100
    assert grown_mib < 100
    assert open_scans == 0


# Windows that give nothing, and timers (P25)


class Nothing(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return ()


class NothingOfProcess(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> None:
        return None


class NoResult(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> None:
        return None

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class General(EventTimeTrigger):
    """The default trigger under another name, so that the general operators are used."""


def drawn(stream: DataStream, assigner: WindowAssigner, kind: str) -> DataStream:
    windows = stream.key_by(first).window(assigner).allowed_lateness(5)
    match kind:
        case "aggregate":
            return windows.aggregate(NoResult(), Nothing())
        case "reduce, general":
            return windows.trigger(General()).reduce(lambda a, b: a, Nothing())
        case "process":
            return windows.process(NothingOfProcess())
        case "evictor":
            return windows.evictor(CountEvictor.of(0)).apply(Nothing())
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["aggregate", "reduce, general", "process", "evictor"])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(20, 10), EventTimeSessionWindows.with_gap(10)],
    ids=str,
)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_window_without_a_result_is_cleaned_up(assigner: WindowAssigner, kind: str, is_killed: bool) -> None:
    """P25: the clean-up does not depend on anything being emitted, nor on the key being seen again."""
    with Job(lambda stream: drawn(stream, assigner, kind).uid("windows")) as job:
        for number in range(20):
            job.send((f"k{number}", number), number)
        assert kept(job.harness) != []
        if is_killed:
            job.harness.crash()
        assert job.watermark(1_000) == []
        assert kept(job.harness) == []
        assert job.harness.timers("windows") == []


class Chain(KeyedProcessFunction):
    """Each timer sets the next one."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        ctx.timer_service().register_event_time_timer(timestamp + 10)
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("seed", range(5))
def test_timers_that_set_timers_lose_none_and_fire_none_twice(seed: int) -> None:
    """P25: one thread has a key's state and timers, so that setting and firing do not race. Killed in the middle."""
    keys = [f"k{number}" for number in range(200)]
    with Job(lambda stream: stream.key_by(str).process(Chain()).uid("chain"), key_groups=4, seed=seed) as job:
        for key in keys:
            job.sources[0].send(key, 0)
        found: list[Any] = []
        for watermark in range(0, 300, 30):
            if watermark in (90, 210):
                job.harness.crash_at("produce")
            found += job.watermark(watermark)
        assert job.harness.crashes
        by_key = {key: [time for other, time in found if other == key] for key in keys}
        assert by_key == {key: list(range(0, 271, 10)) for key in keys}
        assert sorted(job.harness.timers("chain")) == sorted((280, key) for key in keys)


# A disk that is full (P27)


def test_a_full_disk_ends_the_worker_and_the_next_start_has_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P27: one error that names the path, no retries of its own, and nothing to repair once there is room again."""
    with caplog.at_level(logging.INFO), Scene(totals(in_place=True), tmp_path, disk="rocks", partitions=1) as scene:
        worker = scene.start()
        scene.turns(2)
        scene.feed([(None, "u:1", 0)])
        scene.turns(2)
        write = RocksStore.write
        tried: list[int] = []

        def full(store: RocksStore, *_: Any) -> None:
            tried.append(1)
            raise OSError(errno.ENOSPC, "No space left on device", str(store.path))

        monkeypatch.setattr(RocksStore, "write", full)
        scene.feed([(None, "u:1", 0)])
        worker.turn()  # committed, and written behind
        scene.now_ms += 60_000
        scene.feed([(None, "u:1", 0)])
        with pytest.raises(OSError, match=re.escape(str(tmp_path))) as caught:
            worker.turn()
        assert caught.value.errno == errno.ENOSPC
        assert len(tried) == 1
        assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
        monkeypatch.setattr(RocksStore, "write", write)
        worker.crash()
        worker.start()
        scene.feed([(None, "u:4", 0)])
        scene.turns(6)
        assert scene.by_key() == {"u": ["1", "2", "3", "7"]}


# Values that grow (P28)


class Append(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one", Types.STRING()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.STRING()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        kind, text = value
        if kind == "list":
            self.list.add(text)
            yield sum(map(len, self.list.get()))
        elif kind == "map":
            self.map.put(len(list(self.map.keys())), text)
            yield sum(map(len, self.map.values()))
        else:
            self.one.update((self.one.value() or "") + text)
            yield len(self.one.value())


MIB = 1 << 20


@pytest.mark.parametrize("kind", ["list", "map"])
def test_lists_and_maps_outgrow_a_message(kind: str) -> None:
    """P28: an entry per element, so that 20 MiB under one key are no matter, though a message has 16 at most."""
    with Job(lambda stream: stream.key_by(first).process(Append()).uid("append")) as job:
        for number in range(20):
            assert job.send((kind, "x" * MIB)) == [(number + 1) * MIB]
        job.harness.lose_disk()
        assert job.send((kind, "x")) == [20 * MIB + 1]


def test_a_value_that_outgrows_a_message_is_refused_before_it_is_sent() -> None:
    """P28: the error names step, state, key, size and limit, and what was committed stays."""
    with Job(lambda stream: stream.key_by(first).process(Append()).uid("append")) as job:
        assert job.send(("one", "x" * 15 * MIB)) == [15 * MIB]
        job.sources[0].send(("one", "x" * 2 * MIB))
        with pytest.raises(
            JobError, match=r"state 'append/one': .* key 'one' takes 17,825,\d+ bytes, more than the 16,711,680"
        ):
            job.given()
        assert len(job.harness.state("append", "one", "one")) == 15 * MIB
