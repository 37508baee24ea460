"""`kstreampy broker`: a small broker for development, in the foreground until Ctrl-C."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from kstreampy.broker.embedded import DEFAULT_DATA_DIR, EmbeddedBroker
from kstreampy.errors import BrokerUnavailable
from kstreampy.runtime.stop import StopSignal, stopping_by_signal


def broker(
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")] = 9092,
    data_dir: Annotated[Path, typer.Option(help="Where it keeps its data.")] = DEFAULT_DATA_DIR,
) -> None:
    """Run a small broker that speaks Kafka's protocol, for development (needs kstreampy[broker])."""
    stop = StopSignal(10.0)
    with stopping_by_signal(stop):
        embedded = EmbeddedBroker(data_dir, port)
        address = embedded.start()
        typer.echo(f"bootstrap servers: {address}")
        typer.echo(f"data in {data_dir.resolve()}; Ctrl-C stops it", err=True)
        ended: list[int] = []

        def watch() -> None:
            ended.append(embedded.wait())
            stop.request("the broker ended")

        threading.Thread(target=watch, name="kstreampy-broker", daemon=True).start()
        stop.wait()
        if ended and stop.reason == "the broker ended":
            raise BrokerUnavailable(f"the embedded broker ended by itself (status {ended[0]}): see {embedded.log_file}")
        embedded.stop()
