"""Says which workers can execute the runs of a lane."""

from __future__ import annotations

from mainspring.core.claiming import accepts_route
from mainspring.core.model import LaneKey
from mainspring.ports.store.sessions import SessionFacts


def can_execute(offer: SessionFacts, lane: LaneKey) -> bool:
    """Say whether a session works for a lane's tenant, serves its queue, and can execute its runs."""
    if offer.tenant not in {None, lane.tenant}:
        return False
    if offer.queues and lane.queue not in offer.queues:
        return False
    return accepts_route(
        lane.route,
        types=frozenset(offer.types),
        functions=frozenset(offer.functions),
        labels=frozenset(offer.labels),
    )
