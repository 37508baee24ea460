"""Two topics that one step reads as they are, over a real cluster: what must fit, and where each of them begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import Position, TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import (
    CoMapFunction,
    DataStreamUtils,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.layout import lay_out
from tests.unit.runtime.jobs import compiled, sink, source, user_and_amount
from tests.unit.runtime.scene import Scene
from tests.unit.runtime.test_query import Asked

Begin = KafkaOffsetsInitializer
OUT = TopicPartition("payments", 0)


class Balance(KeyedCoProcessFunction):
    """Tells of each record which side it came by, and keeps the sum of the first side without the second."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.balance.update((self.balance.value() or 0) + value[1])
        yield value

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.balance.update((self.balance.value() or 0) - value[1])
        yield value[0], -value[1]


class Signs(CoMapFunction):
    """The same, without state."""

    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value[0], -value[1]


def orders() -> KafkaSourceBuilder:
    return source("in")


def payments() -> KafkaSourceBuilder:
    return source("payments")


def both(
    first: KafkaSourceBuilder | None = None, second: KafkaSourceBuilder | None = None, *, stateful: bool = True
) -> Plan:
    """`user:amount` from the topics in (orders) and payments to topic out, payments with their sign changed."""
    env = StreamExecutionEnvironment.get_execution_environment()
    sides = [
        DataStreamUtils.reinterpret_as_keyed_stream(
            env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), name).uid(name).map(user_and_amount),
            lambda pair: pair[0],
        )
        for builder, name in ((first or orders(), "orders"), (second or payments(), "payments"))
    ]
    connected = sides[0].connect(sides[1])
    stream = connected.process(Balance()) if stateful else connected.map(Signs())
    stream.uid("both").sink_to(sink())
    plan = compiled(env)
    assert [stage.uid for stage in plan.stages] == ["both"]
    return plan


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(MemoryCluster(blocking=False))
    broker.create_topics([TopicSpec("in", 3), TopicSpec("payments", 3), TopicSpec("wide", 5), TopicSpec("out", 1)])
    return broker


class TestLayout:
    @pytest.mark.parametrize("stateful", [True, False])
    def test_a_task_reads_the_same_partition_of_both(self, broker: MemoryBroker, stateful: bool) -> None:
        stage = lay_out(both(stateful=stateful), broker).stage("both")
        assert stage.inputs == tuple((("in", number), ("payments", number)) for number in range(3))
        assert (stage.topics, stage.group, stage.upstream) == (("in", "payments"), "app-both", ())
        assert (stage.changelog is not None) is stateful
        if stage.changelog is not None:
            assert stage.changelog.partitions == 3

    def test_no_topics_of_the_jobs_own_but_for_its_state(self, broker: MemoryBroker) -> None:
        lay_out(both(), broker)
        assert set(broker.topics_matching("app-.*")) == {"app-both-changelog"}

    @pytest.mark.parametrize(
        ("stateful", "what"),
        [(True, "keeps state by the partitions"), (False, "reads the same partitions")],
    )
    @pytest.mark.parametrize("side", [0, 1])
    def test_unequal_partition_counts_are_refused(
        self, broker: MemoryBroker, stateful: bool, what: str, side: int
    ) -> None:
        """P46: records of one key would lie in partitions of different numbers."""
        plan = both(source("wide"), stateful=stateful) if side == 0 else both(None, source("wide"), stateful=stateful)
        counts = "wide: 5, payments: 3" if side == 0 else "in: 3, wide: 5"
        with pytest.raises(
            JobError, match=rf"stage 'both' {what} of its input topics, which must be equally many \({counts}\)"
        ):
            lay_out(plan, broker)
        assert broker.topics_matching("app-.*") == {}

    def test_so_are_those_of_several_topics_of_one_side(self, broker: MemoryBroker) -> None:
        with pytest.raises(JobError, match=r"\(in: 3, payments: 3, wide: 5\)"):
            lay_out(both(None, source("payments", "wide"), stateful=False), broker)

    @pytest.mark.parametrize(
        ("plan", "told"),
        [
            (lambda: both(source("nowhere")), "source 'orders': topic 'nowhere' does not exist"),
            (lambda: both(None, source("nowhere")), "source 'payments': topic 'nowhere' does not exist"),
            (lambda: both(None, source("payments", "gone")), "source 'payments': topic 'gone' does not exist"),
        ],
    )
    def test_a_missing_topic_names_its_source(self, broker: MemoryBroker, plan: Any, told: str) -> None:
        with pytest.raises(JobError, match=told):
            lay_out(plan(), broker)

    def test_topics_that_have_grown_are_refused(self, broker: MemoryBroker) -> None:
        """P46: keys would silently move away from their state."""
        lay_out(both(), broker)
        broker.delete_topics(["in", "payments"])
        broker.create_topics([TopicSpec("in", 4), TopicSpec("payments", 4)])
        with pytest.raises(JobError, match=r"'app-both-changelog' has 3 partitions, but the job needs 4"):
            lay_out(both(), broker)


