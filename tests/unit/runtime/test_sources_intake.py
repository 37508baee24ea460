"""The input of a step that reads the topics of two sources as they are: one time over both, one held back for the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.memory.log import StoredMessage
from kstreampy.common import WatermarkStrategy
from kstreampy.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from kstreampy.errors import RecordError
from kstreampy.eventtime.future import TimeRules
from kstreampy.graph.source import Input, OffsetKind, Offsets, SourcesInput, TopicInput
from kstreampy.runtime.intake import make_intake
from kstreampy.runtime.progress import Progress
from kstreampy.runtime.sources_intake import SourcesIntake
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from tests.unit.operators.standin import context

ORDERS, MORE, PAYMENTS = (TopicPartition(topic, 3) for topic in ("orders", "more", "payments"))
ASCENDING = WatermarkStrategy.for_monotonous_timestamps()


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


class Sides:
    """Orders (of two topics) on the first side, payments on the second; values are ints in text."""

    def __init__(
        self,
        drift: int | None = None,
        *,
        progress: Progress | None = None,
        strategies: tuple[WatermarkStrategy | None, WatermarkStrategy | None] = (ASCENDING, ASCENDING),
        decoders: tuple[Callable[[bytes], Any], Callable[[bytes], Any]] = (int, int),
        topics: tuple[str, ...] = ("orders", "more"),
        **task: Any,
    ) -> None:
        origin = SourcesInput(
            tuple(
                Input(
                    TopicInput(names, None, None, Offsets(OffsetKind.EARLIEST), None, False, decode, None),
                    name,
                    strategy,
                )
                for name, names, strategy, decode in zip(
                    ("the orders", "the payments"), (topics, ("payments",)), strategies, decoders, strict=True
                )
            ),
            drift,
        )
        self.clock = Clock()
        self.progress = progress or Progress()
        partitions = tuple(tp for tp in (MORE, ORDERS, PAYMENTS) if tp.topic in (*topics, "payments"))
        made = make_intake(Input(origin, "both"), context(clock=self.clock, **task), partitions, (), self.progress)
        assert isinstance(made, SourcesIntake)
        self.intake = made

    def take(self, tp: TopicPartition, *times: int, offset: int = 0, value: bytes = b"1") -> list[tuple[int, Any, int]]:
        """Side, value and time of each record of a chunk."""
        messages: list[Any] = [
            StoredMessage(tp.topic, tp.partition, number, None, value, (1, time), None)
            for number, time in enumerate(times, offset)
        ]
        return [
            (arrival.side, value, time)
            for arrival in self.intake.take(Chunk(tp.topic, tp.partition, messages))
            for value, time in zip(arrival.batch.values, arrival.batch.timestamps, strict=True)
        ]

    def probe(self) -> int:
        """The watermark at the watermark interval, with everything read."""
        self.intake.probe(lambda tp: True)
        return self.intake.watermark()

    def wait(self, span_ms: int) -> int:
        self.clock.now_ms += span_ms
        return self.probe()


class Punctuated(WatermarkGenerator):
    """Emits with each record."""

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None: ...


AT_ONCE = WatermarkStrategy.for_generator(Punctuated)
IDLING = ASCENDING.with_idleness(100)


class TestTime:
    def test_records_go_to_their_side(self) -> None:
        sides = Sides()
        assert sides.take(ORDERS, 5) == [(0, 1, 5)]
        assert sides.take(PAYMENTS, 7) == [(1, 1, 7)]
        assert sides.take(MORE, 6) == [(0, 1, 6)]

    def test_the_watermark_is_the_least_of_both(self) -> None:
        sides = Sides(topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.probe() == NO_TIMESTAMP
        sides.take(PAYMENTS, 50)
        assert sides.probe() == 49
        sides.take(PAYMENTS, 200, offset=1)
        assert sides.probe() == 99
        assert sides.intake.active() == {ORDERS: 99, PAYMENTS: 199}

    def test_a_side_of_several_topics_is_as_far_as_the_slowest(self) -> None:
        sides = Sides()
        sides.take(ORDERS, 100)
        sides.take(PAYMENTS, 200)
        assert sides.probe() == NO_TIMESTAMP
        sides.take(MORE, 70)
        assert sides.probe() == 69

    def test_each_side_has_the_time_of_its_own_strategy(self) -> None:
        late = WatermarkStrategy.for_bounded_out_of_orderness(30)
        assigned = ASCENDING.with_timestamp_assigner(lambda value, before: before + 1000 * value)
        sides = Sides(strategies=(late, assigned), topics=("orders",))
        assert sides.take(ORDERS, 100) == [(0, 1, 100)]
        assert sides.take(PAYMENTS, 50) == [(1, 1, 1050)]
        sides.probe()
        assert sides.intake.active() == {ORDERS: 69, PAYMENTS: 1049}

    def test_a_watermark_for_a_record_needs_no_probe(self) -> None:
        sides = Sides(strategies=(AT_ONCE, AT_ONCE), topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.intake.watermark() == NO_TIMESTAMP
        sides.take(PAYMENTS, 90)
        assert sides.intake.watermark() == 90

    def test_an_idle_side_holds_nothing_back(self) -> None:
        sides = Sides(strategies=(ASCENDING, IDLING), topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.probe() == NO_TIMESTAMP
        assert sides.wait(99) == NO_TIMESTAMP
        assert sides.wait(1) == 99
        assert not sides.intake.is_idle()
        assert sides.intake.active() == {ORDERS: 99}

    def test_one_that_comes_back_holds_it_but_does_not_take_it_back(self) -> None:
        sides = Sides(strategies=(ASCENDING, IDLING), topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.wait(100) == 99
        sides.take(PAYMENTS, 50)
        sides.take(ORDERS, 300, offset=1)
        assert sides.probe() == 99
        sides.take(PAYMENTS, 150, offset=1)
        assert sides.probe() == 149

    def test_with_something_to_read_it_is_not_idle(self) -> None:
        sides = Sides(strategies=(ASCENDING, IDLING), topics=("orders",))
        sides.take(ORDERS, 100)
        sides.clock.now_ms = 100
        sides.intake.probe(lambda tp: tp != PAYMENTS)
        assert sides.intake.watermark() == NO_TIMESTAMP

    def test_both_idle(self) -> None:
        sides = Sides(strategies=(IDLING, IDLING), topics=("orders",))
        sides.take(ORDERS, 100)
        sides.take(PAYMENTS, 70)
        assert sides.probe() == 69
        assert not sides.intake.is_idle()
        sides.wait(50)
        sides.take(ORDERS, 120, offset=1)
        assert sides.wait(50) == 119
        assert not sides.intake.is_idle()
        sides.wait(100)
        assert sides.intake.is_idle()
        sides.take(PAYMENTS, 80, offset=1)
        assert not sides.intake.is_idle()

    def test_a_side_at_its_end_holds_nothing_back(self) -> None:
        sides = Sides(progress=Progress(stopping={PAYMENTS: 1}), topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.probe() == NO_TIMESTAMP
        sides.take(PAYMENTS, 10)
        assert sides.probe() == 99
        assert not sides.intake.at_end()
        assert not sides.intake.is_idle()

    def test_a_side_that_was_empty_from_the_start(self) -> None:
        progress = Progress(positions={ORDERS: 0, PAYMENTS: 4}, stopping={PAYMENTS: 4})
        sides = Sides(progress=progress, topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.probe() == 99

    def test_a_side_without_watermarks_holds_it_to_its_end(self) -> None:
        strategies = (ASCENDING, WatermarkStrategy.no_watermarks())
        sides = Sides(strategies=strategies, progress=Progress(stopping={PAYMENTS: 1}), topics=("orders",))
        sides.take(ORDERS, 100)
        assert sides.wait(10**9) == NO_TIMESTAMP
        sides.take(PAYMENTS, 10)
        assert sides.probe() == 99


class TestPlace:
    def test_positions_follow_per_topic(self) -> None:
        sides = Sides()
        sides.take(ORDERS, 1, 2, offset=4)
        sides.take(PAYMENTS, 1)
        assert sides.progress.positions == {ORDERS: 6, PAYMENTS: 1}

    def test_stale_records_are_dropped(self) -> None:
        sides = Sides(progress=Progress(positions={ORDERS: 5, PAYMENTS: 1}))
        assert sides.take(ORDERS, 1, 2, offset=3) == []
        assert sides.take(PAYMENTS, 8, 9) == [(1, 1, 9)]
        assert sides.progress.positions == {ORDERS: 5, PAYMENTS: 2}

    def test_each_ends_at_its_own_end(self) -> None:
        progress = Progress(positions=dict.fromkeys((ORDERS, MORE, PAYMENTS), 0))
        progress.stopping = {ORDERS: 2, MORE: 0, PAYMENTS: 1}
        sides = Sides(progress=progress)
        assert [time for _, _, time in sides.take(ORDERS, 1, 2, 3)] == [1, 2]
        assert not sides.intake.at_end()
        assert [time for _, _, time in sides.take(PAYMENTS, 1, 2, 3)] == [1]
        assert sides.intake.at_end()
        assert sides.take(PAYMENTS, 4, offset=3) == []
        assert sides.probe() == MAX_WATERMARK
        assert progress.positions == {ORDERS: 2, MORE: 0, PAYMENTS: 1}

    def test_with_one_side_unbounded_it_never_ends(self) -> None:
        progress = Progress(positions=dict.fromkeys((ORDERS, MORE, PAYMENTS), 0), stopping={PAYMENTS: 0})
        sides = Sides(progress=progress)
        sides.take(ORDERS, 1)
        sides.take(MORE, 1)
        assert not sides.intake.at_end()
        assert sides.probe() == 0

    @pytest.mark.parametrize(("tp", "name"), [(ORDERS, "the orders"), (MORE, "the orders"), (PAYMENTS, "the payments")])
    def test_a_record_that_cannot_be_decoded(self, tp: TopicPartition, name: str) -> None:
        sides = Sides()
        with pytest.raises(RecordError, match=rf"^{name} \(decode\)") as caught:
            sides.take(tp, 1, offset=7, value=b"x")
        assert caught.value.__notes__ == [f"at topic {tp.topic!r}, partition 3, offset 7"]
        assert sides.progress.positions == {}

    def test_each_side_is_decoded_by_its_source(self) -> None:
        sides = Sides(decoders=(int, float))
        assert [repr(value) for tp in (ORDERS, PAYMENTS) for _, value, _ in sides.take(tp, 1)] == ["1", "1.0"]

    def test_a_strategy_that_fails(self) -> None:
        strategy = ASCENDING.with_timestamp_assigner(lambda value, before: 1 // 0)
        sides = Sides(strategies=(ASCENDING, strategy))
        sides.take(ORDERS, 1)
        with pytest.raises(RecordError, match=r"^the payments \(timestamp\): ZeroDivisionError") as caught:
            sides.take(PAYMENTS, 1, offset=2)
        assert caught.value.__notes__ == ["at topic 'payments', partition 3, offset 2"]

    def test_the_place_of_each_record(self) -> None:
        message: Any = StoredMessage("payments", 3, 9, None, b"1", (1, 0), None)
        (arrival,) = Sides().intake.take(Chunk("payments", 3, [message]))
        assert arrival.coordinate(0) == "topic 'payments', partition 3, offset 9"

    def test_it_is_polled_and_not_asked(self) -> None:
        sides = Sides()
        sides.intake.look_again()
        assert list(sides.intake.read()) == []
        sides.intake.close()


class TestAligned:
    def started(self, **given: Any) -> Sides:
        """Both sides are at 0."""
        sides = Sides(drift=10, strategies=(AT_ONCE, AT_ONCE), topics=("orders",), **given)
        sides.take(ORDERS, 0)
        sides.take(PAYMENTS, 0)
        sides.intake.held = frozenset()
        return sides

    def test_one_that_is_too_far_ahead_is_held_behind_its_chunk(self) -> None:
        sides = self.started()
        assert len(sides.take(ORDERS, 5, 10, offset=1)) == 2
        assert sides.intake.held == frozenset()
        assert len(sides.take(ORDERS, 11, 12, offset=3)) == 2
        assert sides.intake.held == {ORDERS}
        assert sides.progress.positions[ORDERS] == 5

    def test_what_comes_of_it_meanwhile_is_not_taken(self) -> None:
        sides = self.started()
        sides.take(ORDERS, 11, offset=1)
        assert sides.take(ORDERS, 20, offset=2) == []
        assert sides.progress.positions[ORDERS] == 2
        assert sides.take(PAYMENTS, 5, offset=1) == [(1, 1, 5)]

    def test_it_may_go_on_when_the_other_has_come_closer(self) -> None:
        sides = self.started()
        sides.take(ORDERS, 50, offset=1)
        assert sides.intake.ahead() == {ORDERS}
        sides.take(PAYMENTS, 39, offset=1)
        assert sides.intake.ahead() == {ORDERS}
        sides.take(PAYMENTS, 40, offset=2)
        assert sides.intake.ahead() == frozenset()
        sides.intake.held = sides.intake.ahead()
        assert sides.take(ORDERS, 49, offset=2) == [(0, 1, 49)]

    def test_it_is_held_at_once_also_where_time_is_told_at_intervals(self) -> None:
        sides = Sides(drift=10, topics=("orders",))
        sides.take(PAYMENTS, 1)
        sides.take(ORDERS, 11)
        assert sides.intake.held == {PAYMENTS}  # which came first, when the other had no time yet
        sides.intake.held = sides.intake.ahead()
        assert sides.intake.held == frozenset()
        sides.take(ORDERS, 12, offset=1)
        assert sides.intake.held == {ORDERS}

    def test_time_that_is_told_at_intervals_waits_for_them_without_a_bound(self) -> None:
        sides = Sides(topics=("orders",))
        sides.take(PAYMENTS, 1)
        sides.take(ORDERS, 100)
        assert sides.intake.watermark() == NO_TIMESTAMP
        sides.probe()
        assert sides.intake.watermark() == 0

    def test_generators_are_not_asked_where_watermarks_are_not_periodic(self) -> None:
        sides = Sides(drift=10, topics=("orders",), time=TimeRules(periodic=False))
        sides.take(PAYMENTS, 1)
        sides.take(ORDERS, 100)
        assert sides.intake.watermark() == NO_TIMESTAMP

    def test_all_topics_of_a_side_are_held(self) -> None:
        sides = Sides(drift=10, strategies=(AT_ONCE, AT_ONCE))
        sides.take(PAYMENTS, 0)
        sides.take(ORDERS, 100)
        assert sides.intake.ahead() == {PAYMENTS}
        sides.take(MORE, 50)
        assert sides.intake.ahead() == {ORDERS, MORE}

    def test_without_a_watermark_on_the_other_side_it_waits(self) -> None:
        sides = Sides(drift=10, strategies=(AT_ONCE, AT_ONCE), topics=("orders",))
        sides.take(ORDERS, 1)
        assert sides.intake.held == {ORDERS}

    @pytest.mark.parametrize("how", ["idle", "ended"])
    def test_one_that_is_idle_or_at_its_end_is_not_waited_for(self, how: str) -> None:
        progress = Progress(positions={ORDERS: 0, PAYMENTS: 0})
        strategies = (AT_ONCE, AT_ONCE.with_idleness(100))
        sides = Sides(drift=10, strategies=strategies, topics=("orders",), progress=progress)
        sides.take(ORDERS, 100)
        assert sides.intake.ahead() == {ORDERS}
        if how == "ended":
            progress.stopping[PAYMENTS] = 0
            sides.probe()
        else:
            sides.wait(100)
        assert sides.intake.ahead() == frozenset()

    def test_one_that_is_held_is_not_idle(self) -> None:
        """However long it is silent: its records are there."""
        strategies = (AT_ONCE.with_idleness(100), AT_ONCE)
        sides = Sides(drift=10, strategies=strategies, topics=("orders",))
        sides.take(PAYMENTS, 0)
        sides.take(ORDERS, 100)
        sides.intake.held = sides.intake.ahead()
        for _ in range(3):
            sides.wait(1000)
        assert set(sides.intake.active()) == {ORDERS, PAYMENTS}
        assert sides.intake.watermark() == 0
        sides.intake.held = frozenset()
        sides.wait(1000)
        assert set(sides.intake.active()) == {PAYMENTS}

    def test_without_a_drift_nothing_is_held(self) -> None:
        sides = Sides(strategies=(AT_ONCE, AT_ONCE), topics=("orders",))
        sides.take(PAYMENTS, 0)
        sides.take(ORDERS, 10**12)
        assert sides.intake.ahead() == sides.intake.held == frozenset()
