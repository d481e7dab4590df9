"""Health, workers, and the look into the future of a cron expression."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from typing import Any

from litestar import get

from mainspring.api.reading import AnyRequest, read_query
from mainspring.api.tenancy import engine_of
from mainspring.core.cron import Cron, CronError
from mainspring.core.definition.fields import read_instant
from mainspring.errors import InvalidInput
from mainspring.wire.health import HealthView, view_failover, view_scheduler
from mainspring.wire.views import FiresView, WorkerList, view_worker

MAX_FIRES = 100


@get("/health", operation_id="get_health", summary="Say whether the server and its store answer")
async def get_health(request: AnyRequest) -> HealthView:
    """Answer 200 when the store is reachable, 503 when not."""
    state = request.app.state
    await state.ping()
    scheduler = view_scheduler(state.shards.figures) if state.shards is not None else None
    return HealthView(
        status="ok",
        store=state.store_name,
        version=version("mainspring"),
        access="trusted_network" if state.access.is_open else "loopback",
        failovers=[view_failover(facts) for facts in state.failovers()],
        scheduler=scheduler,
        figures=dict(state.figures()),
    )


@get("/api/v1/workers", operation_id="list_workers", summary="List live workers")
async def list_workers(request: AnyRequest) -> WorkerList:
    """Return the live worker sessions and what they offer."""
    return WorkerList([view_worker(session) for session in await engine_of(request).workers()])


@get("/api/v1/cron/next", operation_id="preview_cron", summary="Show when a cron expression fires")
async def preview_cron(request: AnyRequest) -> FiresView:
    """Return the next fires of an expression in a zone, and what it means in words."""
    values = read_query(request, {"expression", "tz", "dst", "count", "after"})
    if "expression" not in values:
        raise InvalidInput("expression", "is missing")
    count = values.get("count", "5")
    if not count.isascii() or not count.isdigit() or len(count) > 3 or not 1 <= int(count) <= MAX_FIRES:
        raise InvalidInput("count", f"must be a whole number from 1 to {MAX_FIRES}")
    try:
        cron = Cron(values["expression"], tz=values.get("tz", "UTC"), dst=values.get("dst", "vixie"))
    except CronError as error:
        if error.field in {"expression", "tz", "dst"}:
            raise InvalidInput(error.field, error.message) from error
        raise InvalidInput("expression", str(error)) from error
    instant: datetime | None = engine_of(request).now()
    if "after" in values:
        instant = read_instant(values["after"].replace(" ", "+"), "after")
    fires: list[datetime] = []
    while len(fires) < int(count) and instant is not None:
        instant = cron.next_after(instant)
        if instant is not None:
            fires.append(instant)
    return FiresView(
        expression=cron.expression,
        tz=cron.tz,
        explanation=cron.explain(),
        warnings=list(cron.warnings),
        fires=fires,
    )


ROUTES: list[Any] = [get_health, list_workers, preview_cron]
