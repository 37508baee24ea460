"""An in-memory cluster of one thread, with a clock that stands still, and a scene on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreampy.broker.memory import MemoryBroker, MemoryCluster
from tests.laws.scene import Scene

NOW_MS = 1_700_000_000_000


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=lambda: NOW_MS, blocking=False)


@pytest.fixture
def scene(cluster: MemoryCluster) -> Iterator[Scene]:
    scene = Scene(lambda: MemoryBroker(cluster))
    yield scene
    scene.close()
