"""What servers tell each other about whom they have given slots to, so that shares are of all slots together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import nlargest

from mainspring.core.model import Priority

MOST_TOLD = 1000
"""Tenants (each in a queue and tier) that a heartbeat tells of, at most: those that were given the most."""
Given = tuple[str, Priority, str]
"""A queue, a tier, and a tenant that has been given something there."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a tenant has been given by another server.

    Attributes:
        amount: seconds of slots, or turns where tenants take turns.
        mean: what an attempt of the tenant takes there, in seconds.
    """

    amount: float
    mean: float


def pack_served(given: Mapping[Given, float], mean: Callable[[str], float]) -> bytes | None:
    """Return what a heartbeat tells; None if it is nothing.

    Args:
        given: seconds of slots, or turns where tenants take turns.
        mean: tells what an attempt of a tenant takes.
    """
    told = (
        given.items()
        if len(given) <= MOST_TOLD
        else nlargest(MOST_TOLD, given.items(), key=lambda one: one[1])
    )
    if not told:
        return None
    entries = [
        [queue, int(tier), tenant, round(amount, 6), round(mean(tenant), 6)]
        for (queue, tier, tenant), amount in told
    ]
    return json.dumps(entries, separators=(",", ":")).encode()


def unpack_served(told: bytes) -> dict[Given, Served]:
    """Return what a heartbeat of another server has told; nothing if a newer release has told it in another way."""
    try:
        return {
            (str(queue), Priority(tier), str(tenant)): Served(float(amount), float(mean))
            for queue, tier, tenant, amount, mean in json.loads(told)
        }
    except (ValueError, TypeError):
        return {}
