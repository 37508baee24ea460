"""Progress survives its two resting places, and the note beside an offset stays short."""

from __future__ import annotations

import pytest

from kstreampy.broker.broker import Position, TopicPartition
from kstreampy.broker.memory.group import MAX_METADATA_BYTES
from kstreampy.runtime.progress import Progress, has_note, is_finished, ranges
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from kstreampy.state.task_meta import TaskMeta

TP, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)


def full() -> Progress:
    return Progress(
        positions={TP: 7},
        stopping={TP: 9},
        watermark=123,
        ended_senders={"a/0", "a/1", "a/2", "a/7", "b.c-d/1"},
        finished=True,
        idle_senders={"a/3", "b/0"},
        step_watermarks={"again": 120},
    )


def test_through_a_meta_record() -> None:
    progress = full()
    progress.sender_watermarks = {"a/3": 5}
    progress.connector_positions = {"split": {"line": 3}}
    progress.checkpoint_id = 12
    meta = TaskMeta.decode(progress.to_meta("app", {"count": "LONG"}).encode())
    assert Progress.from_meta(meta) == progress
    assert (meta.application_id, meta.states) == ("app", {"count": "LONG"})


def test_through_a_note() -> None:
    assert Progress.from_offsets(full().to_offsets([TP])) == full()


def test_only_partitions_with_a_position() -> None:
    assert set(full().to_offsets([TP, OTHER])) == {TP}


def test_the_note_of_a_task_with_many_senders_fits() -> None:
    """Brokers refuse more than 4 KiB beside an offset."""
    for ended in (range(500), range(0, 500, 2)):
        progress = Progress(positions={TP: 1}, ended_senders={f"a-stage-with-a-long-name/{number}" for number in ended})
        offsets = progress.to_offsets([TP])
        assert len(offsets[TP].metadata.encode()) < MAX_METADATA_BYTES
        assert Progress.from_offsets(offsets) == progress


def test_a_note_keeps_how_far_senders_are_where_there_is_room() -> None:
    few = Progress(
        positions={TP: 1}, watermark=5, sender_watermarks={"a-b/0": 5, "a-b/12": 1_700_000_000_000, "c/1": -3}
    )
    assert Progress.from_offsets(few.to_offsets([TP])) == few
    many = Progress(positions={TP: 1}, sender_watermarks={f"a/{number}": 1_700_000_000_000 for number in range(500)})
    offsets = many.to_offsets([TP])
    assert len(offsets[TP].metadata.encode()) < MAX_METADATA_BYTES
    assert Progress.from_offsets(offsets) == Progress(positions={TP: 1})


def test_a_note_says_nothing_of_senders_that_never_spoke_or_have_ended() -> None:
    progress = Progress(
        positions={TP: 1}, sender_watermarks={"a/0": NO_TIMESTAMP, "a/1": MAX_WATERMARK}, ended_senders={"a/1"}
    )
    read = Progress.from_offsets(progress.to_offsets([TP]))
    assert read.sender_watermarks == {}
    assert read.ended_senders == {"a/1"}


def test_what_a_tool_set_is_a_plain_position() -> None:
    for text in ("", "by hand", "[1]", "7"):
        progress = Progress.from_offsets({TP: Position(4, text)})
        assert progress == Progress(positions={TP: 4})
        assert not has_note(Position(4, text))
        assert not is_finished(Position(4, text))


def test_a_note_without_news_is_a_note() -> None:
    offsets = Progress(positions={TP: 4}).to_offsets([TP])
    assert has_note(offsets[TP])
    assert not is_finished(offsets[TP])
    assert Progress.from_offsets(offsets).watermark == NO_TIMESTAMP


def test_of_several_partitions_the_least_counts() -> None:
    offsets = {
        **Progress(positions={TP: 1}, watermark=MAX_WATERMARK, finished=True).to_offsets([TP]),
        **Progress(positions={OTHER: 2}, watermark=5).to_offsets([OTHER]),
    }
    progress = Progress.from_offsets(offsets)
    assert progress.watermark == 5
    assert not progress.finished


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([2, 0, 1, 7], "0-2,7"), ([5, 3], "3,5")])
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
