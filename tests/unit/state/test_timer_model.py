"""Timers against a set: any order of registering, deleting, firing, checkpoints, crashes and restores, in both stores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Token
from kstreampy.serde.key import token
from kstreampy.state import timer
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.rocks import RocksBudget, RocksStore
from kstreampy.state.store import Store
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.timer import EVENT, PROCESSING, TIMER_PREFIX, Timers

MIB = 1 << 20
Timer = tuple[int, Token, bytes]
Place = tuple[str, str]

PLACES = st.sampled_from([("a", EVENT), ("a", PROCESSING), ("b", EVENT)])
TIMES = st.integers(-3, 25) | st.sampled_from([NO_TIMESTAMP, MAX_WATERMARK])
KEYS = st.sampled_from([token(key) for key in (1, 1.0, True, "1", b"1", "", b"", "x" * 200)])
NAMESPACES = st.sampled_from([b"", b"\x00", b"w"])
TIMERS = st.lists(st.tuples(TIMES, KEYS, NAMESPACES), min_size=1, max_size=12)


@pytest.fixture(autouse=True, scope="module")
def few_in_memory() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(timer, "_CHUNK", 3)
    patch.setattr(timer, "_MOST_NEAR", 6)
    patch.setattr(timer, "_SLACK", 1)
    yield
    patch.undo()


class TimersMachine(RuleBasedStateMachine):
    """What should be pending, and what was so at the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[Place, set[Timer]] = {}
        self.then: dict[Place, set[Timer]] = {}
        self.log: dict[bytes, bytes | None] = {}
        self.offset = 0
        self.directory = tempfile.TemporaryDirectory()

    @initialize(on_disk=st.booleans(), budget=st.sampled_from([1, 600, 10 * MIB]), behind=st.sampled_from([0, 2_500]))
    def open(self, on_disk: bool, budget: int, behind: int) -> None:
        self.rocks = RocksBudget(MIB) if on_disk else None
        self.budget = CacheBudget(budget)
        self.behind = behind
        self.store: Store = MemoryStore() if self.rocks is None else self.disk(self.rocks)
        self.begin()

    def disk(self, rocks: RocksBudget) -> Store:
        return RocksStore(Path(self.directory.name) / "s", rocks)

    def begin(self) -> None:
        self.state = KeyedState(self.store, self.budget, write_behind_ms=self.behind)
        self.now = {place: set(timers) for place, timers in self.then.items()}

    def timers(self, place: Place) -> tuple[Timers, set[Timer]]:
        return self.state.timers(*place), self.now.setdefault(place, set())

    @rule(place=PLACES, added=TIMERS)
    def register(self, place: Place, added: list[Timer]) -> None:
        timers, model = self.timers(place)
        for one in added:
            timers.register(*one)
            model.add(one)

    @rule(place=PLACES, gone=TIMERS)
    def delete(self, place: Place, gone: list[Timer]) -> None:
        timers, model = self.timers(place)
        for one in gone:
            timers.delete(*one)
            model.discard(one)

    @rule(place=PLACES, until=TIMES, added=TIMERS, gone=TIMERS)
    def fire(self, place: Place, until: int, added: list[Timer], gone: list[Timer]) -> None:
        """With each timer that fires, one more is set and one is deleted."""
        timers, model = self.timers(place)
        added, gone = list(added), list(gone)
        for one in timers.due(until):
            assert one in model
            assert one[0] == min(time for time, _, _ in model) <= until
            model.remove(one)
            if added:
                timers.register(*added[-1])
                model.add(added.pop())
            if gone:
                timers.delete(*gone[-1])
                model.discard(gone.pop())
        assert not [one for one in model if one[0] <= until]

    @rule(place=PLACES)
    def look(self, place: Place) -> None:
        timers, model = self.timers(place)
        assert timers.next_time() == min((time for time, _, _ in model), default=None)

    @rule()
    def commit(self) -> None:
        dirty = self.state.take_dirty()
        assert dirty == self.state.take_dirty()
        assert len({key for key, _ in dirty.timers}) == len(dirty.timers)
        self.offset += 1
        local = LocalMeta("t", self.offset, self.offset * 1_000)
        self.state.committed(dirty, local, local if dirty.timers else None)
        self.log.update(dirty.timers)
        self.then = {place: set(timers) for place, timers in self.now.items()}
        assert self.state.take_dirty().timers == []

    @rule()
    def crash(self) -> None:
        """Nothing that was set since the last commit survives."""
        self.state.discard()
        self.now = {place: set(timers) for place, timers in self.then.items()}

    @rule()
    def reopen(self) -> None:
        if self.rocks is not None:
            self.state.close()
            self.store = self.disk(self.rocks)
        else:
            self.state.discard()
        self.begin()

    @rule()
    def restore(self) -> None:
        """A new disk, and all that the topic holds."""
        self.state.reset()
        entries = [(key, value) for key, value in self.log.items() if value is not None]
        self.state.task_timers.apply(entries, LocalMeta("t", self.offset, self.offset * 1_000))
        self.begin_again()

    def begin_again(self) -> None:
        self.now = {place: set(timers) for place, timers in self.then.items()}

    @invariant()
    def the_log_holds_what_was_pending_at_the_last_commit(self) -> None:
        live = [key for key, value in self.log.items() if value is not None]
        assert len(live) == sum(map(len, self.then.values()))

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        self.commit()
        self.state._write_out()
        with self.store.scan(TIMER_PREFIX) as rows:
            assert {key for key, _ in rows} == {key for key, value in self.log.items() if value is not None}
        for place, model in self.now.items():
            assert sorted(self.state.timers(*place).due(MAX_WATERMARK), key=repr) == sorted(model, key=repr)
        assert self.store.open_scans == 0
        self.state.close()
        self.directory.cleanup()


TestTimers = TimersMachine.TestCase
TestTimers.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
