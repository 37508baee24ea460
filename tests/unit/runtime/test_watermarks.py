"""Event time through whole jobs in memory: partitions that are idle or were never written, over shuffles, restarts and
crashes; watermarks for single records; a guard against bad clocks; sources that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import TopicPartition
from kstreampy.common import WatermarkStrategy
from kstreampy.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.errors import RecordError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.settings import Settings
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from tests.unit.runtime.jobs import compiled, sink, source
from tests.unit.runtime.scene import Scene, Worker

ASCENDING = WatermarkStrategy.for_monotonous_timestamps()
MINUTE = 60_000


def time_of(text: str, _: int) -> int:
    return int(text.split(":")[1])


class Tell(KeyedProcessFunction):
    """Each record with the watermark it met, and whether it was late for it."""

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        watermark = ctx.timer_service().current_watermark()
        yield value[0], f"{value[1]} at {watermark}{' late' if ctx.timestamp() <= watermark else ''}"


def pair(text: str) -> tuple[str, int]:
    key, stamp = text.split(":")
    return key, int(stamp)


def telling(strategy: WatermarkStrategy, *, reassigned: WatermarkStrategy | None = None, **names: Any) -> Plan:
    """`key:timestamp` from topic in, through a stage by key, to topic out. `reassigned`: another strategy in mid-stream."""
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(source().build(), strategy.with_timestamp_assigner(time_of), "numbers").uid("numbers")
    pairs = numbers.map(pair)
    if reassigned is not None:
        pairs = pairs.assign_timestamps_and_watermarks(reassigned).uid("again")
    pairs.key_by(lambda p: p[0]).process(Tell()).uid("total").sink_to(sink())
    return compiled(env, **names)


class Stage(Scene):
    """A scene with settings of its own."""

    def __init__(self, *args: Any, changed: dict[str, Any] | None = None, **more: Any) -> None:
        self.changed = changed or {}
        super().__init__(*args, **more)

    def settings(self, worker: str) -> Settings:
        return Settings(**{**super().settings(worker).model_dump(), **self.changed})


Make = Callable[..., Stage]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Make]:
    made: list[Stage] = []

    def make(plan: Plan, **more: Any) -> Stage:
        made.append(Stage(plan, tmp_path / str(len(made)), **more).__enter__())
        return made[-1]

    yield make
    for one in made:
        one.__exit__()


def feed(scene: Scene, partition: int, *records: str, topic: str = "in") -> None:
    scene.feed([(None, record, partition) for record in records], topic)


def watermarks(worker: Worker, uid: str = "total") -> set[int]:
    """Of all tasks of a stage."""
    return {task.context.watermark for name, task in worker.tasks.items() if name.rpartition("/")[0] == uid}


def told(scene: Scene) -> list[str]:
    return [f"{key}:{text}" for key, texts in sorted(scene.by_key().items()) for text in texts]


def settle(scene: Scene, worker: Worker, turns: int = 12) -> None:
    """Enough turns for a watermark to come through both stages, with nothing new to read."""
    scene.turns(turns, worker)


def test_the_slowest_partition_holds_all_key_groups_back(stage: Make) -> None:
    scene = stage(telling(ASCENDING))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    feed(scene, 1, "b:500")
    settle(scene, worker)
    assert watermarks(worker) == {499}, "also of the groups that no record came to"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("written", [True, False], ids=["idle", "never written"])
def test_a_silent_partition_stops_holding_after_the_timeout(stage: Make, written: bool, guarantee: str) -> None:
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)), guarantee=guarantee)
    worker = scene.start()
    feed(scene, 0, "a:1000")
    if written:
        feed(scene, 1, "b:500")
    settle(scene, worker)
    assert watermarks(worker) == {499 if written else NO_TIMESTAMP}
    scene.now_ms += MINUTE // 2
    feed(scene, 0, "a:2000")
    settle(scene, worker)
    assert watermarks(worker) == {499 if written else NO_TIMESTAMP}
    scene.now_ms += MINUTE // 2
    settle(scene, worker)
    assert watermarks(worker) == {1999}


def test_without_idleness_a_silent_partition_holds_for_ever(stage: Make) -> None:
    """As in Flink."""
    scene = stage(telling(ASCENDING))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    scene.now_ms += 1000 * MINUTE
    settle(scene, worker)
    assert watermarks(worker) == {NO_TIMESTAMP}


def test_the_setting_makes_all_sources_idle_after_a_while(stage: Make) -> None:
    scene = stage(telling(ASCENDING), changed={"idle_timeout_ms": MINUTE})
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    scene.now_ms += MINUTE - 1
    feed(scene, 0, "a:1001")
    settle(scene, worker)
    scene.now_ms += 1
    settle(scene, worker)
    assert watermarks(worker) == {1000}


def test_data_on_one_of_three_partitions_then_silence_then_it_returns(stage: Make) -> None:
    """P40: time goes on by the one, and what returns is not late because of having been away, nor makes others late."""
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)), partitions=3)
    worker = scene.start()
    feed(scene, 1, "a:1000")
    settle(scene, worker)
    scene.now_ms += MINUTE
    settle(scene, worker)
    assert watermarks(worker) == {999}
    assert all(task.idle for task in worker.tasks.values()), "nothing comes from anywhere"
    feed(scene, 2, "b:1500")
    feed(scene, 1, "a:9000")
    settle(scene, worker)
    assert watermarks(worker) == {1499}
    feed(scene, 2, "b:1600")
    settle(scene, worker)
    assert not any("late" in line for line in told(scene))
    assert not any(worker.tasks[f"total/{n}"].idle for n in range(3))


def test_idle_only_when_caught_up(stage: Make) -> None:
    """A partition whose records were not read yet is slow, not idle."""
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    numbers = next(a for a in worker.driver.assignments if a.uid == "numbers")  # type: ignore[union-attr]
    numbers.consumer.pause([TopicPartition("in", 1)])
    feed(scene, 1, "b:500")
    scene.now_ms += MINUTE
    settle(scene, worker)
    assert not worker.tasks["numbers/1"].idle
    numbers.consumer.resume([TopicPartition("in", 1)])
    settle(scene, worker)
    assert watermarks(worker) == {499}


def test_not_idle_while_no_broker_answers(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is silent then, and the partition that is read first afterwards must not run ahead of the others."""
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)))
    worker = scene.start()
    settle(scene, worker)
    broker = worker.resources.broker
    monkeypatch.setattr(broker, "unavailable_since", lambda: scene.monotonic(), raising=False)
    scene.now_ms += 10 * MINUTE
    settle(scene, worker)
    assert not worker.tasks["numbers/1"].idle
    monkeypatch.undo()
    scene.now_ms += MINUTE - 1
    settle(scene, worker)
    assert not worker.tasks["numbers/1"].idle
    scene.now_ms += 1
    settle(scene, worker)
    assert worker.tasks["numbers/1"].idle


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_restart_never_goes_back(stage: Make, how: str) -> None:
    """The generators begin anew; the task does not, and what is late for what it had is late."""
    scene = stage(telling(ASCENDING))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    feed(scene, 1, "a:900")
    settle(scene, worker)
    assert watermarks(worker) == {899}
    getattr(worker, how)()
    scene.time_out_dead()
    feed(scene, 0, "a:800")
    feed(scene, 1, "a:850")
    worker.start()
    settle(scene, worker)
    assert watermarks(worker) == {899}
    assert watermarks(worker, "numbers") == {999, 899}
    assert [line for line in told(scene) if line.startswith(("a:800", "a:850"))] == [
        "a:800 at 899 late",
        "a:850 at 899 late",
    ]
    feed(scene, 0, "a:2000")
    feed(scene, 1, "a:2000")
    settle(scene, worker)
    assert watermarks(worker) == {1999}


