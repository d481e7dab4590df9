"""`mainspring up`: scheduler, API and an embedded worker in one process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.options import executor_options, seconds
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.cli.process import StopRequest
    from mainspring.config.settings import Settings
    from mainspring.sdk.app import App


@click.command("up")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@click.option("--data", metavar="DIR", help="Folder of the SQLite store; by default ./mainspring-data.")
@click.option("--store", metavar="URL", help="postgresql://…, sqlite:///FOLDER or memory://.")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option("--port", default=8620, show_default=True, type=int, help="Port of the API; 0 is any free one.")
@executor_options
@click.option("--beat-period", default=10.0, show_default=True, metavar="SECONDS", help="Between heartbeats.")
def up_command(
    app_reference: str | None, data: str | None, store: str | None, host: str, port: int, **given: Any
) -> None:
    """Run scheduler, API and a worker in one process until SIGTERM or SIGINT.

    Prints "listening on URL" when it is ready. MODULE:APP names an app (like hello:app) whose functions its worker
    carries out and whose jobs are upserted. --slots 0 is no worker.
    """
    from mainspring.cli.loading import load_app
    from mainspring.cli.process import run_process
    from mainspring.config.settings import Settings

    settings = Settings(
        store=_location(data, store),
        host=host,
        port=port,
        allow_shell=given["allow_shell"],
        callback_allow=given["callback_allow"],
        slots=given["slots"],
        beat_period=seconds(given["beat_period"]),
        drain=seconds(given["drain"]),
    )
    app = load_app(app_reference) if app_reference else None
    run_process(lambda stop: _up(settings, app, stop))


def _location(data: str | None, store: str | None) -> Any:
    from mainspring.config.settings import DEFAULT_DATA, StoreLocation

    if data is not None and store is not None:
        raise InvalidInput("store", "says the same as --data; give one of them")
    if store is not None:
        return StoreLocation.parse(store)
    return StoreLocation("sqlite", data if data is not None else str(DEFAULT_DATA))


async def _up(settings: Settings, app: App | None, stop: StopRequest) -> None:
    from mainspring.cli.process import announce, settle_memory
    from mainspring.cli.serving import listen, serve
    from mainspring.core.model import DEFAULT_TENANT
    from mainspring.runtime import open_server

    with listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        if app is not None:
            app.serve_by(url)
        async with (
            contextlib.AsyncExitStack() as outer,  # the API outlives the drain: what is under way may still call it
            open_server(settings, registry=app.registry if app else None) as engine,
        ):
            for body in app.definitions() if app else ():
                await engine.client.jobs.upsert(DEFAULT_TENANT, body)
            await outer.enter_async_context(serve(engine, settings, listener))
            settle_memory()
            announce(f"listening on {url}")
            await stop.wait()
            announce("stopping")
