"""`mainspring up`: scheduler, API and an embedded worker in one process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.options import executor_options, listen_store_option, seconds
from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.cli.process import StopRequest
    from mainspring.config.settings import Settings, StoreLocation
    from mainspring.sdk.app import App


@click.command("up")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@click.option("--data", metavar="DIR", help="Folder of the SQLite store; by default ./mainspring-data.")
@click.option("--store", metavar="URL", help="postgresql://…, sqlite:///FOLDER or memory://.")
@listen_store_option
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
        store=_location(data, store, given["listen_store"]),
        host=host,
        port=port,
        allow_shell=given["allow_shell"],
        callback_allow=given["callback_allow"],
        slots=given["slots"],
        beat_period=seconds(given["beat_period"]),
        drain=seconds(given["drain"]),
    )
    app = load_app(app_reference) if app_reference else None
    option = "data" if store is None else "store"
    run_process(lambda stop: _up(settings, app, stop, option=option))


def _location(data: str | None, store: str | None, listen: str | None) -> Any:
    from mainspring.config.settings import DEFAULT_DATA, StoreLocation

    if data is not None and store is not None:
        raise InvalidInput("store", "says the same as --data; give one of them")
    if store is not None:
        return StoreLocation.parse(store, listen=listen)
    if listen is not None:
        raise InvalidInput("listen_store", "goes with --store postgresql://…")
    return StoreLocation("sqlite", data if data is not None else str(DEFAULT_DATA))


def _make_folder(location: StoreLocation, option: str) -> None:
    """Make the folder of a SQLite store, where it is missing.

    Raises:
        InvalidInput: it cannot be had; `option` is the one that named it.
    """
    if location.scheme != "sqlite":
        return
    folder = Path(location.target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        raise InvalidInput(option, f"{file} is a file; give a folder") from None
    except OSError as error:
        message = f"{folder} cannot be made a folder ({error.strerror}); give one that can be written"
        raise InvalidInput(option, message) from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise InvalidInput(option, f"{folder} cannot be written by this user; give a folder that can")


async def _up(settings: Settings, app: App | None, stop: StopRequest, *, option: str) -> None:
    from mainspring.cli.process import announce, settle_memory
    from mainspring.cli.serving import listen, serve
    from mainspring.core.model import DEFAULT_TENANT
    from mainspring.runtime import open_server

    with listen(settings.host, settings.port) as listener:
        # After the port: a server that does not start leaves nothing behind.
        _make_folder(settings.store, option)
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