@pytest.mark.parametrize("seed", range(6))
def test_crashes_at_any_moment_never_make_it_go_back(stage: Make, seed: int) -> None:
    import random

    chance = random.Random(seed)
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)))
    worker = scene.start()
    furthest: dict[str, int] = {}
    stamps = [0, 0]
    for _ in range(60):
        action = chance.random()
        if action < 0.5:
            partition = chance.randrange(2)
            stamps[partition] += chance.randrange(1000)
            feed(scene, partition, f"k{chance.randrange(5)}:{stamps[partition]}")
        elif action < 0.7:
            scene.now_ms += MINUTE // 2
        elif action < 0.8:
            worker.crash()
            scene.time_out_dead()
            worker.start()
        committed = chance.random() < 0.7
        scene.turns(chance.randrange(1, 4), worker, commit=committed)
        if committed:
            for name, task in worker.tasks.items():
                if not task.changed:
                    assert task.context.watermark >= furthest.get(name, NO_TIMESTAMP), name
                    furthest[name] = task.context.watermark
    settle(scene, worker)
    scene.now_ms += MINUTE
    settle(scene, worker)
    assert watermarks(worker) == {max(stamps) - 1}


def test_who_was_idle_is_idle_after_a_restart_of_those_downstream(stage: Make) -> None:
    """Idle senders say so once; a stage that begins anew must know it, whether it keeps state or not."""
    scene = stage(telling(ASCENDING.with_idleness(MINUTE)))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    scene.now_ms += MINUTE // 2
    feed(scene, 0, "a:2000")
    settle(scene, worker)
    scene.now_ms += MINUTE // 2
    settle(scene, worker)
    assert watermarks(worker) == {1999}
    task = worker.tasks["total/0"]
    assert task.progress.idle_senders == {"numbers/1"}
    worker.stop()
    scene.time_out_dead()
    worker.start()
    settle(scene, worker)
    assert worker.tasks["total/0"].progress.idle_senders == {"numbers/1"}
    assert worker.tasks["total/0"].progress.sender_watermarks["numbers/0"] == 1999
    feed(scene, 0, "a:3000")
    settle(scene, worker)
    assert watermarks(worker) == {2999}, "although numbers/1 has not spoken since"


