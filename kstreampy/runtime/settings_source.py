"""Where settings come from and which one wins: code < file (`kstreampy.toml`) < environment < command line.

In here: reading the four layers, naming what is unknown in them, and `resolve`, which also keeps the origin
of each value. Not in here: the settings themselves (`settings.py`).
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from kstreampy.errors import JobError
from kstreampy.observe.secret import masked
from kstreampy.runtime.settings import Settings, default_state_dir, name_from
from kstreampy.runtime.settings_kafka import check_kafka_keys, flatten_kafka, kafka_key_of_environment

FILE_NAME: Final = "kstreampy.toml"
PREFIX: Final = "KSTREAMPY_"
CONFIG_VARIABLE: Final = "KSTREAMPY_CONFIG"
DEBUG_VARIABLE: Final = "KSTREAMPY_DEBUG"
WORKER_VARIABLE: Final = "KSTREAMPY_WORKER"
"""Set by the supervisor for its children (`supervisor.py`), never by people."""

_NOT_SETTINGS: Final = {CONFIG_VARIABLE, DEBUG_VARIABLE, WORKER_VARIABLE}

# Kubernetes puts the address of every Service into the environment of every pod: a Service named
# `kstreampy-kafka` gives KSTREAMPY_KAFKA_SERVICE_HOST and KSTREAMPY_KAFKA_PORT=tcp://… These are nobody's
# settings.
_SERVICE_LINK: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*")

_UNITS: Final = ("_ms", "_s", "_bytes")
KNOWN: Final = tuple(Settings.model_fields)
_ALIASES: Final = {
    "stage": "stages",
    **{name.removesuffix(unit): name for name in KNOWN for unit in _UNITS if name.endswith(unit)},
}


@dataclass(frozen=True)
class Resolved:
    """The settings, and for each of them (and each `kafka.…` key) where its value came from."""

    settings: Settings
    origin: Mapping[str, str]

    def rows(self) -> list[tuple[str, object, str]]:
        """`(name, value as it may be shown, origin)` of every setting, in the order of their declaration."""
        shown: list[tuple[str, object, str]] = []
        for name in KNOWN:
            value = getattr(self.settings, name)
            if name != "kafka":
                shown.append((name, masked(name, value), self.origin[name]))
                continue
            shown.extend(
                (f"kafka.{key}", masked(key, value[key]), self.origin[f"kafka.{key}"]) for key in sorted(value)
            )
        return shown


@dataclass
class _Merged:
    """The layers laid over one another, lowest first."""

    values: dict[str, Any] = field(default_factory=dict)
    kafka: dict[str, str] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)

    def put(self, key: str, value: Any, origin: str) -> None:
        """Takes one value under any of its names; JobError for a name that is not known. None is "not
        set"."""
        if value is None:
            return
        table, dot, rest = key.partition(".")
        if dot and table == "kafka":
            self.put_kafka({rest: value}, origin)
        elif (name := known_name(key)) is None:
            raise JobError(_unknown(key, origin))
        elif name == "kafka":
            self.put_kafka(value, origin)
        else:
            self.values[name] = value
            self.origin[name] = origin

    def put_kafka(self, table: object, origin: str) -> None:
        flat = flatten_kafka(table, origin)
        check_kafka_keys(flat, origin)
        for key, value in flat.items():
            self.kafka[key] = value
            self.origin[f"kafka.{key}"] = origin


