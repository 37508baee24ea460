"""How a loop of stages comes to its end: a bounded job's iteration has ended when its input has and nothing is under way in it.

The tasks of the head agree on that in rounds. A round is a number that goes around the loop behind all records: a task passes it
on, at a checkpoint, when all that send to it have. A head task *has* a round back when all that feed back have passed it on.
Numbers say more than the round, four to each:

    4 r      the task has begun round r
    4 r + 1  round r is back, and something was fed back to this task since it began
    4 r + 2  round r is back, and nothing was

What comes back is the least of what the head's tasks have said, so 4 r + 2 comes back only if nothing was fed back to any of
them: then nothing is under way, since all that was sent before the round is through, and nothing was sent after it. Otherwise
4 r + 1 comes back, to all of them, and they begin the next round.

When it is quiet for the first time, the head lets the last watermark go: timers and windows may feed back once more. When it is
quiet again, the head ends, and with it the loop. Watermarks do not travel over the feedback edge, and the loop's stages see the
last one only now: what is under way when the input ends is not late.

Rounds are told by marks of senders of their own, `<stage>~<head>`, and kept among the watermarks of senders. In here: the
intakes of the loop's stages, and `LoopEnd`, the rounds of a head task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kstreampy.broker.broker import Chunk, TopicPartition
from kstreampy.graph.source import Input, PackedInput, round_sender, side_of
from kstreampy.operators.operator import TaskContext
from kstreampy.runtime.arrival import Arrival, CaughtUp
from kstreampy.runtime.intake import PackedIntake
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.serde.packed import Mark

_OWN = "~round"
"""Under this name a head task keeps what it has said last."""


class Rounds:
    """How far those that send to a task have come. One that is not of the loop holds everything until it has ended."""

    def __init__(self, senders: Iterable[str], loop: str, progress: Progress) -> None:
        self.progress = progress
        self.names = {round_sender(sender, loop): sender for sender in senders}

    def heard(self, name: str, mark: Mark) -> bool:
        """True if the mark was about a round, or the end of a sender."""
        told = self.progress.sender_watermarks
        if name in self.names:
            told[name] = max(mark.watermark, told.get(name, 0))
            return True
        return mark.final

    def reached(self) -> int:
        """The least; `MAX_WATERMARK` when all have ended."""
        told, ended = self.progress.sender_watermarks, self.progress.ended_senders
        return min(
            (told.get(name, 0) for name, sender in self.names.items() if sender not in ended), default=MAX_WATERMARK
        )


class LoopIntake(PackedIntake):
    """Of a stage within a loop: passes rounds on."""

    def __init__(
        self,
        source: Input,
        context: TaskContext,
        partitions: Sequence[TopicPartition],
        upstream: Sequence[str],
        progress: Progress,
    ) -> None:
        super().__init__(source, partitions, upstream, progress)
        assert context.loop is not None, "made for loops"
        self.rounds = Rounds(upstream, context.loop, progress)
        self._look()

    def _heard(self, sender: str, mark: Mark) -> None:
        super()._heard(sender, mark)
        if self.rounds.heard(sender, mark):
            self._look()

    def _look(self) -> None:
        reached = self.rounds.reached()
        if reached < MAX_WATERMARK:
            self.round = max(self.round, reached)


class HeadIntake(PackedIntake):
    """Of the head: its input, and what is fed back. Only the input has part in time and in the end."""

    def __init__(
        self,
        source: Input,
        context: TaskContext,
        partitions: Sequence[TopicPartition],
        upstream: Sequence[str],
        progress: Progress,
    ) -> None:
        super().__init__(source, partitions, [name for name in upstream if side_of(name) == 0], progress)
        assert isinstance(source.origin, PackedInput), "a head reads batches"
        assert source.origin.second is not None, "a head has a second input"
        assert context.loop is not None, "made for loops"
        self.feeding = frozenset(name for name in upstream if side_of(name) == 1)
        self.rounds = Rounds(self.feeding, context.loop, progress)
        self.end = LoopEnd(
            self.rounds.reached,
            context.clock,
            max_wait_ms=source.origin.second.max_wait_ms,
            needed=1 if context.exactly_once else 2,
            level=progress.sender_watermarks.get(_OWN, 0),
            drained=progress.watermark == MAX_WATERMARK,
        )
        self.round = self.end.level

    def take(self, chunk: Chunk) -> Iterator[Arrival]:
        for arrival in super().take(chunk):
            if arrival.side == 1:
                self.end.was_fed()
            yield arrival

    def _heard(self, sender: str, mark: Mark) -> None:
        super()._heard(sender, mark)
        if mark.final and sender in self.feeding:
            self.progress.ended_senders.add(sender)
        if self.rounds.heard(sender, mark):
            self._look()

    def _look(self) -> None:
        """Every single mark counts, see `LoopEnd.look`."""
        if self._input_has_ended():
            self.end.look()
            self.round = self.progress.sender_watermarks[_OWN] = self.end.level

    def _input_has_ended(self) -> bool:
        return super().at_end()

    def probe(self, caught_up: CaughtUp) -> None:
        self._look()

    def watermark(self) -> int:
        self._look()
        reached = super().watermark()
        return self.progress.watermark if reached == MAX_WATERMARK and not self.end.drained else reached

    def at_end(self) -> bool:
        return self.end.over


def loop_intake(
    source: Input,
    context: TaskContext,
    partitions: Sequence[TopicPartition],
    upstream: Sequence[str],
    progress: Progress,
) -> PackedIntake:
    """The intake of a loop's stage."""
    origin = source.origin
    is_head = isinstance(origin, PackedInput) and origin.second is not None and origin.second.feeds_back
    return (HeadIntake if is_head else LoopIntake)(source, context, partitions, upstream, progress)


