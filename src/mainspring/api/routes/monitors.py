"""Monitors, and the pings of the jobs that they watch."""

from __future__ import annotations

from typing import Any

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.core.monitors import PingKind
from mainspring.errors import NotFound
from mainspring.wire import operations
from mainspring.wire.monitors import MonitorList, MonitorView, PingTaken, view_monitor
from mainspring.wire.views import Deleted


@handles(operations.LIST_MONITORS)
async def list_monitors(call: Call) -> MonitorList:
    return MonitorList(list(map(view_monitor, await call.engine.monitors.list_all(call.tenant))))


@handles(operations.GET_MONITOR)
async def get_monitor(call: Call) -> MonitorView:
    return view_monitor(await call.engine.monitors.get(call.tenant, call.key))


@handles(operations.UPSERT_MONITOR)
async def upsert_monitor(call: Call, body: dict[str, Any]) -> Answer[MonitorView]:
    done = await call.engine.monitors.put(call.tenant, call.key, body, by=call.actor)
    view = view_monitor(done.monitor, key=done.key)
    return Answer(view, status=200 if done.key is None else 201)


@handles(operations.DELETE_MONITOR)
async def delete_monitor(call: Call) -> Deleted:
    await call.engine.monitors.delete(call.tenant, call.key, by=call.actor)
    return Deleted()


@handles(operations.GET_PING)
async def get_ping(call: Call) -> PingTaken:
    return await _take(call, PingKind.SUCCESS)


@handles(operations.POST_PING)
async def post_ping(call: Call) -> PingTaken:
    return await _take(call, PingKind.SUCCESS)


@handles(operations.GET_PING_START)
async def get_ping_start(call: Call) -> PingTaken:
    return await _take(call, PingKind.START)


@handles(operations.POST_PING_START)
async def post_ping_start(call: Call) -> PingTaken:
    return await _take(call, PingKind.START)


@handles(operations.GET_PING_EXTEND)
async def get_ping_extend(call: Call) -> PingTaken:
    return await _take(call, PingKind.EXTEND)


@handles(operations.POST_PING_EXTEND)
async def post_ping_extend(call: Call) -> PingTaken:
    return await _take(call, PingKind.EXTEND)


@handles(operations.GET_PING_FAIL)
async def get_ping_fail(call: Call) -> PingTaken:
    return await _take(call, PingKind.FAIL)


@handles(operations.POST_PING_FAIL)
async def post_ping_fail(call: Call) -> PingTaken:
    return await _take(call, PingKind.FAIL)


async def _take(call: Call, kind: PingKind) -> PingTaken:
    gate, address = call.services.pings, call.address or "somebody"
    gate.let_in(call.key, address, now=call.engine.now())
    try:
        monitor = await call.engine.monitors.take_ping(call.key, kind, exit_code=call.query.get("exit_code"))
    except NotFound:
        gate.note_unknown(call.key)
        raise
    gate.note_known(call.key, address)
    return PingTaken(monitor.facts.state.value)


ROUTES: list[Endpoint] = [
    list_monitors,
    get_monitor,
    upsert_monitor,
    delete_monitor,
    get_ping,
    post_ping,
    get_ping_start,
    post_ping_start,
    get_ping_extend,
    post_ping_extend,
    get_ping_fail,
    post_ping_fail,
]
