"""`CheckpointingMode`, under PyFlink's path."""

from __future__ import annotations

from enum import Enum


class CheckpointingMode(Enum):
    """What a checkpoint promises for state and for topics that the job writes."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"
