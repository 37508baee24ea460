"""A worker may have more files open than the usual soft limit says."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreampy.broker.memory import MemoryBroker
from kstreampy.runtime.open_files import allow_many
from kstreampy.runtime.process import run_process
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.stop import StopSignal
from tests.unit.runtime.jobs import totals
from tests.unit.runtime.scene import Scene

FEW = 512


def limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.fixture(autouse=True)
def _few() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= FEW:
        pytest.skip(f"this system allows {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_worker_raises_the_limit(tmp_path: Path) -> None:
    with Scene(totals(bounded=True), tmp_path) as scene:
        settings = Settings(application_id="app", state_dir=scene.root / "state")
        run_process(scene.plan, settings, lambda: MemoryBroker(scene.cluster), StopSignal())
    assert limit() > FEW


def test_what_the_system_refuses_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(what: int, limits: tuple[int, int]) -> None:
        asked.append(limits[0])
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    allow_many()
    assert asked
    assert limit() == FEW
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    asked.clear()
    allow_many()
    assert asked == []
