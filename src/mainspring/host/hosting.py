"""What `up` and `server` have in common: a process on a store that serves the API, schedules, or both."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.api.callers import Callers
    from mainspring.config.settings import Settings, StoreLocation
    from mainspring.engine.assembly import Engine
    from mainspring.host.process import StopRequest
    from mainspring.registry import FunctionRegistry
    from mainspring.sdk.app import App
    from mainspring.wire.owners import OwnerView

_LAST_ANSWERS = 1.0
"""Seconds for requests under way at the end, if attempts have used the drain before."""


def run_host(settings: Settings, *, app: App | None = None, store_option: str, prune: bool = False) -> None:
    """Run the process until it is asked to stop.

    Args:
        app: the user's app. The embedded worker runs its functions, and its jobs are upserted.
        prune: delete the jobs that the app does not define any more.
        store_option: the option that names the store, for errors.
    """
    from mainspring.host.process import run_process

    run_process(lambda stop: _host(settings, app, stop, store_option, prune), settings)


async def _host(
    settings: Settings, app: App | None, stop: StopRequest, store_option: str, prune: bool
) -> None:
    from mainspring.host.loop_lag import watch_loop
    from mainspring.host.process import announce_ready, announce_stop, settle_memory
    from mainspring.host.serving import listen, serve_metrics
    from mainspring.host.welcome import welcome
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import open_engine

    registry = app.registry if app is not None else FunctionRegistry()
    with listen(settings.host, settings.port) if settings.has_api else contextlib.nullcontext() as listener:
        callers = None if listener is None else choose_callers_by(settings)
        # Only after the port is bound, so that a server that does not start leaves nothing behind.
        make_folder(settings.store, store_option)
        ready = "scheduling"
        if listener is not None:
            url = url_of(*listener.getsockname()[:2], has_tls=settings.tls_cert is not None)
            ready = f"listening on {url}"
            warn_if_open(settings, url)
            if app is not None:
                app.serve_by(url_from_here(listener, settings))
        async with (
            open_engine(
                settings,
                registry=registry,
                with_scheduler=settings.has_scheduler,
                holds_start=app is not None,
            ) as engine,
            watch_loop(engine.telemetry),
            serve_metrics(engine.telemetry, settings),
            serve_app(engine, settings, registry, app, listener, callers, prune=prune),
        ):
            settle_memory(has_users_code=settings.slots > 0)
            more = await welcome(engine, settings, ready, app)
            announce_ready(ready, more=more)
            await stop.wait()
            announce_stop()


@contextlib.asynccontextmanager
async def serve_app(
    engine: Engine,
    settings: Settings,
    registry: FunctionRegistry,
    app: App | None,
    listener: socket.socket | None,
    callers: Callers | None,
    *,
    prune: bool,
) -> AsyncIterator[None]:
    """Run the embedded worker, store the app's jobs, and serve the API, until the block ends.

    Args:
        listener, callers: where the API listens, and whom it admits; None: it is not served.
        prune: delete the jobs that the app does not define any more.
    """
    from mainspring.host.address import tell_address
    from mainspring.runtime import run_embedded_worker

    async with (
        contextlib.AsyncExitStack() as outer,  # the API outlasts the drain: attempts under way may still call it
        run_embedded_worker(engine, settings, registry),
    ):
        if app is not None:
            app.call_with(engine.identities.own_token)
            outer.callback(app.call_with, None)
            await put_app_at(engine, app, prune=prune)
        if listener is not None and callers is not None:
            await outer.enter_async_context(_serve(engine, settings, listener, callers))
            tell_address(settings.store, url_from_here(listener, settings))
        yield


async def put_app_at(engine: Engine, app: App, *, prune: bool) -> None:
    """Store an app's jobs straight in this process's engine. Then those at start may fire."""
    from mainspring.api.routes.applying import view_applied
    from mainspring.host.acting import acting_process
    from mainspring.host.app_jobs import put_app
    from mainspring.ports.store.applying import OwnedNames
    from mainspring.wire.operations import APPLY_DEFINITIONS

    async def apply(
        bodies: Sequence[Mapping[str, Any]], owners: Mapping[str, Sequence[str]], prune: bool
    ) -> list[OwnerView]:
        owned = [OwnedNames(owner, tuple(names)) for owner, names in owners.items()]
        applied = await engine.client.applying.apply(
            app.tenant,
            bodies,
            owners=owned,
            prune=prune,
            are_of_code=True,
            by=acting_process(APPLY_DEFINITIONS.id),
        )
        return view_applied(applied, list(owners)).owners

    await put_app(app, apply, prune=prune)
    engine.release_start()


@contextlib.asynccontextmanager
async def _serve(
    engine: Engine, settings: Settings, listener: socket.socket, callers: Callers
) -> AsyncIterator[None]:
    from mainspring.host.serving import serve

    patience = _LAST_ANSWERS if settings.slots else settings.drain.total_seconds()
    async with serve(engine, settings, listener, callers, patience=patience):
        yield


def choose_callers_by(settings: Settings) -> Callers:
    """Return whom the settings admit to the API.

    Raises:
        InvalidInput: they cannot be told apart as the settings need it, or a certificate cannot be read.
    """
    from mainspring.api.callers import CallerFinder, choose_callers
    from mainspring.clock import LoopWaiter
    from mainspring.host.certificates import read_certificates

    read_certificates(settings, waiter=LoopWaiter())  # what is wrong with it, is wrong before anything starts
    return choose_callers(
        settings.host,
        is_trusted=settings.trusted_network,
        needs_accounts=settings.access.needs_accounts,
        allows_shell=settings.allow_shell,
        finder=CallerFinder(),
    )


def warn_if_open(settings: Settings, url: str) -> None:
    """Say so in the log if everyone in the network may use the API."""
    if not settings.access.is_open:
        return
    import structlog

    structlog.get_logger(__name__).warning(
        "open_to_network",
        address=url,
        names=sorted(settings.access.names),
        allows_shell=settings.allow_shell,
        meaning="the network is trusted: as long as there are no accounts, everyone who can reach this address may"
        " define and run jobs",
    )


def url_of(host: str, port: int, *, has_tls: bool) -> str:
    """Return the address of a port."""
    scheme = "https" if has_tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def url_from_here(listener: socket.socket, settings: Settings) -> str:
    """Return an address at which this process reaches its own API, even if that is bound to all addresses."""
    host, port = listener.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return url_of(host, port, has_tls=settings.tls_cert is not None)


def make_folder(location: StoreLocation, option: str) -> None:
    """Make the folder of a SQLite store, for this user alone, if it does not exist.

    Raises:
        InvalidInput: the folder cannot be made or used; the error names `option`.
    """
    if location.scheme != "sqlite":
        return
    folder = Path(location.target)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        raise InvalidInput(option, f"{file} is a file; give a folder") from None
    except OSError as error:
        message = f"the folder {folder} cannot be made ({error.strerror}); give one that can be written"
        raise InvalidInput(option, message) from None
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise InvalidInput(option, f"this user cannot write to {folder}; give a folder that can be written")
