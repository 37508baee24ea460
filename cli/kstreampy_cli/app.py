"""The `kstreampy` command: its sub-commands, each in a file of its own, and the entry point."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from .broker import broker
from .config import config
from .options import takes_settings
from .plan import plan
from .report import reported
from .run import run
from .state import get, list_keys

app = typer.Typer(
    name="kstreampy",
    help="Run jobs written with Flink's DataStream API on Kafka, in ordinary Python processes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kstreampy {metadata.version('kstreampy')}")
        raise typer.Exit


@app.callback()
def kstreampy(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""


app.command()(reported(takes_settings(run)))
app.command()(reported(takes_settings(plan)))
app.command()(reported(takes_settings(config)))
app.command()(reported(broker))

state = typer.Typer(help="Ask a running job for what it keeps by key.", no_args_is_help=True, rich_markup_mode=None)
state.command("get")(reported(takes_settings(get)))
state.command("list")(reported(takes_settings(list_keys)))
app.add_typer(state, name="state")


def main() -> None:
    """The entry point of the `kstreampy` command."""
    app(prog_name="kstreampy")


if __name__ == "__main__":
    main()