def balances(way: str) -> Plan:
    """As `both`, with all records sent to one key group by key, or with one source used once more, or as they lie."""
    env = StreamExecutionEnvironment.get_execution_environment()
    sides = []
    for builder, name in ((orders(), "orders"), (payments(), "payments")):
        stream = env.from_source(builder.build(), WatermarkStrategy.no_watermarks(), name).uid(name)
        pairs = stream.map(user_and_amount)
        if way == "used twice" and name == "orders":
            pairs.print()
        by_key = pairs.key_by if way == "by key" else partial(DataStreamUtils.reinterpret_as_keyed_stream, pairs)
        sides.append(by_key(lambda pair: pair[0]))
    sides[0].connect(sides[1]).process(Balance()).uid("both").sink_to(sink())
    return compiled(env, key_groups=1)


@pytest.mark.parametrize(
    ("first", "then"),
    [("as it lies", "used twice"), ("used twice", "as it lies"), ("as it lies", "by key"), ("by key", "as it lies")],
)
def test_state_of_topics_as_they_lie_does_not_go_on_with_records_sent_by_key(
    scene: Scene, first: str, then: str
) -> None:
    """Nor the other way round: all of the input would be counted twice."""
    scene.plan = balances(first)
    worker = scene.start()
    scene.turns(8)
    assert told(scene) == [-4, -3, 1, 2]
    worker.stop()
    scene.plan = balances(then)
    scene.start()
    with pytest.raises(JobError, match=r"the state of task both/0 was made of .*, and the job reads .* twice"):
        scene.turns(8)
    assert told(scene) == [-4, -3, 1, 2]


def feed(scene: Scene, topic: str, *amounts: int) -> None:
    scene.feed([(None, f"u:{amount}", 0) for amount in amounts], topic)


def told(scene: Scene) -> list[int]:
    return sorted(int(text) for text in scene.by_key().get("u", []))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """One partition of each; orders 1 and 2, then payments 3 and 4."""
    with Scene(both(), tmp_path, partitions=1) as scene:
        scene.create("payments", 1)
        feed(scene, "in", 1, 2)
        feed(scene, "payments", 3, 4)
        yield scene


def run(scene: Scene, plan: Plan) -> list[int]:
    scene.plan = plan
    scene.start()
    scene.turns(5)
    return told(scene)


