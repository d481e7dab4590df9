"""`mainspring worker`: a process that carries out jobs and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.options import executor_options, listen_store_option, seconds, server_option
from mainspring.errors import InvalidInput, StoreUnavailable, Unreachable

if TYPE_CHECKING:
    from mainspring.cli.process import StopRequest
    from mainspring.config.settings import Settings
    from mainspring.engine.worker import Worker
    from mainspring.sdk.app import App


_RETRY_PAUSE = 1.0


@click.command("worker")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@server_option
@click.option("--store", metavar="URL", help="Work straight from postgresql://… instead of by a server.")
@listen_store_option
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="A queue to serve; repeatable; default all."
)
@click.option("--label", "labels", multiple=True, metavar="NAME", help="What this worker offers; repeatable.")
@click.option("--name", help="The worker's name; by default HOST-PID.")
@executor_options
def worker_command(app_reference: str | None, server: str, store: str | None, **given: Any) -> None:
    """Carry out jobs until SIGTERM or SIGINT, then finish what is under way.

    Prints "ready" when it has registered. MODULE:APP names an app (like hello:app) whose functions it carries out
    and whose jobs are upserted.
    """
    from mainspring.cli.loading import load_app
    from mainspring.cli.process import run_process
    from mainspring.config.settings import Settings, StoreLocation
    from mainspring.core.definition.fields import read_word

    if given["slots"] < 1:
        raise InvalidInput("slots", "a worker needs at least one")
    for field in ("queues", "labels"):
        for value in given[field]:
            read_word(value, field.removesuffix("s"))
    common = {
        "allow_shell": given["allow_shell"],
        "callback_allow": given["callback_allow"],
        "slots": given["slots"],
        "drain": seconds(given["drain"]),
    }
    if store is not None:
        location = StoreLocation.parse(store, listen=given["listen_store"])
        if location.scheme != "postgresql":
            message = "only PostgreSQL can be worked from directly; for others give --server"
            raise InvalidInput("store", message)
        common["store"] = location
    elif given["listen_store"] is not None:
        raise InvalidInput("listen_store", "goes with --store")
    settings = Settings(**common)
    app = load_app(app_reference) if app_reference else None
    names = {"name": given["name"], "queues": given["queues"], "labels": given["labels"]}
    if store is not None:
        run_process(lambda stop: _work_on_store(settings, app, stop, names))
    else:
        run_process(lambda stop: _work_for_server(server, settings, app, stop, names))


async def _work_for_server(
    server: str, settings: Settings, app: App | None, stop: StopRequest, names: dict[str, Any]
) -> None:
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import make_worker
    from mainspring.sdk.client import AsyncClient
    from mainspring.sdk.http_gateway import HttpGateway

    gateway = HttpGateway(server)
    await gateway.start()
    try:
        registry = app.registry if app is not None else FunctionRegistry()
        if app is not None:
            app.serve_by(server)
        worker = make_worker(gateway, settings, registry, **names)
        async with _working(worker, settings, stop) as is_started:
            if not is_started:
                return
            if app is not None:
                async with AsyncClient(server) as client:
                    if not await stop.race(put_jobs(app, client.put_job)):
                        return
            await _wait_ready(stop)
    finally:
        await gateway.close()


async def _work_on_store(
    settings: Settings, app: App | None, stop: StopRequest, names: dict[str, Any]
) -> None:
    from mainspring.core.model import DEFAULT_TENANT
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import make_worker, open_engine

    registry = app.registry if app is not None else FunctionRegistry()
    async with open_engine(settings, registry=registry, with_scheduler=False) as engine:
        worker = make_worker(engine.gateway, settings, registry, **names)
        engine.wakeups.subscribe_cancels(worker.beat_now)
        async with _working(worker, settings, stop) as is_started:
            if not is_started:
                return
            if app is not None:
                put = partial(engine.client.jobs.upsert, DEFAULT_TENANT)
                if not await stop.race(put_jobs(app, put)):
                    return
            await _wait_ready(stop)


@contextlib.asynccontextmanager
async def _working(worker: Worker, settings: Settings, stop: StopRequest) -> AsyncIterator[bool]:
    """Run a worker; False when a stop is asked for while it still tries to register."""
    try:
        yield await stop.race(worker.start())
    finally:
        await worker.stop(grace=settings.drain.total_seconds())


async def put_jobs(app: App, put: Callable[[dict[str, Any]], Awaitable[object]]) -> None:
    """Put the app's jobs; where server or store are away for a moment, wait for them as registering does."""
    import structlog

    from mainspring.clock import LoopWaiter

    log, waiter = structlog.get_logger(__name__), LoopWaiter()
    for body in app.definitions():
        while True:
            try:
                await put(body)
                break
            except (Unreachable, StoreUnavailable) as error:
                log.warning("put_job_failed", job=body["name"], error=str(error))
                await waiter.wait(_RETRY_PAUSE)


async def _wait_ready(stop: StopRequest) -> None:
    from mainspring.cli.process import announce, settle_memory

    settle_memory()
    announce("ready")
    await stop.wait()
    announce("stopping")
