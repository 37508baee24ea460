"""`ExecutionConfig`: Flink's settings of an execution.

The runtime reads parallelism, maximum parallelism, the watermark interval, object reuse, generated uids and
the global job parameters. All others have no meaning without a JVM and a cluster; they keep what they were
set to, so that a program that sets them runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kstreampy.common.time import Amount, to_millis

__all__ = ["ExecutionConfig"]

MAX_MAX_PARALLELISM = 2**15


class ExecutionConfig:
    """Every setter returns the configuration itself. Intervals are milliseconds. Equal when all settings
    are."""

    PARALLELISM_DEFAULT = -1
    """The worker decides."""
    PARALLELISM_UNKNOWN = -2

    def __init__(self) -> None:
        self._parallelism = self.PARALLELISM_DEFAULT
        self._max_parallelism = -1
        self._auto_watermark_interval_ms = 200
        self._latency_tracking_interval_ms = 0
        self._task_cancellation_interval_ms = 30_000
        self._task_cancellation_timeout_ms = 180_000
        self._closure_cleaner = True
        self._force_kryo = False
        self._generic_types = True
        self._auto_generated_uids = True
        self._force_avro = False
        self._object_reuse = False
        self._snapshot_compression = False
        self._global_job_parameters: dict[str, str] = {}

    def enable_closure_cleaner(self) -> ExecutionConfig:
        return self._set("_closure_cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        return self._set("_closure_cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        return self._closure_cleaner

    def set_auto_watermark_interval(self, interval: Amount) -> ExecutionConfig:
        """How often watermarks are emitted; 0 switches periodic watermarks off."""
        return self._set("_auto_watermark_interval_ms", _at_least(0, to_millis(interval), "auto watermark interval"))

    def get_auto_watermark_interval(self) -> int:
        return self._auto_watermark_interval_ms

    def set_latency_tracking_interval(self, interval: Amount) -> ExecutionConfig:
        return self._set("_latency_tracking_interval_ms", to_millis(interval))

    def get_latency_tracking_interval(self) -> int:
        return self._latency_tracking_interval_ms

    def get_parallelism(self) -> int:
        return self._parallelism

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """`ValueError` unless at least 1, or `PARALLELISM_DEFAULT`."""
        if parallelism != self.PARALLELISM_DEFAULT:
            _at_least(1, parallelism, "parallelism")
        return self._set("_parallelism", parallelism)

    def get_max_parallelism(self) -> int:
        """-1 while it is not set."""
        return self._max_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """The number of key groups: fixed once the job's topics are made. `ValueError` unless 1 … 32768."""
        _at_least(1, max_parallelism, "max parallelism")
        if max_parallelism > MAX_MAX_PARALLELISM:
            raise ValueError(f"max parallelism must be at most {MAX_MAX_PARALLELISM}, not {max_parallelism}")
        return self._set("_max_parallelism", max_parallelism)

    def get_task_cancellation_interval(self) -> int:
        return self._task_cancellation_interval_ms

    def set_task_cancellation_interval(self, interval: Amount) -> ExecutionConfig:
        return self._set("_task_cancellation_interval_ms", to_millis(interval))

    def get_task_cancellation_timeout(self) -> int:
        return self._task_cancellation_timeout_ms

    def set_task_cancellation_timeout(self, timeout: Amount) -> ExecutionConfig:
        """0 switches the time limit off."""
        return self._set("_task_cancellation_timeout_ms", _at_least(0, to_millis(timeout), "cancellation timeout"))

    def enable_force_kryo(self) -> ExecutionConfig:
        return self._set("_force_kryo", True)

    def disable_force_kryo(self) -> ExecutionConfig:
        return self._set("_force_kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        return self._force_kryo

    def enable_generic_types(self) -> ExecutionConfig:
        return self._set("_generic_types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        return self._set("_generic_types", False)

    def has_generic_types_disabled(self) -> bool:
        return not self._generic_types

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        return self._set("_auto_generated_uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Then every stateful operator must have a `uid()`."""
        return self._set("_auto_generated_uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        return self._auto_generated_uids

    def enable_force_avro(self) -> ExecutionConfig:
        return self._set("_force_avro", True)

    def disable_force_avro(self) -> ExecutionConfig:
        return self._set("_force_avro", False)

    def is_force_avro_enabled(self) -> bool:
        return self._force_avro

    def enable_object_reuse(self) -> ExecutionConfig:
        """Records are handed from step to step without a copy: functions must not change what they were
        given."""
        return self._set("_object_reuse", True)

    def disable_object_reuse(self) -> ExecutionConfig:
        return self._set("_object_reuse", False)

    def is_object_reuse_enabled(self) -> bool:
        return self._object_reuse

    def get_global_job_parameters(self) -> dict[str, str]:
        return dict(self._global_job_parameters)

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, str]) -> ExecutionConfig:
        return self._set("_global_job_parameters", dict(global_job_parameters_dict))

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """Always empty: there is no JVM."""
        return {}

    def get_registered_kryo_types(self) -> list[str]:
        """Always empty: there is no JVM."""
        return []

    def get_registered_pojo_types(self) -> list[str]:
        """Always empty: there is no JVM."""
        return []

    def is_use_snapshot_compression(self) -> bool:
        return self._snapshot_compression

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        return self._set("_snapshot_compression", use_snapshot_compression)

    def _set(self, name: str, value: Any) -> ExecutionConfig:
        setattr(self, name, value)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionConfig) and vars(self) == vars(other)

    def __hash__(self) -> int:
        settings = {**vars(self), "_global_job_parameters": frozenset(self._global_job_parameters.items())}
        return hash(frozenset(settings.items()))


def _at_least(least: int, value: int, name: str) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
    return value
