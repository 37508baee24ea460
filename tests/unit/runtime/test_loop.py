"""How the tasks of an iteration's head agree that nothing is under way: golden rounds, and a model with random delays."""

from __future__ import annotations

import random
from collections import deque

import pytest

from kstreampy.graph.source import round_sender
from kstreampy.runtime.loop import LoopEnd, Rounds
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.serde.packed import Mark


class Alone:
    """One task of the head; what comes back is set by hand."""

    def __init__(self, **settings: int) -> None:
        self.back = 0
        self.now = 0
        self.end = LoopEnd(lambda: self.back, lambda: self.now, **settings)  # type: ignore[arg-type]

    def after(self, back: int) -> int:
        self.back = back
        self.end.look()
        return self.end.level


def test_two_quiet_rounds_are_the_end() -> None:
    alone = Alone()
    assert [alone.after(back) for back in (0, 3, 4)] == [4, 4, 6]
    assert alone.after(5) == 8, "another task was fed"
    assert not alone.end.drained
    assert [alone.after(back) for back in (8, 10)] == [10, 12]
    assert alone.end.drained
    assert not alone.end.over
    assert [alone.after(back) for back in (12, 14)] == [14, 14]
    assert alone.end.over


def test_a_task_that_was_fed_says_so() -> None:
    alone = Alone()
    alone.after(0)
    alone.end.was_fed()
    assert [alone.after(back) for back in (4, 4, 5)] == [5, 5, 8]
    assert [alone.after(back) for back in (8,)] == [10]


def test_what_was_fed_before_the_round_began_does_not_count() -> None:
    alone = Alone()
    alone.end.was_fed()
    assert [alone.after(back) for back in (0, 4)] == [4, 6]


def test_after_a_restart_a_task_takes_it_that_it_was_fed() -> None:
    assert Alone(level=4).after(4) == 5
    assert Alone(level=6).after(5) == 8
    resumed = Alone(level=14, drained=True)
    assert resumed.after(14) == 14
    assert resumed.end.over


def test_two_rounds_in_a_row_are_needed_at_least_once() -> None:
    alone = Alone(needed=2)
    assert [alone.after(back) for back in (0, 4, 6)] == [4, 6, 8]
    assert not alone.end.drained
    assert [alone.after(back) for back in (8, 9, 12, 14, 16)] == [10, 12, 14, 16, 18]
    assert not alone.end.drained
    assert alone.after(18) == 20
    assert alone.end.drained


def test_what_others_heard_before_a_crash_counts() -> None:
    alone = Alone(level=4)
    assert [alone.after(4), alone.after(6)] == [5, 8]
    assert alone.end.drained


def test_it_waits_for_feedback_as_long_as_it_was_told() -> None:
    alone = Alone(max_wait_ms=100)
    assert [alone.after(0), alone.after(4)] == [4, 4]
    alone.now = 99
    assert alone.after(4) == 4
    alone.end.was_fed()
    assert alone.after(4) == 5
    assert alone.after(5) == 8
    alone.now = 198
    assert alone.after(8) == 8
    alone.now = 199
    assert alone.after(8) == 10


def test_rounds_are_the_least_of_those_that_have_not_ended() -> None:
    progress = Progress()
    rounds = Rounds(["a/0", "2:b/1"], "head", progress)
    assert rounds.reached() == 0
    assert rounds.heard(round_sender("a/0", "head"), Mark("a~head", 0, 8))
    assert not rounds.heard(round_sender("a/0", "other"), Mark("a~other", 0, 99))
    assert not rounds.heard("a/0", Mark("a", 0, 99))
    assert rounds.reached() == 0
    rounds.heard(round_sender("2:b/1", "head"), Mark("b~head", 1, 5))
    rounds.heard(round_sender("2:b/1", "head"), Mark("b~head", 1, 4))
    assert rounds.reached() == 5
    assert Rounds(["a/0", "2:b/1"], "head", progress).reached() == 5
    progress.ended_senders.add("2:b/1")
    assert rounds.heard("2:b/1", Mark("b", 1, final=True))
    assert rounds.reached() == 8
    progress.ended_senders.add("a/0")
    assert rounds.reached() == MAX_WATERMARK


