"""Health, workers, and the preview of a cron expression."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

import msgspec

from mainspring.api.call import Call, Endpoint, handles
from mainspring.api.openapi import describe
from mainspring.api.reading import query_session_id
from mainspring.wire import operations
from mainspring.wire.health import HealthView, view_failover, view_findings, view_scheduler
from mainspring.wire.pages import WorkerPage
from mainspring.wire.protocol.sessions import show_session
from mainspring.wire.views import view_worker


@handles(operations.GET_HEALTH)
async def get_health(call: Call) -> HealthView:
    services = call.services
    if not call.sees_all:
        await services.probe.check(call.engine.now())
        return HealthView(status="ok")
    await services.ping()
    findings = services.findings()
    scheduler = view_scheduler(services.shards.figures) if services.shards is not None else None
    return HealthView(
        status="ok",
        store=services.store_name,
        version=version("mainspring"),
        access=_access_of(call),
        failovers=[view_failover(facts) for facts in services.failovers()],
        scheduler=scheduler,
        figures=dict(services.figures()),
        jobs=None if findings is None else view_findings(findings),
    )


def _access_of(call: Call) -> str:
    """Say who is answered."""
    if call.identity is not None:
        return "tokens"
    return "trusted_network" if call.services.access.is_open else "loopback"


@handles(operations.GET_METRICS)
async def get_metrics(call: Call) -> str:
    return call.services.expose(None if call.sees_all else call.tenant)


@handles(operations.LIST_WORKERS)
async def list_workers(call: Call) -> WorkerPage:
    query = call.query
    limit: int = query["limit"]
    after = query_session_id(query["after"], "after") if "after" in query else None
    # Those that are bound to other tenants, or to none, are not the business of one tenant.
    bound_to = None if call.sees_all else call.tenant
    sessions = await call.engine.workers(after=after, limit=limit, tenant=bound_to)
    following = show_session(sessions[-1][0].id) if len(sessions) == limit else None
    return WorkerPage([view_worker(session, held) for session, held in sessions], following)


@handles(operations.GET_OPENAPI)
async def get_openapi(_: Call) -> msgspec.Raw:
    return _describe()


@cache
def _describe() -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(describe(operations.OPERATIONS, version("mainspring"))))


ROUTES: list[Endpoint] = [get_health, get_metrics, list_workers, get_openapi]
