"""Windows in flight over checkpoints, evictions and restarts: the store is the truth."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_merging import MergingWindowOperator
from kstreampy.operators.window_session import SessionWindowOperator
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.task_meta import LocalMeta
from tests.unit.operators.standin import Collecting, context
from tests.unit.operators.windowing import Recording, Step, concat, spec

TEN = TumblingEventTimeWindows.of(10)
SESSIONS = EventTimeSessionWindows.with_gap(10)
COUNT = PurgingTrigger.of(CountTrigger.of(3))

KINDS: dict[str, tuple[Any, Any]] = {
    "tumbling list": (spec(TEN), WindowOperator),
    "tumbling reduce late": (spec(TEN, reduce=concat, allowed_lateness_ms=7, late_tag_id="late"), WindowOperator),
    "sliding list": (spec(SlidingEventTimeWindows.of(10, 4)), WindowOperator),
    "continuous": (spec(TEN, ContinuousEventTimeTrigger.of(3)), WindowOperator),
    "sessions list": (spec(SESSIONS, allowed_lateness_ms=4), SessionWindowOperator),
    "sessions reduce": (spec(SESSIONS, reduce=concat), SessionWindowOperator),
    "sessions general": (spec(SESSIONS, reduce=concat, allowed_lateness_ms=4), MergingWindowOperator),
    "sessions counted": (spec(SESSIONS, CountTrigger.of(3)), MergingWindowOperator),
    "count": (spec(GlobalWindows.create(), COUNT, reduce=concat), WindowOperator),
    "count evicted": (spec(GlobalWindows.create(), CountTrigger.of(2), evictor=CountEvictor.of(5)), WindowOperator),
    "processing": (spec(TumblingProcessingTimeWindows.of(10)), WindowOperator),
    "processing sessions": (spec(ProcessingTimeSessionWindows.with_gap(3), reduce=concat), MergingWindowOperator),
}


class Durable(Step):
    """`checkpoint` writes to the store; `restart` begins anew with what is there."""

    def __init__(self, drawn: Any, cls: Any, cache_bytes: int) -> None:
        self.cls = cls
        self.drawn = drawn
        self.store = MemoryStore()
        self.cache_bytes = cache_bytes
        super().__init__(drawn, cls)
        self.task.watermark = -(2**63)
        self.restart()

    def restart(self) -> None:
        watermark, marks = self.task.watermark, self.task.step_watermarks
        state = KeyedState(self.store, CacheBudget(self.cache_bytes))
        self.task = context(clock=lambda: self.now, state=state, watermark=watermark, step_watermarks=dict(marks))
        self.main, sides = Collecting(), self.sides
        self.operator = self.cls("the windows", "window-1", self.drawn)
        self.operator.out = self.main
        self.operator.sides = sides
        self.operator.open(self.task)

    def checkpoint(self) -> None:
        state = self.task.state
        meta = LocalMeta("changelog", 0, 0)
        state.committed(state.take_dirty(), meta, meta)


def play(windows: Step, seed: int, events: int = 300) -> list[Any]:
    """Everything that is emitted, in the order of time and keys."""
    dice = random.Random(seed)
    out: list[Any] = []
    watermark = now = 0
    for _ in range(events):
        roll = dice.random()
        disturbed = dice.random()
        if roll < 0.7:
            rows = [(chr(97 + dice.randrange(26)), watermark + dice.randrange(-12, 25), f"k{dice.randrange(6)}")]
            out.append(sorted(map(repr, windows.elements(rows * dice.choice((1, 1, 2))))))
        elif roll < 0.9:
            watermark += dice.randrange(12)
            out.append(sorted(map(repr, windows.watermark(watermark))))
        else:
            now += dice.randrange(6)
            out.append(sorted(map(repr, windows.time(now))))
        if isinstance(windows, Durable) and disturbed < 0.3:
            windows.checkpoint()
            if disturbed < 0.1:
                windows.restart()
    out.append(sorted(map(repr, windows.watermark(2**63 - 1))))
    out.append(sorted(map(repr, windows.time(10_000))))
    return [*out, windows.late()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cache_bytes", [1, 1 << 24])
@pytest.mark.parametrize("seed", range(4))
def test_checkpoints_evictions_and_restarts_change_nothing(kind: str, cache_bytes: int, seed: int) -> None:
    drawn, cls = KINDS[kind]
    durable = Durable(drawn, cls, cache_bytes)
    assert play(durable, seed) == play(Step(drawn, cls), seed)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("count")])
def test_nothing_is_left_in_the_store_at_the_end(kind: str) -> None:
    drawn, cls = KINDS[kind]
    durable = Durable(drawn, cls, 1)
    play(durable, 7)
    durable.checkpoint()
    with durable.store.scan(b"window-1/") as rows:
        assert [key for key, _ in rows if key != b"window-1/window/contents\x00\x00"] == []
    with durable.store.scan(b"\0T") as rows:
        assert list(rows) == []


def test_the_windows_of_a_batch_are_read_at_once() -> None:
    drawn, cls = KINDS["tumbling reduce late"]
    durable = Durable(drawn, cls, 1)
    rows = [("a", 5, f"k{number}") for number in range(50)]
    durable.elements(rows)
    durable.checkpoint()
    durable.restart()
    calls = []
    get_many = durable.store.get_many
    durable.store.get_many = lambda keys: calls.append(len(keys)) or get_many(keys)  # type: ignore[method-assign]
    durable.elements(rows)
    assert calls == [50]


@pytest.mark.parametrize("seed", range(3))
def test_sessions_go_on_from_what_the_general_operator_stored_and_the_other_way_round(seed: int) -> None:
    """Time stands still, since their timers are not the same."""
    dice = random.Random(seed)
    drawn = spec(SESSIONS, reduce=concat, function=Recording(), allowed_lateness_ms=4)
    rows = [[("x", dice.randrange(200), f"k{dice.randrange(3)}") for _ in range(8)] for _ in range(4)]
    durable, plain = Durable(drawn, MergingWindowOperator, 1), Step(drawn, MergingWindowOperator)
    for number, batch in enumerate(rows):
        durable.cls = (MergingWindowOperator, SessionWindowOperator)[number % 2]
        durable.restart()
        assert durable.elements(batch) == plain.elements(batch) == []
        durable.checkpoint()
    durable.cls = SessionWindowOperator
    durable.restart()
    sets = durable.operator.sets  # type: ignore[attr-defined]
    sets.load(["k0", "k1", "k2"])
    general = plain.operator.sets.entries  # type: ignore[attr-defined]
    assert {key: dict(found.items()) for key, found in sets.entries.items()} == general


def test_of_a_new_session_nothing_is_read() -> None:
    durable = Durable(spec(SESSIONS, reduce=concat, function=Recording()), SessionWindowOperator, 1)
    durable.elements([("a", 5, "k"), ("b", 6, "l")])
    durable.checkpoint()
    durable.restart()
    calls = []
    get_many = durable.store.get_many
    durable.store.get_many = lambda keys: calls.append(len(keys)) or get_many(keys)  # type: ignore[method-assign]
    durable.elements([("c", 5, "k"), ("d", 40, "k"), ("e", 6, "l"), ("f", 60, "x")])
    assert calls == [3, 2]  # the windows in flight of all keys, and what those hold
    assert durable.watermark(100) == [
        ("k", TimeWindow(5, 15), ["ac"]),
        ("l", TimeWindow(6, 16), ["be"]),
        ("k", TimeWindow(40, 50), ["d"]),
        ("x", TimeWindow(60, 70), ["f"]),
    ]