# Watermarks for single records


class Punctuated(WatermarkGenerator):
    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp % 10 == 0:
            output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


@pytest.mark.parametrize("interval", [200, 0])
def test_a_punctuated_watermark_moves_with_its_batch(stage: Make, interval: int) -> None:
    scene = stage(
        telling(WatermarkStrategy.for_generator(Punctuated)), partitions=1, changed={"watermark_interval_ms": interval}
    )
    worker = scene.start()
    feed(scene, 0, "a:10")
    for _ in range(10):
        worker.driver.last_tick = float("inf")  # type: ignore[union-attr]  # no interval passes
        worker.driver.in_memory = False  # type: ignore[union-attr]
        worker.turn()
        if worker.tasks and watermarks(worker, "numbers") == {10}:
            break
    assert watermarks(worker, "numbers") == {10}
    worker.driver.in_memory = True  # type: ignore[union-attr]
    settle(scene, worker)
    assert watermarks(worker) == {10}


def test_periodic_watermarks_switched_off(stage: Make) -> None:
    """`pipeline.auto-watermark-interval: 0`."""
    scene = stage(telling(ASCENDING), partitions=1, changed={"watermark_interval_ms": 0})
    worker = scene.start()
    feed(scene, 0, "a:10")
    settle(scene, worker)
    assert watermarks(worker) == {NO_TIMESTAMP}
    assert told(scene) == [f"a:10 at {NO_TIMESTAMP}"], "what is packed goes on all the same"


# In mid-stream


def by_value(value: tuple[str, int], _: int) -> int:
    return value[1] + 5


def test_a_strategy_in_mid_stream_replaces_time(stage: Make) -> None:
    scene = stage(telling(WatermarkStrategy.no_watermarks(), reassigned=ASCENDING.with_timestamp_assigner(by_value)))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    feed(scene, 1, "b:500")
    settle(scene, worker)
    assert watermarks(worker) == {504}
    assert watermarks(worker, "numbers") == {NO_TIMESTAMP}, "the tasks' own"


def test_in_mid_stream_idleness_is_its_own(stage: Make) -> None:
    """Upstream never is idle, the step is; and the other way round."""
    scene = stage(telling(ASCENDING, reassigned=ASCENDING.with_idleness(MINUTE)))
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    scene.now_ms += MINUTE // 2
    feed(scene, 0, "a:2000")
    settle(scene, worker)
    scene.now_ms += MINUTE // 2
    settle(scene, worker)
    assert watermarks(worker) == {1999}

    other = stage(telling(ASCENDING.with_idleness(MINUTE), reassigned=ASCENDING, application_id="other"))
    worker = other.start()
    feed(other, 0, "a:1000")
    settle(other, worker)
    other.now_ms += 2 * MINUTE
    settle(other, worker)
    assert worker.tasks["numbers/1"].idle
    assert watermarks(worker) == {NO_TIMESTAMP}


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_in_mid_stream_a_restart_never_goes_back_either(stage: Make, how: str) -> None:
    scene = stage(telling(WatermarkStrategy.no_watermarks(), reassigned=ASCENDING), partitions=1)
    worker = scene.start()
    feed(scene, 0, "a:1000")
    settle(scene, worker)
    assert worker.tasks["numbers/0"].progress.step_watermarks == {"again": 999}
    getattr(worker, how)()
    scene.time_out_dead()
    worker.start()
    feed(scene, 0, "a:10")
    settle(scene, worker)
    assert worker.tasks["numbers/0"].context.step_watermarks == {"again": 999}
    feed(scene, 0, "a:3000")
    settle(scene, worker)
    assert watermarks(worker) == {2999}


