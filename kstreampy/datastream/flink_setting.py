"""Flink's configuration keys that stand for a call on the environment, such as `parallelism.default`.

In here: those keys, applied when a `Configuration` is handed in, so that of a key and a call the later one counts, as in
Flink. Not in here: keys that are settings only (`runtime/settings_flink.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstreampy.common.configuration import Configuration
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.execution_mode import RuntimeExecutionMode
from kstreampy.errors import JobError
from kstreampy.runtime.settings_units import duration_ms

if TYPE_CHECKING:
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment


def _ms(value: str) -> int:
    return int(str(duration_ms(value)))


def _generate_uids(env: StreamExecutionEnvironment, value: str) -> None:
    if {"true": True, "false": False}[value.strip().lower()]:
        env.get_config().enable_auto_generated_uids()
    else:
        env.get_config().disable_auto_generated_uids()


def _parameters(value: str) -> dict[str, str]:
    """Flink's form of a map, `key:value,key:value`, without its quotes."""
    if "'" in value or '"' in value:
        raise ValueError("quotes are not understood: call get_config().set_global_job_parameters({...}) instead")
    found: dict[str, str] = {}
    for item in filter(None, map(str.strip, value.split(","))):
        key, colon, parameter = item.partition(":")
        if not colon:
            raise ValueError(f"{item!r} is no key:value")
        found[key.strip()] = parameter.strip()
    return found


_CALLS: dict[str, Callable[[StreamExecutionEnvironment, str], object]] = {
    "parallelism.default": lambda env, value: env.set_parallelism(int(value)),
    "pipeline.max-parallelism": lambda env, value: env.set_max_parallelism(int(value)),
    "pipeline.auto-watermark-interval": lambda env, value: env.get_config().set_auto_watermark_interval(_ms(value)),
    "pipeline.auto-generate-uids": _generate_uids,
    "pipeline.global-job-parameters": lambda env, value: env.get_config().set_global_job_parameters(_parameters(value)),
    "execution.checkpointing.interval": lambda env, value: env.enable_checkpointing(_ms(value)),
    "execution.checkpointing.mode": lambda env, value: env.get_checkpoint_config().set_checkpointing_mode(
        CheckpointingMode(value.strip().lower().replace("-", "_"))
    ),
    "execution.runtime-mode": lambda env, value: env.set_runtime_mode(RuntimeExecutionMode[value.strip().upper()]),
}


def apply_calls(env: StreamExecutionEnvironment, configuration: Configuration) -> None:
    """Makes the calls that the keys stand for. JobError for a value that one of them does not take."""
    for key, value in configuration.to_dict().items():
        call = _CALLS.get(key)
        if call is None:
            continue
        try:
            call(env, value)
        except (ValueError, KeyError, TypeError) as error:
            raise JobError(f"Configuration: {key} = {value!r} cannot be used: {error}") from error


def without_calls(configuration: Configuration) -> dict[str, str]:
    """The other keys."""
    return {key: value for key, value in configuration.to_dict().items() if key not in _CALLS}
