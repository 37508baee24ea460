"""`RuntimeExecutionMode`, under PyFlink's path."""

from __future__ import annotations

from enum import Enum


class RuntimeExecutionMode(Enum):
    """How a job runs. Here every job runs as STREAMING; a bounded one ends by itself."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
