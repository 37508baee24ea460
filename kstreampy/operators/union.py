"""Where branches of one stage come together: everything behind the union is there once, and has one time. What is behind it may
be a step with two inputs, to each of which one branch leads.

In here: `UnionOperator` and its doors, one per branch. Not in here: unions of streams of several stages, which need no
operator: what follows is done in each of those stages (`graph/compile.py`).

Each branch calls its door once for every call that goes down the chain (a watermark, a checkpoint, the end); the union hands
the call on when the last branch has made it, so that what the branches still had to give is through before.
"""

from __future__ import annotations

from collections.abc import Callable

from kstreampy.eventtime.watermark import WatermarkMerge
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.serde.batch import NO_TIMESTAMP, Batch


class UnionOperator(Operator):
    """The watermark is the minimum over the branches, as they hand it on: a branch may make its own."""

    context: TaskContext
    merge: WatermarkMerge[int]

    def __init__(self, step: str, uid: str) -> None:
        super().__init__(step)
        self.uid = uid
        self.branches = 0
        self.watermark = NO_TIMESTAMP
        self.idle = False
        self._calls: dict[str, int] = {}

    def doors(self, count: int) -> list[Operator]:
        """What each of `count` branches ends with. Asked for once, when it is known what follows: a step with as many inputs
        has one of them behind each door."""
        self.branches = count
        self.may_change_values, self.keeps_values = self.out.may_change_values, self.out.keeps_values
        inputs = self.out.inputs()
        inputs = inputs * count if len(inputs) == 1 else inputs
        return [_Door(self, number, inputs[number]) for number in range(count)]

    def open(self, context: TaskContext) -> None:
        self.context = context
        branches = range(self.branches)
        self.watermark = context.step_watermarks.get(self.uid, context.watermark)
        self.merge = WatermarkMerge(branches, dict.fromkeys(branches, self.watermark))

    def heard(self, branch: int, watermark: int, *, idle: bool) -> None:
        """How far a branch is, and whether anything comes from it for now."""
        self.merge.advance(branch, watermark, idle=idle)
        reached = self.merge.current()
        if reached > self.watermark:
            self.watermark = self.context.step_watermarks[self.uid] = reached
            self.in_own_time(lambda: self.out.advance(reached))
        is_idle = self.merge.is_idle()
        if is_idle is not self.idle:
            self.idle = is_idle
            self.out.set_idle(is_idle)

    def called(self, name: str, call: Callable[[], None]) -> None:
        """One branch has been called; `call` is made once all have."""
        count = self._calls.get(name, 0) + 1
        self._calls[name] = count % self.branches
        if count == self.branches:
            self.in_own_time(call)

    def in_own_time(self, call: Callable[[], None]) -> None:
        """The steps of a task share their context: what follows sees the union's watermark as the task's."""
        context = self.context
        before = context.watermark
        if before == self.watermark:
            call()
            return
        context.watermark = self.watermark
        call()
        context.watermark = before

    def close(self) -> None:
        """Also before `open`, where opening a later step failed."""
        count = self._calls["close"] = self._calls.get("close", 0) + 1
        if count == self.branches:
            self.out.close()


class _Door(Operator):
    """The end of one branch; `behind` takes its batches."""

    def __init__(self, union: UnionOperator, number: int, behind: Operator) -> None:
        super().__init__(union.step)
        self.union = union
        self.number = number
        self.behind = behind
        self.may_change_values, self.keeps_values = union.may_change_values, union.keeps_values
        self.watermark = NO_TIMESTAMP
        self.idle = False

    def process(self, batch: Batch) -> None:
        self.union.in_own_time(lambda: self.behind.process(batch))

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        self.union.heard(self.number, watermark, idle=self.idle)

    def set_idle(self, idle: bool) -> None:
        self.idle = idle
        self.union.heard(self.number, self.watermark, idle=idle)

    def wake(self, now_ms: int) -> None:
        self.union.called("wake", lambda: self.union.out.wake(now_ms))

    def finish(self) -> None:
        self.union.called("finish", self.union.out.finish)

    def tick(self) -> None:
        self.union.called("tick", self.union.out.tick)

    def flush(self) -> None:
        self.union.called("flush", self.union.out.flush)

    def close(self) -> None:
        self.union.close()


class PassOperator(Operator):
    """Hands everything on: what a stage begins with whose records were placed, and which a union follows."""

    def process(self, batch: Batch) -> None:
        self.out.process(batch)
