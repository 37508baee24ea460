"""`ExternalizedCheckpointRetention`, under PyFlink's path."""

from __future__ import annotations

from enum import Enum


class ExternalizedCheckpointRetention(Enum):
    """What shall become of checkpoints when a job is cancelled. It changes nothing here: what a checkpoint has made
    durable lies in the job's topics for as long as they do."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
