"""`mainspring up`: runs scheduler, API and an embedded worker in one process."""

from __future__ import annotations

from typing import Any

import click

from mainspring.cli.options import check_prune, prune_option, read_choices, setting_options


@click.command("up")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@setting_options("up")
@prune_option
@click.pass_context
def up_command(context: click.Context, /, app_reference: str | None, prune: bool, **_: Any) -> None:
    """Run scheduler, API and a worker in one process until SIGTERM or SIGINT.

    Prints "listening on URL" when it is ready. MODULE:APP names an app (like hello:app). The worker registers the
    app's functions, and the app's jobs are upserted. --slots 0 starts no worker.
    """
    from mainspring.config.processes import settings_of, store_option
    from mainspring.host.hosting import run_host
    from mainspring.host.loading import load_app
    from mainspring.plugins import load_plugins

    check_prune(prune=prune, app_reference=app_reference)
    choices = read_choices(context)
    settings = settings_of("up", choices, stores=load_plugins())
    app = load_app(app_reference, keeps_output=settings.keep_output) if app_reference else None
    run_host(settings, app=app, store_option=store_option(choices), prune=prune)
