"""`CheckpointConfig`, under PyFlink's path: how often checkpoints are made and what they promise.

The interval and the mode are this product's settings; the others belong to a cluster's coordinator, which does not exist
here: they keep what they were set to, so that a program that sets them runs.
"""

from __future__ import annotations

from typing import Any

from kstreampy.common.time import Amount, Duration, to_millis
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

_UNLIMITED_FAILURES = 2**31 - 1


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
            "retention": ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
            "unaligned": False,
            "alignment_timeout": Duration.of_millis(0),
            "force_unaligned": False,
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
        return self._keep("timeout", checkpoint_timeout)

    def get_min_pause_between_checkpoints(self) -> int:
        return int(self._kept["min_pause"])

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int) -> CheckpointConfig:
        """Kept, with no effect: checkpoints are short and in the loop itself."""
        return self._keep("min_pause", min_pause_between_checkpoints)

    def get_max_concurrent_checkpoints(self) -> int:
        return int(self._kept["max_concurrent"])

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Kept, with no effect: there is one at a time."""
        return self._keep("max_concurrent", max_concurrent_checkpoints)

    def get_tolerable_checkpoint_failure_number(self) -> int:
        return int(self._kept["tolerable_failures"])

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> CheckpointConfig:
        """Kept, with no effect: a failed checkpoint is redone from the last good one."""
        return self._keep("tolerable_failures", tolerable_checkpoint_failure_number)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """True unless failed checkpoints are tolerated."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> CheckpointConfig:
        """Tolerates no failed checkpoint, or any number of them: `set_tolerable_checkpoint_failure_number`."""
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _UNLIMITED_FAILURES)

    def is_externalized_checkpoints_enabled(self) -> bool:
        return self.get_externalized_checkpoint_retention() is not (
            ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        )

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        retention: ExternalizedCheckpointRetention = self._kept["retention"]
        return retention

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Kept, with no effect: checkpoints lie in the job's topics, whatever becomes of the job. TypeError for anything
        else."""
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise TypeError(f"the retention must be an ExternalizedCheckpointRetention, not {retention_mode!r}")
        return self._keep("retention", retention_mode)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return bool(self._kept["unaligned"])

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Kept, with no effect: there are no barriers that inputs could be aligned by."""
        return self._keep("unaligned", enabled)

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        return self.enable_unaligned_checkpoints(False)

    def is_force_unaligned_checkpoints(self) -> bool:
        return bool(self._kept["force_unaligned"])

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> CheckpointConfig:
        """Kept, with no effect, as `enable_unaligned_checkpoints`."""
        return self._keep("force_unaligned", force_unaligned_checkpoints)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        timeout: Duration = self._kept["alignment_timeout"]
        return timeout

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Amount) -> CheckpointConfig:
        """Kept, with no effect, as `enable_unaligned_checkpoints`."""
        return self._keep("alignment_timeout", Duration.of_millis(to_millis(alignment_timeout)))

    def get_alignment_timeout(self) -> Duration:
        """The older name of `get_aligned_checkpoint_timeout`."""
        return self.get_aligned_checkpoint_timeout()

    def set_alignment_timeout(self, alignment_timeout: Amount) -> CheckpointConfig:
        """The older name of `set_aligned_checkpoint_timeout`."""
        return self.set_aligned_checkpoint_timeout(alignment_timeout)

    def _keep(self, name: str, value: Any) -> CheckpointConfig:
        self._kept[name] = value
        return self
