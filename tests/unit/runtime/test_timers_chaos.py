"""Timers by simulation: seeded runs full of crashes, time-outs, rebalances and failing commits, judged by the clean run."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreampy.state import timer
from tests.unit.runtime.chaos import Chaos
from tests.unit.runtime.timer_jobs import alarms, clean, ends, parted


class TimedChaos(Chaos):
    def _calm(self) -> None:
        """Behind all trouble, both times come to their end."""
        super()._calm()
        self.scene.feed(ends())
        self.scene.now_ms += 1_000_000
        super()._calm()


@pytest.fixture(autouse=True, params=["all near", "few near"])
def near(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all timers are in memory, or most of them in the store only."""
    if request.param == "few near":
        monkeypatch.setattr(timer, "_CHUNK", 3)
        monkeypatch.setattr(timer, "_MOST_NEAR", 4)


@pytest.mark.parametrize("seed", range(40))
def test_rekey_exactly_once(seed: int, tmp_path: Path) -> None:
    chaos = TimedChaos(alarms(), tmp_path, seed, disk="kept")
    assert parted(chaos.run()) == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(30))
def test_one_stage_exactly_once(seed: int, tmp_path: Path) -> None:
    chaos = TimedChaos(alarms(in_place=True), tmp_path, 1000 + seed, disk="kept")
    assert parted(chaos.run()) == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(6))
def test_without_disk(seed: int, tmp_path: Path) -> None:
    chaos = TimedChaos(alarms(), tmp_path, 2000 + seed, disk="none")
    assert parted(chaos.run()) == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(5))
def test_on_rocksdb(seed: int, tmp_path: Path) -> None:
    chaos = TimedChaos(alarms(in_place=seed % 2 == 0), tmp_path, 3000 + seed, disk="rocks")
    assert parted(chaos.run()) == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(40))
def test_one_stage_at_least_once_has_exact_timers(seed: int, tmp_path: Path) -> None:
    """Results may come twice, but each of them is one of the clean run's: no timer counts twice in the state, none is
    missing, whatever an unfinished checkpoint left in the topics."""
    chaos = TimedChaos(alarms(in_place=True), tmp_path, 5000 + seed, disk="kept", guarantee="at_least_once")
    found = chaos.run()
    for told, expected in zip(parted(found), clean(), strict=True):
        assert {user: set(seen) for user, seen in told.items()} == {
            user: set(seen) for user, seen in expected.items()
        }, chaos.happened


@pytest.mark.parametrize("seed", range(15))
def test_rekey_at_least_once_loses_nothing(seed: int, tmp_path: Path) -> None:
    """Between stages a record may come twice, and sets the timers that it had set before: one more firing, never fewer."""
    chaos = TimedChaos(alarms(), tmp_path, 6000 + seed, disk="kept", guarantee="at_least_once")
    event, processing = parted(chaos.run())
    for user, seen in clean()[0].items():
        assert {text.partition("#")[0] for text in event[user]} >= {text.partition("#")[0] for text in seen}
    for user, seen in clean()[1].items():
        assert set(processing[user]) == set(seen), chaos.happened
