"""`mainspring up`: scheduler, API and an embedded worker in one process."""

from __future__ import annotations

from typing import Any

import click

from mainspring.cli.options import (
    api_options,
    beat_option,
    executor_options,
    node_options,
    seconds,
    store_options,
)


@click.command("up")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@store_options
@api_options
@executor_options
@beat_option
@node_options
def up_command(
    app_reference: str | None, data: str | None, store: str | None, host: str, port: int, **given: Any
) -> None:
    """Run scheduler, API and a worker in one process until SIGTERM or SIGINT.

    Prints "listening on URL" when it is ready. MODULE:APP names an app (like hello:app) whose functions its worker
    carries out and whose jobs are upserted. --slots 0 is no worker.
    """
    from mainspring.cli.hosting import read_location, run_host
    from mainspring.cli.loading import load_app
    from mainspring.config.settings import Settings

    settings = Settings(
        store=read_location(data, store, given["listen_store"]),
        host=host,
        port=port,
        trusted_network=given["trusted_network"],
        allow_hosts=given["allow_hosts"],
        allow_shell=given["allow_shell"],
        callback_allow=given["callback_allow"],
        slots=given["slots"],
        beat_period=seconds(given["beat_period"], "beat_period"),
        node_period=seconds(given["node_period"], "node_period"),
        clock_limit=seconds(given["clock_limit"], "clock_limit"),
        drain=seconds(given["drain"], "drain"),
    )
    app = load_app(app_reference) if app_reference else None
    run_host(settings, app=app, store_option="data" if store is None else "store")
