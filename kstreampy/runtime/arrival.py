"""What an intake hands on: batches, each with where its records came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kstreampy.broker.broker import TopicPartition
from kstreampy.serde.batch import Batch


class Arrival(NamedTuple):
    """A batch, and where its records came from: `coordinate(i)` names the source of record i in messages."""

    batch: Batch
    coordinate: Callable[[int], str]
    side: int = 0
    """Which input of a stage that has two."""


CaughtUp = Callable[[TopicPartition], bool]
"""Whether all that a partition has for now was read."""