@pytest.mark.parametrize("stateful", [True, False])
class TestStart:
    def test_from_the_beginning(self, scene: Scene, stateful: bool) -> None:
        assert run(scene, both(stateful=stateful)) == [-4, -3, 1, 2]
        assert scene.offsets("both") == {TopicPartition("in", 0): 2, OUT: 2}

    def test_each_by_its_own_initializer(self, scene: Scene, stateful: bool) -> None:
        latest = payments().set_starting_offsets(Begin.latest())
        assert run(scene, both(None, latest, stateful=stateful)) == [1, 2]
        feed(scene, "payments", 5)
        scene.turns(3)
        assert told(scene) == [-5, 1, 2]

    def test_given_offsets(self, scene: Scene, stateful: bool) -> None:
        first = orders().set_starting_offsets(Begin.offsets({KafkaTopicPartition("in", 0): 1}))
        second = payments().set_starting_offsets(Begin.offsets({KafkaTopicPartition("payments", 0): 1}))
        assert run(scene, both(first, second, stateful=stateful)) == [-4, 2]

    @pytest.mark.parametrize("reset", [KafkaOffsetResetStrategy.EARLIEST, KafkaOffsetResetStrategy.LATEST])
    def test_committed_by_a_group_of_each(self, scene: Scene, stateful: bool, reset: KafkaOffsetResetStrategy) -> None:
        """The first one's group has an offset on its topic, the second one's has none."""
        first = orders().set_group_id("ours").set_starting_offsets(Begin.committed_offsets(reset))
        second = payments().set_group_id("theirs").set_starting_offsets(Begin.committed_offsets(reset))
        scene.cluster.group("ours").offsets[TopicPartition("in", 0)] = Position(1)
        scene.cluster.group("ours").offsets[OUT] = Position(1)
        expected = [-4, -3, 2] if reset is KafkaOffsetResetStrategy.EARLIEST else [2]
        assert run(scene, both(first, second, stateful=stateful)) == expected

    @pytest.mark.parametrize(
        ("side", "told"),
        [
            (0, r"source 'orders': group 'theirs' has no offset for in-0, .*EARLIEST or LATEST"),
            (1, r"source 'payments': group 'theirs' has no offset for payments-0, .*EARLIEST or LATEST"),
        ],
    )
    def test_committed_by_nobody_names_the_source(self, scene: Scene, stateful: bool, side: int, told: str) -> None:
        builders = [orders(), payments()]
        builders[side].set_group_id("theirs").set_starting_offsets(Begin.committed_offsets())
        with pytest.raises(JobError, match=told):
            run(scene, both(*builders, stateful=stateful))

    def test_so_do_offsets_that_are_not_given(self, scene: Scene, stateful: bool) -> None:
        given = Begin.offsets({KafkaTopicPartition("in", 0): 1}, KafkaOffsetResetStrategy.NONE)
        second = payments().set_starting_offsets(given)
        with pytest.raises(JobError, match=r"source 'payments': .*offsets names no offset for payments-0"):
            run(scene, both(None, second, stateful=stateful))

    def test_where_it_was_after_a_crash(self, scene: Scene, stateful: bool) -> None:
        plan = both(stateful=stateful)
        run(scene, plan)
        scene.workers["w0"].crash()
        feed(scene, "payments", 5)
        assert run(scene, plan) == [-5, -4, -3, 1, 2]

    def test_a_record_that_cannot_be_decoded_names_its_source_and_place(self, scene: Scene, stateful: bool) -> None:
        scene.feed([(None, b"\xff", 0)], "payments")
        with pytest.raises(RecordError, match=r"payments \(decode\)") as caught:
            run(scene, both(stateful=stateful))
        assert "at topic 'payments', partition 0, offset 2" in caught.value.__notes__

    def test_a_step_that_fails_behind_one_source(self, scene: Scene, stateful: bool) -> None:
        feed(scene, "payments", 5)
        scene.feed([(None, "u:many", 0)], "payments")
        with pytest.raises(RecordError, match=r"ValueError") as caught:
            run(scene, both(stateful=stateful))
        assert "at topic 'payments', partition 0, offset 3" in caught.value.__notes__
        assert "in task both/0; nothing of this record was committed" in caught.value.__notes__