class LoopEnd:
    """The rounds of one task of the head, once its input has ended. Lives as long as its intake; what it must remember is the
    level. After a restart the task takes it that something was fed back."""

    def __init__(
        self,
        returned: Callable[[], int],
        clock: Callable[[], int],
        *,
        max_wait_ms: int = 0,
        needed: int = 1,
        level: int = 0,
        drained: bool = False,
    ) -> None:
        """`returned`: what has come back; `max_wait_ms`: for so long nothing must have been fed back; `needed`: so many quiet
        rounds in a row; `level`: what the task has said before; `drained`: it was quiet once."""
        self.returned = returned
        self.clock = clock
        self.max_wait_ms = max_wait_ms
        self.needed = needed
        self.level = level
        self.drained = drained
        self.over = False
        self.fed = level > 0
        self.fed_at = clock()
        self.quiet = 0

    def was_fed(self) -> None:
        self.fed = True
        self.fed_at = self.clock()

    def look(self) -> None:
        """Says what there is to say. To be called for every mark: a round's 4 r + 1 comes back as such only until the task
        that said so goes on."""
        if self.level == 0:
            self._begin(4)
        while not self.over and self._step(self.returned()):
            pass

    def _begin(self, level: int) -> None:
        self.level = level
        self.fed = False

    def _step(self, returned: int) -> bool:
        """True if something changed."""
        begun, said = self.level // 4 * 4, self.level % 4
        if said == 0:
            return returned >= begun and self._say()
        if returned <= begun:
            return False
        if returned == begun + 1:
            self.quiet = 0
            self._begin(begun + 4)
        else:  # also where this task said otherwise before a crash, at-least-once: the others go by that
            self._is_quiet(begun)
        return True

    def _say(self) -> bool:
        if not self.fed and self.clock() < self.fed_at + self.max_wait_ms:
            return False
        self.level += 1 if self.fed else 2
        return True

    def _is_quiet(self, begun: int) -> None:
        self.quiet += 1
        if self.quiet < self.needed:
            self._begin(begun + 4)
        elif not self.drained:
            self.drained, self.quiet = True, 0
            self._begin(begun + 4)
        else:
            self.over = True
