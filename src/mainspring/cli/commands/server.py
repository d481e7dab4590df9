"""`mainspring server`: API and scheduler without a worker; several of them share one PostgreSQL."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from mainspring.cli.options import (
    api_options,
    beat_option,
    drain_option,
    node_options,
    store_options,
    target_options,
)
from mainspring.errors import InvalidInput


@click.command("server")
@store_options
@api_options
@click.option("--no-api", is_flag=True, help="Only schedule: no port is taken. Needs PostgreSQL.")
@click.option("--no-scheduler", is_flag=True, help="Only serve the API and give out work. Needs PostgreSQL.")
@target_options
@drain_option
@beat_option
@node_options
@click.pass_context
def server_command(context: click.Context, /, data: str | None, store: str | None, **given: Any) -> None:
    """Run API and scheduler until SIGTERM or SIGINT; jobs are carried out by `mainspring worker`.

    Prints "listening on URL" when it is ready, with --no-api "scheduling". On PostgreSQL any number of servers share
    a store; on SQLite or in memory there is exactly one.
    """
    from mainspring.cli.settings import read_settings
    from mainspring.executors.egress import make_policy
    from mainspring.host.hosting import run_host

    if given["no_api"]:
        _refuse_address(context)
    settings = read_settings(
        data, store, given, slots=0, has_api=not given["no_api"], has_scheduler=not given["no_scheduler"]
    )
    make_policy(settings.callback_allow)  # workers use it; a server only says what is wrong with it
    run_host(settings, store_option="data" if store is None else "store")


def _refuse_address(context: click.Context) -> None:
    for name in ("host", "port", "trusted_network", "allow_hosts"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            field = "allow_host" if name == "allow_hosts" else name
            raise InvalidInput(field, "with --no-api nothing is served; leave it out, or leave --no-api out")
