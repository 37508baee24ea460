"""How input becomes batches: watermarks, ends, stale chunks, and errors that name their record's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.broker.memory.log import StoredMessage
from kstreampy.common import Types, WatermarkStrategy
from kstreampy.common.watermark_generator import WatermarkGenerator, WatermarkOutput
from kstreampy.errors import RecordError
from kstreampy.graph.source import ConnectorInput, Input, OffsetKind, Offsets, PackedInput, TopicInput
from kstreampy.runtime.connector_intake import ConnectorIntake
from kstreampy.runtime.intake import Intake, PackedIntake, TopicIntake, make_intake
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.packed import Mark, pack, pack_marks
from kstreampy.serde.typed import codec_for
from tests.unit.operators.standin import context
from tests.unit.runtime.parts import Parts

ZERO, ONE = TopicPartition("in", 0), TopicPartition("in", 1)
ASCENDING = WatermarkStrategy.for_monotonous_timestamps()
LONG = Types.LONG()


def chunk(*records: tuple[int, bytes | None, int], partition: int = 0, topic: str = "in") -> Chunk:
    """(offset, value, timestamp)."""
    return Chunk(
        topic,
        partition,
        [StoredMessage(topic, partition, o, None, v, (1 if t >= 0 else 0, t), None) for o, v, t in records],
    )


def topic_intake(
    progress: Progress | None = None,
    strategy: WatermarkStrategy | None = ASCENDING,
    partitions: Sequence[TopicPartition] = (ZERO, ONE),
    read: frozenset[TopicPartition] | None = None,
    **task: Any,
) -> TopicIntake:
    origin = TopicInput(("in",), None, read, Offsets(OffsetKind.EARLIEST), None, False, int, None)
    intake = make_intake(Input(origin, "numbers", strategy), context(**task), partitions, (), progress or Progress())
    assert isinstance(intake, TopicIntake)
    return intake


def watermark(intake: Intake) -> int:
    """At the watermark interval, with everything read."""
    intake.probe(lambda tp: True)
    return intake.watermark()


def values(intake: Intake, given: Chunk | None = None) -> list[Any]:
    arrivals = intake.read() if given is None else intake.take(given)
    return [value for arrival in arrivals for value in arrival.batch.values]


class TestTopics:
    def test_watermark_is_the_least_of_the_partitions(self) -> None:
        intake = topic_intake()
        values(intake, chunk((0, b"1", 100)))
        assert watermark(intake) == NO_TIMESTAMP
        values(intake, chunk((0, b"1", 50), partition=1))
        assert watermark(intake) == 49
        values(intake, chunk((1, b"1", 200), partition=1))
        assert watermark(intake) == 99

    def test_a_partition_at_its_end_holds_nothing_back(self) -> None:
        progress = Progress(stopping={ONE: 1}, positions={ZERO: 0, ONE: 1})
        intake = topic_intake(progress)
        values(intake, chunk((0, b"1", 100)))
        assert watermark(intake) == 99

    def test_timestamps_come_from_the_assigner(self) -> None:
        strategy = ASCENDING.with_timestamp_assigner(lambda value, before: value * 1000 + before)
        intake = topic_intake(strategy=strategy, partitions=(ZERO,))
        (arrival,) = intake.take(chunk((0, b"3", 7)))
        assert arrival.batch.timestamps == [3007]
        assert watermark(intake) == 3006

    def test_no_timestamp(self) -> None:
        (arrival,) = topic_intake(strategy=None).take(chunk((0, b"3", -1)))
        assert arrival.batch.timestamps == [NO_TIMESTAMP]

    def test_positions_follow(self) -> None:
        progress = Progress()
        intake = topic_intake(progress)
        values(intake, chunk((4, b"1", 0), (9, b"2", 0)))
        assert progress.positions == {ZERO: 10}

    def test_messages_that_the_schema_leaves_out_are_not_there(self) -> None:
        def even(data: bytes) -> int | None:
            return None if int(data) % 2 else 100 // int(data)

        strategy = ASCENDING.with_timestamp_assigner(lambda value, before: before if value is None else value + before)
        origin = TopicInput(("in",), None, None, Offsets(OffsetKind.EARLIEST), None, False, even, None, leaves_out=True)
        progress = Progress()
        intake = make_intake(Input(origin, "even", strategy), context(), (ZERO,), (), progress)
        (arrival,) = intake.take(chunk((3, b"1", 1), (4, b"2", 2), (6, None, 3), (7, b"5", 4), (8, b"4", 5)))
        assert (arrival.batch.values, arrival.batch.timestamps) == ([50, None, 25], [52, 3, 30])
        assert arrival.coordinate(2) == "topic 'in', partition 0, offset 8"
        assert values(intake, chunk((9, b"1", 6), (11, b"3", 7))) == []
        assert progress.positions == {ZERO: 12}
        with pytest.raises(RecordError, match="modulo by zero") as caught:
            values(intake, chunk((12, b"1", 0), (13, b"0", 0)))
        assert caught.value.__notes__ == ["at topic 'in', partition 0, offset 13"]

    def test_none_is_a_value_of_other_schemas(self) -> None:
        origin = TopicInput(("in",), None, None, Offsets(OffsetKind.EARLIEST), None, False, lambda data: None, None)
        intake = make_intake(Input(origin, "nothing", None), context(), (ZERO,), (), Progress())
        assert values(intake, chunk((0, b"x", 0))) == [None]

    def test_stale_records_are_dropped(self) -> None:
        """What was buffered before a seek."""
        progress = Progress(positions={ZERO: 5})
        intake = topic_intake(progress)
        assert values(intake, chunk((3, b"3", 0), (4, b"4", 0))) == []
        assert progress.positions == {ZERO: 5}
        assert values(intake, chunk((4, b"4", 0), (5, b"5", 0))) == [5]

    def test_records_behind_the_end_are_left(self) -> None:
        progress = Progress(positions={ZERO: 0, ONE: 0}, stopping={ZERO: 2, ONE: 0})
        intake = topic_intake(progress)
        assert not intake.at_end()
        assert values(intake, chunk((0, b"0", 0), (1, b"1", 0), (2, b"2", 0))) == [0, 1]
        assert intake.at_end()
        assert values(intake, chunk((3, b"3", 0))) == []
        assert progress.positions[ZERO] == 2

    def test_not_at_end_without_an_end(self) -> None:
        assert not topic_intake(Progress(positions={ZERO: 9, ONE: 9})).at_end()

    @pytest.mark.parametrize("first", [0, 7])
    def test_a_record_that_cannot_be_decoded(self, first: int) -> None:
        """P38: topic, partition, offset and step; also behind records that were stale."""
        progress = Progress(positions={ZERO: first + 1})
        with pytest.raises(RecordError, match=r"numbers \(decode\)") as caught:
            values(topic_intake(progress), chunk(*[(first + n, b"x" if n == 3 else b"1", 0) for n in range(5)]))
        assert caught.value.__notes__ == [f"at topic 'in', partition 0, offset {first + 3}"]
        assert progress.positions == {ZERO: first + 1}

    def test_an_assigner_that_fails(self) -> None:
        strategy = ASCENDING.with_timestamp_assigner(lambda value, before: 1000 // value)
        with pytest.raises(RecordError, match=r"numbers \(timestamp\): ZeroDivisionError") as caught:
            values(topic_intake(strategy=strategy), chunk((0, b"1", 0), (1, b"0", 0)))
        assert caught.value.__notes__ == ["at topic 'in', partition 0, offset 1"]

    def test_a_watermark_generator_that_fails(self) -> None:
        class Broken(WatermarkGenerator):
            def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
                raise KeyError("time")

            def on_periodic_emit(self, output: WatermarkOutput) -> None: ...

        with pytest.raises(KeyError) as caught:
            values(topic_intake(strategy=WatermarkStrategy.for_generator(Broken)), chunk((5, b"1", 0)))
        assert caught.value.__notes__ == [
            "in the watermark strategy of numbers, in the batch that begins at topic 'in', partition 0, offset 5"
        ]

    def test_the_place_of_each_record(self) -> None:
        (arrival,) = topic_intake().take(chunk((4, b"1", 0), (9, b"2", 0)))
        assert [arrival.coordinate(index) for index in (0, 1)] == [
            "topic 'in', partition 0, offset 4",
            "topic 'in', partition 0, offset 9",
        ]

    def test_idle_by_the_tasks_clock(self) -> None:
        clock = [0]
        intake = topic_intake(strategy=ASCENDING.with_idleness(100), clock=lambda: clock[0])
        values(intake, chunk((0, b"1", 100)))
        assert watermark(intake) == NO_TIMESTAMP
        clock[0] = 60
        values(intake, chunk((1, b"1", 200)))
        watermark(intake)
        clock[0] = 100
        assert watermark(intake) == 199
        assert intake.active() == {ZERO: 199}
        clock[0] = 160
        watermark(intake)
        assert intake.is_idle()
        values(intake, chunk((0, b"1", 5), partition=1))
        assert not intake.is_idle()

    def test_asks_only_of_partitions_that_are_read(self) -> None:
        """A partition that is held back is not idle, however long it is silent."""
        asked: list[TopicPartition] = []

        def caught_up(tp: TopicPartition) -> bool:
            asked.append(tp)
            return True

        clock = [0]
        intake = topic_intake(strategy=ASCENDING.with_idleness(100), clock=lambda: clock[0])
        intake.held = frozenset({ZERO})
        clock[0] = 100
        intake.probe(caught_up)
        assert asked == [ONE]
        assert set(intake.active()) == {ZERO}

    def test_partitions_that_the_source_leaves_out_have_no_part(self) -> None:
        """They may be read by a later run, so they are not at their end either."""
        progress = Progress(positions={ZERO: 0, ONE: 0}, stopping={ONE: 0})
        intake = topic_intake(progress, read=frozenset({ZERO}))
        values(intake, chunk((0, b"1", 100)))
        assert watermark(intake) == 99
        nothing = topic_intake(
            Progress(positions={ONE: 0}, stopping={ONE: 0}), partitions=(ONE,), read=frozenset({ZERO})
        )
        assert watermark(nothing) == NO_TIMESTAMP
        assert nothing.is_idle()

    def test_a_watermark_for_a_record_needs_no_probe(self) -> None:
        class Punctuated(WatermarkGenerator):
            def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
                output.emit_watermark(timestamp)

            def on_periodic_emit(self, output: WatermarkOutput) -> None: ...

        intake = topic_intake(strategy=WatermarkStrategy.for_generator(Punctuated), partitions=(ZERO,))
        for _ in intake.take(chunk((0, b"1", 100), (1, b"1", 90))):
            assert intake.watermark() == 100

    def test_is_not_asked(self) -> None:
        intake = topic_intake()
        intake.look_again()
        assert values(intake) == []
        intake.close()


PACKED = TopicPartition("app-total-repartition", 0)


def packed_intake(progress: Progress, *upstream: str) -> PackedIntake:
    origin = PackedInput(PACKED.topic, LONG, ("a",))
    intake = make_intake(Input(origin, "total"), context(), (PACKED,), upstream, progress)
    assert isinstance(intake, PackedIntake)
    return intake


def message(offset: int, payload: bytes) -> Chunk:
    return chunk((offset, payload, 0), topic=PACKED.topic)


def batch(*numbers: int) -> Batch:
    return Batch(list(numbers), [0] * len(numbers), ["k"] * len(numbers))


CODEC = codec_for(LONG)


class TestPacked:
    def test_watermark_is_the_least_of_the_senders(self) -> None:
        progress = Progress()
        intake = packed_intake(progress, "a/0", "a/1")
        assert values(intake, message(0, pack(batch(1, 2), CODEC, Mark("a", 0, 100)))) == [1, 2]
        assert intake.watermark() == NO_TIMESTAMP
        values(intake, message(1, pack(batch(3), CODEC, Mark("a", 1, 70))))
        assert intake.watermark() == 70
        assert progress.sender_watermarks == {"a/0": 100, "a/1": 70}
        assert progress.positions == {PACKED: 2}

    def test_marks_of_several_tasks_in_one_message(self) -> None:
        intake = packed_intake(Progress(), "a/0", "a/1")
        assert values(intake, message(0, pack_marks([Mark("a", 0, 5), Mark("a", 1, 9)]))) == []
        assert intake.watermark() == 5

    def test_a_mark_counts_after_the_records_of_its_message(self) -> None:
        progress = Progress()
        intake = packed_intake(progress, "a/0")
        for _ in intake.take(message(0, pack(batch(1), CODEC, Mark("a", 0, 100, True)))):
            assert intake.watermark() == NO_TIMESTAMP
            assert not intake.at_end()
        assert intake.at_end()

    def test_never_back_over_a_restart(self) -> None:
        intake = packed_intake(Progress(sender_watermarks={"a/0": 50}, ended_senders={"a/1"}), "a/0", "a/1")
        assert intake.watermark() == 50
        values(intake, message(0, pack_marks([Mark("a", 0, 10)])))
        assert intake.watermark() == 50

    def test_idle_senders_are_not_waited_for(self) -> None:
        progress = Progress()
        intake = packed_intake(progress, "a/0", "a/1")
        values(intake, message(0, pack(batch(1), CODEC, Mark("a", 0, 100))))
        values(intake, message(1, pack_marks([Mark("a", 1, idle=True)])))
        assert intake.watermark() == 100
        assert not intake.is_idle()
        assert progress.idle_senders == {"a/1"}
        values(intake, message(2, pack_marks([Mark("a", 0, 100, idle=True)])))
        assert intake.is_idle()
        values(intake, message(3, pack(batch(2), CODEC, Mark("a", 1, 40))))
        assert not intake.is_idle()
        assert intake.watermark() == 100
        assert progress.idle_senders == {"a/0"}

    def test_idle_senders_are_known_after_a_restart(self) -> None:
        progress = Progress(sender_watermarks={"a/0": 50}, idle_senders={"a/1"})
        intake = packed_intake(progress, "a/0", "a/1")
        assert intake.watermark() == 50

    def test_an_idle_sender_that_ends(self) -> None:
        progress = Progress(idle_senders={"a/0"})
        intake = packed_intake(progress, "a/0")
        values(intake, message(0, pack_marks([Mark("a", 0, 5, True, True)])))
        assert intake.watermark() == MAX_WATERMARK
        assert not intake.is_idle()
        assert progress.idle_senders == set()

    def test_is_not_probed(self) -> None:
        intake = packed_intake(Progress(), "a/0")
        intake.probe(lambda tp: True)
        assert intake.active() == {}

    def test_a_sender_that_is_none_of_ours(self) -> None:
        """The topic upstream has grown while we did not know."""
        progress = Progress()
        intake = packed_intake(progress, "a/0")
        assert values(intake, message(0, pack(batch(1), CODEC, Mark("a", 7, 100, True)))) == [1]
        assert intake.watermark() == NO_TIMESTAMP
        assert progress.ended_senders == set()

    def test_a_new_sender_holds_back(self) -> None:
        intake = packed_intake(Progress(sender_watermarks={"a/0": 50}), "a/0", "a/1")
        assert intake.watermark() == NO_TIMESTAMP

    def test_the_end_is_the_end_of_all_senders(self) -> None:
        progress = Progress()
        intake = packed_intake(progress, "a/0", "a/1")
        values(intake, message(0, pack_marks([Mark("a", 0, 5, True)])))
        assert not intake.at_end()
        values(intake, message(1, pack_marks([Mark("a", 1, 5, True)])))
        assert intake.at_end()
        assert intake.watermark() == MAX_WATERMARK
        assert progress.ended_senders == {"a/0", "a/1"}

    def test_stale_messages_are_dropped(self) -> None:
        progress = Progress(positions={PACKED: 5})
        intake = packed_intake(progress, "a/0")
        assert values(intake, message(4, pack(batch(1), CODEC, Mark("a", 0, 100)))) == []
        assert intake.watermark() == NO_TIMESTAMP
        assert progress.positions == {PACKED: 5}

    def test_what_is_no_batch(self) -> None:
        progress = Progress()
        with pytest.raises(RecordError, match=r"total \(decode\): not a packed batch") as caught:
            values(packed_intake(progress, "a/0"), message(3, b"{}"))
        assert caught.value.__notes__ == ["at topic 'app-total-repartition', partition 0, offset 3"]
        assert progress.positions == {}

    def test_the_place_of_each_record(self) -> None:
        intake = packed_intake(Progress(), "a/0")
        both = Chunk(
            PACKED.topic,
            0,
            [
                *message(3, pack(batch(1), CODEC, Mark("a", 0))).messages,
                *message(4, pack(batch(2, 3), CODEC, Mark("a", 0))).messages,
            ],
        )
        places = [arrival.coordinate(0) for arrival in list(intake.take(both))]
        assert [place.rsplit(", ", 2)[1:] for place in places] == [["offset 3", "record 0"], ["offset 4", "record 0"]]


def connector(
    parts: Parts,
    progress: Progress | None = None,
    number: int = 0,
    tasks: int = 1,
    strategy: WatermarkStrategy | None = None,
    **more: Any,
) -> ConnectorIntake:
    task = context(partition=number, partitions=tasks, **more)
    intake = make_intake(Input(ConnectorInput(parts), "parts", strategy), task, (), (), progress or Progress())
    assert isinstance(intake, ConnectorIntake)
    return intake


class TestConnector:
    def test_every_split_belongs_to_one_task_whoever_asks(self) -> None:
        parts = Parts({f"part-{number}": [number] for number in range(40)})
        owned = [set(connector(parts, number=number, tasks=5).readers) for number in range(5)]
        assert set.union(*owned) == set(parts.splits())
        assert sum(map(len, owned)) == 40
        assert all(owned)

    def test_a_split_stays_when_others_come(self) -> None:
        """A file whose name sorts before must not move the others to tasks that do not know how far they were read."""
        few = Parts({f"part-{number}": [] for number in range(5, 20)})
        many = Parts({f"part-{number}": [] for number in range(20)})
        for number in range(4):
            before, after = connector(few, number=number, tasks=4), connector(many, number=number, tasks=4)
            assert set(before.readers) <= set(after.readers)

    def test_goes_on_where_it_was(self) -> None:
        parts = Parts({"a": [1, 2, 3]})
        progress = Progress(connector_positions={"a": 2})
        intake = connector(parts, progress)
        assert values(intake) == [3]
        assert progress.connector_positions == {"a": 3}
        assert intake.at_end()

    def test_watermark_is_the_least_of_the_splits(self) -> None:
        parts = Parts({"a": [10, 20, 30, 40], "b": [5, 6]}, times=True)
        intake = connector(parts, strategy=ASCENDING)
        assert watermark(intake) == NO_TIMESTAMP
        assert values(intake) == [10, 20, 5, 6]
        assert watermark(intake) == 19  # b is at its end
        assert values(intake) == [30, 40]
        assert intake.at_end()
        assert watermark(intake) == MAX_WATERMARK

    def test_a_task_without_splits(self) -> None:
        """Bounded, it has ended; unbounded, it must not hold back the time of all others for ever, but a split may come."""
        assert connector(Parts({})).at_end()
        parts = Parts({}, bounded=False, times=True)
        open_ended = connector(parts, strategy=ASCENDING)
        assert not open_ended.at_end()
        assert watermark(open_ended) == NO_TIMESTAMP
        assert open_ended.is_idle()
        parts.values["a"] = [5, 6]
        open_ended.look_again()
        assert not open_ended.is_idle()
        assert values(open_ended) == [5, 6]
        assert watermark(open_ended) == 5

    def test_a_split_that_is_silent_is_idle(self) -> None:
        clock = [0]
        parts = Parts({"a": [10, 20], "b": []}, times=True, bounded=False)
        intake = connector(parts, strategy=ASCENDING.with_idleness(100), clock=lambda: clock[0])
        assert values(intake) == [10, 20]
        assert watermark(intake) == NO_TIMESTAMP
        clock[0] = 100
        assert watermark(intake) == 19
        assert set(intake.active()) == {"a"}

    def test_a_split_that_has_more_is_not_idle(self) -> None:
        clock = [0]
        parts = Parts({"a": [10, 20, 30]}, times=True, bounded=False)
        intake = connector(parts, strategy=ASCENDING.with_idleness(100), clock=lambda: clock[0])
        values(intake)
        watermark(intake)
        clock[0] = 100
        watermark(intake)
        assert not intake.is_idle(), "it has not said yet that there is no more"

    def test_a_split_that_is_held_is_not_read(self) -> None:
        parts = Parts({"a": [1], "b": [2]})
        intake = connector(parts)
        intake.held = frozenset({"a"})
        assert values(intake) == [2]
        intake.held = frozenset()
        assert values(intake) == [1]

    def test_new_splits_of_a_growing_source(self) -> None:
        parts = Parts({"a": [1]}, bounded=False)
        intake = connector(parts)
        assert values(intake) == [1]
        parts.values["b"] = [2]
        parts.values["a"].append(3)
        intake.look_again()
        assert values(intake) == [3, 2]
        assert parts.opened == [("a", None), ("b", None)]

    def test_a_bounded_source_does_not_grow(self) -> None:
        parts = Parts({"a": [1]})
        intake = connector(parts)
        parts.values["b"] = [2]
        intake.look_again()
        assert values(intake) == [1]
        assert intake.at_end()

    def test_what_cannot_be_decoded(self) -> None:
        progress = Progress()
        intake = connector(Parts({"a": [1, 2, 3, "x"]}, bad="x"), progress)
        assert values(intake) == [1, 2]
        with pytest.raises(RecordError, match=r"parts \(decode\): a, line 4: bad") as caught:
            values(intake)
        assert caught.value.__notes__ == ["at split 'a', position 2"]
        assert progress.connector_positions == {"a": 2}

    def test_an_assigner_that_fails(self) -> None:
        strategy = ASCENDING.with_timestamp_assigner(lambda value, before: 1000 // value)
        with pytest.raises(RecordError, match=r"parts \(timestamp\): ZeroDivisionError") as caught:
            values(connector(Parts({"a": [1, 0]}), strategy=strategy))
        assert caught.value.__notes__ == ["at split 'a', record 1 after position 0"]

    def test_closes_its_readers(self) -> None:
        parts = Parts({"a": [], "b": []})
        intake = connector(parts)
        intake.close()
        intake.close()
        assert parts.closed == ["a", "b"]
