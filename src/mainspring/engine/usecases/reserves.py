"""Finds out whether reserved slots decide when a run starts."""

from __future__ import annotations

from mainspring.core.intake import WaitingCount, WaitingScope
from mainspring.core.why import ReserveFacts
from mainspring.errors import TookTooLong
from mainspring.ports.store import Store

_MOST_OTHERS = 20
"""Other tenants of which it is asked whether they have work, at most."""


async def read_reserve(store: Store, tenant: str) -> ReserveFacts | None:
    """Return how a tenant stands to reserved slots; None: nobody has any, or they were not counted in time."""
    policies = await store.read_policies()
    assert policies is not None, "nothing is known, so all is read"
    reserved = {name: one.reserved for name, one in policies.tenants.items() if one.reserved}
    if not reserved:
        return None
    try:
        running = await store.count_running(list(reserved))
        short = [name for name in reserved if name != tenant and running[name] < reserved[name]]
        scopes = [WaitingScope("tenant", name) for name in short[:_MOST_OTHERS]]
        waiting = await store.count_waiting([WaitingCount(scope, 1) for scope in scopes])
    except TookTooLong:
        return None
    return ReserveFacts(
        reserved=reserved.get(tenant, 0), running=running.get(tenant, 0), has_others=any(waiting)
    )