# Timestamps in the future


def in_a_year(scene: Scene) -> int:
    return scene.now_ms + 365 * 24 * 60 * MINUTE


def guarded(stage: Make, policy: str) -> tuple[Stage, Worker]:
    changed = {"max_future_ms": 60 * MINUTE, "max_future_policy": policy}
    scene = stage(telling(ASCENDING), partitions=1, changed=changed)
    return scene, scene.start()


@pytest.mark.parametrize("policy", ["drop_from_watermark", "clamp"])
def test_a_bad_clock_does_not_make_everything_late(stage: Make, policy: str) -> None:
    """P41."""
    scene, worker = guarded(stage, policy)
    now, far = scene.now_ms, in_a_year(scene)
    feed(scene, 0, f"a:{now}", f"a:{far}", f"a:{now + 60 * MINUTE + 1}")
    settle(scene, worker)
    limit = now + 60 * MINUTE
    assert watermarks(worker) == {now - 1 if policy == "drop_from_watermark" else limit - 1}
    assert len(told(scene)) == 3
    worker.driver._look(0)  # type: ignore[union-attr]
    counted = 'kstreampy_records_future_total{policy="%s",stage="numbers"}' % policy  # noqa: UP031
    assert worker.metrics.values()[counted] == 2


def test_a_bad_clock_may_be_an_error(stage: Make) -> None:
    scene, worker = guarded(stage, "fail")
    feed(scene, 0, f"a:{scene.now_ms}", f"a:{in_a_year(scene)}")
    with pytest.raises(RecordError, match=r"lies .* ms in the future") as caught:
        settle(scene, worker)
    assert "at topic 'in', partition 0, offset 1" in caught.value.__notes__


def test_any_timestamp_is_fine_by_default(stage: Make) -> None:
    scene = stage(telling(ASCENDING), partitions=1)
    worker = scene.start()
    far = in_a_year(scene)
    feed(scene, 0, f"a:{far}")
    settle(scene, worker)
    assert watermarks(worker) == {far - 1}


# Alignment


def aligned(drift_ms: int, *, idleness: bool = False) -> Plan:
    """Topics in and other, in one group, each to its own stage by key."""
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = ASCENDING.with_timestamp_assigner(time_of).with_watermark_alignment("g", drift_ms, 1_000)
    if idleness:
        strategy = strategy.with_idleness(MINUTE)
    for topic in ("in", "other"):
        stream = env.from_source(source(topic).build(), strategy, topic).uid(topic)
        stream.map(pair).key_by(lambda p: p[0]).process(Tell()).uid(f"total-{topic}").sink_to(sink(f"out-{topic}"))
    return compiled(env)


@pytest.fixture
def two(stage: Make) -> Callable[..., tuple[Stage, Worker]]:
    def make(**more: Any) -> tuple[Stage, Worker]:
        scene = stage(aligned(100, **more), partitions=1)
        scene.create("other", 1)
        scene.create("out-in", 1)
        scene.create("out-other", 1)
        return scene, scene.start()

    return make


def steps(scene: Scene, worker: Worker, count: int = 10) -> None:
    """An update interval passes with each few turns."""
    for _ in range(count):
        scene.now_ms += 1_000
        scene.turns(3, worker)


def held(worker: Worker) -> set[str]:
    return {name for name, task in worker.tasks.items() if task.intake.held}


def read(scene: Scene, topic: str) -> int:
    return len(scene.messages(f"out-{topic}"))


