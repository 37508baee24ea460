"""Exactly-once and at-least-once by simulation: seeded runs full of crashes, time-outs, rebalances and failing commits,
judged by what readers of committed records see."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.runtime.chaos import Chaos, clean
from tests.unit.runtime.jobs import passing, totals, totals_of
from tests.unit.runtime.parts import Parts


@pytest.mark.parametrize("seed", range(60))
def test_rekey_exactly_once(seed: int, tmp_path: Path) -> None:
    chaos = Chaos(totals(), tmp_path, seed, disk="kept")
    assert chaos.run() == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(40))
def test_one_stage_exactly_once(seed: int, tmp_path: Path) -> None:
    chaos = Chaos(totals(in_place=True), tmp_path, 1000 + seed, disk="kept")
    assert chaos.run() == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(10))
def test_without_disk(seed: int, tmp_path: Path) -> None:
    chaos = Chaos(totals(), tmp_path, 2000 + seed, disk="none")
    assert chaos.run() == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(8))
def test_on_rocksdb(seed: int, tmp_path: Path) -> None:
    chaos = Chaos(totals(in_place=seed % 2 == 0), tmp_path, 3000 + seed, disk="rocks")
    assert chaos.run() == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(10))
def test_stateless_exactly_once(seed: int, tmp_path: Path) -> None:
    chaos = Chaos(passing(), tmp_path, 4000 + seed, disk="kept")
    found = chaos.run()
    assert {user: len(amounts) for user, amounts in found.items()} == dict.fromkeys(clean(), 10), chaos.happened


@pytest.mark.parametrize("seed", range(20))
def test_a_source_that_is_not_kafka_exactly_once(seed: int, tmp_path: Path) -> None:
    """It grows while the job runs; what was read of it is part of the checkpoint."""
    parts = Parts({"p0": [], "p1": []}, bounded=False)

    def feed(records: Iterable[tuple[str, str, int]]) -> None:
        for _, value, part in records:
            parts.values[f"p{part}"].append(value)

    chaos = Chaos(totals_of(parts), tmp_path, 7000 + seed, disk="kept", feed=feed)
    assert chaos.run() == clean(), chaos.happened


@pytest.mark.parametrize("seed", range(40))
def test_one_stage_at_least_once_has_exact_state(seed: int, tmp_path: Path) -> None:
    """Results may come twice, but each of them is one of the clean run's: no record counts twice in the state, none is
    missing, whatever an unfinished checkpoint left in the changelog."""
    chaos = Chaos(totals(in_place=True), tmp_path, 5000 + seed, disk="kept", guarantee="at_least_once")
    found = chaos.run()
    assert {user: set(seen) for user, seen in found.items()} == {user: set(seen) for user, seen in clean().items()}, (
        chaos.happened
    )


@pytest.mark.parametrize("seed", range(30))
def test_rekey_at_least_once_loses_nothing(seed: int, tmp_path: Path) -> None:
    """Between stages records may come twice, so that totals may be too large; never too small, and never too few."""
    chaos = Chaos(totals(), tmp_path, 6000 + seed, disk="kept", guarantee="at_least_once")
    found = chaos.run()
    for user, seen in clean().items():
        assert len(found[user]) >= len(seen), chaos.happened
        assert max(map(int, found[user])) >= int(seen[-1]), chaos.happened
