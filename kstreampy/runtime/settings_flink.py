"""Flink's configuration keys as settings, for programs that bring a `Configuration` with them.

In here: the keys that mean something here. Keys of a cluster, a JVM or a Python sandbox have nothing to act
on: they are left out and logged once. `kstreampy.<setting>` in a Configuration is that setting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kstreampy.errors import JobError
from kstreampy.runtime.settings import name_from
from kstreampy.runtime.settings_source import known_name

_log = logging.getLogger(__name__)

_OWN: Final = "kstreampy."


def _as_it_is(value: Any) -> Any:
    return value


def _name(value: Any) -> Any:
    return name_from(str(value))


_SETTING_OF: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "parallelism.default": ("workers", _as_it_is),
    "pipeline.max-parallelism": ("max_parallelism", _as_it_is),
    "pipeline.name": ("application_id", _name),
    "pipeline.auto-watermark-interval": ("watermark_interval_ms", _as_it_is),
    "execution.checkpointing.interval": ("checkpoint_interval_ms", _as_it_is),
    "execution.checkpointing.mode": ("guarantee", _as_it_is),
    "taskmanager.memory.managed.size": ("state_memory_bytes", _as_it_is),
}


def from_flink_configuration(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a Flink configuration stands for, for the code layer of `resolve`.

    JobError for a `kstreampy.…` key that is no setting; Flink's other keys are left out with one log line.
    """
    settings: dict[str, Any] = {}
    ignored: list[str] = []
    for key, value in configuration.items():
        if key.startswith(_OWN):
            name = key.removeprefix(_OWN)
            if known_name(name) is None and not name.startswith("kafka."):
                raise JobError(f"Configuration has {key!r}, and there is no setting {name!r}")
            settings[name] = value
        elif key in _SETTING_OF:
            name, convert = _SETTING_OF[key]
            settings[name] = convert(value)
        else:
            ignored.append(key)
    if ignored:
        _log.info("Flink settings without a meaning here, left out: %s", ", ".join(sorted(ignored)))
    return settings