class Model:
    """Heads send to every body and bodies feed back to every head, over queues that keep order; any queue may be slow. A record
    is how often it still goes around. Timers: what a body feeds back when it hears of the last watermark."""

    def __init__(self, seed: int, heads: int, bodies: int, needed: int) -> None:
        self.dice = random.Random(seed)
        self.down: dict[tuple[int, int], deque[tuple[str, int]]] = {
            (head, body): deque() for head in range(heads) for body in range(bodies)
        }
        self.up: dict[tuple[int, int], deque[tuple[str, int]]] = {
            (body, head): deque() for head in range(heads) for body in range(bodies)
        }
        self.told = [[0] * bodies for _ in range(heads)]
        self.heard = [[0] * heads for _ in range(bodies)]
        self.passed = [0] * bodies
        self.maxed = [[False] * heads for _ in range(bodies)]
        self.fired = [False] * bodies
        self.said = [0] * heads
        self.drained = [False] * heads
        self.ends = [LoopEnd(self._returned(head), lambda: 0, needed=needed) for head in range(heads)]
        self.done = 0

    def _returned(self, head: int):  # type: ignore[no-untyped-def]
        return lambda: min(self.told[head])

    def send(self, head: int, left: int) -> None:
        self.down[head, self.dice.randrange(len(self.passed))].append(("record", left))

    def feed(self, body: int, left: int) -> None:
        self.up[body, self.dice.randrange(len(self.ends))].append(("record", left))

    def look(self, head: int) -> None:
        """Says what is new to everybody: the last watermark first."""
        end = self.ends[head]
        end.look()

    def flush(self, head: int) -> None:
        end = self.ends[head]
        if end.drained and not self.drained[head]:
            self.drained[head] = True
            self._tell(self.down, head, ("max", 0))
        if end.level > self.said[head]:
            self.said[head] = end.level
            self._tell(self.down, head, ("round", end.level))

    def _tell(self, queues: dict[tuple[int, int], deque[tuple[str, int]]], sender: int, what: tuple[str, int]) -> None:
        for (one, _), queue in queues.items():
            if one == sender:
                queue.append(what)

    def step(self) -> bool:
        ends = enumerate(self.ends)
        possible = [("down", key) for key, queue in self.down.items() if queue]
        possible += [("up", key) for key, queue in self.up.items() if queue]
        possible += [("flush", (h, h)) for h, end in ends if end.level > self.said[h] or end.drained > self.drained[h]]
        pick = self.dice.choice(possible or [("", (0, 0))])
        match pick:
            case "down", (head, body):
                self._take(head, body, *self.down[head, body].popleft())
            case "up", (body, head):
                kind, number = self.up[body, head].popleft()
                if kind == "record":
                    assert not self.ends[head].over, "a record came after the end"
                    self.ends[head].was_fed()
                    self.send(head, number)
                else:
                    self.told[head][body] = max(self.told[head][body], number)
                    self.look(head)
            case "flush", (head, _):
                self.flush(head)
            case _:
                return False
        return True

    def _take(self, head: int, body: int, kind: str, number: int) -> None:
        if kind == "record":
            if number:
                self.feed(body, number - 1)
            else:
                self.done += 1
        elif kind == "max":
            self.maxed[body][head] = True
            if all(self.maxed[body]) and not self.fired[body]:
                self.fired[body] = True
                self.feed(body, 2)
        else:
            self.heard[body][head] = number
            reached = min(self.heard[body])
            if reached > self.passed[body]:
                self.passed[body] = reached
                self._tell(self.up, body, ("round", reached))


@pytest.mark.parametrize("needed", [1, 2])
@pytest.mark.parametrize("seed", range(150))
def test_it_ends_when_nothing_is_under_way_and_not_before(seed: int, needed: int) -> None:
    dice = random.Random(seed)
    model = Model(seed, dice.randint(1, 4), dice.randint(1, 4), needed)
    records = dice.randint(0, 12)
    for _ in range(records):
        model.send(dice.randrange(len(model.ends)), dice.randint(0, 6))
    for head in range(len(model.ends)):
        model.look(head)
    for _ in range(100_000):
        if not model.step():
            break
    assert all(end.over for end in model.ends)
    assert model.done == records + len(model.fired)
    assert not any(kind == "record" for queue in (*model.up.values(), *model.down.values()) for kind, _ in queue)