def test_a_source_that_is_ahead_waits_for_the_other(two: Callable[..., tuple[Stage, Worker]]) -> None:
    scene, worker = two()
    feed(scene, 0, "a:0")
    feed(scene, 0, "b:0", topic="other")
    steps(scene, worker)
    assert held(worker) == set()
    feed(scene, 0, "a:1000")
    steps(scene, worker)
    assert held(worker) == {"in/0"}
    feed(scene, 0, *[f"a:{stamp}" for stamp in range(1001, 1050)])
    steps(scene, worker)
    assert read(scene, "in") == 2, "no further than it was"
    feed(scene, 0, "b:850", topic="other")
    steps(scene, worker)
    assert read(scene, "other") == 2
    assert held(worker) == {"in/0"}
    feed(scene, 0, "b:900", topic="other")
    steps(scene, worker)
    assert read(scene, "in") == 51, "100 ms ahead at most: it goes on, and nothing is lost or doubled"
    assert watermarks(worker, "total-in") == {1048}


def test_an_idle_source_is_not_waited_for_nor_one_that_waits_idle(two: Callable[..., tuple[Stage, Worker]]) -> None:
    scene, worker = two(idleness=True)
    feed(scene, 0, "a:1000")
    feed(scene, 0, "b:0", topic="other")
    steps(scene, worker)
    assert held(worker) == {"in/0"}
    feed(scene, 0, "a:2000")
    for _ in range(3):
        scene.now_ms += MINUTE // 2
        feed(scene, 0, "b:1", topic="other")
        steps(scene, worker, 1)
    assert held(worker) == {"in/0"}
    assert not worker.tasks["in/0"].idle
    scene.now_ms += MINUTE
    steps(scene, worker)
    assert worker.tasks["other/0"].idle
    assert held(worker) == set()
    assert read(scene, "in") == 2


def test_a_held_partition_is_read_after_it_was_taken_over(two: Callable[..., tuple[Stage, Worker]]) -> None:
    scene, worker = two()
    feed(scene, 0, "a:1000")
    feed(scene, 0, "b:0", topic="other")
    steps(scene, worker)
    assert held(worker) == {"in/0"}
    worker.stop()
    scene.time_out_dead()
    worker.start()
    feed(scene, 0, "a:1001")
    feed(scene, 0, "b:990", topic="other")
    steps(scene, worker)
    assert (read(scene, "in"), read(scene, "other")) == (2, 2)


def test_the_end_of_a_source_is_not_waited_for(stage: Make) -> None:
    """A bounded partition at its end holds nothing back, in time or in reading."""
    from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer

    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = ASCENDING.with_timestamp_assigner(time_of).with_watermark_alignment("g", 100, 1_000)
    bounded = source("in").set_bounded(KafkaOffsetsInitializer.latest()).build()
    stream = env.from_source(bounded, strategy, "in").uid("in").map(pair)
    stream.key_by(lambda p: p[0]).process(Tell()).uid("total").sink_to(sink())
    scene = stage(compiled(env))
    feed(scene, 0, "a:0")
    feed(scene, 1, *[f"b:{1000 * n}" for n in range(5)])
    worker = scene.start()

    def done() -> bool:
        scene.now_ms += 1_000
        return worker.ended

    scene.until(done)
    assert len(told(scene)) == 6
    assert watermarks(worker) == {MAX_WATERMARK}


def test_records_dropped_for_being_late_are_counted(stage: Make) -> None:
    scene = stage(telling(ASCENDING))
    worker = scene.start()
    settle(scene, worker)
    worker.tasks["total/1"].context.late_dropped += 3
    worker.driver._look(0)  # type: ignore[union-attr]
    worker.tasks["total/0"].context.late_dropped += 2
    worker.driver._look(0)  # type: ignore[union-attr]
    assert worker.metrics.values()['kstreampy_records_late_dropped_total{stage="total"}'] == 5
    assert worker.metrics.values()['kstreampy_task_idle{partition="0",stage="total"}'] == 0
    worker.tasks["total/0"].context.late_dropped += 4
    worker.stop()
    assert worker.metrics.values()['kstreampy_records_late_dropped_total{stage="total"}'] == 9, "a short job's too"


def test_a_bad_clock_is_told_once_a_minute(stage: Make, caplog: pytest.LogCaptureFixture) -> None:
    scene, worker = guarded(stage, "drop_from_watermark")
    for _ in range(3):
        feed(scene, 0, f"a:{in_a_year(scene)}")
        settle(scene, worker)
        worker.driver._look(0)  # type: ignore[union-attr]
    said = [message for message in caplog.messages if "max_future_ms" in message]
    assert len(said) == 1
    assert f"the latest {in_a_year(scene)}" in said[0]
    assert worker.metrics.values()['kstreampy_records_future_total{policy="drop_from_watermark",stage="numbers"}'] == 3
