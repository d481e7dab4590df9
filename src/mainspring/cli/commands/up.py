"""`mainspring up`: scheduler, API and an embedded worker in one process."""

from __future__ import annotations

from typing import Any

import click

from mainspring.cli.options import (
    api_options,
    beat_option,
    executor_options,
    node_options,
    store_options,
)


@click.command("up")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@store_options
@api_options
@executor_options
@beat_option
@node_options
def up_command(app_reference: str | None, data: str | None, store: str | None, **given: Any) -> None:
    """Run scheduler, API and a worker in one process until SIGTERM or SIGINT.

    Prints "listening on URL" when it is ready. MODULE:APP names an app (like hello:app) whose functions its worker
    carries out and whose jobs are upserted. --slots 0 is no worker.
    """
    from mainspring.cli.settings import read_settings
    from mainspring.host.hosting import run_host
    from mainspring.host.loading import load_app

    settings = read_settings(data, store, given, slots=given["slots"], threads=given["threads"])
    app = load_app(app_reference) if app_reference else None
    run_host(settings, app=app, store_option="data" if store is None else "store")
