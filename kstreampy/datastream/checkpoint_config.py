"""`CheckpointConfig`, under PyFlink's path: how often checkpoints are made and what they promise.

The interval and the mode are this product's settings; the others belong to a cluster's coordinator, which does not exist
here: they keep what they were set to, so that a program that sets them runs.
"""

from __future__ import annotations

from typing import Any

from kstreampy.datastream.checkpointing_mode import CheckpointingMode


class CheckpointConfig:
    """Intervals and timeouts are int milliseconds."""

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 600_000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self) -> None:
        self._interval_ms = -1
        self._mode = self.DEFAULT_MODE
        self.mode_was_set = False
        self._kept: dict[str, Any] = {
            "timeout": self.DEFAULT_TIMEOUT,
            "min_pause": self.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS,
            "max_concurrent": self.DEFAULT_MAX_CONCURRENT_CHECKPOINTS,
            "tolerable_failures": 0,
        }

    def is_checkpointing_enabled(self) -> bool:
        """Always True: a job without checkpoints would lose what it did."""
        return True

    def get_checkpoint_interval(self) -> int:
        """-1 while it is not set."""
        return self._interval_ms

    def set_checkpoint_interval(self, checkpoint_interval: int) -> CheckpointConfig:
        """ValueError unless at least 1 ms."""
        if checkpoint_interval < 1:
            raise ValueError(f"the checkpoint interval must be at least 1 ms, not {checkpoint_interval}")
        self._interval_ms = checkpoint_interval
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._mode

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """TypeError for anything else."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise TypeError(f"the checkpointing mode must be a CheckpointingMode, not {checkpointing_mode!r}")
        self._mode = checkpointing_mode
        self.mode_was_set = True
        return self

    def get_checkpoint_timeout(self) -> int:
        return int(self._kept["timeout"])

    def set_checkpoint_timeout(self, checkpoint_timeout: int) -> CheckpointConfig:
        """Kept, with no effect: see the setting `transaction_timeout_ms`."""
        self._kept["timeout"] = checkpoint_timeout
        return self

    def get_min_pause_between_checkpoints(self) -> int:
        return int(self._kept["min_pause"])

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Kept, with no effect: checkpoints are short and in the loop itself."""
        self._kept["min_pause"] = min_pause_between_checkpoints
        return self

    def get_max_concurrent_checkpoints(self) -> int:
        return int(self._kept["max_concurrent"])

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Kept, with no effect: there is one at a time."""
        self._kept["max_concurrent"] = max_concurrent_checkpoints
        return self

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return int(self._kept["tolerable_failures"])

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Kept, with no effect: a failed checkpoint is redone from the last good one."""
        self._kept["tolerable_failures"] = tolerable_checkpoint_failure_number
        return self
