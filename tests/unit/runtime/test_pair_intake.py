"""The input of a step with two sides: who sends to which, and reading them side by side in event time."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.memory.log import StoredMessage
from kstreampy.common import Types
from kstreampy.graph.source import Input, PackedInput, sender_name, side_of
from kstreampy.runtime.intake import PackedIntake, make_intake
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.packed import Mark, pack
from kstreampy.serde.typed import codec_for
from tests.unit.operators.standin import context

LONG = Types.LONG()
CODEC = codec_for(LONG)
FIRST, SECOND = TopicPartition("pair-1", 3), TopicPartition("pair-2", 3)
SENDERS = ("a/0", "a/1", "2:a/0", "2:b/0")


class Pair:
    def __init__(self, drift: int | None = None, progress: Progress | None = None) -> None:
        second = PackedInput("pair-2", LONG, ("a", "b"))
        origin = PackedInput("pair-1", LONG, ("a",), second, drift)
        self.progress = progress or Progress()
        made = make_intake(Input(origin, "pair"), context(), (FIRST, SECOND), SENDERS, self.progress)
        assert isinstance(made, PackedIntake)
        self.intake = made

    def take(self, tp: TopicPartition, *marks: Mark, offset: int = 0) -> list[tuple[int, Any]]:
        """Side and value of each record of a chunk; each message has one record, its offset, and a mark."""
        messages: list[Any] = []
        for number, mark in enumerate(marks, offset):
            data = pack(Batch([number], [0]), CODEC, mark)
            messages.append(StoredMessage(tp.topic, tp.partition, number, None, data, (1, 0), None))
        arrivals = self.intake.take(Chunk(tp.topic, tp.partition, messages))
        return [(arrival.side, value) for arrival in arrivals for value in arrival.batch.values]


@pytest.mark.parametrize("sender", ["a/0", "stage-1/12"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_side_of_a_sender(sender: str, side: int) -> None:
    stage, _, task = sender.partition("/")
    assert side_of(sender_name(side, stage, int(task))) == side


def test_records_go_to_their_side() -> None:
    pair = Pair()
    assert pair.take(FIRST, Mark("a", 0, 5)) == [(0, 0)]
    assert pair.take(SECOND, Mark("b", 0, 5)) == [(1, 0)]
    assert pair.progress.positions == {FIRST: 1, SECOND: 1}


def test_one_stage_that_sends_to_both_is_heard_on_each() -> None:
    pair = Pair()
    pair.take(FIRST, Mark("a", 0, 50), Mark("a", 1, 60))
    assert pair.intake.watermark() == NO_TIMESTAMP
    pair.take(SECOND, Mark("a", 0, 40), Mark("b", 0, 70))
    assert pair.intake.watermark() == 40
    assert pair.intake.active() == {FIRST: 50, SECOND: 40}


def test_sides_that_are_idle_or_at_their_end_have_no_mark() -> None:
    pair = Pair()
    pair.take(FIRST, Mark("a", 0, 50, idle=True), Mark("a", 1, 60, final=True))
    assert pair.intake.active() == {SECOND: NO_TIMESTAMP}
    pair.take(SECOND, Mark("a", 0, 40, final=True), Mark("b", 0, 70, final=True))
    assert pair.intake.active() == {}
    assert not pair.intake.at_end()
    pair.take(FIRST, Mark("a", 0, 50, final=True), offset=2)
    assert pair.intake.at_end()
    assert pair.intake.watermark() == MAX_WATERMARK


class TestAligned:
    def marks(self, *times: int) -> list[Mark]:
        return [Mark(stage, task, time) for time in times for stage, task in (("a", 0), ("a", 1))]

    def second(self, *times: int) -> list[Mark]:
        return [Mark(stage, 0, time) for time in times for stage in "ab"]

    def started(self) -> Pair:
        """Both sides are at 0."""
        pair = Pair(drift=10)
        pair.take(FIRST, *self.marks(0))
        pair.take(SECOND, *self.second(0))
        pair.intake.held = frozenset()
        return pair

    def test_it_stops_in_the_middle_of_a_chunk(self) -> None:
        """Behind the message with which it is more than the drift ahead; what is left is read again later."""
        pair = self.started()
        assert len(pair.take(FIRST, *self.marks(5, 10, 11, 12, 13), offset=2)) == 6
        assert pair.intake.held == {FIRST}
        assert pair.progress.positions[FIRST] == 8

    def test_what_comes_of_it_meanwhile_is_not_taken(self) -> None:
        pair = self.started()
        pair.take(FIRST, *self.marks(11, 12), offset=2)
        assert pair.take(FIRST, *self.marks(20), offset=6) == []
        assert pair.progress.positions[FIRST] == 4

    def test_it_may_go_on_when_the_other_has_come_closer(self) -> None:
        pair = self.started()
        pair.take(FIRST, *self.marks(50), offset=2)
        assert pair.intake.ahead() == {FIRST}
        pair.take(SECOND, *self.second(39), offset=2)
        assert pair.intake.ahead() == {FIRST}
        pair.take(SECOND, *self.second(40), offset=4)
        assert pair.intake.ahead() == frozenset()

    def test_without_a_watermark_on_the_other_side_it_waits(self) -> None:
        pair = Pair(drift=10)
        assert len(pair.take(FIRST, *self.marks(1, 2))) == 2
        assert pair.intake.held == {FIRST}

    def test_one_side_alone_is_never_ahead(self) -> None:
        pair = Pair(drift=0)
        pair.take(SECOND, *[Mark(mark.stage, mark.task, 5, final=True) for mark in self.second(1)])
        assert len(pair.take(FIRST, *self.marks(10, 1_000, 10**12))) == 6
        assert pair.intake.ahead() == frozenset()

    def test_both_may_stop_in_turn(self) -> None:
        pair = Pair(drift=10)
        pair.take(FIRST, *self.marks(0))
        pair.intake.held = frozenset()
        pair.take(SECOND, *self.second(50))
        assert pair.intake.held == {SECOND}
        pair.take(FIRST, *self.marks(30, 61, 62), offset=2)
        assert pair.intake.held == {FIRST, SECOND}
        assert pair.intake.ahead() == {FIRST}

    def test_what_was_heard_before_a_restart_counts(self) -> None:
        pair = self.started()
        pair.take(FIRST, *self.marks(50), offset=2)
        again = Pair(drift=10, progress=pair.progress)
        assert again.intake.ahead() == {FIRST}

    def test_without_a_drift_nothing_stops(self) -> None:
        pair = Pair()
        assert len(pair.take(FIRST, *self.marks(1, 10**12))) == 4
        assert pair.intake.held == frozenset()
