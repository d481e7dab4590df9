"""What servers tell each other about whom they have given slots to, so that shares are of all slots together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from heapq import nlargest

from mainspring.core.model import Priority

MOST_TOLD = 1000
"""Tenants (each in a queue and tier) that a heartbeat tells of, at most: those that were given the most."""
Given = tuple[str, Priority, str]
"""A queue, a tier, and a tenant that has been given something there."""


def pack_served(given: Mapping[Given, float]) -> bytes | None:
    """Return what a heartbeat tells: seconds of slots, or turns where tenants take turns; None if it is nothing."""
    told = (
        given.items()
        if len(given) <= MOST_TOLD
        else nlargest(MOST_TOLD, given.items(), key=lambda one: one[1])
    )
    if not told:
        return None
    entries = [[queue, int(tier), tenant, round(amount, 6)] for (queue, tier, tenant), amount in told]
    return json.dumps(entries, separators=(",", ":")).encode()


def unpack_served(told: bytes) -> dict[Given, float]:
    """Return what a heartbeat of another server has told; nothing if a newer release has told it in another way."""
    try:
        return {
            (str(queue), Priority(tier), str(tenant)): float(amount)
            for queue, tier, tenant, amount in json.loads(told)
        }
    except (ValueError, TypeError):
        return {}
