"""`kstreampy plan job.py`: shows what a job compiles to, without running it and without a broker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from .invocation import Invocation
from .options import Arguments, JobFile, JobNumber, Overrides


class PlanFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"


def plan(
    job: JobFile,
    *,
    arguments: Arguments = None,
    job_number: JobNumber = 1,
    format: Annotated[PlanFormat, typer.Option(help="How to show it.")] = PlanFormat.TEXT,
    overrides: Overrides,
) -> None:
    """Show a job's stages, operators and topics with their settings."""
    invocation = Invocation(job, tuple(arguments or ()), overrides)
    drawn, settings = invocation.draw(job_number)
    typer.echo(drawn.plan(settings).explain(format.value).rstrip("\n"))
