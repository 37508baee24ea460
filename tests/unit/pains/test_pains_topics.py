"""What hurts users of other tools about topics (P14, P20, P32, P46, P47, P51): settings that a topic happens to have, state that
is left behind by a change of the job."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import TopicPartition, TopicSpec
from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.errors import JobError
from kstreampy.graph.plan import Plan
from kstreampy.runtime.layout import lay_out
from tests.unit.runtime.jobs import compiled, sink, source, totals, user_and_amount
from tests.unit.runtime.scene import Scene


class Several(MemoryBroker):
    """As of a cluster of three brokers."""

    def size(self) -> int:
        return 3


@pytest.mark.parametrize("kind", [MemoryBroker, Several])
@pytest.mark.parametrize("replication", [-1, 3])
def test_topics_that_one_disk_can_take_away_are_told(
    kind: type[MemoryBroker], replication: int, caplog: pytest.LogCaptureFixture
) -> None:
    """P47: the brokers' default is asked for, which is one replica unless somebody has set it. On a cluster of one broker,
    there is nothing to be said."""
    broker = kind(MemoryCluster(blocking=False))
    broker.create_topics([TopicSpec("in", 2), TopicSpec("out", 2)])
    changelog, repartition = "app-total-changelog", "app-total-repartition"
    if replication != -1:
        broker.create_topics(
            [TopicSpec(changelog, 3, {"cleanup.policy": "compact"}, replication), TopicSpec(repartition, 3, {}, 3)]
        )
    with caplog.at_level(logging.WARNING):
        lay_out(totals(), broker)
    told = [r.getMessage() for r in caplog.records if "one replica" in r.getMessage()]
    if kind is Several and replication == -1:
        (message,) = told
        assert f"{changelog}, {repartition} have one replica" in message
        assert "default.replication.factor" in message
    else:
        assert told == []


def counted(*, more: bool) -> Plan:
    """Without any uid: with a filter and another sum in front of the first one."""
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "numbers").map(user_and_amount)
    if more:
        numbers.filter(lambda pair: pair[1] > 0).key_by(lambda pair: pair[0]).sum(1).sink_to(sink("other"))
    numbers.key_by(lambda pair: pair[0]).sum(1).sink_to(sink())
    return compiled(env)


def test_state_under_a_derived_name_is_warned_of_before_it_is_given_to_another_step() -> None:
    """P51: derived names count what is alike in front, so an operator of the same kind in front takes the name over. That is
    said at every start, for as long as no uid is given, and can be made an error."""
    for plan in (counted(more=False), counted(more=True)):
        assert all("keeps state under the derived name" in warning for warning in plan.warnings())
        assert plan.warnings() != []


def test_state_with_uids_is_found_again_whatever_comes_in_front(tmp_path: Path) -> None:
    """P51: and what a removed operator has left is refused, by name, until somebody says what becomes of it."""

    def draw(*, more: bool) -> Plan:
        env = StreamExecutionEnvironment.get_execution_environment()
        numbers = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        pairs = numbers.map(user_and_amount)
        if more:
            kept = pairs.filter(lambda pair: pair[1] > 0)
            kept.key_by(lambda pair: pair[0]).sum(1).uid("more").sink_to(sink("other"))
        pairs.key_by(lambda pair: pair[0]).sum(1).uid("total").sink_to(sink())
        return compiled(env)

    with Scene(draw(more=False), tmp_path) as scene:
        scene.create("other", 1)
        scene.feed([(None, "u:1", 0)])
        worker = scene.start()
        scene.turns(6)
        worker.stop()
        scene.plan = draw(more=True)
        scene.start()
        scene.feed([(None, "u:2", 0)])
        scene.turns(6)
        assert (scene.by_key(), scene.by_key("other")) == ({"u": ["1", "3"]}, {"u": ["2"]})
        worker.stop()
        scene.plan = draw(more=False)
        with pytest.raises(JobError, match=r"no operator of this job owns: app-more-changelog\."):
            scene.start()
        scene.broker.delete_topics(["app-more-changelog"])
        scene.start()
        scene.feed([(None, "u:4", 0)])
        scene.turns(6)
        assert scene.by_key() == {"u": ["1", "3", "7"]}


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("is_in_place", [False, True])
def test_an_expired_offset_is_neither_skipped_nor_read_from_the_start(
    tmp_path: Path, guarantee: str, is_in_place: bool
) -> None:
    """P20: 100 are read, then 150 come, of which retention takes the first 50. Every start says which are missing, and
    what was committed stays."""
    with Scene(totals(in_place=is_in_place), tmp_path, partitions=1, guarantee=guarantee) as scene:
        scene.feed([(None, "u:1", 0)] * 100)
        worker = scene.start()
        scene.until(lambda: len(scene.by_key().get("u", [])) == 100, worker)
        worker.stop()
        scene.feed([(None, "u:1", 0)] * 150)
        scene.broker.delete_records({TopicPartition("in", 0): 150})
        for _ in range(2):
            worker.start()
            with pytest.raises(JobError, match=r"in.*offsets 100 to 149 \(50\) were deleted before they were read"):
                scene.turns(5)
            worker.fail()
            scene.time_out_dead()
        assert scene.by_key() == {"u": [str(total) for total in range(1, 101)]}


def test_two_jobs_of_one_file_do_not_touch_each_other(tmp_path: Path) -> None:
    """P32: staging and production on one cluster, each under its own application id."""
    with Scene(totals(application_id="staging"), tmp_path) as scene:
        scene.feed([(None, "u:1", 0)])
        staging = scene.start("w0")
        scene.turns(6)
        scene.plan = totals(application_id="prod")
        production = scene.start("w0-prod")
        scene.turns(6)
        scene.feed([(None, "u:2", 0)])
        scene.turns(6)
        assert (staging.rejoins, production.rejoins) == (0, 0)
        assert sorted(scene.by_key()["u"]) == ["1", "1", "3", "3"]
        names = [name for name in scene.cluster.topics if name not in ("in", "out")]
        assert {name.split("-")[0] for name in names} == {"staging", "prod"}
        assert {group.split("-")[0] for group in scene.cluster.groups} == {"staging", "prod"}


def test_a_changelogs_settings_are_its_own(tmp_path: Path) -> None:
    """P50: they go to no topic of the user's, and one topic's to no other."""
    with Scene(totals(), tmp_path) as scene:
        before: Any = scene.broker.topic_configs(["in", "out"])
        scene.start()
        scene.turns(3)
        assert scene.broker.topic_configs(["in", "out"]) == before
        configs = scene.broker.topic_configs(["app-total-changelog", "app-total-repartition"])
        assert [configs[name]["cleanup.policy"] for name in sorted(configs)] == ["compact", "delete"]
