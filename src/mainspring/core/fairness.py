"""The order in which a claim walks the lanes: tiers with aging, then tenants by weight (design 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from mainspring.core.ids import LaneId
from mainspring.core.model import Lane

MAX_LANES_PER_CLAIM = 256
DEFAULT_AGING = timedelta(minutes=5)
"""After each wait of this length, a lane's oldest run counts as one tier more urgent. So nothing starves."""


def prefer_lanes(
    lanes: Iterable[Lane],
    *,
    now: datetime,
    served: Mapping[str, float],
    aging: timedelta = DEFAULT_AGING,
    limit: int = MAX_LANES_PER_CLAIM,
) -> list[LaneId]:
    """Return the lanes that have a ready run, the one to serve first at the front.

    Args:
        lanes: the lanes; those without a ready run are left out.
        now: the store's time.
        served: each tenant's virtual time, which is runs served divided by weight (see `charge`). A tenant that is
            not in it comes first in its tier.
        aging: the wait that raises a lane by one tier.
        limit: the most lanes to return.
    """
    ready = [lane for lane in lanes if lane.earliest_ready_at is not None and lane.earliest_ready_at <= now]
    ready.sort(key=lambda lane: _preference(lane, now, served, aging))
    return [lane.id for lane in ready[:limit]]


def _preference(
    lane: Lane, now: datetime, served: Mapping[str, float], aging: timedelta
) -> tuple[int, float, datetime, int]:
    ready_at = lane.earliest_ready_at or now
    tier = max(int(lane.key.priority) - (now - ready_at) // aging, 0)
    return tier, served.get(lane.key.tenant, 0.0), ready_at, lane.id


def charge(
    served: Mapping[str, float], taken: Mapping[str, int], weights: Mapping[str, int]
) -> dict[str, float]:
    """Return the virtual times after `taken` runs were given to each tenant.

    A new tenant, or one that was idle, starts level with the tenant that is furthest behind, so that idleness earns
    no credit. A claim moves to the next tenant only when the one before has no more runs. So a tenant that still
    lags behind one that was served is not waiting. It is dropped here, and so are tenants that never come back.
    """
    if not taken:
        return dict(served)
    floor = min(served.values(), default=0.0)
    starts = {tenant: served.get(tenant, floor) for tenant in taken}
    ends = {tenant: start + taken[tenant] / weights.get(tenant, 1) for tenant, start in starts.items()}
    present = max(starts.values())
    return {tenant: time for tenant, time in {**served, **ends}.items() if time >= present}


def accepts_route(
    route: str, *, types: frozenset[str], functions: frozenset[str], labels: frozenset[str]
) -> bool:
    """Say whether a worker with these abilities can run the jobs of a route (see `JobSpec.route`)."""
    base, *required = (part.replace("%2B", "+").replace("%25", "%") for part in route.split("+"))
    if not labels.issuperset(required):
        return False
    kind, _, name = base.partition(":")
    return name in functions if kind == "function" else kind in types
