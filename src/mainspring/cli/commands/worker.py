"""`mainspring worker`: a process that carries out jobs and nothing else."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mainspring.cli.options import (
    beat_option,
    executor_options,
    given_arguments,
    listen_store_option,
    seconds,
    servers_option,
    worker_store_option,
)
from mainspring.errors import InvalidInput, StoreUnavailable, Unreachable

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.host.parent_link import ParentLink
    from mainspring.host.process import StopRequest
    from mainspring.sdk.app import App
    from mainspring.worker import Worker


MAX_PROCESSES = 10_000
_RETRY_PAUSE = 1.0


@click.command("worker")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@servers_option
@worker_store_option
@listen_store_option
@click.option(
    "--queue", "queues", multiple=True, metavar="NAME", help="A queue to serve; repeatable; default all."
)
@click.option("--label", "labels", multiple=True, metavar="NAME", help="What this worker offers; repeatable.")
@click.option("--name", help="The worker's name; by default HOST-PID.")
@click.option(
    "--processes",
    default=1,
    show_default=True,
    type=int,
    help="Worker processes, each with so many --slots, under one parent that starts again what dies.",
)
@click.option("--parent-link", type=int, hidden=True, help="What ties a process to its parent.")
@executor_options
@beat_option
@click.pass_context
def worker_command(
    context: click.Context,
    /,
    app_reference: str | None,
    servers: tuple[str, ...],
    store: str | None,
    **given: Any,
) -> int:
    """Carry out jobs until SIGTERM or SIGINT, then finish what is under way.

    Prints "ready" when it has registered. MODULE:APP names an app (like hello:app) whose functions it carries out
    and whose jobs are upserted.
    """
    from mainspring.host.loading import load_app
    from mainspring.host.parent_link import ParentLink
    from mainspring.host.process import run_process

    _refuse_contradictions(context, has_store=store is not None)
    settings = _read_settings(store, given)
    if not 1 <= given["processes"] <= MAX_PROCESSES:
        raise InvalidInput("processes", f"{given['processes']} is not between 1 and {MAX_PROCESSES}")
    if given["processes"] > 1:
        return _run_supervised(context, given["processes"], given["name"])
    parent_link = ParentLink(given["parent_link"]) if given["parent_link"] is not None else None
    app = load_app(app_reference) if app_reference else None
    names = {"name": given["name"], "queues": given["queues"], "labels": given["labels"]}

    async def work(stop: StopRequest) -> None:
        if parent_link is not None:
            parent_link.attach(stop)
        task = _Task(settings, app, stop, names, parent_link)
        await (_work_on_store(task) if store is not None else _work_for_server(",".join(servers), task))

    run_process(work)
    return 0


def _refuse_contradictions(context: click.Context, *, has_store: bool) -> None:
    is_given = {
        name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        for name in ("servers", "store", "beat_period")
    }
    if is_given["store"] and is_given["servers"]:
        raise InvalidInput("store", "works without a server; leave --server out, or this")
    if is_given["beat_period"] and not has_store:
        raise InvalidInput("beat_period", "is the server's to say; leave it out, or give --store")


def _read_settings(store: str | None, given: dict[str, Any]) -> Settings:
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
        "threads": given["threads"],
        "beat_period": seconds(given["beat_period"], "beat_period"),
        "drain": seconds(given["drain"], "drain"),
    }
    if store is not None:
        location = StoreLocation.parse(store, listen=given["listen_store"])
        if location.scheme != "postgresql":
            message = "only PostgreSQL can be worked from directly; for others give --server"
            raise InvalidInput("store", message)
        common["store"] = location
    elif given["listen_store"] is not None:
        raise InvalidInput("listen_store", "goes with --store")
    return Settings(**common)


def _run_supervised(context: click.Context, count: int, name: str | None) -> int:
    """Run several worker processes; they are told what this one was told, and a name each."""
    from mainspring.clock import LoopWaiter, monotonic, system_random
    from mainspring.host.process import run_process
    from mainspring.host.supervisor import Supervisor, WorkerProcess

    arguments = given_arguments(context, leave_out={"name", "processes", "parent_link"})
    common_name = name or f"{socket.gethostname()}-{os.getpid()}"

    async def start(place: int) -> WorkerProcess:
        return await WorkerProcess.start([f"--name={common_name}-{place + 1}", *arguments])

    async def work(stop: StopRequest) -> int:
        supervisor = Supervisor(count, start, waiter=LoopWaiter, random=system_random(), monotonic=monotonic)
        return await supervisor.run(stop)

    return run_process(work)


@dataclass(frozen=True, slots=True)
class _Task:
    settings: Settings
    app: App | None
    stop: StopRequest
    names: dict[str, Any]
    parent_link: ParentLink | None


async def _work_for_server(server: str, task: _Task) -> None:
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import make_worker
    from mainspring.sdk.client import AsyncClient
    from mainspring.sdk.http_gateway import HttpGateway

    app, stop = task.app, task.stop
    gateway = HttpGateway(server)
    await gateway.start()
    try:
        registry = app.registry if app is not None else FunctionRegistry()
        if app is not None:
            app.serve_by(server)
        worker = make_worker(gateway, task.settings, registry, **task.names)
        async with _working(worker, task) as is_started:
            if not is_started:
                return
            if app is not None:
                async with AsyncClient(server) as client:
                    if not await stop.race(put_jobs(app, client.put_job)):
                        return
            await _wait_ready(task)
    finally:
        await gateway.close()


async def _work_on_store(task: _Task) -> None:
    from mainspring.core.model import DEFAULT_TENANT
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import make_worker, open_engine

    app, stop = task.app, task.stop
    registry = app.registry if app is not None else FunctionRegistry()
    async with open_engine(task.settings, registry=registry, with_scheduler=False) as engine:
        worker = make_worker(engine.gateway, task.settings, registry, **task.names)
        engine.wakeups.subscribe_cancels(worker.beat_now)
        async with _working(worker, task) as is_started:
            if not is_started:
                return
            if app is not None:
                put = partial(engine.client.jobs.upsert, DEFAULT_TENANT)
                if not await stop.race(put_jobs(app, put)):
                    return
            await _wait_ready(task)


@contextlib.asynccontextmanager
async def _working(worker: Worker, task: _Task) -> AsyncIterator[bool]:
    """Run a worker; False when a stop is asked for while it still tries to register."""
    try:
        yield await task.stop.race(worker.start())
    finally:
        await worker.stop(grace=task.settings.drain.total_seconds())


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


async def _wait_ready(task: _Task) -> None:
    from mainspring.host.process import announce_ready, announce_stop, settle_memory

    settle_memory()
    if task.parent_link is not None:  # the parent speaks for all
        task.parent_link.say_ready()
        await task.stop.wait()
        return
    announce_ready("ready")
    await task.stop.wait()
    announce_stop()
