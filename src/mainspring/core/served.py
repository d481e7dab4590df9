"""What servers tell each other about whom they have given slots to, so that shares are of all slots together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from heapq import nlargest

from mainspring.core.model import Priority
from mainspring.core.values import value

MOST_TOLD = 1000
"""Tenants (each in a queue and tier) that a heartbeat tells of, at most: those that were given the most."""
Given = tuple[str, Priority, str]
"""A queue, a tier, and a tenant that has been given something there."""
_PATIENCE = 4
"""In how many heartbeats all servers together make up for most of a lead. With what is on its way between them, fewer
would let tenants swing."""
_LITTLE = 0.001
"""Seconds of slots, or turns, that are forgotten if no more is told."""


@value()
class Served:
    """What a tenant has been given by another server.

    Attributes:
        amount: seconds of slots, or turns where tenants take turns.
        mean: what an attempt of the tenant takes there, in seconds.
    """

    amount: float
    mean: float


class ServedPace:
    """What another server gives to tenants from one heartbeat to the next, smoothed.

    All servers hear of the same lead. If each of them made up for it alone, a tenant that got ten seconds too much from
    one of five servers would then get forty too few, and shares would swing from one heartbeat to the next. So each
    takes over a part of what has changed. As long as the other server lives, all that it gives counts in the end.
    """

    def __init__(self) -> None:
        self._amounts: dict[Given, float] = {}
        self._heard = 0

    def follow(self, told: Mapping[Given, Served], servers: int) -> Mapping[Given, float]:
        """Take in what a heartbeat tells. Return what tenants are to be charged with for each heartbeat.

        Args:
            servers: how many there are, with this one.
        """
        if told or self._heard:
            self._heard += 1  # what a server does that has just begun is not its pace
        part = max(1 / (self._heard or 1), 1 / (_PATIENCE * servers))
        known = self._amounts
        self._amounts = {
            given: amount * (1 - part) for given, amount in known.items() if given in told or amount > _LITTLE
        }
        for given, served in told.items():
            self._amounts[given] = self._amounts.get(given, 0.0) + served.amount * part
        return self._amounts


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
