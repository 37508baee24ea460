"""The options that `run`, `plan` and `config` share: each of them a setting, together the command line's
layer.

Not in here: what the settings mean and how they are checked (`kstreampy/runtime/settings.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kstreampy.errors import JobError
from kstreampy.runtime.settings_kafka import parse_kafka_option

_SETTINGS: Final = "Settings (over kstreampy.toml and KSTREAMPY_… variables)"

JobFile = Annotated[Path, typer.Argument(metavar="JOB.PY", help="The job's Python file.", show_default=False)]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- ARGUMENTS]", help="Handed to the job as sys.argv[1:].", show_default=False),
]

JobNumber = Annotated[
    int, typer.Option(min=1, metavar="N", help="Which of the jobs that the file executes, in their order.")
]


@dataclass(frozen=True)
class Overrides:
    """What the command line says: a settings file, and settings by name."""

    config: Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def _option(help: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=_SETTINGS, show_default=False)


def read_overrides(
    application_id: Annotated[str | None, _option("Names the job's groups, topics and state.")] = None,
    bootstrap_servers: Annotated[
        str | None, _option("Kafka's addresses; without them an in-memory log.", metavar="HOST:PORT,...")
    ] = None,
    workers: Annotated[str | None, _option("Processes on this machine.", metavar="N")] = None,
    stage: Annotated[list[str] | None, _option("Run only this stage; may be repeated.", metavar="NAME")] = None,
    state_dir: Annotated[str | None, _option("This worker's local state.", metavar="DIR")] = None,
    guarantee: Annotated[str | None, _option("exactly_once or at_least_once.")] = None,
    checkpoint_interval: Annotated[
        str | None, _option("Between checkpoints, such as 500ms or 2s.", metavar="TIME")
    ] = None,
    max_parallelism: Annotated[str | None, _option("Key groups of keyed operators.", metavar="N")] = None,
    http_host: Annotated[str | None, _option("Where metrics and probes are served.", metavar="HOST")] = None,
    http_port: Annotated[str | None, _option("Serve /metrics, /live and /ready; 0: off.", metavar="N")] = None,
    worker_id: Annotated[str | None, _option("Stable name of this worker.", metavar="NAME")] = None,
    shutdown_timeout: Annotated[str | None, _option("Budget from SIGTERM to the end.", metavar="TIME")] = None,
    log_level: Annotated[str | None, _option("debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, _option("text or json.")] = None,
    kafka: Annotated[
        list[str] | None, _option("A setting of the Kafka client; may be repeated.", metavar="KEY=VALUE")
    ] = None,
    other: Annotated[
        list[str] | None,
        _option("Any other setting; may be repeated.", "--set", metavar="NAME=VALUE"),
    ] = None,
    config: Annotated[
        Path | None, _option("Settings file (default: kstreampy.toml beside the job).", metavar="FILE")
    ] = None,
) -> Overrides:
    """The command line's layer of settings; None where an option was not given. JobError for a malformed
    one."""
    given: dict[str, Any] = {
        "application_id": application_id,
        "bootstrap_servers": bootstrap_servers,
        "workers": workers,
        "stages": tuple(stage) if stage else None,
        "state_dir": state_dir,
        "guarantee": guarantee,
        "checkpoint_interval": checkpoint_interval,
        "max_parallelism": max_parallelism,
        "http_host": http_host,
        "http_port": http_port,
        "worker_id": worker_id,
        "shutdown_timeout": shutdown_timeout,
        "log_level": log_level,
        "log_format": log_format,
        "kafka": dict(parse_kafka_option(text) for text in kafka) if kafka else None,
    }
    for text in other or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise JobError(f"--set {text!r} must be NAME=VALUE, such as --set watermark_interval=100ms")
        given[name.strip()] = value
    return Overrides(config, {name: value for name, value in given.items() if value is not None})


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command, whose last parameter is `overrides`, the options of `read_overrides` in its place."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(read_overrides, eval_str=True)

    def with_options(**values: Any) -> None:
        options = {name: values.pop(name) for name in shared.parameters}
        command(**values, overrides=read_overrides(**options))

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in [*own.parameters.values(), *shared.parameters.values()]
        if parameter.name != "overrides"
    ]
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    # typer reads the options from here.
    with_options.__dict__["__signature__"] = inspect.Signature(parameters)
    return with_options
