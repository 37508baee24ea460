"""`CheckpointConfig` keeps a cluster's settings, with Flink's defaults."""

from __future__ import annotations

import pytest

from kstreampy.common import Duration
from kstreampy.datastream import CheckpointConfig
from kstreampy.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

NONE = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION


def test_defaults_are_flinks() -> None:
    config = CheckpointConfig()
    assert (config.get_checkpoint_interval(), config.get_checkpoint_timeout()) == (-1, 600_000)
    assert (config.get_min_pause_between_checkpoints(), config.get_max_concurrent_checkpoints()) == (0, 1)
    assert config.get_externalized_checkpoint_retention() is NONE
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_aligned_checkpoint_timeout() == config.get_alignment_timeout() == Duration.of_millis(0)


@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_a_retention_is_kept(retention: ExternalizedCheckpointRetention) -> None:
    config = CheckpointConfig()
    assert config.set_externalized_checkpoint_retention(retention) is config
    assert config.get_externalized_checkpoint_retention() is retention
    assert config.is_externalized_checkpoints_enabled() is (retention is not NONE)


def test_what_is_no_retention_is_refused() -> None:
    with pytest.raises(TypeError, match="must be an ExternalizedCheckpointRetention, not 'RETAIN'"):
        CheckpointConfig().set_externalized_checkpoint_retention("RETAIN")  # type: ignore[arg-type]


def test_failing_on_errors_is_tolerating_none() -> None:
    config = CheckpointConfig()
    assert config.is_fail_on_checkpointing_errors()
    assert config.set_fail_on_checkpointing_errors(False) is config
    assert not config.is_fail_on_checkpointing_errors()
    assert config.get_tolerable_checkpoint_failure_number() == 2**31 - 1
    assert config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0
    assert not config.set_tolerable_checkpoint_failure_number(1).is_fail_on_checkpointing_errors()


def test_unaligned_checkpoints_are_kept() -> None:
    config = CheckpointConfig()
    assert config.enable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert not config.enable_unaligned_checkpoints(False).is_unaligned_checkpoints_enabled()
    assert not config.enable_unaligned_checkpoints().disable_unaligned_checkpoints().is_unaligned_checkpoints_enabled()
    assert config.set_force_unaligned_checkpoints().is_force_unaligned_checkpoints()
    assert not config.set_force_unaligned_checkpoints(False).is_force_unaligned_checkpoints()


@pytest.mark.parametrize("timeout", [Duration.of_seconds(3), 3000])
def test_the_alignment_timeout_has_two_names(timeout: Duration | int) -> None:
    config = CheckpointConfig()
    assert config.set_aligned_checkpoint_timeout(timeout).get_alignment_timeout() == Duration.of_seconds(3)
    assert config.set_alignment_timeout(5).get_aligned_checkpoint_timeout() == Duration.of_millis(5)


def test_the_retention_is_not_that_of_another_configuration() -> None:
    CheckpointConfig().set_externalized_checkpoint_retention(RETAIN)
    assert CheckpointConfig().get_externalized_checkpoint_retention() is NONE
