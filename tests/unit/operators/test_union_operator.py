"""Branches that come together: records at once, calls once, time as the least."""

from __future__ import annotations

import pytest

from kstreampy.errors import RecordError
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.operators.pair import PairOperator
from kstreampy.operators.union import UnionOperator
from kstreampy.serde.batch import MAX_WATERMARK, Batch
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context


class Idling(Collecting):
    def set_idle(self, idle: bool) -> None:
        self.calls.append(("idle", idle))


def united(
    branches: int = 2, out: Operator | None = None, **task: object
) -> tuple[list[Operator], Idling, TaskContext]:
    union = UnionOperator("union", "u")
    union.out = out or Idling()
    doors = union.doors(branches)
    made = context(**task)
    union.open(made)
    return doors, union.out, made  # type: ignore[return-value]


def test_records_of_every_branch_go_on_as_they_come() -> None:
    doors, out, _ = united()
    doors[1].process(batch(1))
    doors[0].process(batch(2))
    assert out.values == [1, 2]


def test_the_index_of_a_failed_record_is_the_branchs() -> None:
    doors, _, _ = united(out=FailingAt("bad"))
    with pytest.raises(RecordError) as caught:
        doors[1].process(batch("a", "bad"))
    assert caught.value.index == 1


@pytest.mark.parametrize("name", ["tick", "flush", "finish", "close"])
def test_a_call_goes_on_when_the_last_branch_has_made_it(name: str) -> None:
    doors, out, _ = united(3)
    for _round in range(1 if name == "close" else 2):
        out.calls.clear()
        for door in doors[:-1]:
            getattr(door, name)()
        assert out.calls == []
        getattr(doors[-1], name)()
        assert out.calls == [name]


def test_waking_goes_on_once() -> None:
    doors, out, _ = united()
    doors[0].wake(5)
    assert out.calls == []
    doors[1].wake(5)
    assert out.calls == [("wake", 5)]


def test_the_watermark_is_the_least_and_part_of_the_checkpoint() -> None:
    doors, out, task = united()
    doors[0].advance(10)
    assert out.calls == []
    doors[1].advance(7)
    doors[1].advance(12)
    doors[0].advance(MAX_WATERMARK)
    doors[1].advance(MAX_WATERMARK)
    assert out.calls == [("advance", 7), ("advance", 10), ("advance", 12), ("advance", MAX_WATERMARK)]
    assert task.step_watermarks == {"u": MAX_WATERMARK}


def test_after_a_restart_time_does_not_go_back() -> None:
    doors, out, _ = united(watermark=20, step_watermarks={"u": 9})
    doors[0].advance(21)
    assert out.calls == []
    doors[1].advance(15)
    assert out.calls == [("advance", 15)]


def test_an_idle_branch_holds_nobody_back() -> None:
    doors, out, _ = united()
    doors[0].advance(10)
    doors[1].set_idle(True)
    assert out.calls == [("advance", 10)]
    doors[0].set_idle(True)
    assert out.calls[1:] == [("idle", True)]
    doors[1].set_idle(False)
    assert out.calls[2:] == [("idle", False)]


def test_what_follows_sees_the_unions_time_as_the_tasks() -> None:
    seen = []

    class Looking(Idling):
        def process(self, batch: object) -> None:
            seen.append(task.watermark)

        def flush(self) -> None:
            seen.append(task.watermark)

    doors, _, task = united(out=Looking(), watermark=NONE)
    for door, watermark in zip(doors, (10, 4), strict=True):
        door.advance(watermark)
    task.watermark = 10
    doors[0].process(batch(1))
    doors[0].flush()
    doors[1].flush()
    assert seen == [4, 4]
    assert task.watermark == 10


def test_doors_ask_for_copies_as_what_follows_does() -> None:
    out = Collecting()
    out.may_change_values, out.keeps_values = False, True
    doors, _, _ = united(out=out)
    assert [(door.may_change_values, door.keeps_values) for door in doors] == [(False, True)] * 2


def test_closing_before_it_was_opened() -> None:
    union = UnionOperator("union", "u")
    union.out = out = Collecting()
    for door in union.doors(2):
        door.close()
    assert out.calls == ["close"]


class TwoInputs(PairOperator):
    """Tells what came by which input, and when."""

    def __init__(self, made: TaskContext) -> None:
        super().__init__("pair")
        self.out = Idling()
        self.made = made
        self.taken: list[tuple[int, list[object], int]] = []

    def process_first(self, batch: Batch) -> None:
        self.taken.append((1, batch.values, self.made.watermark))

    def process_second(self, batch: Batch) -> None:
        self.taken.append((2, batch.values, self.made.watermark))


def test_a_step_with_two_inputs_has_one_behind_each_door_and_the_time_of_both() -> None:
    made = context()
    pair = TwoInputs(made)
    union = UnionOperator("inputs", "u")
    union.out = pair
    first, second = union.doors(2)
    union.open(made)
    first.advance(10)
    second.process(batch("b"))
    assert pair.out.calls == []  # type: ignore[attr-defined]
    second.advance(7)
    first.process(batch("a"))
    assert pair.taken == [(2, ["b"], NONE), (1, ["a"], 7)]
    assert pair.out.calls == [("advance", 7)]  # type: ignore[attr-defined]
