"""Exchanges with other servers what tenants have been given, so that each shares as if it saw all workers."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.fairness import LaneOrder
from mainspring.core.served import pack_served, unpack_served
from mainspring.ports.store.nodes import NodeState

_MOST_MISSED = 5
"""If so many heartbeats of a server were missed, each counts like the one that was seen; more are left out."""


class ServedExchange:
    """Tells the other servers with each heartbeat what this one has given, and charges tenants with what they tell.

    It is a hint: a heartbeat that is lost costs some fairness for a moment, and nothing else.

    Args:
        order: where this server's own claims are charged.
    """

    def __init__(self, order: LaneOrder) -> None:
        self._order = order
        order.given = {}
        self._beats: dict[str, int] = {}

    def take(self, *, is_alone: bool) -> bytes | None:
        """Return what has been given since the last time, for the others."""
        given, self._order.given = self._order.given, {}
        return None if is_alone or not given else pack_served(given, self._order.times.mean)

    def hear(self, others: Sequence[NodeState]) -> None:
        """Charge tenants with what other servers have given since their last heartbeats that were seen."""
        known, self._beats = self._beats, {}
        for node in others:
            self._beats[node.facts.id] = node.beats
            missed = node.beats - known.get(node.facts.id, node.beats)
            if node.served is None or (node.facts.id in known and missed <= 0):
                continue
            for given, served in unpack_served(node.served).items():
                self._order.times.suggest(given[2], served.mean)
                if missed > 0:
                    self._order.charge_elsewhere(given, served.amount * min(missed, _MOST_MISSED))
