"""Exchanges with other servers what tenants have been given, so that each shares as if it saw all workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mainspring.core.fairness import LaneOrder
from mainspring.core.served import ServedPace, pack_served, unpack_served
from mainspring.ports.store.nodes import NodeState

_MOST_MISSED = 5
"""If so many heartbeats of a server were missed, each counts like the one that was seen; more are left out."""


@dataclass(slots=True)
class _Other:
    """Another server.

    Attributes:
        beats: the number of its last heartbeat that was seen.
    """

    beats: int
    pace: ServedPace = field(default_factory=ServedPace)


class ServedExchange:
    """Tells the other servers with each heartbeat what this one has given, and charges tenants with what they tell.

    It is a hint: a heartbeat that is lost costs some fairness for a moment, and nothing else.

    Args:
        order: where this server's own claims are charged.
    """

    def __init__(self, order: LaneOrder) -> None:
        self._order = order
        order.given = {}
        self._others: dict[str, _Other] = {}

    def take(self, *, is_alone: bool) -> bytes | None:
        """Return what has been given since the last time, for the others."""
        given, self._order.given = self._order.given, {}
        return None if is_alone or not given else pack_served(given, self._order.times.mean)

    def hear(self, others: Sequence[NodeState]) -> None:
        """Charge tenants with what other servers have given since their last heartbeats that were seen."""
        known, self._others = self._others, {}
        for node in others:
            other = known.get(node.facts.id)
            missed = 0 if other is None else node.beats - other.beats
            self._others[node.facts.id] = other = other or _Other(node.beats)
            other.beats = node.beats
            if node.facts.id in known and missed <= 0:
                continue
            told = {} if node.served is None else unpack_served(node.served)
            for (_, _, tenant), served in told.items():
                self._order.times.suggest(tenant, served.mean)
            for given, amount in other.pace.follow(told, 1 + len(others)).items():
                if missed > 0:
                    self._order.charge_elsewhere(given, amount * min(missed, _MOST_MISSED))
