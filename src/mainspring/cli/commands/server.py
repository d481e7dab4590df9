"""`mainspring server`: runs API and scheduler without a worker. Several servers share one PostgreSQL."""

from __future__ import annotations

from typing import Any

import click

from mainspring.cli.options import read_choices, setting_options


@click.command("server")
@setting_options("server")
@click.pass_context
def server_command(context: click.Context, /, **_: Any) -> None:
    """Run API and scheduler until SIGTERM or SIGINT. `mainspring worker` runs the jobs.

    Prints "listening on URL" when it is ready, or "scheduling" with --no-api. On PostgreSQL any number of servers can
    share a store; on SQLite or in memory there is exactly one.
    """
    from mainspring.config.processes import settings_of, store_option
    from mainspring.host.hosting import run_host
    from mainspring.plugins import load_plugins

    choices = read_choices(context)
    settings = settings_of("server", choices, stores=load_plugins())
    run_host(settings, store_option=store_option(choices))