@pytest.mark.parametrize("stateful", [True, False])
class TestEnd:
    def test_where_each_was_to_end(self, scene: Scene, stateful: bool) -> None:
        first = orders().set_bounded(Begin.offsets({KafkaTopicPartition("in", 0): 1}))
        second = payments().set_bounded(Begin.latest())
        scene.plan = both(first, second, stateful=stateful)
        worker = scene.start()
        scene.until(lambda: worker.ended, worker)
        assert told(scene) == [-4, -3, 1]

    def test_the_ends_are_those_of_the_first_start(self, scene: Scene, stateful: bool) -> None:
        scene.plan = both(
            orders().set_bounded(Begin.latest()), payments().set_bounded(Begin.latest()), stateful=stateful
        )
        worker = scene.start()
        scene.turns(1)
        worker.crash()
        feed(scene, "in", 7)
        feed(scene, "payments", 8)
        worker.start()
        scene.until(lambda: worker.ended, worker)
        assert told(scene) == [-4, -3, 1, 2]

    @pytest.mark.parametrize("committed", [False, True])
    def test_a_marker_is_the_last_thing_of_one(self, scene: Scene, stateful: bool, committed: bool) -> None:
        """The last offset before its end is one that no record has."""
        writer = scene.broker.producer("writer")
        writer.begin()
        writer.produce("payments", b"u:5", None, 0, None, None, 0)
        writer.flush()
        writer.commit([]) if committed else writer.abort()
        scene.plan = both(
            orders().set_bounded(Begin.latest()), payments().set_bounded(Begin.latest()), stateful=stateful
        )
        worker = scene.start()
        scene.until(lambda: worker.ended, worker)
        assert told(scene) == ([-5] if committed else []) + [-4, -3, 1, 2]

    def test_one_that_ends_beside_one_that_does_not(self, scene: Scene, stateful: bool) -> None:
        assert run(scene, both(None, payments().set_bounded(Begin.latest()), stateful=stateful)) == [-4, -3, 1, 2]
        feed(scene, "payments", 5)
        feed(scene, "in", 6)
        scene.turns(4)
        assert told(scene) == [-4, -3, 1, 2, 6]
        assert not scene.workers["w0"].ended
        scene.workers["w0"].crash()
        feed(scene, "in", 7)
        scene.workers["w0"].start()
        scene.turns(4)
        assert told(scene) == [-4, -3, 1, 2, 6, 7]

    def test_behind_its_end_one_is_not_read_on(self, scene: Scene, stateful: bool) -> None:
        run(scene, both(None, payments().set_bounded(Begin.latest()), stateful=stateful))
        driver = scene.workers["w0"].driver
        assert driver is not None
        consumer = driver.assignments[0].consumer
        for _ in range(3):
            feed(scene, "payments", 5)
            feed(scene, "in", 6)
            scene.turns(2)
        assert consumer.positions([TopicPartition("in", 0), OUT]) == {TopicPartition("in", 0): 5, OUT: 3}


class TestState:
    """Asked from outside: no worker knows beforehand in which task a key lies."""

    USERS = [f"user-{number}" for number in range(10)]

    @pytest.fixture
    def asked(self, tmp_path: Path) -> Iterator[Asked]:
        with Scene(both(), tmp_path, partitions=3) as scene:
            scene.create("payments", 3)
            asked = Asked(scene)
            worker = asked.start("w0")
            for number, user in enumerate(self.USERS):
                scene.feed([(None, f"{user}:{number + 100}", number % 3)], "in")
                scene.feed([(None, f"{user}:100", number % 3)], "payments")
            scene.until(lambda: sum(task.records_in for task in worker.tasks.values()) == 20)
            scene.turns(2)
            yield asked
            asked.pool.shutdown(wait=False, cancel_futures=True)

    @pytest.mark.parametrize("live", ["", "live=true"])
    def test_of_a_key(self, asked: Asked, live: str) -> None:
        for number, user in enumerate(self.USERS):
            status, said = asked.get(f"/both/balance/{user}", live)
            assert (status, said["value"], said["task"]) == (200, number, number % 3)
        assert asked.get("/both/balance/nobody")[0] == 404

    def test_of_all_keys(self, asked: Asked) -> None:
        status, said = asked.get("/both/balance")
        assert status == 200
        assert [(row["key"], row["value"], row["task"]) for row in said["rows"]] == [
            (user, number, number % 3) for number, user in enumerate(self.USERS)
        ]
