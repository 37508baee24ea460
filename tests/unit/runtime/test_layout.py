"""The plan over a real cluster: topics missing, wrong, grown, orphaned, foreign, refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kstreampy.broker.broker import TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.errors import BrokerRefused, JobError
from kstreampy.runtime.layout import lay_out
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import TaskMeta
from tests.unit.runtime.jobs import compiled, passing, sink, source, totals
from tests.unit.runtime.parts import Parts
from tests.unit.runtime.scene import Scene


@pytest.fixture
def broker() -> MemoryBroker:
    broker = MemoryBroker(MemoryCluster(blocking=False))
    broker.create_topics([TopicSpec("in", 2), TopicSpec("out", 2), TopicSpec("wide", 5)])
    return broker


def written(broker: MemoryBroker, topic: str, application_id: str, *, behind: int = 0) -> None:
    """A changelog with a meta record of that application and so many records behind it."""
    if topic not in broker.topics([topic]):
        broker.create_topics([TopicSpec(topic, 2, {"cleanup.policy": "compact"})])
    producer = broker.producer()
    producer.produce(topic, TaskMeta(1, application_id).encode(), META_KEY, 1, None, None, 0)
    for number in range(behind):
        producer.serve()
        producer.produce(topic, b"1", b"total\0%d" % number, 1, None, None, 0)
    producer.flush()


class TestTopics:
    def test_made_once_with_the_right_settings(self, broker: MemoryBroker) -> None:
        layout = lay_out(totals(), broker)
        made = broker.topics(["app-total-repartition", "app-total-changelog"])
        assert {name: info.partitions for name, info in made.items()} == {
            "app-total-repartition": 3,
            "app-total-changelog": 3,
        }
        configs = broker.topic_configs(made)
        assert configs["app-total-changelog"]["cleanup.policy"] == "compact"
        assert configs["app-total-repartition"]["cleanup.policy"] == "delete"
        assert configs["app-total-repartition"]["retention.ms"] == "-1"
        again = lay_out(totals(), broker)
        assert again.stage("total").changelog == layout.stage("total").changelog

    def test_a_missing_source_topic(self, broker: MemoryBroker) -> None:
        with pytest.raises(JobError, match=r"source 'numbers': topic 'orders', 'sales' does not exist: create it"):
            lay_out(totals(built=source("orders", "in", "sales")), broker)
        assert broker.topics(["app-total-changelog"]) == {}

    def test_a_missing_sink_topic(self, broker: MemoryBroker) -> None:
        broker.delete_topics(["out"])
        with pytest.raises(JobError, match=r"sink '.*': topic 'out' does not exist: create it"):
            lay_out(totals(), broker)

    def test_a_pattern_that_matches_nothing(self, broker: MemoryBroker) -> None:
        built = source().set_topic_pattern("x.*")
        with pytest.raises(JobError, match=r"topic"):
            lay_out(passing(built=built), broker)

    def test_wrong_partition_count(self, broker: MemoryBroker) -> None:
        broker.create_topics([TopicSpec("app-total-repartition", 7)])
        with pytest.raises(
            JobError, match=r"'app-total-repartition' has 7 partitions, but the job needs 3.*max_parallelism"
        ):
            lay_out(totals(), broker)

    def test_the_input_of_a_stage_with_state_has_grown(self, broker: MemoryBroker) -> None:
        """P46: keys would silently move away from their state."""
        lay_out(totals(in_place=True), broker)
        broker.delete_topics(["in"])
        broker.create_topics([TopicSpec("in", 4)])
        with pytest.raises(JobError, match=r"'app-total-changelog' has 2 partitions, but the job needs 4"):
            lay_out(totals(in_place=True), broker)

    def test_the_input_of_a_stage_without_state_has_grown(self, broker: MemoryBroker) -> None:
        """Key groups are the job's own, so that input counts do not matter."""
        lay_out(totals(), broker)
        broker.delete_topics(["in"])
        broker.create_topics([TopicSpec("in", 4)])
        assert lay_out(totals(), broker).stage("numbers").tasks == 4

    @pytest.mark.parametrize(
        ("topic", "policy", "loses"),
        [
            ("app-total-changelog", "delete", "state"),
            ("app-total-changelog", "compact,delete", "state"),
            ("app-total-repartition", "compact", "records"),
        ],
    )
    def test_wrong_cleanup_policy(self, broker: MemoryBroker, topic: str, policy: str, loses: str) -> None:
        """P50: also compact together with delete, which expires live keys."""
        broker.create_topics([TopicSpec(topic, 3, {"cleanup.policy": policy})])
        with pytest.raises(
            JobError, match=rf"'{topic}' has cleanup.policy={policy}, which would lose {loses}: set it to"
        ):
            lay_out(totals(), broker)

    def test_a_finite_retention_is_told(self, broker: MemoryBroker, caplog: pytest.LogCaptureFixture) -> None:
        """P49: unread records would be lost over a downtime."""
        broker.create_topics([TopicSpec("app-total-repartition", 3, {"retention.ms": "3600000"})])
        lay_out(totals(), broker)
        assert "app-total-repartition has retention.ms=3600000: what is not read for so long is lost" in caplog.text
        caplog.clear()
        broker.delete_topics(["app-total-repartition"])
        lay_out(totals(), broker)
        assert caplog.text == ""

    def test_too_few_replicas(self, broker: MemoryBroker) -> None:
        """P47: every write would be refused."""
        broker.create_topics(
            [TopicSpec("app-total-changelog", 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"})]
        )
        with pytest.raises(JobError, match=r"has 1 replicas, and its min.insync.replicas is 2"):
            lay_out(totals(), broker)

    def test_creation_is_refused(self, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        """P48: the error names the topics and the right that is missing."""

        def refuse(specs: Iterable[TopicSpec]) -> None:
            raise BrokerRefused("TOPIC_AUTHORIZATION_FAILED for principal User:job")

        monkeypatch.setattr(broker, "create_topics", refuse)
        with pytest.raises(
            BrokerRefused,
            match=r"app-total-repartition \(3 partitions\), app-total-changelog.*User:job.*Create on topics with prefix 'app-'",
        ):
            lay_out(totals(), broker)

    def test_nothing_is_created_that_is_there(self, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        """P48: topics made beforehand need no right to create."""
        lay_out(totals(), broker)

        def refuse(specs: Iterable[TopicSpec]) -> None:
            raise BrokerRefused("no")

        monkeypatch.setattr(broker, "create_topics", refuse)
        lay_out(totals(), broker)

    def test_topics_that_vanish(self, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(broker, "create_topics", lambda specs: None)
        with pytest.raises(JobError, match=r"was created but cannot be found"):
            lay_out(totals(), broker)


class TestInputs:
    def test_state_by_input_partitions_needs_equal_counts(self, broker: MemoryBroker) -> None:
        with pytest.raises(JobError, match=r"must be equally many \(in: 2, wide: 5\): use key_by"):
            lay_out(totals(in_place=True, built=source("in", "wide")), broker)

    def test_state_by_input_partitions_pairs_them(self, broker: MemoryBroker) -> None:
        broker.create_topics([TopicSpec("more", 2)])
        stage = lay_out(totals(in_place=True, built=source("in", "more")), broker).stage("total")
        assert stage.inputs == ((("in", 0), ("more", 0)), (("in", 1), ("more", 1)))

    def test_without_state_every_partition_is_a_task(self, broker: MemoryBroker) -> None:
        layout = lay_out(totals(built=source("in", "wide")), broker)
        assert layout.stage("numbers").tasks == 7
        assert len(layout.stage("total").upstream) == 7
        assert "numbers/6" in layout.stage("total").upstream


class TestSourcesThatAreNotKafka:
    def test_keep_their_partitions_when_splits_come(self, broker: MemoryBroker) -> None:
        """A file more at the next start must not be taken for another number of key groups."""

        def plan(*splits: str) -> object:
            env = StreamExecutionEnvironment.get_execution_environment()
            parts = Parts({split: ["u:1"] for split in splits})
            env.from_source(parts, WatermarkStrategy.no_watermarks(), "parts").uid("parts").map(str).sink_to(sink())
            return compiled(env)

        first = lay_out(plan("a", "b"), broker)  # type: ignore[arg-type]
        second = lay_out(plan("a", "aa", "b"), broker)  # type: ignore[arg-type]
        assert [stage.tasks for stage in first.stages] == [stage.tasks for stage in second.stages] == [2, 2]
        assert second.partition_counts["app-parts-source"] == 2


class TestOrphans:
    def test_a_renamed_uid(self, broker: MemoryBroker) -> None:
        """P51: state would silently begin empty."""
        lay_out(totals(), broker)
        written(broker, "app-total-changelog", "app")
        with pytest.raises(JobError, match=r"no operator of this job owns: app-total-changelog.*its old uid back"):
            lay_out(totals(uid="sum"), broker)

    def test_never_written(self, broker: MemoryBroker) -> None:
        lay_out(totals(), broker)
        lay_out(totals(uid="sum"), broker)

    def test_another_application_whose_id_begins_with_ours(self, broker: MemoryBroker) -> None:
        """P32: `app` and `app-b` on one cluster."""
        written(broker, "app-b-total-changelog", "app-b")
        lay_out(totals(), broker)

    def test_far_behind_the_end(self, broker: MemoryBroker) -> None:
        """An unfinished checkpoint longer than the first look lies behind the meta record."""
        written(broker, "app-old-changelog", "app", behind=700)
        with pytest.raises(JobError, match="app-old-changelog"):
            lay_out(totals(), broker)

    @pytest.mark.parametrize(
        "value", [b"{broken", None, TaskMeta(1, "x").encode().replace(b'"version":1', b'"version":9')]
    )
    def test_what_cannot_be_read_is_not_ours(self, broker: MemoryBroker, value: bytes | None) -> None:
        """Another application's topic, damaged or of a later version, is no reason not to start."""
        broker.create_topics([TopicSpec("app-b-total-changelog", 1, {"cleanup.policy": "compact"})])
        producer = broker.producer()
        producer.produce("app-b-total-changelog", value, META_KEY, 0, None, None, 0)
        producer.flush()
        lay_out(totals(), broker)


class TestWhileRunning:
    def test_a_topic_that_grows_stops_the_job_with_a_plan(self, tmp_path: Path) -> None:
        """P46: noticed when the new partition is assigned."""
        with Scene(passing(), tmp_path) as scene:
            scene.start()
            scene.turns(2)
            scene.grow("in")
            with pytest.raises(
                JobError, match=re.escape("in-2 was assigned to stage 'numbers'") + r".*has grown. Restart"
            ):
                scene.turns(2)
