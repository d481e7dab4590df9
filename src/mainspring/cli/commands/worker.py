"""`mainspring worker`: a process that runs jobs and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.options import check_prune, given_arguments, prune_option, read_choices, setting_options
from mainspring.core.values import value

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.host.parent_link import ParentLink
    from mainspring.host.process import StopRequest
    from mainspring.ports.telemetry import Telemetry
    from mainspring.sdk.app import App
    from mainspring.worker import Worker


@click.command("worker")
@click.argument("app_reference", metavar="[MODULE:APP]", required=False)
@setting_options("worker")
@prune_option
@click.option("--parent-link", type=int, hidden=True, help="The descriptor of the parent link.")
@click.pass_context
def worker_command(
    context: click.Context, /, app_reference: str | None, parent_link: int | None, prune: bool, **_: Any
) -> int:
    """Run jobs until SIGTERM or SIGINT, then finish the attempts under way.

    Prints "ready" when it has registered. MODULE:APP names an app (like hello:app). The worker registers the app's
    functions and upserts its jobs.
    """
    from mainspring.config.processes import read_direct_store, settings_of
    from mainspring.host.loading import load_app
    from mainspring.host.parent_link import ParentLink
    from mainspring.host.process import run_process

    check_prune(prune=prune, app_reference=app_reference)
    choices = read_choices(context)
    settings = settings_of("worker", choices)
    if settings.processes > 1 and parent_link is None:
        return _run_supervised(context, settings)
    parent = ParentLink(parent_link) if parent_link is not None else None
    app = load_app(app_reference, keeps_output=settings.keep_output) if app_reference else None
    is_direct = read_direct_store(choices) is not None

    async def work(stop: StopRequest) -> None:
        if parent is not None:
            parent.attach(stop)
        task = _Task(settings, app, stop, parent, prune)
        await (
            _work_on_store(task) if is_direct else _work_for_server(",".join(choices["server"].value), task)
        )

    run_process(work, settings)
    return 0


def _run_supervised(context: click.Context, settings: Settings) -> int:
    """Run several worker processes. Each gets the same arguments as this process, and its own name."""
    from mainspring.clock import LoopWaiter, monotonic, system_random
    from mainspring.host.process import run_process
    from mainspring.host.supervisor import Supervisor, WorkerProcess

    arguments = given_arguments(context, leave_out={"name", "processes", "parent_link", "metrics_port"})
    common_name = settings.worker_name or f"{socket.gethostname()}-{os.getpid()}"

    async def start(place: int) -> WorkerProcess:
        own = [f"--name={common_name}-{place + 1}"]
        if settings.metrics_port is not None:
            own.append(f"--metrics-port={settings.metrics_port and settings.metrics_port + place}")
        return await WorkerProcess.start([*own, *arguments])

    async def work(stop: StopRequest) -> int:
        supervisor = Supervisor(
            settings.processes, start, waiter=LoopWaiter, random=system_random(), monotonic=monotonic
        )
        # The parent writes next to nothing: those who ask for everything mean its workers.
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, supervisor.pass_on, signal.SIGUSR2)
        return await supervisor.run(stop)

    return run_process(work, settings)


@value()
class _Task:
    settings: Settings
    app: App | None
    stop: StopRequest
    parent_link: ParentLink | None
    prune: bool


async def _work_for_server(server: str, task: _Task) -> None:
    from mainspring.clock import LoopWaiter
    from mainspring.host.app_jobs import put_app_through
    from mainspring.ports.telemetry import Telemetry
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import ProcessSecrets, make_exporter, make_worker
    from mainspring.sdk.client import AsyncClient
    from mainspring.sdk.http_gateway import HttpGateway
    from mainspring.telemetry.otlp import sending

    app, stop = task.app, task.stop
    kept = ProcessSecrets(task.settings)
    gateway = HttpGateway(server)
    await gateway.start()
    try:
        registry = app.registry if app is not None else FunctionRegistry()
        if app is not None:
            app.serve_by(server)
        telemetry = Telemetry()
        export = make_exporter(task.settings, "mainspring-worker")
        tracer = None if export is None else export.tracer
        worker = make_worker(
            gateway, task.settings, registry, telemetry=telemetry, secrets=kept.secrets, tracer=tracer
        )
        async with (
            kept.running(telemetry),
            sending(export, telemetry, LoopWaiter()),
            _working(worker, task, telemetry) as is_started,
        ):
            if not is_started:
                return
            if app is not None:
                async with AsyncClient(server, tenant=app.tenant) as client:
                    if not await stop.race(put_app_through(client, app, prune=task.prune)):
                        return
            await _wait_ready(task)
    finally:
        await gateway.close()


async def _work_on_store(task: _Task) -> None:
    from mainspring.host.hosting import put_app_at
    from mainspring.registry import FunctionRegistry
    from mainspring.runtime import make_worker, open_engine

    app, stop = task.app, task.stop
    registry = app.registry if app is not None else FunctionRegistry()
    async with open_engine(task.settings, registry=registry, with_scheduler=False) as engine:
        worker = make_worker(
            engine.gateway,
            task.settings,
            registry,
            telemetry=engine.telemetry,
            secrets=engine.tools.secrets,
            tracer=engine.tracer,
        )
        engine.wakeups.subscribe_cancels(worker.beat_now)
        async with _working(worker, task, engine.telemetry) as is_started:
            if not is_started:
                return
            if app is not None and not await stop.race(put_app_at(engine, app, prune=task.prune)):
                return
            await _wait_ready(task)


@contextlib.asynccontextmanager
async def _working(worker: Worker, task: _Task, telemetry: Telemetry) -> AsyncIterator[bool]:
    """Run a worker until the block ends, then drain it. Yield False if a stop is requested before it has registered.

    At its end, the worker logs its figures: it may have no port at which they could be read.
    """
    import structlog

    async with _measured(task.settings, telemetry):
        try:
            yield await task.stop.race(worker.start())
        finally:
            await worker.stop(grace=task.settings.drain.total_seconds())
        figures = {
            name: figure
            for name, figure in telemetry.figures().items()
            if figure and not name.startswith("store_call_seconds")  # of dozens of verbs
        }
        structlog.get_logger(__name__).info("worker_stopped", **figures)


@contextlib.asynccontextmanager
async def _measured(settings: Settings, telemetry: Telemetry) -> AsyncIterator[None]:
    """Serve the metrics port until the block ends, if the settings name one."""
    if settings.metrics_port is None:  # then the worker need not load a server
        yield
        return
    from mainspring.host.loop_lag import watch_loop
    from mainspring.host.serving import serve_metrics
    from mainspring.telemetry.exposition import ProcessFacts

    telemetry.watch(ProcessFacts())
    async with watch_loop(telemetry), serve_metrics(telemetry, settings):
        yield


async def _wait_ready(task: _Task) -> None:
    from mainspring.host.process import announce_ready, announce_stop, settle_memory

    settle_memory()
    if task.parent_link is not None:  # the parent announces for all
        task.parent_link.say_ready()
        await task.stop.wait()
        return
    announce_ready("ready")
    await task.stop.wait()
    announce_stop()
