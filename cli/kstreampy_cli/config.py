"""`kstreampy config job.py`: shows each setting of a job and where its value comes from. Secrets are
masked."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .invocation import Invocation
from .options import Arguments, JobFile, Overrides


class ConfigFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def config(
    job: JobFile,
    *,
    arguments: Arguments = None,
    format: Annotated[ConfigFormat, typer.Option(help="How to show it.")] = ConfigFormat.TEXT,
    overrides: Overrides,
) -> None:
    """Show each setting of a job, and where its value comes from."""
    invocation = Invocation(job, tuple(arguments or ()), overrides)
    rows = invocation.resolve(invocation.draw()[0]).rows()
    if format is ConfigFormat.JSON:
        shown = {name: {"value": _plain(value), "origin": origin} for name, value, origin in rows}
        typer.echo(json.dumps(shown, indent=2))
        return
    texts = [(name, _text(value), origin) for name, value, origin in rows]
    widths = [max(len(row[column]) for row in texts) for column in (0, 1)]
    for name, value, origin in texts:
        typer.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {origin}")


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _text(value: object) -> str:
    """As it would be written in an environment variable; `-` where nothing is set."""
    if isinstance(value, tuple):
        value = ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "-" if value is None or value == "" else str(value)