def resolve(
    code: Mapping[str, Any],
    file: Path | None,
    env: Mapping[str, str],
    cli: Mapping[str, Any],
    *,
    job_name: str | None = None,
) -> Resolved:
    """Lays the layers over one another and checks the result.

    `code` and `cli` map names of settings to values, None meaning "not set"; `file` must exist when given
    (`find_file` finds it); `job_name` (the job file's stem, or the job's name) is the application id where
    none is set. JobError for anything unknown or wrong, naming what it is, where it came from and what would
    be right.
    """
    merged = _Merged()
    for key, value in code.items():
        merged.put(key, value, "code")
    if file is not None:
        for key, value in _read_file(file).items():
            merged.put(key, _beside(file, key, value), f"file {file}")
    _put_environment(merged, env)
    for key, value in cli.items():
        merged.put(key, value, "command line")
    merged.values.setdefault("application_id", name_from(job_name or "job"))
    merged.values.setdefault("state_dir", default_state_dir(str(merged.values["application_id"]), env))
    try:
        settings = Settings(**merged.values, kafka=merged.kafka)
    except ValidationError as error:
        raise JobError(_explain(error, merged.origin)) from None
    return Resolved(settings, {**dict.fromkeys(KNOWN, "default"), **merged.origin})


def find_file(job: Path | None, config: Path | None, env: Mapping[str, str]) -> Path | None:
    """The file that is named (`--config`, else `KSTREAMPY_CONFIG`), else `kstreampy.toml` beside the job if
    there is one. JobError when a named file is missing."""
    named = config or (Path(env[CONFIG_VARIABLE]) if env.get(CONFIG_VARIABLE) else None)
    if named is not None:
        if not named.is_file():
            asked = "--config" if config else CONFIG_VARIABLE
            raise JobError(f"there is no settings file {named} (named by {asked})")
        return named
    beside = (job.parent if job else Path()) / FILE_NAME
    return beside if beside.is_file() else None


def known_name(key: str) -> str | None:
    """The setting that is meant: `http-port` is `http_port`, `checkpoint_interval` is
    `checkpoint_interval_ms`."""
    name = key.strip().lower().replace("-", "_")
    name = _ALIASES.get(name, name)
    return name if name in KNOWN else None


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"settings file {file} is not valid TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"settings file {file} cannot be read: {error}") from None


def _beside(file: Path, key: str, value: Any) -> Any:
    """A relative state directory in a file is relative to that file."""
    if known_name(key) == "state_dir" and isinstance(value, str):
        return file.parent / Path(value).expanduser()
    return value


def _put_environment(merged: _Merged, env: Mapping[str, str]) -> None:
    for variable, value in sorted(env.items()):
        rest = variable.removeprefix(PREFIX)
        if rest == variable or value == "" or variable in _NOT_SETTINGS or rest.startswith("TEST_"):
            continue
        if _SERVICE_LINK.fullmatch(variable) or (variable.endswith("_PORT") and _SERVICE_ADDRESS.fullmatch(value)):
            continue
        origin = f"environment {variable}"
        if rest.startswith("KAFKA_"):
            merged.put_kafka({kafka_key_of_environment(rest.removeprefix("KAFKA_")): value}, origin)
        else:
            merged.put(rest, value, origin)


def _unknown(key: str, origin: str) -> str:
    name = key.lower().replace("-", "_")
    near = difflib.get_close_matches(name, [*KNOWN, *_ALIASES], n=1, cutoff=0.5)
    if not near:
        hint = "`kstreampy config JOB` lists the settings there are"
    elif origin.startswith("environment"):
        hint = f"did you mean {PREFIX}{near[0].upper()}?"
    else:
        hint = f"did you mean {near[0]!r}?"
    return f"unknown setting {key.lower()!r} ({origin}): {hint}"


def _explain(error: ValidationError, origin: Mapping[str, str]) -> str:
    """One line per wrong setting: its name, its value unless secret, where it came from, and what would be
    right."""
    lines = []
    for found in error.errors(include_url=False, include_context=False):
        message = found["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if not found["loc"]:
            lines.append(f"settings do not fit together: {message}{_origins(message, origin)}")
            continue
        name = str(found["loc"][0])
        value = masked(".".join(str(part) for part in found["loc"]), found["input"])
        lines.append(f"setting {name} = {_plain(value)!r} ({origin.get(name, 'default')}): {message}")
    return "\n".join(lines)


def _origins(message: str, origin: Mapping[str, str]) -> str:
    named = [f"{name}: {origin.get(name, 'default')}" for name in KNOWN if name in message]
    return f" ({'; '.join(named)})" if named else ""


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
